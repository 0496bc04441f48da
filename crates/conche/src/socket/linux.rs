//! Linux: metadata of received datagrams, batched receives, and ICMP errors.
//!
//! - Local address (IP_PKTINFO, IPV6_PKTINFO): a server with several addresses must respond from
//!   the one that received the request, or the client rejects the response (RFC 7252 §5.3.2). It
//!   also shows whether the datagram was multicast or broadcast (RFC 7252 §8).
//! - ECN codepoint (IP_TOS, IPV6_TCLASS; RFC 3168 §5).
//! - Boundaries of several datagrams from one sender that the kernel merged (UDP_GRO).
//! - ICMP errors about our datagrams, also for an unconnected socket (IP_RECVERR). Each quotes the
//!   start of our datagram, by which the endpoint distinguishes genuine from forged errors. The
//!   kernel does not report the local address of an error (its `ipi_spec_dst` is 0.0.0.0); it is
//!   not needed.

mod descriptor;
mod send;

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};

use conche_proto::Ecn;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrIn, SockaddrIn6, SockaddrLike, SockaddrStorage,
    cmsg_space, recvmmsg, recvmsg, setsockopt, sockopt,
};
use smallvec::SmallVec;

use super::Arrival;
use crate::address::Address;
pub(super) use descriptor::Descriptor;
pub(super) use send::{Sender, send};

/// ICMP Destination Unreachable (RFC 792). All codes but "fragmentation needed" mean that the
/// datagram is lost for good.
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// ICMPv6 Destination Unreachable (RFC 4443 §3.1).
const DESTINATION_UNREACHABLE_V6: u8 = 1;

/// The ECN bits of the type of service or traffic class.
const ECN_MASK: u8 = 0b11;

/// Maximum batch size.
pub(super) const MAX_BATCH: usize = 32;

/// Room for the control messages of a datagram or an error: those requested below, and those that
/// the user of a given socket requested, such as timestamps. If they do not fit, none can be read.
const CONTROL_BYTES: usize = 1024;

/// Buffers for control messages.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) of_one: Vec<u8>,
    /// Bytes per datagram of a batch; all of it is cleared for each batch.
    of_each: usize,
    /// Whether the socket is IPv6.
    v6: bool,
}

impl Control {
    /// Requests control messages from a socket. The local address is requested only if `many` are
    /// possible, multicast addresses included; otherwise it is known.
    pub(super) fn of(socket: &socket2::Socket, v6: bool, many: bool, ours: bool) -> io::Result<Self> {
        hear(socket, v6, many, ours)?;
        let of_v4 = cmsg_space::<u8>() + if many { cmsg_space::<libc::in_pktinfo>() } else { 0 };
        let of_v6 = cmsg_space::<i32>() + if many { cmsg_space::<libc::in6_pktinfo>() } else { 0 };
        let asked_for = cmsg_space::<i32>() + of_v4 + if v6 { of_v6 } else { 0 };
        let of_each = if ours { asked_for } else { CONTROL_BYTES };
        Ok(Self { of_one: vec![0; CONTROL_BYTES], of_each, v6 })
    }
}

/// See [`Control::of`]. An IPv6 socket that also serves IPv4 has the options of both.
///
/// UDP_GRO is set only on our own sockets: other readers of a user's socket would not expect merged
/// datagrams.
fn hear(socket: &socket2::Socket, v6: bool, many: bool, ours: bool) -> io::Result<()> {
    if ours {
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
    }
    setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
    // Otherwise any program on this host that joins a group adds all sockets to it (ip(7)). Not all
    // kernels support this or ECN; both are optional, since multicast datagrams are recognized
    // below.
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

/// Receives the next datagram to the front of the buffer, or several that the kernel merged.
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

/// Receives a batch: one message per part of the buffer, given with its start. Returns the number
/// of parts used. An error belongs to one message; the others have been received.
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

/// Receives a batch with this type of sender addresses, which is the same for all of a socket.
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

/// Adds the datagrams of a message that begins at `start`.
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

/// Reads the next queued error: the destination of our datagram, and how many of its bytes are at
/// the front of the buffer. `None` for errors that must not end an exchange (RFC 7252 §4.2).
pub(super) fn receive_error(
    socket: &impl AsRawFd,
    buffer: &mut [u8],
    control: &mut [u8],
) -> io::Result<Option<(Address, usize)>> {
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(control), MsgFlags::MSG_ERRQUEUE)?;
    let unreachable = message.cmsgs()?.any(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
            is_unreachable(&error)
        }
        _ => false,
    });
    Ok(address(message.address.as_ref()).filter(|_| unreachable).map(|peer| (peer, message.bytes)))
}

/// Whether the error is one that the kernel derives only from ICMP errors (`icmp_err_convert`,
/// `icmpv6_err_convert`). The next socket operation fails with it, so a forged ICMP error must not
/// count as that operation's.
pub(super) fn is_of_icmp(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    let protocol = [Errno::ENOPROTOOPT, Errno::EOPNOTSUPP, Errno::EPROTO, Errno::EACCES];
    let path = [Errno::EMSGSIZE, Errno::EHOSTDOWN, Errno::ENONET];
    errno.is_some_and(|errno| protocol.contains(&errno) || path.contains(&errno))
}

/// Whether the kernel temporarily had no memory or room for the datagram.
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
