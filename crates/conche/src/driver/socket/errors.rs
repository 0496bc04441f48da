//! What the errors of a socket are about.

use std::io;

#[cfg(target_os = "linux")]
use crate::driver::linux;

/// The network has no way to the peer, as opposed to something that is wrong with the datagram or the socket.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown
    )
}

/// The error says something of a datagram that was sent to some peer before, and nothing of the socket.
pub(in crate::driver) fn is_about_a_peer(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    if linux::is_of_icmp(error) {
        return true;
    }
    is_unreachable(error) || error.kind() == io::ErrorKind::ConnectionReset
}

/// The datagram is lost as any may be: the next copy may leave.
pub(in crate::driver) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    // Refused and reset are errors of earlier datagrams, whatever is sent now.
    if matches!(error.kind(), Kind::ConnectionRefused | Kind::ConnectionReset | Kind::WouldBlock | Kind::Interrupted) {
        return true;
    }
    #[cfg(target_os = "linux")]
    if linux::is_passing(error) {
        return true;
    }
    error.kind() == Kind::OutOfMemory
}
