//! What Linux tells of a datagram beyond its bytes and its sender.
//!
//! - To which of our addresses it was sent (IP_PKTINFO, IPV6_PKTINFO), so that a server with several addresses answers
//!   from the one that it was asked at, without which the client would not accept the answer (RFC 7252 §5.3.2); and
//!   whether that is an address of ours at all, or one of a group or of everybody (RFC 7252 §8).
//! - Its ECN codepoint (IP_TOS, IPV6_TCLASS; RFC 3168 §5).
//! - Where several datagrams of one sender end that have come as one (UDP_GRO).
//! - ICMP errors of datagrams of ours, also for an unconnected socket (IP_RECVERR). Each quotes the beginning of our
//!   datagram, with which the endpoint tells a forged error from a genuine one. Of which
//!   address of ours an error is, the kernel does not say (its `ipi_spec_dst` is 0.0.0.0), nor need it.

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

use super::Address;
use super::socket::Arrival;
pub(super) use descriptor::Descriptor;
pub(super) use send::{Sender, send};

/// ICMP Destination Unreachable (RFC 792); all codes but "fragmentation needed" mean that the datagram is lost for good.
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// ICMPv6 Destination Unreachable (RFC 4443 §3.1).
const DESTINATION_UNREACHABLE_V6: u8 = 1;

/// The two bits of the type of service or traffic class that are for ECN.
const ECN_MASK: u8 = 0b11;

/// So many datagrams go at once at most.
pub(super) const MOST: usize = 32;

/// Room for what comes with a datagram or an error: what is asked for below, and what the user of a
/// socket of their own has asked for, such as timestamps. Of what does not fit nothing could be read.
const CONTROL_BYTES: usize = 1024;

/// Room for what comes with datagrams.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) of_one: Vec<u8>,
    /// How much it takes for each of several, in bytes: all of it is cleared for each batch.
    of_each: usize,
    /// Of an IPv6 socket.
    v6: bool,
}

impl Control {
    /// Has a socket tell all this. Where to a datagram was sent is asked only if `many` addresses are possible, or that of a
    /// group: otherwise it is known.
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
/// On a socket of ours, datagrams that have come as one may also leave the kernel as one (UDP_GRO). Others that read a user's would be surprised.
fn hear(socket: &socket2::Socket, v6: bool, many: bool, ours: bool) -> io::Result<()> {
    if ours {
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
    }
    setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
    // Without this, whoever joins a group on this host makes all sockets members (ip(7)). Like ECN, not all kernels have it,
    // and all goes well without: what comes for a group is told apart below.
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

/// The next datagram, now at the front of the buffer; or several that have come as one.
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

/// The same for as many as there are parts of the buffer, each with where it begins. The answer is how many of these were needed. An error
/// is of one of them; the others have arrived.
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

/// From senders with such addresses, as all of a socket have.
fn receive_several_from<'a, S: SockaddrLike + Copy + Into<SocketAddr>>(
    socket: RawFd,
    parts: impl Iterator<Item = (usize, &'a mut [u8])>,
    control: usize,
    arrived: &mut VecDeque<Arrival>,
) -> io::Result<usize> {
    let mut starts: SmallVec<[usize; MOST]> = SmallVec::new();
    let mut slices: [_; MOST] = std::array::from_fn(|_| [IoSliceMut::new(&mut [])]);
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

/// What has arrived with a message that begins there.
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
                // What was sent to a group or to everybody, the kernel would answer from another address than that.
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

/// The next queued error: whom the datagram was for that it is about, and how many of that one's bytes are now at the
/// front of the buffer. `None` if the error is of a kind that must not end an exchange (RFC 7252 §4.2).
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

/// What the kernel makes of the ICMP errors (`icmp_err_convert`, `icmpv6_err_convert`) that are no other error's kind as
/// well. Whatever the socket does next fails with it, so that a forged one must not pass for an error of that.
pub(super) fn is_of_icmp(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    let protocol = [Errno::ENOPROTOOPT, Errno::EOPNOTSUPP, Errno::EPROTO, Errno::EACCES];
    let path = [Errno::EMSGSIZE, Errno::EHOSTDOWN, Errno::ENONET];
    errno.is_some_and(|errno| protocol.contains(&errno) || path.contains(&errno))
}

/// The kernel had no memory or room for the datagram just now.
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
