//! Classification of socket errors.

use std::io;

#[cfg(target_os = "linux")]
use super::linux;

/// Whether the network has no route to the peer, rather than the datagram or socket being at fault.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown
    )
}

/// Whether the error concerns an earlier datagram to some peer, not the socket.
pub(crate) fn is_about_a_peer(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    if linux::is_of_icmp(error) {
        return true;
    }
    is_unreachable(error) || error.kind() == io::ErrorKind::ConnectionReset
}

/// Whether the error is temporary, so that a retransmission may succeed.
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
