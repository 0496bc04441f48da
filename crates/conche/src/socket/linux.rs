//! Linux: metadata of received datagrams, batched receives, and ICMP errors.
//!
//! - Local address (IP_PKTINFO, IPV6_PKTINFO): a response must come from the address that received
//!   the request (RFC 7252 §5.3.2). It also shows whether the datagram was multicast or broadcast
//!   (RFC 7252 §8).
//! - ECN codepoint (IP_TOS, IPV6_TCLASS; RFC 3168 §5).
//! - Boundaries of datagrams from one sender that the kernel merged (UDP_GRO).
//! - ICMP errors about our datagrams, also for an unconnected socket (IP_RECVERR). Each quotes the
//!   start of our datagram, by which the endpoint detects forged errors.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use conche_proto::Ecn;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrIn, SockaddrIn6, SockaddrLike,
    SockaddrStorage, cmsg_space, getsockopt, recvmmsg, recvmsg, sendmmsg, sendmsg, setsockopt, sockopt,
};
use smallvec::SmallVec;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Arrival, Departure};
use crate::address::Address;

/// RFC 792. All codes but "fragmentation needed" mean that the datagram is lost for good.
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// RFC 4443 §3.1.
const DESTINATION_UNREACHABLE_V6: u8 = 1;

const ECN_MASK: u8 = 0b11;

pub(super) const MAX_BATCH: usize = 32;

/// Room for the control messages requested below, and those that the user of a given socket
/// requested, such as timestamps. If they do not fit, none can be read.
const CONTROL_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct Control {
    pub(super) of_one: Vec<u8>,
    /// Bytes per datagram of a batch, all cleared for each batch.
    of_each: usize,
    v6: bool,
}

impl Control {
    /// Requests the local address only if `many` are possible, multicast included.
    pub(super) fn of(socket: &socket2::Socket, v6: bool, many: bool, ours: bool) -> io::Result<Self> {
        set_receive_options(socket, v6, many, ours)?;
        let of_v4 = cmsg_space::<u8>() + if many { cmsg_space::<libc::in_pktinfo>() } else { 0 };
        let of_v6 = cmsg_space::<i32>() + if many { cmsg_space::<libc::in6_pktinfo>() } else { 0 };
        let asked_for = cmsg_space::<i32>() + of_v4 + if v6 { of_v6 } else { 0 };
        let of_each = if ours { asked_for } else { CONTROL_BYTES };
        Ok(Self { of_one: vec![0; CONTROL_BYTES], of_each, v6 })
    }
}

/// Sets UDP_GRO only on our own sockets: other readers of a user's socket do not expect merged
/// datagrams.
fn set_receive_options(socket: &socket2::Socket, v6: bool, many: bool, ours: bool) -> io::Result<()> {
    if ours {
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
    }
    setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
    // Otherwise any program on this host that joins a group adds all sockets to it (ip(7)). Kernels
    // may lack this or ECN: multicast is recognized below, too.
    let _ = socket.set_multicast_all_v4(false);
    let _ = setsockopt(socket, sockopt::IpRecvTos, &true);
    if many {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?;
    }
    if v6 {
        setsockopt(socket, sockopt::Ipv6RecvErr, &true)?;
        let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &true);
        let _ = socket.set_multicast_all_v6(false);
        if many {
            setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
    }
    Ok(())
}

/// Receives one datagram, or several that the kernel merged.
pub(super) fn receive(
    socket: &impl AsRawFd,
    buffer: &mut [u8],
    control: &mut Control,
    arrived: &mut VecDeque<Arrival>,
) -> io::Result<()> {
    let mut parts = [IoSliceMut::new(buffer)];
    let (socket, room, flags) = (socket.as_raw_fd(), Some(&mut control.of_one[..]), MsgFlags::MSG_DONTWAIT);
    match control.v6 {
        true => arrive(0, &recvmsg::<SockaddrIn6>(socket, &mut parts, room, flags)?, arrived),
        false => arrive(0, &recvmsg::<SockaddrIn>(socket, &mut parts, room, flags)?, arrived),
    }
}

/// Receives a message per part of the buffer, and returns the number of parts used. An error
/// concerns one message; the others were received.
pub(super) fn receive_several<'a>(
    socket: &impl AsRawFd,
    parts: impl Iterator<Item = (usize, &'a mut [u8])>,
    control: &Control,
    arrived: &mut VecDeque<Arrival>,
) -> io::Result<usize> {
    match control.v6 {
        true => receive_several_from::<SockaddrIn6>(socket.as_raw_fd(), parts, control.of_each, arrived),
        false => receive_several_from::<SockaddrIn>(socket.as_raw_fd(), parts, control.of_each, arrived),
    }
}

/// `S` is the address family of the socket's peers.
fn receive_several_from<'a, S: SockaddrLike + Copy + Into<SocketAddr>>(
    socket: RawFd,
    parts: impl Iterator<Item = (usize, &'a mut [u8])>,
    control: usize,
    arrived: &mut VecDeque<Arrival>,
) -> io::Result<usize> {
    let mut starts: SmallVec<[usize; MAX_BATCH]> = SmallVec::new();
    let mut slices: [_; MAX_BATCH] = std::array::from_fn(|_| [IoSliceMut::new(&mut [])]);
    for ((start, part), slice) in parts.zip(&mut slices) {
        starts.push(start);
        *slice = [IoSliceMut::new(part)];
    }
    let mut headers = MultiHeaders::<S>::preallocate(starts.len(), Some(Vec::with_capacity(control)));
    let slices = slices.iter_mut().take(starts.len());
    let messages = recvmmsg(socket, &mut headers, slices, MsgFlags::MSG_DONTWAIT, None)?;
    let (mut needed, mut error) = (0, None);
    for (message, start) in messages.zip(starts) {
        needed += 1;
        error = arrive(start, &message, arrived).err().or(error);
    }
    error.map_or(Ok(needed), Err)
}

/// The message begins at `start`.
fn arrive<S: SockaddrLike + Copy + Into<SocketAddr>>(
    start: usize,
    message: &RecvMsg<'_, '_, S>,
    arrived: &mut VecDeque<Arrival>,
) -> io::Result<()> {
    let from: SocketAddr = message.address.ok_or(io::ErrorKind::InvalidData)?.into();
    let mut segment = None;
    let mut arrival = Arrival::new(from.into(), start, message.bytes);
    for control in message.cmsgs()? {
        match control {
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                let [to, ours] = [info.ipi_addr, info.ipi_spec_dst].map(|it| Ipv4Addr::from(u32::from_be(it.s_addr)));
                // The kernel would answer multicast and broadcast from another address.
                arrival.multicast |= to != ours || to.is_multicast() || to.is_broadcast();
                arrival.local.get_or_insert(ours.into());
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                let to = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                arrival.multicast |= to.to_canonical().is_multicast();
                // An IPv6 socket answers IPv4 from a mapped address.
                arrival.local = Some(to.into());
            }
            ControlMessageOwned::Ipv4Tos(tos) => arrival.ecn = ecn(tos),
            ControlMessageOwned::Ipv6TClass(class) => arrival.ecn = ecn(class.to_le_bytes()[0]),
            ControlMessageOwned::UdpGroSegments(bytes) => segment = usize::try_from(bytes).ok(),
            _ => {}
        }
    }
    arrival.local = arrival.local.filter(|_| !arrival.multicast);
    arrived.extend(arrival.in_segments(segment.unwrap_or(message.bytes)));
    Ok(())
}

/// Reads the next queued error: the datagram's destination, the length of its quoted bytes at the
/// front of the buffer, and the kind of error. `None` for errors that must not end an exchange (RFC
/// 7252 §4.2).
pub(super) fn receive_error(
    socket: &impl AsRawFd,
    buffer: &mut [u8],
    control: &mut [u8],
) -> io::Result<Option<(Address, usize, io::ErrorKind)>> {
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(control), MsgFlags::MSG_ERRQUEUE)?;
    let unreachable = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
            is_unreachable(&error).then_some(error.ee_errno)
        }
        _ => None,
    });
    let kind = |errno| io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or_default()).kind();
    let peer = address(message.address.as_ref());
    Ok(peer.zip(unreachable).map(|(peer, errno)| (peer, message.bytes, kind(errno))))
}

/// Errors that the kernel derives only from ICMP errors (`icmp_err_convert`, `icmpv6_err_convert`).
/// They fail the next socket operation, whose own error they are not.
pub(super) fn is_of_icmp(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    let protocol = [Errno::ENOPROTOOPT, Errno::EOPNOTSUPP, Errno::EPROTO, Errno::EACCES];
    let path = [Errno::EMSGSIZE, Errno::EHOSTDOWN, Errno::ENONET];
    errno.is_some_and(|errno| protocol.contains(&errno) || path.contains(&errno))
}

pub(super) fn is_passing(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOBUFS | Errno::ENOMEM | Errno::EAGAIN | Errno::EINTR))
}

fn is_unreachable(error: &libc::sock_extended_err) -> bool {
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => error.ee_type == DESTINATION_UNREACHABLE && error.ee_code != FRAGMENTATION_NEEDED,
        libc::SO_EE_ORIGIN_ICMP6 => error.ee_type == DESTINATION_UNREACHABLE_V6,
        _ => false,
    }
}

fn address(address: Option<&SockaddrStorage>) -> Option<Address> {
    let address = address?;
    let v4 = || address.as_sockaddr_in().map(|address| SocketAddr::from(SocketAddrV4::from(*address)));
    let v6 = || address.as_sockaddr_in6().map(|address| SocketAddr::from(SocketAddrV6::from(*address)));
    v4().or_else(v6).map(Address::from)
}

fn ecn(traffic_class: u8) -> Ecn {
    match traffic_class & ECN_MASK {
        0b00 => Ecn::NotCapable,
        0b01 => Ecn::Capable1,
        0b10 => Ecn::Capable0,
        _ => Ecn::CongestionExperienced,
    }
}

/// Maximum segment size. Segments cannot be fragmented: any IPv6 path carries this size (RFC 8200
/// §5), and [`MAX_BATCH`] of them fit one message.
const LARGEST_SEGMENT: usize = 1280 - 40 - 8;

thread_local! {
    /// By the bytes of control messages per message. Thread-local, because they are not `Send`.
    static HEADERS: RefCell<BTreeMap<usize, MultiHeaders<SockaddrStorage>>> = const { RefCell::new(BTreeMap::new()) };
}

type Batch<'a> = SmallVec<[(&'a [u8], SocketAddr); MAX_BATCH]>;

/// Number of datagrams per message.
type Messages = SmallVec<[usize; MAX_BATCH]>;

/// Sends many datagrams per system call (sendmmsg), and those to one peer as one message
/// (UDP_SEGMENT).
///
/// The kernel splits a message into datagrams of one size (the last may be shorter) after one route
/// lookup. Some devices, tunnels and kernels lack support: a refused message is sent again datagram
/// by datagram.
#[derive(Debug)]
pub(in crate::socket) struct Sender {
    pub(in crate::socket) segments: bool,
}

impl Sender {
    /// Without UDP_SEGMENT a kernel would ignore the control message and send one large datagram.
    pub(in crate::socket) fn new(socket: &socket2::Socket) -> Self {
        Self { segments: getsockopt(socket, sockopt::UdpGsoSegment).is_ok() }
    }

    /// All datagrams share one local address and ECN codepoint. Returns the number sent; an error
    /// concerns the first datagram or an earlier one.
    pub(in crate::socket) fn send_several<'a>(
        &mut self,
        socket: &impl AsRawFd,
        datagrams: impl Iterator<Item = (&'a [u8], SocketAddr)>,
        departure: &Departure,
    ) -> io::Result<usize> {
        let batch: Batch<'a> = datagrams.take(MAX_BATCH).collect();
        let mut refused = None;
        if self.segments
            && let Some((size, messages)) = messages(&batch)
        {
            match send_messages(socket, &batch, &messages, Some(size), departure) {
                Ok(sent) => return Ok(messages.iter().take(sent).sum()),
                Err(Errno::EAGAIN) => return Err(Errno::EAGAIN.into()),
                Err(error) => refused = Some(error),
            }
        }
        let sent = send_messages(socket, &batch, &[1; MAX_BATCH][..batch.len()], None, departure)?;
        // The unsegmented send succeeded, so segmentation is unsupported. Other errors mean a
        // smaller path MTU, or concern earlier datagrams.
        if matches!(refused, Some(Errno::EIO | Errno::EINVAL)) {
            self.segments = false;
        }
        Ok(sent)
    }
}

/// Returns segment size and messages for the first of these datagrams; `None` if that saves none.
fn messages(batch: &[(&[u8], SocketAddr)]) -> Option<(u16, Messages)> {
    let few = batch.iter().take_while(|(datagram, _)| datagram.len() <= LARGEST_SEGMENT).count();
    let batch = &batch[..few];
    let size = batch.iter().map(|(datagram, _)| datagram.len()).max()?;
    let mut messages = Messages::new();
    let mut open = None;
    for &(datagram, to) in batch {
        match messages.last_mut() {
            // An empty datagram cannot be a segment.
            Some(last) if open == Some(to) && !datagram.is_empty() => *last += 1,
            _ => messages.push(1),
        }
        open = (datagram.len() == size).then_some(to);
    }
    (messages.len() < few).then_some((u16::try_from(size).ok()?, messages))
}

fn send_messages(
    socket: &impl AsRawFd,
    batch: &[(&[u8], SocketAddr)],
    messages: &[usize],
    segment: Option<u16>,
    departure: &Departure,
) -> nix::Result<usize> {
    with_control(departure, segment, |control| {
        let mut parts: [_; MAX_BATCH] = std::array::from_fn(|_| IoSlice::new(&[]));
        for ((datagram, _), part) in batch.iter().zip(&mut parts) {
            *part = IoSlice::new(datagram);
        }
        let (mut slices, mut addresses) = ([&parts[..0]; MAX_BATCH], SmallVec::<[_; MAX_BATCH]>::new());
        let mut first = 0;
        for (&count, slice) in messages.iter().zip(&mut slices) {
            *slice = &parts[first..first + count];
            addresses.push(Some(SockaddrStorage::from(batch[first].1)));
            first += count;
        }
        // The kernel rejects trailing bytes as malformed.
        let bytes: usize = control.iter().map(space).sum();
        let room = || (bytes > 0).then(|| Vec::with_capacity(bytes));
        HEADERS.with_borrow_mut(|headers| {
            let headers = headers.entry(bytes).or_insert_with(|| MultiHeaders::preallocate(MAX_BATCH, room()));
            let flags = MsgFlags::MSG_DONTWAIT;
            sendmmsg(socket.as_raw_fd(), headers, &slices, &addresses, control, flags).map(Iterator::count)
        })
    })
}

pub(in crate::socket) fn send(socket: &impl AsRawFd, datagram: &[u8], departure: &Departure) -> io::Result<()> {
    let to = SockaddrStorage::from(departure.to);
    with_control(departure, None, |control| {
        sendmsg(socket.as_raw_fd(), &[IoSlice::new(datagram)], control, MsgFlags::MSG_DONTWAIT, Some(&to))
    })?;
    Ok(())
}

fn with_control<T>(
    departure: &Departure,
    segment: Option<u16>,
    send: impl FnOnce(&[ControlMessage<'_>]) -> nix::Result<T>,
) -> nix::Result<T> {
    let (v4, v6, tos, class);
    let local = match departure.local {
        None => None,
        Some(IpAddr::V4(address)) => {
            let source = libc::in_addr { s_addr: u32::from(address).to_be() };
            v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: libc::in_addr { s_addr: 0 } };
            Some(ControlMessage::Ipv4PacketInfo(&v4))
        }
        Some(IpAddr::V6(address)) => {
            let source = libc::in6_addr { s6_addr: address.octets() };
            v6 = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: 0 };
            Some(ControlMessage::Ipv6PacketInfo(&v6))
        }
    };
    let ecn = match departure.ecn {
        Ecn::NotCapable => None,
        codepoint if departure.to.ip().to_canonical().is_ipv4() => {
            tos = codepoint.bits();
            Some(ControlMessage::Ipv4Tos(&tos))
        }
        codepoint => {
            class = codepoint.bits().into();
            Some(ControlMessage::Ipv6TClass(&class))
        }
    };
    let segment = segment.as_ref().map(ControlMessage::UdpGsoSegments);
    let control: SmallVec<[_; 3]> = local.into_iter().chain(ecn).chain(segment).collect();
    send(&control)
}

fn space(control: &ControlMessage<'_>) -> usize {
    match control {
        ControlMessage::Ipv4PacketInfo(_) => cmsg_space::<libc::in_pktinfo>(),
        ControlMessage::Ipv6PacketInfo(_) => cmsg_space::<libc::in6_pktinfo>(),
        ControlMessage::Ipv4Tos(_) => cmsg_space::<u8>(),
        ControlMessage::UdpGsoSegments(_) => cmsg_space::<u16>(),
        _ => cmsg_space::<i32>(),
    }
}

/// A non-blocking UDP socket that tokio polls for reading only.
///
/// tokio's own sockets also report writability, which would wake a sleeping task after each send.
#[derive(Debug)]
pub(in crate::socket) struct Descriptor(AsyncFd<UdpSocket>);

impl Descriptor {
    pub(in crate::socket) fn from_std(socket: UdpSocket) -> io::Result<Self> {
        register(socket, Interest::READABLE.add(Interest::ERROR)).map(Self)
    }

    pub(in crate::socket) async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.0.ready(interest).await.map(drop)
    }

    pub(in crate::socket) fn try_io<T>(
        &self,
        interest: Interest,
        receive: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.0.try_io(interest, |_| receive())
    }

    pub(in crate::socket) fn try_send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.0.get_ref().send_to(datagram, to)
    }

    /// Registers a duplicate descriptor with tokio for this rare wait only.
    pub(in crate::socket) async fn writable(&self) -> io::Result<()> {
        let socket = register(self.0.get_ref().try_clone()?, Interest::WRITABLE)?;
        socket.ready(Interest::WRITABLE).await.map(drop)
    }
}

#[allow(
    deprecated,
    reason = "what is to take its place is unsafe, for types whose number may change: that of a socket does not"
)]
fn register(socket: UdpSocket, interest: Interest) -> io::Result<AsyncFd<UdpSocket>> {
    AsyncFd::with_interest(socket, interest)
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(datagrams: &[(usize, u16)]) -> Option<(u16, Vec<usize>)> {
        let bytes = [0; 2 * LARGEST_SEGMENT];
        let batch =
            datagrams.iter().map(|&(length, port)| (&bytes[..length], SocketAddr::from(([127, 0, 0, 1], port))));
        messages(&batch.collect::<Vec<_>>()).map(|(size, messages)| (size, messages.to_vec()))
    }

    #[test]
    fn neighbours_to_one_peer_become_a_message_of_which_only_the_last_is_shorter() {
        assert_eq!(of(&[(73, 1), (73, 1), (73, 1), (73, 2), (73, 2)]), Some((73, vec![3, 2])));
        assert_eq!(of(&[(4, 1), (73, 1), (73, 1), (4, 1), (4, 1), (73, 1)]), Some((73, vec![1, 3, 1, 1])));
        assert_eq!(of(&[(73, 1), (73, 2), (73, 1), (73, 2)]), None, "none has a neighbour to the same peer");
        assert_eq!(of(&[(0, 1), (0, 1)]), None, "of nothing there is no segment");
        assert_eq!(of(&[(73, 1), (73, 1), (0, 1)]), Some((73, vec![2, 1])));
    }

    #[test]
    fn datagrams_above_the_segment_limit_are_not_batched() {
        const LIMIT: usize = LARGEST_SEGMENT;
        assert_eq!(of(&[(LIMIT, 1), (LIMIT, 1)]), Some((1232, vec![2])));
        assert_eq!(of(&[(LIMIT + 1, 1), (LIMIT + 1, 1)]), None);
        assert_eq!(of(&[(9, 1), (9, 1), (LIMIT + 1, 1), (9, 1)]), Some((9, vec![2])), "the others follow");
    }

    #[test]
    fn a_full_message_is_no_longer_than_a_datagram_may_be() {
        const { assert!(MAX_BATCH * LARGEST_SEGMENT <= 65_507 && MAX_BATCH <= 64) };
    }
}
