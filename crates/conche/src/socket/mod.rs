//! [`Socket`]: a UDP socket with datagram metadata and ICMP errors, and its [`Outbox`].

#[cfg(target_os = "linux")]
mod linux;

use std::collections::VecDeque;
#[cfg(target_os = "linux")]
use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
#[cfg(target_os = "linux")]
use std::pin::pin;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::task::Poll;
use std::time::Duration;

use conche_proto::{Datagram, Ecn, Instant, Transmit};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef};
use tokio::io::Interest;
#[cfg(not(target_os = "linux"))]
use tokio::net::UdpSocket as Descriptor;
use tokio::task::consume_budget;
use tokio::time::timeout;

use crate::address::Address;
#[cfg(target_os = "linux")]
use linux::Descriptor;

/// The usual 208 KiB hold only about 300 small datagrams, each charged with the kernel's overhead.
const BUFFER: usize = 4 << 20;

/// More datagrams than the buffer holds: the kernel doubles it, but charges more than 256 bytes
/// each.
const MAX_ARRIVED: usize = 2 * BUFFER / 256;

/// Attempts to send while the operating system reports errors of earlier datagrams.
const SEND_ATTEMPTS: usize = 4;

/// Maximum wait for room in the operating system's buffer.
const MAX_WAIT_FOR_ROOM: Duration = Duration::from_millis(10);

const LARGEST_DATAGRAM: usize = 65_535;

/// Buffer bytes per datagram of a batch: any size fits, since truncated bytes would be lost. Most
/// is address space only. The extra bytes start the places at different cache lines.
const PLACE: usize = LARGEST_DATAGRAM + 1 + 3 * 64;

/// Larger batches gain nothing.
const SERVER_BATCH: usize = 32;

/// A program may have many clients.
const CLIENT_BATCH: usize = 8;

/// Successive datagrams before receives are batched.
#[cfg(target_os = "linux")]
const BATCH_AFTER: usize = 2;

pub(crate) const fn at_once(role: Role) -> usize {
    match role {
        Role::Client => CLIENT_BATCH,
        Role::Server => SERVER_BATCH,
    }
}

/// At most 2.1 MB for a server, of which small datagrams touch 132 KiB.
pub(crate) fn buffer(role: Role) -> Box<[u8]> {
    let places = if cfg!(target_os = "linux") { at_once(role) } else { 1 };
    vec![0; places * PLACE].into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

#[derive(Clone, Debug)]
pub(crate) enum Binding {
    Address(SocketAddr),
    /// The kernel distributes peers among them. Linux only.
    OneOfSeveral(SocketAddr),
    Socket(Arc<std::net::UdpSocket>),
}

impl Binding {
    pub(crate) fn chooses_port(&self) -> bool {
        matches!(self, Self::Address(address) if address.port() == 0)
    }
}

#[derive(Debug)]
pub(crate) struct Socket {
    io: Descriptor,
    local: SocketAddr,
    reaches_v4: bool,
    is_stuck: bool,
    has_waited: bool,
    arrived: VecDeque<Arrival>,
    /// Datagrams received since the socket was last empty.
    in_a_row: usize,
    #[cfg(target_os = "linux")]
    control: linux::Control,
    #[cfg(target_os = "linux")]
    sender: linux::Sender,
}

pub(crate) enum Received {
    /// A datagram, located in the buffer.
    Datagram(Arrival),
    /// Our datagram was undeliverable; its first `quoted` bytes are at the front of the buffer.
    Unreachable { peer: Address, quoted: usize, kind: io::ErrorKind },
    /// Nothing more for now.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    from: Address,
    start: usize,
    length: usize,
    pub(crate) local: Option<IpAddr>,
    pub(crate) multicast: bool,
    pub(crate) ecn: Ecn,
}

impl Arrival {
    pub(crate) fn new(from: Address, start: usize, length: usize) -> Self {
        Self { from, start, length, local: None, multicast: false, ecn: Ecn::NotCapable }
    }

    /// The last segment may be shorter.
    #[cfg(target_os = "linux")]
    pub(crate) fn in_segments(self, bytes: usize) -> impl Iterator<Item = Self> {
        let bytes = bytes.max(1);
        (0..self.length.div_ceil(bytes).max(1)).map(move |number| {
            let before = number * bytes;
            Self { start: self.start + before, length: (self.length - before).min(bytes), ..self }
        })
    }

    pub(crate) fn datagram(self, buffer: &[u8]) -> Datagram<'_, Address> {
        let mut datagram = Datagram::new(self.from, &buffer[self.start..][..self.length]);
        datagram.local = self.local;
        datagram.multicast = self.multicast;
        datagram.ecn = self.ecn;
        datagram
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub(crate) to: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    pub(crate) ecn: Ecn,
}

impl Departure {
    pub(crate) fn of(transmit: &Transmit<Address>) -> Self {
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
        // Best effort.
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

    /// Bounded: further arrivals cannot prolong it.
    pub(crate) fn forget_arrived(&self) {
        let socket = SockRef::from(&self.io);
        let mut lost = 0;
        while lost < MAX_ARRIVED && socket.recv(&mut [MaybeUninit::uninit()]).is_ok() {
            lost += 1;
        }
    }

    /// For `interface` 0 the operating system chooses.
    pub(crate) fn join(&self, group: IpAddr, interface: u32) -> io::Result<()> {
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

    pub(crate) fn reaches_v4(&self) -> bool {
        self.reaches_v4
    }

    /// Whether time has passed since the last call.
    pub(crate) fn has_waited(&mut self) -> bool {
        std::mem::take(&mut self.has_waited)
    }

    /// Until `looks_until`, polls the socket after each run of other tasks instead of sleeping, and
    /// receives into the buffer. Polling is Linux only.
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "it sleeps there"))]
    pub(crate) async fn ready(&mut self, buffer: &mut [u8], looks_until: Option<std::time::Instant>) -> io::Result<()> {
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
                    // Errors about a peer are also in the error queue, which wakes the socket.
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

    /// Does not wait. The buffer must stay unchanged until [`Received::Nothing`]: a call may
    /// receive several datagrams, which the next calls return.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
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

    pub(crate) fn has_more(&self) -> bool {
        !self.arrived.is_empty()
    }

    pub(crate) fn more(&self) -> impl Iterator<Item = Arrival> {
        self.arrived.iter().copied()
    }

    #[cfg(target_os = "linux")]
    fn unreachable(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Self { io, control, .. } = self;
        loop {
            match io.try_io(Interest::ERROR, || linux::receive_error(io, buffer, &mut control.of_one)) {
                Ok(Some((peer, quoted, kind))) => return Ok(Some(Received::Unreachable { peer, quoted, kind })),
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
    fn datagrams(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let Self { io, control, arrived, in_a_row, .. } = self;
        let places = buffer.chunks(PLACE).len().min(linux::MAX_BATCH);
        if places == 1 || *in_a_row < BATCH_AFTER {
            return io.try_io(Interest::READABLE, || linux::receive(io, buffer, control, arrived));
        }
        let parts = buffer.chunks_mut(PLACE).enumerate().map(|(index, part)| (index * PLACE, part));
        io.try_io(Interest::READABLE, || {
            let needed = linux::receive_several(io, parts, control, arrived)?;
            // After a partial batch the socket is empty.
            if needed < places { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn datagrams(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let (length, peer) = self.io.try_recv_from(buffer)?;
        self.arrived.push_back(Arrival::new(peer.into(), 0, length));
        Ok(())
    }

    /// Sends datagrams from index `first` on. Returns the number sent, at least one, or the error
    /// of the first.
    ///
    /// If the operating system's buffer is full, waits briefly for room, then loses the datagram
    /// with `WouldBlock`. Datagrams to nonexistent hosts can fill the buffer until address
    /// resolution fails, and must not block others.
    ///
    /// The next socket operation reports and clears an earlier datagram's error, so another attempt
    /// shows whether this datagram is at fault. ICMP errors, genuine or forged, may follow each
    /// other.
    pub(crate) async fn send(&mut self, outbox: &Outbox, first: usize) -> io::Result<usize> {
        for _ in 1..SEND_ATTEMPTS {
            match self.send_once(outbox, first).await {
                Err(error) if is_about_a_peer(&error) => {}
                sent => return sent,
            }
        }
        self.send_once(outbox, first).await
    }

    async fn send_once(&mut self, outbox: &Outbox, first: usize) -> io::Result<usize> {
        // Sends that succeed at once must not starve other tasks.
        consume_budget().await;
        let mut sent = self.try_send(outbox, first);
        if is_full(&sent) && !self.is_stuck {
            self.has_waited = true;
            let room = timeout(MAX_WAIT_FOR_ROOM, self.io.writable()).await;
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
            let alike = outbox.alike(first).min(linux::MAX_BATCH);
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

/// Whether a socket could bind this address exclusively.
pub(crate) fn could_have_alone(address: SocketAddr, interface: Option<&str>) -> io::Result<()> {
    let socket = new(address, Role::Server)?;
    if let Some(interface) = interface {
        bind_to_interface(&socket, interface)?;
    }
    socket.bind(&address.into())
}

/// Whether only unicast datagrams to this address are received.
#[cfg(target_os = "linux")]
fn is_of_one_host(local: SocketAddr, interface: Option<&str>) -> bool {
    let address = local.ip().to_canonical();
    !address.is_unspecified() && !address.is_multicast() && !is_broadcast((address, local.port()).into(), interface)
}

/// Of all networks or of a subnet: without SO_BROADCAST the kernel refuses to connect to one.
/// Unclear cases count as broadcast.
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

/// The kernel selects one of the sharing sockets by the addresses and ports of both sides.
#[cfg(target_os = "linux")]
fn share_address(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(not(target_os = "linux"))]
fn share_address(_: &socket2::Socket) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux spreads the clients of an address over several sockets"))
}

#[derive(Debug)]
pub(crate) struct Outbox {
    memory: Box<[u8]>,
    place: usize,
    transmits: Vec<Transmit<Address>>,
    since: Instant,
}

impl Outbox {
    /// Untouched memory is only reserved.
    pub(crate) fn new(places: usize, place: usize) -> Self {
        let transmits = Vec::with_capacity(places);
        Self { memory: vec![0; places.saturating_mul(place)].into(), place, transmits, since: Instant::ZERO }
    }

    /// The place of the next datagram, which [`push`](Self::push) adds, if there is room.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let start = self.transmits.len() * self.place;
        &mut self.memory[start..start + self.place]
    }

    pub(crate) fn push(&mut self, now: Instant, transmit: Transmit<Address>) {
        if self.transmits.is_empty() {
            self.since = now;
        }
        self.transmits.push(transmit);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.transmits.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.transmits.len() * self.place >= self.memory.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.transmits.len()
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn transmit(&self, index: usize) -> &Transmit<Address> {
        &self.transmits[index]
    }

    pub(crate) fn datagram(&self, index: usize) -> &[u8] {
        &self.memory[index * self.place..][..self.transmits[index].len]
    }

    pub(crate) fn departure(&self, index: usize) -> Departure {
        Departure::of(&self.transmits[index])
    }

    /// Datagrams with one local address and codepoint share a system call.
    pub(crate) fn alike(&self, first: usize) -> usize {
        let Transmit { local, ecn, .. } = self.transmits[first];
        self.transmits[first..].iter().take_while(|other| other.local == local && other.ecn == ecn).count()
    }

    pub(crate) fn clear(&mut self) {
        self.transmits.clear();
    }
}

/// No route to the peer.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown
    )
}

/// The error concerns an earlier datagram, not the socket.
pub(crate) fn is_about_a_peer(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    if linux::is_of_icmp(error) {
        return true;
    }
    is_unreachable(error) || error.kind() == io::ErrorKind::ConnectionReset
}

/// A retransmission may succeed.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    // Refused and reset concern earlier datagrams.
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
