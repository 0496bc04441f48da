//! Loopback addresses that a test's server binds, closes and binds again.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port tried, below the ephemeral range (Linux: 32768 to 60999), so that no other socket
/// takes a port while it is closed.
const FIRST_PORT: u16 = 16_384;

/// On Linux each process has its own host of 127.0.0.0/8; elsewhere the host is 127.0.0.1.
pub fn own_address() -> SocketAddr {
    own_addresses(1)
}

/// Returns the first of `ports` addresses with consecutive ports, like [`own_address`]'s.
pub fn own_addresses(ports: u16) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(FIRST_PORT);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    // A Linux process ID has at most 22 bits; 127.64.0.0/10 does not contain 127.0.0.1.
    let host = match cfg!(target_os = "linux") {
        true => Ipv4Addr::new(127, 64 | (high & 0x3f), middle, low),
        false => Ipv4Addr::LOCALHOST,
    };
    loop {
        let first = NEXT.fetch_add(ports, Ordering::Relaxed);
        let is_free = |port| UdpSocket::bind((host, port)).is_ok();
        if (first..first + ports).all(is_free) {
            return (host, first).into();
        }
    }
}
