//! [`Sender`]: batched sending: many datagrams per system call (sendmmsg), and those to one peer as
//! one segmented message (UDP_SEGMENT).
//!
//! The kernel splits a message into datagrams of one size (the last may be shorter) late in the
//! stack: one route lookup and one pass through filters and queues for all of them. All messages of
//! a call share the segment size.
//!
//! Some devices, tunnels and kernels do not support this, which shows only on sending. A refused
//! message is sent again datagram by datagram.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use conche_proto::Ecn;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, cmsg_space, getsockopt, sendmmsg, sendmsg, sockopt,
};
use smallvec::SmallVec;

use super::MAX_BATCH;
use crate::socket::Departure;

/// Maximum size of datagrams that become segments. They pass any IPv6 path (minimum MTU of 1280
/// bytes, RFC 8200 §5), since segments cannot be fragmented; and [`MAX_BATCH`] of them fit one
/// message.
const LARGEST_SEGMENT: usize = 1280 - 40 - 8;

thread_local! {
    /// Message headers for the kernel, by the bytes of control messages per message, which take few
    /// values. Thread-local, since they cannot move between threads.
    static HEADERS: RefCell<BTreeMap<usize, MultiHeaders<SockaddrStorage>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Datagrams to send together, with their destinations.
type Batch<'a> = SmallVec<[(&'a [u8], SocketAddr); MAX_BATCH]>;

/// Number of datagrams per message.
type Messages = SmallVec<[usize; MAX_BATCH]>;

/// Sends datagrams through one socket.
#[derive(Debug)]
pub(in crate::socket) struct Sender {
    /// Whether segmentation has never been refused.
    pub(in crate::socket) segments: bool,
}

impl Sender {
    /// Checks the socket for UDP_SEGMENT: a kernel without it would ignore the control message and
    /// send the whole message as one datagram.
    pub(in crate::socket) fn new(socket: &socket2::Socket) -> Self {
        Self { segments: getsockopt(socket, sockopt::UdpGsoSegment).is_ok() }
    }

    /// Sends datagrams with one local address and ECN codepoint, and returns how many were sent. An
    /// error belongs to the first datagram, or to one sent before.
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
        // The unsegmented send succeeded, so segmentation is not supported. Other errors mean a
        // smaller path MTU, or belong to earlier datagrams.
        if matches!(refused, Some(Errno::EIO | Errno::EINVAL)) {
            self.segments = false;
        }
        Ok(sent)
    }
}

/// Returns the segment size and the messages for the first of these datagrams, or `None` if that
/// saves no message.
fn messages(batch: &[(&[u8], SocketAddr)]) -> Option<(u16, Messages)> {
    let few = batch.iter().take_while(|(datagram, _)| datagram.len() <= LARGEST_SEGMENT).count();
    let batch = &batch[..few];
    let size = batch.iter().map(|(datagram, _)| datagram.len()).max()?;
    let mut messages = Messages::new();
    // Destination of the last message, if more datagrams can be added to it.
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

/// Sends messages of the given numbers of datagrams, and returns how many messages were sent.
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
        // Exactly the used bytes: the kernel rejects trailing ones as malformed.
        let bytes: usize = control.iter().map(space).sum();
        let room = || (bytes > 0).then(|| Vec::with_capacity(bytes));
        HEADERS.with_borrow_mut(|headers| {
            let headers = headers.entry(bytes).or_insert_with(|| MultiHeaders::preallocate(MAX_BATCH, room()));
            let flags = MsgFlags::MSG_DONTWAIT;
            sendmmsg(socket.as_raw_fd(), headers, &slices, &addresses, control, flags).map(Iterator::count)
        })
    })
}

/// Sends a datagram from a local address and with an ECN codepoint.
pub(in crate::socket) fn send(socket: &impl AsRawFd, datagram: &[u8], departure: &Departure) -> io::Result<()> {
    let to = SockaddrStorage::from(departure.to);
    with_control(departure, None, |control| {
        sendmsg(socket.as_raw_fd(), &[IoSlice::new(datagram)], control, MsgFlags::MSG_DONTWAIT, Some(&to))
    })?;
    Ok(())
}

/// Calls `send` with the control messages for a departure and a segment size.
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

/// Returns the space of a control message of [`with_control`].
fn space(control: &ControlMessage<'_>) -> usize {
    match control {
        ControlMessage::Ipv4PacketInfo(_) => cmsg_space::<libc::in_pktinfo>(),
        ControlMessage::Ipv6PacketInfo(_) => cmsg_space::<libc::in6_pktinfo>(),
        ControlMessage::Ipv4Tos(_) => cmsg_space::<u8>(),
        ControlMessage::UdpGsoSegments(_) => cmsg_space::<u16>(),
        _ => cmsg_space::<i32>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the segment size and messages for datagrams given as (bytes, port).
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
    fn what_might_be_too_large_for_a_path_is_no_part_of_a_message() {
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
