//! What Linux tells of a datagram beyond its bytes and its sender.
//!
//! - To which of our addresses it was sent (IP_PKTINFO, IPV6_PKTINFO), so that a server with several addresses answers
//!   from the one that it was asked at, without which the client would not accept the answer (RFC 7252 §5.3.2).
//! - ICMP errors of datagrams of ours, also for an unconnected socket (IP_RECVERR). Each quotes the beginning of our
//!   datagram, with which the endpoint tells a forged error from a genuine one.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};

use super::Path;

/// ICMP Destination Unreachable (RFC 792); all codes but "fragmentation needed" mean that the datagram is lost for good.
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// ICMPv6 Destination Unreachable (RFC 4443 §3.1).
const DESTINATION_UNREACHABLE_V6: u8 = 1;

/// Room for what comes with a datagram or an error.
pub(super) fn control_buffer() -> Vec<u8> {
    nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, libc::in6_pktinfo)
}

pub(super) fn hear_icmp_errors(socket: &socket2::Socket, v6: bool) -> io::Result<()> {
    // An IPv6 socket that also serves IPv4 hears of both kinds.
    setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
    if v6 {
        setsockopt(socket, sockopt::Ipv6RecvErr, &true)?;
    }
    Ok(())
}

pub(super) fn hear_destinations(socket: &socket2::Socket, v6: bool) -> io::Result<()> {
    if v6 {
        setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
    } else {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?;
    }
    Ok(())
}

/// The next datagram: its path, and how many bytes of it are now at the front of the buffer.
pub(super) fn receive(socket: &impl AsRawFd, buffer: &mut [u8], control: &mut [u8]) -> io::Result<(Path, usize)> {
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(control), MsgFlags::MSG_DONTWAIT)?;
    let path = path(&message)?.ok_or(io::ErrorKind::InvalidData)?;
    Ok((path, message.bytes))
}

/// Sends a datagram from the local address of its path.
pub(super) fn send(socket: &impl AsRawFd, datagram: &[u8], peer: SocketAddr, local: IpAddr) -> io::Result<()> {
    let (v4, v6);
    // In an IPv6 socket an IPv4 address is written as a mapped one.
    let control = match local {
        IpAddr::V4(address) => {
            let source = libc::in_addr { s_addr: u32::from(address).to_be() };
            v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: libc::in_addr { s_addr: 0 } };
            ControlMessage::Ipv4PacketInfo(&v4)
        }
        IpAddr::V6(address) => {
            let source = libc::in6_addr { s6_addr: address.octets() };
            v6 = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: 0 };
            ControlMessage::Ipv6PacketInfo(&v6)
        }
    };
    let peer = SockaddrStorage::from(peer);
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(datagram)], &[control], MsgFlags::MSG_DONTWAIT, Some(&peer))?;
    Ok(())
}

/// The next queued error: the path of the datagram that it is about, and how many of its bytes are now at the front of
/// the buffer. `None` if the error is of a kind that must not end an exchange (RFC 7252 §4.2).
pub(super) fn receive_error(
    socket: &impl AsRawFd,
    buffer: &mut [u8],
    control: &mut [u8],
) -> io::Result<Option<(Path, usize)>> {
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(control), MsgFlags::MSG_ERRQUEUE)?;
    let unreachable = message.cmsgs()?.any(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
            is_unreachable(&error)
        }
        _ => false,
    });
    Ok(path(&message)?.filter(|_| unreachable).map(|path| (path, message.bytes)))
}

fn is_unreachable(error: &libc::sock_extended_err) -> bool {
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => error.ee_type == DESTINATION_UNREACHABLE && error.ee_code != FRAGMENTATION_NEEDED,
        libc::SO_EE_ORIGIN_ICMP6 => error.ee_type == DESTINATION_UNREACHABLE_V6,
        _ => false,
    }
}

/// The other end, and our own address where the socket hears of it and it is one that can be answered from.
fn path(message: &RecvMsg<'_, '_, SockaddrStorage>) -> io::Result<Option<Path>> {
    let address = message.address.as_ref();
    let v4 = || address?.as_sockaddr_in().map(|address| SocketAddrV4::from(*address).into());
    let v6 = || address?.as_sockaddr_in6().map(|address| SocketAddrV6::from(*address).into());
    let local = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            Some(IpAddr::from(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr))))
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(IpAddr::from(Ipv6Addr::from(info.ipi6_addr.s6_addr))),
        _ => None,
    });
    let local = local.filter(|local| !local.to_canonical().is_multicast());
    Ok(v4().or_else(v6).map(|peer| Path { peer, local }))
}
