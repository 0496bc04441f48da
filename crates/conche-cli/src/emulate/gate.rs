//! [`Gate`]: sockets between programs and the simulated network.
//!
//! ```text
//!   client program ──> door ──> client's node ══ network ══> server's node ──> back socket ──> server program
//! ```
//!
//! A client program sends to a door in place of a server. The door's sources are its nodes; a
//! server program sees each client's node as an address of its own. A node behind a NAT has a port of
//! the NAT's address for each mapping.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdUdpSocket};
use std::sync::mpsc::Sender;
use std::time::Instant;

use conche_netsim::NodeId;
use conche_netsim::wired::Addresses;
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::Input;

const LARGEST_DATAGRAM: usize = 65_535;

/// Open sockets of a node behind a NAT toward a server; of older mappings they are closed.
const MOST_MAPPINGS: usize = 8;

/// The socket of a datagram from a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// The number of a door.
    Door(usize),
    /// Between a client's address and the server program of a node.
    Back { client: NodeId, server: NodeId },
}

/// A datagram from a program.
#[derive(Clone, Debug)]
pub struct Entering {
    pub at: Instant,
    pub entrance: Entrance,
    pub source: SocketAddr,
    pub bytes: Vec<u8>,
}

/// Why a datagram from a program cannot enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorFull {
    pub server: NodeId,
    /// The last one.
    pub node: NodeId,
    pub nodes: usize,
    pub source: SocketAddr,
    /// It is the first datagram from there.
    pub is_new: bool,
}

/// Two sources of the same node that send by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrent {
    pub node: NodeId,
    pub server: NodeId,
    pub sources: [SocketAddr; 2],
}

pub struct Gate {
    runtime: Handle,
    inputs: Sender<Input>,
    addresses: Addresses,
    doors: Vec<Door>,
    /// Doors by client's and server's node.
    door_of: HashMap<(NodeId, NodeId), usize>,
    /// Sockets by client's address and server's node.
    backs: HashMap<(NodeId, NodeId), Back>,
    /// Addresses of server programs.
    listening: HashMap<NodeId, SocketAddr>,
    /// Datagrams that no program takes.
    pub undelivered: u64,
    /// To report; once for each door.
    pub concurrent: Vec<Concurrent>,
}

/// The socket of a client toward a server program, and the task that reads it.
struct Back {
    socket: StdUdpSocket,
    reader: AbortHandle,
}

struct Door {
    socket: StdUdpSocket,
    members: Vec<NodeId>,
    server: NodeId,
    node_of: HashMap<SocketAddr, NodeId>,
    source_of: HashMap<NodeId, SocketAddr>,
    refused: BTreeSet<SocketAddr>,
    /// Former sources of its single node.
    former: BTreeSet<SocketAddr>,
    has_concurrent: bool,
}

impl Gate {
    pub fn new(runtime: Handle, inputs: Sender<Input>, addresses: Addresses) -> Self {
        Self {
            runtime,
            inputs,
            addresses,
            doors: Vec::new(),
            door_of: HashMap::new(),
            backs: HashMap::new(),
            listening: HashMap::new(),
            undelivered: 0,
            concurrent: Vec::new(),
        }
    }

    /// Opens a door to a server for programs on these nodes, and returns its address.
    pub fn open(&mut self, members: &[NodeId], server: NodeId, port: u16) -> io::Result<SocketAddr> {
        let socket = bind(server, port)?;
        let address = socket.local_addr()?;
        let number = self.doors.len();
        let (socket, _) = self.read(socket, Entrance::Door(number))?;
        self.door_of.extend(members.iter().map(|member| ((*member, server), number)));
        let (node_of, source_of, refused, former) = Default::default();
        let members = members.to_vec();
        self.doors.push(Door { socket, members, server, node_of, source_of, refused, former, has_concurrent: false });
        Ok(address)
    }

    /// Declares that a node's program is a server at this address.
    pub fn listens(&mut self, node: NodeId, address: SocketAddr) {
        self.listening.insert(node, address);
    }

    pub fn is_listening(&self, node: NodeId) -> bool {
        self.listening.contains_key(&node)
    }

    /// Returns the address of a node's server program.
    pub fn address(&self, node: NodeId) -> Option<SocketAddr> {
        self.listening.get(&node).copied()
    }

    /// Returns sender and receiver of a datagram from a program.
    pub fn enter(&mut self, entrance: Entrance, source: SocketAddr) -> Result<(NodeId, NodeId), DoorFull> {
        match entrance {
            Entrance::Back { client, server } => Ok((server, client)),
            Entrance::Door(number) => {
                let door = &mut self.doors[number];
                let (node, replaced) = door.admit(source)?;
                let server = door.server;
                if let Some(other) = replaced.filter(|_| !door.has_concurrent && door.former.contains(&source)) {
                    door.has_concurrent = true;
                    self.concurrent.push(Concurrent { node, server, sources: [source, other] });
                }
                Ok((node, server))
            }
        }
    }

    /// Hands out a datagram that has arrived for the program on a node.
    pub fn leave(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        let door = self.door_of.get(&(to, from)).map(|number| &self.doors[*number]);
        let client = door.and_then(|door| Some((&door.socket, *door.source_of.get(&to)?)));
        let sent = match client {
            Some((socket, source)) => socket.send_to(bytes, source).is_ok(),
            None => self.back(from, to).is_some_and(|back| back.socket.send(bytes).is_ok()),
        };
        self.undelivered += u64::from(!sent);
    }

    /// Returns the socket of a client's address toward a server program.
    fn back(&mut self, client: NodeId, server: NodeId) -> Option<&Back> {
        let address = *self.listening.get(&server)?;
        if !self.backs.contains_key(&(client, server)) {
            self.close_oldest(client, server);
            let socket = match address {
                SocketAddr::V4(v4) if v4.ip().is_loopback() => bind(self.addresses.host(client), 0),
                SocketAddr::V4(_) => StdUdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
                SocketAddr::V6(_) => StdUdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
            };
            let socket = socket.and_then(|socket| {
                socket.connect(address)?;
                self.read(socket, Entrance::Back { client, server })
            });
            let (socket, reader) = socket.ok()?;
            self.backs.insert((client, server), Back { socket, reader });
        }
        self.backs.get(&(client, server))
    }

    /// Makes room for another mapping of a node.
    fn close_oldest(&mut self, client: NodeId, server: NodeId) {
        if self.addresses.port(client).is_none() {
            return;
        }
        let node = self.addresses.node(client);
        let is_of = |(of, to): &&(NodeId, NodeId)| *to == server && self.addresses.node(*of) == node;
        let open: Vec<_> = self.backs.keys().filter(is_of).copied().collect();
        if let Some(oldest) = open.iter().min().filter(|_| open.len() >= MOST_MAPPINGS) {
            self.backs.remove(oldest);
        }
    }

    /// Passes received datagrams on to the main thread, and returns the socket for sending.
    fn read(&self, socket: StdUdpSocket, entrance: Entrance) -> io::Result<(StdUdpSocket, AbortHandle)> {
        socket.set_nonblocking(true)?;
        let sender = socket.try_clone()?;
        let _inside = self.runtime.enter();
        let socket = UdpSocket::from_std(socket)?;
        let inputs = self.inputs.clone();
        let reader = self.runtime.spawn(async move {
            let mut buffer = vec![0; LARGEST_DATAGRAM];
            loop {
                // An error reports that a program refused an earlier datagram.
                let Ok((length, source)) = socket.recv_from(&mut buffer).await else { continue };
                let bytes = buffer.get(..length).unwrap_or_default().to_vec();
                let entering = Entering { at: Instant::now(), entrance, source, bytes };
                if inputs.send(Input::Datagram(entering)).is_err() {
                    return;
                }
            }
        });
        Ok((sender, reader.abort_handle()))
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Door {
    /// Returns the node of a source: a new one takes the next free node. The door of a single node
    /// follows its program from port to port, and returns the source that this one replaces.
    fn admit(&mut self, source: SocketAddr) -> Result<(NodeId, Option<SocketAddr>), DoorFull> {
        if let Some(node) = self.node_of.get(&source) {
            return Ok((*node, None));
        }
        let free = match self.members[..] {
            [only] => Some(only),
            _ => self.members.iter().copied().find(|member| !self.source_of.contains_key(member)),
        };
        let Some(node) = free else {
            let is_new = self.refused.insert(source);
            let node = self.members.last().copied().unwrap_or(self.server);
            return Err(DoorFull { server: self.server, node, nodes: self.members.len(), source, is_new });
        };
        let before = self.source_of.insert(node, source);
        if let Some(before) = before {
            self.node_of.remove(&before);
            self.former.insert(before);
        }
        self.node_of.insert(source, node);
        Ok((node, before))
    }
}

/// Returns a node's own loopback address.
pub fn loopback(node: NodeId) -> Ipv4Addr {
    let first = Ipv4Addr::new(127, 9, 0, 1).to_bits();
    let last = Ipv4Addr::new(127, 255, 255, 254).to_bits();
    let number = u32::try_from(node.index()).unwrap_or(u32::MAX);
    Ipv4Addr::from_bits(first + number % (last - first))
}

/// Binds a socket to a node's own loopback address, or to 127.0.0.1 if the system has only that.
pub fn bind(node: NodeId, port: u16) -> io::Result<StdUdpSocket> {
    match StdUdpSocket::bind((loopback(node), port)) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            StdUdpSocket::bind((Ipv4Addr::LOCALHOST, port))
        }
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use conche_netsim::wired::Topology;

    use super::*;

    fn nodes<const N: usize>() -> [NodeId; N] {
        let mut topology = Topology::new();
        std::array::from_fn(|number| topology.node(number.to_string()))
    }

    fn source(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    #[tokio::test]
    async fn each_new_source_takes_the_next_free_node() {
        let [one, two, server] = nodes();
        let (inputs, _received) = std::sync::mpsc::channel();
        let mut gate = Gate::new(Handle::current(), inputs, Addresses::default());
        gate.open(&[one, two], server, 0).expect("loopback can be bound");
        let mut enter = |port| gate.enter(Entrance::Door(0), source(port));
        assert_eq!([enter(1), enter(2), enter(1)], [Ok((one, server)), Ok((two, server)), Ok((one, server))]);
        let full = |is_new| Err(DoorFull { server, node: two, nodes: 2, source: source(3), is_new });
        assert_eq!([enter(3), enter(3)], [full(true), full(false)]);
    }

    #[tokio::test]
    async fn the_door_of_one_node_follows_its_program() {
        let [client, server] = nodes();
        let (inputs, _received) = std::sync::mpsc::channel();
        let mut gate = Gate::new(Handle::current(), inputs, Addresses::default());
        gate.open(&[client], server, 0).expect("loopback can be bound");
        let mut enter = |port| {
            assert_eq!(gate.enter(Entrance::Door(0), source(port)), Ok((client, server)));
            gate.concurrent.clone()
        };
        assert_eq!([enter(1), enter(2), enter(2)], [vec![], vec![], vec![]], "one after the other");
        let concurrent = vec![Concurrent { node: client, server, sources: [source(1), source(2)] }];
        assert_eq!([enter(1), enter(2)], [concurrent.clone(), concurrent], "reported once");
    }

    #[test]
    fn nodes_have_loopback_addresses_of_their_own() {
        let [one, two] = nodes();
        assert_eq!([loopback(one), loopback(two)], [Ipv4Addr::new(127, 9, 0, 1), Ipv4Addr::new(127, 9, 0, 2)]);
    }
}
