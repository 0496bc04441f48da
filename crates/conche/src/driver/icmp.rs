//! ICMP errors of an unconnected socket, as Linux queues them (IP_RECVERR).
//!
//! Each quotes the beginning of our own datagram, with which the endpoint tells a forged error from a genuine one.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};

/// ICMP Destination Unreachable (RFC 792); all codes but "fragmentation needed" mean that the datagram is lost for good.
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// ICMPv6 Destination Unreachable (RFC 4443 §3.1).
const DESTINATION_UNREACHABLE_V6: u8 = 1;

pub(super) fn enable(socket: &socket2::Socket, v6: bool) -> io::Result<()> {
    // An IPv6 socket that also serves IPv4 hears of both kinds.
    setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
    if v6 {
        setsockopt(socket, sockopt::Ipv6RecvErr, &true)?;
    }
    Ok(())
}

/// The next queued error: whom the datagram was for and how many of its bytes are now at the front of the buffer. `None`
/// if the error is of a kind that must not end an exchange (RFC 7252 §4.2).
pub(super) fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<Option<(SocketAddr, usize)>> {
    let mut control = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let mut parts = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_ERRQUEUE)?;
    let unreachable = message.cmsgs()?.any(|control| match control {
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
            is_unreachable(&error)
        }
        _ => false,
    });
    let peer = message.address.as_ref().and_then(socket_address);
    Ok(peer.filter(|_| unreachable).map(|peer| (peer, message.bytes)))
}

fn is_unreachable(error: &libc::sock_extended_err) -> bool {
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => error.ee_type == DESTINATION_UNREACHABLE && error.ee_code != FRAGMENTATION_NEEDED,
        libc::SO_EE_ORIGIN_ICMP6 => error.ee_type == DESTINATION_UNREACHABLE_V6,
        _ => false,
    }
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = || address.as_sockaddr_in().map(|address| SocketAddrV4::from(*address).into());
    let v6 = || address.as_sockaddr_in6().map(|address| SocketAddrV6::from(*address).into());
    v4().or_else(v6)
}
