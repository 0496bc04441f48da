//! [`PacketGate`]: programs in network namespaces, between IP packets and the simulated network.
//!
//! Each program runs in namespaces of its own, under `conche emulate-node` ([`super::node`]), which
//! passes IP packets between a `tun` device and this gate, over a stream of frames.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use conche_lab::trial::{ArrivedAtProgram, Emulation, TrialError};
use conche_netsim::{NodeId, PacketId};
use etherparse::{Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::net::unix::OwnedReadHalf;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::Input;
use crate::error::UsageError;

/// Of simulated servers, and of `{bind}`.
pub const PORT: u16 = 5683;

const HOP_LIMIT: u8 = 64;

/// Packets to keep; of older ones, the network has lost all.
const UNDER_WAY: usize = 16_384;

/// Namespaces that any user can create.
const UNSHARE: &str = "unshare --user --map-root-user --net --mount --pid --fork --kill-child";

/// A packet of a program, or its readiness.
#[derive(Clone, Debug)]
pub enum FromNode {
    /// The server program listens.
    Ready(NodeId),
    Packet {
        at: Instant,
        from: NodeId,
        packet: Vec<u8>,
    },
}

pub struct PacketGate {
    directory: TempDir,
    program: PathBuf,
    nodes: Arc<Mutex<HashMap<NodeId, UnboundedSender<Vec<u8>>>>>,
    /// IP packets to other programs, by number, and simulated nodes' echo replies, by the request's.
    under_way: BTreeMap<PacketId, Vec<u8>>,
    /// Destinations of a simulated node's answers, by node of the program and of the peer.
    answered: HashMap<(NodeId, NodeId), Endpoints>,
    pub undelivered: u64,
}

/// Of the latest datagram of a program to a simulated node.
#[derive(Clone, Copy, Debug)]
struct Endpoints {
    program: SocketAddr,
    peer: SocketAddr,
}

/// Returns a node's addresses.
pub fn addresses(node: NodeId) -> (Ipv4Addr, Ipv6Addr) {
    addresses_of(u32::try_from(node.index()).unwrap_or(u32::MAX))
}

/// Returns the addresses of the node with this number.
pub fn addresses_of(node: u32) -> (Ipv4Addr, Ipv6Addr) {
    let number = node.wrapping_add(1);
    let (v4, v6) = (Ipv4Addr::new(10, 0, 0, 0).to_bits(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0).to_bits());
    (Ipv4Addr::from_bits(v4.wrapping_add(number)), Ipv6Addr::from_bits(v6 | u128::from(number)))
}

impl PacketGate {
    /// Checks that namespaces are allowed, and waits for their nodes. `names` are all nodes.
    pub fn new(
        runtime: &Handle,
        inputs: Sender<Input>,
        names: impl Iterator<Item = (NodeId, String)>,
    ) -> Result<Self, UsageError> {
        check_namespaces()?;
        let failed = |error: io::Error| UsageError(format!("a directory for the sockets cannot be made: {error}"));
        let directory = tempfile::tempdir().map_err(failed)?;
        let mut hosts = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        let mut by_number = HashMap::new();
        for (node, name) in names {
            let (v4, v6) = addresses(node);
            hosts += &format!("{v4} {name}\n{v6} {name}\n");
            by_number.insert(u32::try_from(node.index()).unwrap_or(u32::MAX), node);
        }
        fs::write(directory.path().join("hosts"), hosts).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let nodes = Arc::<Mutex<HashMap<NodeId, UnboundedSender<Vec<u8>>>>>::default();
        let _inside = runtime.enter();
        let listener = UnixListener::bind(directory.path().join("gate")).map_err(failed)?;
        let known = Arc::clone(&nodes);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mut packets, mut sink) = stream.into_split();
                let Some(node) = packets.read_u32().await.ok().and_then(|number| by_number.get(&number)) else {
                    continue;
                };
                let (sender, mut outgoing) = unbounded_channel::<Vec<u8>>();
                known.lock().unwrap_or_else(PoisonError::into_inner).insert(*node, sender);
                tokio::spawn(async move {
                    while let Some(packet) = outgoing.recv().await {
                        // The program has ended.
                        if sink.write_all(&framed(&packet)).await.is_err() {
                            return;
                        }
                    }
                });
                tokio::spawn(receive(packets, *node, inputs.clone()));
            }
        });
        let (under_way, answered) = Default::default();
        Ok(Self { directory, program, nodes, under_way, answered, undelivered: 0 })
    }

    /// Returns the directory of socket and hosts.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the command that runs a program in namespaces.
    pub fn command(&self, node: NodeId, is_server: bool, command: &str) -> String {
        let ready = if is_server { "--server " } else { "" };
        let [program, directory] =
            [self.program.as_path(), self.directory()].map(|path| quoted(&path.to_string_lossy()));
        let command = quoted(command);
        format!("exec {UNSHARE} -- {program} emulate-node {ready}{} {directory} {command}", node.index())
    }

    /// Sends a packet of a program into the network, if it is for one of its nodes.
    pub fn enter(&mut self, emulation: &mut Emulation<'_>, from: NodeId, packet: Vec<u8>) -> Result<(), TrialError> {
        let Some((source, destination)) = ends(&packet) else { return Ok(()) };
        // Of other addresses, such as multicast groups, the scenario has none.
        let Some(to) = emulation.all_nodes().find(|node| is_address(*node, destination)) else { return Ok(()) };
        let udp = datagram(&packet);
        if emulation.is_program(to) {
            let payload = udp.map_or_else(|| inner(&packet), |(.., payload)| payload);
            let id = emulation.send(from, to, payload)?;
            self.keep(id, packet);
            return Ok(());
        }
        if let Some(reply) = echo_reply(&packet) {
            let id = emulation.send_echo_request(from, to, inner(&packet))?;
            self.keep(id, reply);
            return Ok(());
        }
        let Some((port, PORT, payload)) = udp else {
            self.undelivered += 1;
            return Ok(());
        };
        let ends = Endpoints { program: SocketAddr::new(source, port), peer: SocketAddr::new(destination, PORT) };
        self.answered.insert((from, to), ends);
        emulation.send(from, to, payload)?;
        Ok(())
    }

    fn keep(&mut self, id: PacketId, packet: Vec<u8>) {
        self.under_way.insert(id, packet);
        if self.under_way.len() > UNDER_WAY {
            self.under_way.pop_first();
        }
    }

    /// Hands out a datagram that has arrived for the program on a node.
    pub fn leave(&mut self, arrived: &ArrivedAtProgram) {
        let kept = self.under_way.get(&arrived.id).or_else(|| self.under_way.get(&arrived.answers?));
        let packet = match kept {
            Some(packet) => Some(packet.clone()),
            None => self.of_simulated(arrived),
        };
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = packet.zip(nodes.get(&arrived.to)).is_some_and(|(packet, node)| node.send(packet).is_ok());
        self.undelivered += u64::from(!sent);
    }

    /// Returns the packet of a simulated node's datagram.
    fn of_simulated(&self, arrived: &ArrivedAtProgram) -> Option<Vec<u8>> {
        let default = || {
            let of = |node| SocketAddr::from((addresses(node).0, PORT));
            Endpoints { program: of(arrived.to), peer: of(arrived.from) }
        };
        let Endpoints { program, peer } =
            self.answered.get(&(arrived.to, arrived.from)).copied().unwrap_or_else(default);
        let builder = match (peer.ip(), program.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOP_LIMIT),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT),
            _ => return None,
        };
        let mut packet = Vec::new();
        builder.udp(peer.port(), program.port()).write(&mut packet, &arrived.bytes).ok()?;
        Some(packet)
    }
}

async fn receive(mut packets: OwnedReadHalf, node: NodeId, inputs: Sender<Input>) {
    while let Ok(length) = packets.read_u16().await {
        let mut packet = vec![0; length.into()];
        if packets.read_exact(&mut packet).await.is_err() {
            return;
        }
        let input = match packet.is_empty() {
            true => FromNode::Ready(node),
            false => FromNode::Packet { at: Instant::now(), from: node, packet },
        };
        if inputs.send(Input::Node(input)).is_err() {
            return;
        }
    }
}

/// Returns a packet behind its length, as on the stream.
pub fn framed(packet: &[u8]) -> Vec<u8> {
    let length = u16::try_from(packet.len()).unwrap_or_default();
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(packet.get(..length.into()).unwrap_or_default());
    frame
}

fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match SlicedPacket::from_ip(packet).ok()?.net? {
        NetSlice::Ipv4(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        NetSlice::Ipv6(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        NetSlice::Arp(_) => None,
    }
}

/// Returns ports and payload of a UDP datagram.
fn datagram(packet: &[u8]) -> Option<(u16, u16, &[u8])> {
    match SlicedPacket::from_ip(packet).ok()?.transport? {
        TransportSlice::Udp(udp) => Some((udp.source_port(), udp.destination_port(), udp.payload())),
        _ => None,
    }
}

/// Returns the reply to an ICMP echo request.
fn echo_reply(packet: &[u8]) -> Option<Vec<u8>> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let mut reply = Vec::new();
    match (ends(packet)?, sliced.transport?) {
        ((IpAddr::V4(from), IpAddr::V4(to)), TransportSlice::Icmpv4(icmp)) => {
            let Icmpv4Type::EchoRequest(echo) = icmp.icmp_type() else { return None };
            let builder = PacketBuilder::ipv4(to.octets(), from.octets(), HOP_LIMIT);
            builder.icmpv4_echo_reply(echo.id, echo.seq).write(&mut reply, icmp.payload()).ok()?;
        }
        ((IpAddr::V6(from), IpAddr::V6(to)), TransportSlice::Icmpv6(icmp)) => {
            let Icmpv6Type::EchoRequest(echo) = icmp.icmp_type() else { return None };
            let builder = PacketBuilder::ipv6(to.octets(), from.octets(), HOP_LIMIT);
            builder.icmpv6_echo_reply(echo.id, echo.seq).write(&mut reply, icmp.payload()).ok()?;
        }
        _ => return None,
    }
    Some(reply)
}

/// Returns a packet without the bytes of IP and UDP headers, which the links of a scenario add.
fn inner(packet: &[u8]) -> &[u8] {
    const IPV4_AND_UDP: usize = 28;
    packet.get(IPV4_AND_UDP..).unwrap_or_default()
}

fn is_address(node: NodeId, address: IpAddr) -> bool {
    let (v4, v6) = addresses(node);
    address == v4 || address == v6
}

/// Returns a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn check_namespaces() -> Result<(), UsageError> {
    let other = "use --gate udp, which needs no privileges";
    let mut words = UNSHARE.split(' ');
    let mut unshare = Command::new(words.next().unwrap_or_default());
    let tried = unshare.args(words).args(["--", "ip", "link"]).stdin(Stdio::null()).output();
    let tried = tried.map_err(|error| UsageError(format!("unshare of util-linux cannot be run: {error}; {other}")))?;
    if !tried.status.success() {
        let problem = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
        return Err(UsageError(format!("this system allows no network namespaces ({problem}); {other}")));
    }
    let tun = fs::File::options().read(true).write(true).open("/dev/net/tun");
    tun.map(drop).map_err(|error| UsageError(format!("/dev/net/tun cannot be opened: {error}; {other}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: [u8; 4] = [10, 0, 0, 1];
    const TWO: [u8; 4] = [10, 0, 0, 2];

    fn packet(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut packet = Vec::new();
        write(&mut packet);
        packet
    }

    #[test]
    fn a_datagram_has_its_ends_ports_and_payload() {
        let builder = PacketBuilder::ipv4(ONE, TWO, HOP_LIMIT).udp(40_000, PORT);
        let udp = packet(|packet| builder.write(packet, b"payload").expect("memory"));
        assert_eq!(ends(&udp), Some((IpAddr::from(ONE), IpAddr::from(TWO))));
        assert_eq!(datagram(&udp), Some((40_000, PORT, &b"payload"[..])));
        assert_eq!((inner(&udp), framed(&udp).len()), (&b"payload"[..], 2 + 28 + 7));
    }

    #[test]
    fn another_packet_has_ends_and_no_ports() {
        let builder = PacketBuilder::ipv4(ONE, TWO, HOP_LIMIT).tcp(40_000, 80, 1, 1000);
        let tcp = packet(|packet| builder.write(packet, b"").expect("memory"));
        assert_eq!((ends(&tcp).is_some(), datagram(&tcp)), (true, None));
        assert_eq!(inner(&tcp).len(), 12, "a TCP header of 20 B is 12 B longer than that of UDP");
        assert_eq!((ends(b""), ends(b"no packet"), inner(b"short")), (None, None, &b""[..]));
    }

    #[test]
    fn an_echo_request_has_a_reply_with_its_payload_and_other_packets_have_none() {
        let (long_one, long_two) = (addresses_of(0).1.octets(), addresses_of(1).1.octets());
        let payload = [7; 56];
        let v4 = |from, to| PacketBuilder::ipv4(from, to, HOP_LIMIT);
        let v6 = |from, to| PacketBuilder::ipv6(from, to, HOP_LIMIT);
        let request = packet(|it| v4(ONE, TWO).icmpv4_echo_request(5, 6).write(it, &payload).expect("memory"));
        let reply = packet(|it| v4(TWO, ONE).icmpv4_echo_reply(5, 6).write(it, &payload).expect("memory"));
        assert_eq!((echo_reply(&request), echo_reply(&reply)), (Some(reply), None));
        let request = packet(|it| v6(long_one, long_two).icmpv6_echo_request(5, 6).write(it, b"").expect("memory"));
        let reply = packet(|it| v6(long_two, long_one).icmpv6_echo_reply(5, 6).write(it, b"").expect("memory"));
        assert_eq!((echo_reply(&request), echo_reply(&reply)), (Some(reply), None));
        let udp = packet(|it| v4(ONE, TWO).udp(1, 2).write(it, &payload).expect("memory"));
        assert_eq!((echo_reply(&udp), echo_reply(b"short")), (None, None));
    }

    #[test]
    fn words_of_the_shell_are_quoted() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
