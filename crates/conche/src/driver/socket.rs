//! One UDP socket: its datagrams, what is known of each, and the ICMP errors of what was sent.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use conche_proto::{Datagram, Ecn};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::consume_budget;
use tokio::time::timeout;

#[cfg(target_os = "linux")]
use super::linux;
use super::{Address, Role};

/// Room for bursts, as far as the operating system grants it. Its usual 208 KiB hold only about 300 small datagrams,
/// since each is charged with the kernel's own overhead.
const BUFFER: usize = 4 << 20;

/// How often a datagram is handed to the operating system that reports errors of earlier ones instead.
const TRIES: usize = 4;

/// How long a datagram waits for room in the operating system's buffer, unless the one before it waited in vain.
const PATIENCE: Duration = Duration::from_millis(10);

/// Which socket a driver gets.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    /// A new one with this local address.
    Address(SocketAddr),
    /// One that the user has made.
    Socket(Arc<std::net::UdpSocket>),
}

#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    local: SocketAddr,
    reaches_v4: bool,
    /// The operating system's buffer was full when the last datagram was to be sent, and stayed so.
    is_stuck: bool,
    has_waited: bool,
    #[cfg(target_os = "linux")]
    control: Vec<u8>,
}

/// What came out of the socket.
pub(super) enum Received {
    /// A datagram, at the front of the buffer.
    Datagram(Arrival),
    /// A datagram of ours could not be delivered; so many bytes of it, at the front of the buffer, are quoted.
    Unreachable { peer: Address, quoted: usize },
    /// Nothing more for now.
    Nothing,
}

/// What is known of a datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    from: Address,
    length: usize,
    pub(super) local: Option<IpAddr>,
    pub(super) multicast: bool,
    pub(super) ecn: Ecn,
}

impl Arrival {
    pub(super) fn new(from: Address, length: usize) -> Self {
        Self { from, length, local: None, multicast: false, ecn: Ecn::NotCapable }
    }

    /// The datagram, as the endpoint takes it.
    pub(super) fn datagram(self, buffer: &[u8]) -> Datagram<'_, Address> {
        let mut datagram = Datagram::new(self.from, &buffer[..self.length]);
        datagram.local = self.local;
        datagram.multicast = self.multicast;
        datagram.ecn = self.ecn;
        datagram
    }
}

/// How a datagram shall leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) to: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Ecn,
}

impl Socket {
    pub(super) fn open(binding: &Binding, interface: Option<&str>, role: Role) -> io::Result<Self> {
        let socket = match binding {
            Binding::Address(address) => new(*address, role)?,
            Binding::Socket(socket) => socket.try_clone()?.into(),
        };
        if let Some(interface) = interface {
            bind_to_interface(&socket, interface)?;
        }
        // More is better, but less is no error.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        socket.set_nonblocking(true)?;
        if let Binding::Address(address) = binding {
            socket.bind(&(*address).into())?;
        }
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        let reaches_v4 = match local.ip() {
            IpAddr::V4(_) => true,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => !socket.only_v6()?,
            IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
        };
        #[cfg(target_os = "linux")]
        linux::hear(&socket, local.is_ipv6(), !is_of_one_host(local, interface))?;
        Ok(Self {
            io: UdpSocket::from_std(socket.into())?,
            local,
            reaches_v4,
            is_stuck: false,
            has_waited: false,
            #[cfg(target_os = "linux")]
            control: linux::control_buffer(),
        })
    }

    /// Becomes a member of a group on the interface with this index; 0: on one that the operating system chooses.
    pub(super) fn join(&self, group: IpAddr, interface: u32) -> io::Result<()> {
        if !cfg!(target_os = "linux") {
            let what = "only Linux tells what came to a group from what came to this host alone";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let socket = SockRef::from(&self.io);
        match group {
            IpAddr::V4(group) if interface == 0 => socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
            IpAddr::V4(group) => socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface)),
            IpAddr::V6(group) => socket.join_multicast_v6(&group, interface),
        }
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// It reaches IPv4, be it by mapped addresses.
    pub(super) fn reaches_v4(&self) -> bool {
        self.reaches_v4
    }

    /// Whether a datagram had to wait for room since this was asked last, so that time has passed.
    pub(super) fn has_waited(&mut self) -> bool {
        std::mem::take(&mut self.has_waited)
    }

    /// Waits until there may be something to receive.
    pub(super) async fn ready(&self) -> io::Result<()> {
        self.io.ready(Interest::READABLE.add(Interest::ERROR)).await.map(drop)
    }

    /// What has arrived, without waiting.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(unreachable) = self.unreachable(buffer)? {
            return Ok(unreachable);
        }
        match self.datagram(buffer) {
            Ok(arrival) => Ok(Received::Datagram(arrival)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    #[cfg(target_os = "linux")]
    fn unreachable(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Self { io, control, .. } = self;
        loop {
            match io.try_io(Interest::ERROR, || linux::receive_error(io, buffer, control)) {
                Ok(Some((peer, quoted))) => return Ok(Some(Received::Unreachable { peer, quoted })),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn unreachable(&mut self, _: &mut [u8]) -> io::Result<Option<Received>> {
        Ok(None)
    }

    #[cfg(target_os = "linux")]
    fn datagram(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let Self { io, control, .. } = self;
        io.try_io(Interest::READABLE, || linux::receive(io, buffer, control))
    }

    #[cfg(not(target_os = "linux"))]
    fn datagram(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        self.io.try_recv_from(buffer).map(|(length, peer)| Arrival::new(peer.into(), length))
    }

    /// Sends a datagram, after waiting a little for room if the operating system's buffer is full. That it stays full is
    /// for example due to hosts of the local network that do not exist: what is for them stays in the buffer until they
    /// are given up, which takes seconds. Nobody else shall wait for that, so the datagram is then lost with `WouldBlock`.
    ///
    /// An error that an earlier datagram caused is reported by whatever the socket does next and then forgotten; hence
    /// another try tells whether this datagram is meant. There are a few, since ICMP errors, genuine or forged, may come in
    /// quick succession.
    pub(super) async fn send(&mut self, datagram: &[u8], departure: &Departure) -> io::Result<()> {
        for _ in 1..TRIES {
            match self.send_once(datagram, departure).await {
                Err(error) if is_about_a_peer(&error) => {}
                sent => return sent,
            }
        }
        self.send_once(datagram, departure).await
    }

    async fn send_once(&mut self, datagram: &[u8], departure: &Departure) -> io::Result<()> {
        // What is sent without waiting must not keep other tasks waiting.
        consume_budget().await;
        let mut sent = self.try_send(datagram, departure);
        if is_full(&sent) && !self.is_stuck {
            self.has_waited = true;
            let room = timeout(PATIENCE, self.io.writable()).await;
            sent = if room.is_ok() { self.try_send(datagram, departure) } else { sent };
        }
        self.is_stuck = is_full(&sent);
        sent
    }

    fn try_send(&self, datagram: &[u8], departure: &Departure) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if departure.local.is_some() || departure.ecn != Ecn::NotCapable {
            return self.io.try_io(Interest::WRITABLE, || linux::send(&self.io, datagram, departure));
        }
        self.io.try_send_to(datagram, departure.to).map(drop)
    }
}

fn is_full(sent: &io::Result<()>) -> bool {
    sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// What arrives at a socket that is bound to this address was sent to one host, and to one address of it.
#[cfg(target_os = "linux")]
fn is_of_one_host(local: SocketAddr, interface: Option<&str>) -> bool {
    let address = local.ip().to_canonical();
    !address.is_unspecified() && !address.is_multicast() && !is_broadcast((address, local.port()).into(), interface)
}

/// This is the broadcast address of all networks or of a subnet, which only the kernel knows: it connects no socket to one
/// that has not asked for it. Nothing is sent for that. If in doubt, it is one.
#[cfg(target_os = "linux")]
fn is_broadcast(address: SocketAddr, interface: Option<&str>) -> bool {
    let connected = socket2::Socket::new(Domain::for_address(address), socket2::Type::DGRAM, None).and_then(|probe| {
        probe.bind_device(interface.map(str::as_bytes))?;
        probe.connect(&address.into())
    });
    address.is_ipv4() && connected.is_err()
}

fn new(address: SocketAddr, role: Role) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(address), socket2::Type::DGRAM, Some(Protocol::UDP))?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // A server on [::] also serves IPv4; a client has a socket for each.
        socket.set_only_v6(role == Role::Client)?;
    }
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn bind_to_interface(socket: &socket2::Socket, interface: &str) -> io::Result<()> {
    socket.bind_device(Some(interface.as_bytes())).map_err(|error| {
        let told = format!("the socket cannot be bound to the interface {interface:?}: {error}");
        io::Error::new(error.kind(), told)
    })
}

#[cfg(not(target_os = "linux"))]
fn bind_to_interface(_: &socket2::Socket, interface: &str) -> io::Result<()> {
    let told = format!("only Linux binds sockets to an interface, such as {interface:?}: bind to one of its addresses");
    Err(io::Error::new(io::ErrorKind::Unsupported, told))
}

/// The network has no way to the peer, as opposed to something that is wrong with the datagram or the socket.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown
    )
}

/// The error says something of a datagram that was sent to some peer before, and nothing of the socket.
pub(super) fn is_about_a_peer(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    if linux::is_of_icmp(error) {
        return true;
    }
    is_unreachable(error) || error.kind() == io::ErrorKind::ConnectionReset
}

/// The datagram is lost as any may be: the next copy may leave.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    // Refused and reset are errors of earlier datagrams, whatever is sent now.
    if matches!(error.kind(), Kind::ConnectionRefused | Kind::ConnectionReset | Kind::WouldBlock | Kind::Interrupted) {
        return true;
    }
    #[cfg(target_os = "linux")]
    if linux::is_passing(error) {
        return true;
    }
    error.kind() == Kind::OutOfMemory
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
