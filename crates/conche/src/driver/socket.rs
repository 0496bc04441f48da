//! One UDP socket: its datagrams, what is known of each, and the ICMP errors of what was sent.

mod errors;

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use conche_proto::{Datagram, Ecn, Transmit};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef};
use tokio::io::Interest;
#[cfg(not(target_os = "linux"))]
use tokio::net::UdpSocket as Descriptor;
use tokio::task::consume_budget;
use tokio::time::timeout;

#[cfg(target_os = "linux")]
use super::linux::{self, Descriptor};
use super::outbox::Outbox;
use super::{Address, Role};
pub(crate) use errors::is_unreachable;
pub(super) use errors::{is_about_a_peer, is_passing};

/// Room for bursts, as far as the operating system grants it. Its usual 208 KiB hold only about 300 small datagrams,
/// since each is charged with the kernel's own overhead.
const BUFFER: usize = 4 << 20;

/// More datagrams than such a buffer holds: the kernel doubles it, and charges each with more than this.
const MOST_ARRIVED: usize = 2 * BUFFER / 256;

/// How often a datagram is handed to the operating system that reports errors of earlier ones instead.
const TRIES: usize = 4;

/// How long a datagram waits for room in the operating system's buffer, unless the one before it waited in vain.
const PATIENCE: Duration = Duration::from_millis(10);

/// The largest UDP payload.
const LARGEST_DATAGRAM: usize = 65_535;

/// Bytes of a buffer that one of several datagrams gets which are received at once. Each may be of any size, since what is cut off is
/// lost, so this is address space: of a place for datagrams of up to 4 KiB only a page or two are ever touched. The
/// places begin at different lines of a cache, as they would push each other out of it otherwise.
const PLACE: usize = LARGEST_DATAGRAM + 1 + 3 * 64;

/// Datagrams that are received at once, or sent, by a server. Much more than these make nothing faster.
const OF_SERVER: usize = 32;

/// The same for a client, of which a program may have many.
const OF_CLIENT: usize = 8;

/// After so many datagrams in a row, there may be more than one at a time.
#[cfg(target_os = "linux")]
const HURRY: usize = 2;

/// How many datagrams a driver receives at once, or sends.
pub(super) const fn at_once(role: Role) -> usize {
    match role {
        Role::Client => OF_CLIENT,
        Role::Server => OF_SERVER,
    }
}

/// A buffer for so many datagrams that are received at once: at most 2.1 MB for a server, of which small datagrams touch 132 KiB.
pub(super) fn buffer(role: Role) -> Box<[u8]> {
    // Where they come one by one, more than one place is of no use.
    let places = if cfg!(target_os = "linux") { at_once(role) } else { 1 };
    vec![0; places * PLACE].into()
}

/// Which socket a driver gets.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    /// A new one with this local address.
    Address(SocketAddr),
    /// One of several with this local address, to which the kernel hands out peers. Only Linux does so.
    OneOfSeveral(SocketAddr),
    /// One that the user has made.
    Socket(Arc<std::net::UdpSocket>),
}

impl Binding {
    /// The operating system chooses a port, another one each time.
    pub(crate) fn chooses_port(&self) -> bool {
        matches!(self, Self::Address(address) if address.port() == 0)
    }
}

#[derive(Debug)]
pub(crate) struct Socket {
    io: Descriptor,
    local: SocketAddr,
    reaches_v4: bool,
    /// The operating system's buffer was full when the last datagram was to be sent, and stayed so.
    is_stuck: bool,
    has_waited: bool,
    /// Received, and not asked for yet.
    arrived: VecDeque<Arrival>,
    /// So many were received since there were none.
    in_a_row: usize,
    #[cfg(target_os = "linux")]
    control: linux::Control,
    #[cfg(target_os = "linux")]
    sender: linux::Sender,
}

/// What came out of the socket.
pub(super) enum Received {
    /// A datagram, somewhere in the buffer.
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
    /// Where in the buffer it begins.
    start: usize,
    length: usize,
    pub(super) local: Option<IpAddr>,
    pub(super) multicast: bool,
    pub(super) ecn: Ecn,
}

impl Arrival {
    pub(super) fn new(from: Address, start: usize, length: usize) -> Self {
        Self { from, start, length, local: None, multicast: false, ecn: Ecn::NotCapable }
    }

    /// The same for each datagram of so many bytes that this one consists of; the last one may be shorter.
    #[cfg(target_os = "linux")]
    pub(super) fn in_segments(self, bytes: usize) -> impl Iterator<Item = Self> {
        let bytes = bytes.max(1);
        (0..self.length.div_ceil(bytes).max(1)).map(move |number| {
            let before = number * bytes;
            Self { start: self.start + before, length: (self.length - before).min(bytes), ..self }
        })
    }

    /// The datagram, as the endpoint takes it.
    pub(super) fn datagram(self, buffer: &[u8]) -> Datagram<'_, Address> {
        let mut datagram = Datagram::new(self.from, &buffer[self.start..][..self.length]);
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

impl Departure {
    pub(super) fn of(transmit: &Transmit<Address>) -> Self {
        Self { to: transmit.to.socket_addr(), local: transmit.local, ecn: transmit.ecn }
    }
}

impl Socket {
    pub(crate) fn open(binding: &Binding, interface: Option<&str>, role: Role) -> io::Result<Self> {
        let socket = match binding {
            Binding::Address(address) | Binding::OneOfSeveral(address) => new(*address, role)?,
            Binding::Socket(socket) => socket.try_clone()?.into(),
        };
        if let Some(interface) = interface {
            bind_to_interface(&socket, interface)?;
        }
        // More is better, but less is no error.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        socket.set_nonblocking(true)?;
        if let Binding::OneOfSeveral(_) = binding {
            share_address(&socket)?;
        }
        if let Binding::Address(address) | Binding::OneOfSeveral(address) = binding {
            socket.bind(&(*address).into())?;
        }
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        let reaches_v4 = match local.ip() {
            IpAddr::V4(_) => true,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => !socket.only_v6()?,
            IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
        };
        #[cfg(target_os = "linux")]
        let control = {
            let ours = !matches!(binding, Binding::Socket(_));
            linux::Control::of(&socket, local.is_ipv6(), !is_of_one_host(local, interface), ours)?
        };
        Ok(Self {
            #[cfg(target_os = "linux")]
            sender: linux::Sender::new(&socket),
            io: Descriptor::from_std(socket.into())?,
            local,
            reaches_v4,
            is_stuck: false,
            has_waited: false,
            arrived: VecDeque::new(),
            in_a_row: 0,
            #[cfg(target_os = "linux")]
            control,
        })
    }

    /// Loses what has arrived up to now. What arrives meanwhile may be lost as well, but cannot make this last.
    pub(crate) fn forget_arrived(&self) {
        let socket = SockRef::from(&self.io);
        let mut lost = 0;
        while lost < MOST_ARRIVED && socket.recv(&mut [MaybeUninit::uninit()]).is_ok() {
            lost += 1;
        }
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

    pub(crate) fn local(&self) -> SocketAddr {
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

    /// Waits until there may be something to receive. Until `looks_until` it does not sleep for that: whenever other tasks have had a
    /// turn, it has a look, and puts what has come into the buffer. Only on Linux.
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "it sleeps there"))]
    pub(super) async fn ready(&mut self, buffer: &mut [u8], looks_until: Option<std::time::Instant>) -> io::Result<()> {
        if !self.arrived.is_empty() {
            return Ok(());
        }
        let interest = Interest::READABLE.add(Interest::ERROR);
        #[cfg(target_os = "linux")]
        if let Some(until) = looks_until {
            let Self { io, control, arrived, .. } = self;
            let io = &*io;
            let mut ready = pin!(io.ready(interest));
            return poll_fn(|context| {
                if let Poll::Ready(ready) = ready.as_mut().poll(context) {
                    return Poll::Ready(ready);
                }
                match linux::receive(io, buffer, control, arrived) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    // Of what is about a peer the error queue tells more, and that it has something.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_about_a_peer(&error) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
                if std::time::Instant::now() < until {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            })
            .await;
        }
        self.io.ready(interest).await.map(drop)
    }

    /// What has arrived, without waiting. Several datagrams may come into the buffer with one of them, which are the next
    /// answers: until [`Received::Nothing`] it must stay as it is.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(arrival) = self.arrived.pop_front() {
            return Ok(Received::Datagram(arrival));
        }
        if let Some(unreachable) = self.unreachable(buffer)? {
            return Ok(unreachable);
        }
        let received = self.datagrams(buffer);
        self.in_a_row = match self.arrived.len() {
            0 => 0,
            some => self.in_a_row.saturating_add(some),
        };
        match self.arrived.pop_front() {
            Some(arrival) => Ok(Received::Datagram(arrival)),
            None => match received {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                _ => Ok(Received::Nothing),
            },
        }
    }

    /// Whether the next datagrams have come already.
    pub(super) fn has_more(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// The next datagrams, as far as they have come already.
    pub(super) fn more(&self) -> impl Iterator<Item = Arrival> {
        self.arrived.iter().copied()
    }

    #[cfg(target_os = "linux")]
    fn unreachable(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Self { io, control, .. } = self;
        loop {
            match io.try_io(Interest::ERROR, || linux::receive_error(io, buffer, &mut control.of_one)) {
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

    /// Receives datagrams into the buffer: several at once if they come in such a hurry that it pays.
    #[cfg(target_os = "linux")]
    fn datagrams(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let Self { io, control, arrived, in_a_row, .. } = self;
        let places = buffer.chunks(PLACE).len().min(linux::MOST);
        if places == 1 || *in_a_row < HURRY {
            return io.try_io(Interest::READABLE, || linux::receive(io, buffer, control, arrived));
        }
        let parts = buffer.chunks_mut(PLACE).enumerate().map(|(index, part)| (index * PLACE, part));
        io.try_io(Interest::READABLE, || {
            let needed = linux::receive_several(io, parts, control, arrived)?;
            // With fewer than there was room for, nothing is left: tokio need not ask once more to know.
            if needed < places { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn datagrams(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let (length, peer) = self.io.try_recv_from(buffer)?;
        self.arrived.push_back(Arrival::new(peer.into(), 0, length));
        Ok(())
    }

    /// Sends datagrams from this one on, in their order, and answers how many of them left, at least one; or why the first
    /// did not, after waiting a little for room if the operating system's buffer is full. That it stays full is
    /// for example due to hosts of the local network that do not exist: what is for them stays in the buffer until they
    /// are given up, which takes seconds. Nobody else shall wait for that, so the datagram is then lost with `WouldBlock`.
    ///
    /// An error that an earlier datagram caused is reported by whatever the socket does next and then forgotten; hence
    /// another try tells whether this datagram is meant. There are a few, since ICMP errors, genuine or forged, may come in
    /// quick succession.
    pub(super) async fn send(&mut self, outbox: &Outbox, first: usize) -> io::Result<usize> {
        for _ in 1..TRIES {
            match self.send_once(outbox, first).await {
                Err(error) if is_about_a_peer(&error) => {}
                sent => return sent,
            }
        }
        self.send_once(outbox, first).await
    }

    async fn send_once(&mut self, outbox: &Outbox, first: usize) -> io::Result<usize> {
        // What is sent without waiting must not keep other tasks waiting.
        consume_budget().await;
        let mut sent = self.try_send(outbox, first);
        if is_full(&sent) && !self.is_stuck {
            self.has_waited = true;
            let room = timeout(PATIENCE, self.io.writable()).await;
            sent = if room.is_ok() { self.try_send(outbox, first) } else { sent };
        }
        self.is_stuck = is_full(&sent);
        sent
    }

    fn try_send(&mut self, outbox: &Outbox, first: usize) -> io::Result<usize> {
        let departure = outbox.departure(first);
        #[cfg(target_os = "linux")]
        {
            let Self { io, sender, .. } = self;
            let alike = outbox.alike(first).min(linux::MOST);
            if alike > 1 {
                let datagrams =
                    (first..first + alike).map(|index| (outbox.datagram(index), outbox.departure(index).to));
                return sender.send_several(io, datagrams, &departure);
            }
            if departure.local.is_some() || departure.ecn != Ecn::NotCapable {
                let datagram = outbox.datagram(first);
                return linux::send(io, datagram, &departure).map(|()| 1);
            }
        }
        self.io.try_send_to(outbox.datagram(first), departure.to).map(|_| 1)
    }
}

fn is_full<T>(sent: &io::Result<T>) -> bool {
    sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Finds out whether a socket could have this address for itself.
pub(crate) fn could_have_alone(address: SocketAddr, interface: Option<&str>) -> io::Result<()> {
    let socket = new(address, Role::Server)?;
    if let Some(interface) = interface {
        bind_to_interface(&socket, interface)?;
    }
    socket.bind(&address.into())
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

/// Lets other sockets have the address of this one, if they want that too. The kernel then chooses one of them by the addresses and
/// ports of both sides.
#[cfg(target_os = "linux")]
fn share_address(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(not(target_os = "linux"))]
fn share_address(_: &socket2::Socket) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux spreads the clients of an address over several sockets"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
