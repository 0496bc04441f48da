//! What Linux tells of a datagram beyond its bytes and its sender.
//!
//! - To which of our addresses it was sent (IP_PKTINFO, IPV6_PKTINFO), so that a server with several addresses answers
//!   from the one that it was asked at, without which the client would not accept the answer (RFC 7252 §5.3.2); and
//!   whether that is an address of ours at all, or one of a group or of everybody (RFC 7252 §8).
//! - Its ECN codepoint (IP_TOS, IPV6_TCLASS; RFC 3168 §5).
//! - ICMP errors of datagrams of ours, also for an unconnected socket (IP_RECVERR). Each quotes the beginning of our
//!   datagram, with which the endpoint tells a forged error from a genuine one. Of which
//!   address of ours an error is, the kernel does not say (its `ipi_spec_dst` is 0.0.0.0), nor need it.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use conche_proto::Ecn;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};

use super::Address;
use super::socket::{Arrival, Departure};

/// ICMP Destination Unreachable (RFC 792); all codes but "fragmentation needed" mean that the datagram is lost for good.
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// ICMPv6 Destination Unreachable (RFC 4443 §3.1).
const DESTINATION_UNREACHABLE_V6: u8 = 1;

/// The two bits of the type of service or traffic class that are for ECN.
const ECN_MASK: u8 = 0b11;

/// Room for what comes with a datagram or an error: about 200 bytes of what is asked for below, and what the user of a
/// socket of their own has asked for, such as timestamps. Of what does not fit nothing could be read.
const CONTROL_BYTES: usize = 1024;

pub(super) fn control_buffer() -> Vec<u8> {
    vec![0; CONTROL_BYTES]
}

/// Has the socket tell all this. Where to a datagram was sent is asked only if `many` addresses are possible, or that of a
/// group: otherwise it is known.
///
/// An IPv6 socket that also serves IPv4 has the options of both.
pub(super) fn hear(socket: &socket2::Socket, v6: bool, many: bool) -> io::Result<()> {
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

/// The next datagram, of which so many bytes are now at the front of the buffer.
pub(super) fn receive(socket: &impl AsRawFd, buffer: &mut [u8], control: &mut [u8]) -> io::Result<Arrival> {
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(control), MsgFlags::MSG_DONTWAIT)?;
    let from = address(message.address.as_ref()).ok_or(io::ErrorKind::InvalidData)?;
    let mut arrival = Arrival::new(from, message.bytes);
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
            _ => {}
        }
    }
    arrival.local = arrival.local.filter(|_| !arrival.multicast);
    Ok(arrival)
}

/// Sends a datagram from the local address and with the codepoint that are asked for.
pub(super) fn send(socket: &impl AsRawFd, datagram: &[u8], departure: &Departure) -> io::Result<()> {
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
    let control: smallvec::SmallVec<[_; 2]> = local.into_iter().chain(ecn).collect();
    let to = SockaddrStorage::from(departure.to);
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(datagram)], &control, MsgFlags::MSG_DONTWAIT, Some(&to))?;
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
