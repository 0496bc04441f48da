//! [`Descriptor`]: a socket that tokio polls for reading only.
//!
//! tokio's own sockets also report writability, again after each datagram sent, so a task that
//! sends and then sleeps would be woken once for nothing.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A non-blocking UDP socket.
#[derive(Debug)]
pub(in crate::socket) struct Descriptor(AsyncFd<UdpSocket>);

impl Descriptor {
    pub(in crate::socket) fn from_std(socket: UdpSocket) -> io::Result<Self> {
        register(socket, Interest::READABLE.add(Interest::ERROR)).map(Self)
    }

    /// Waits until there may be a datagram or an error, as requested.
    pub(in crate::socket) async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.0.ready(interest).await.map(drop)
    }

    /// Receives, if there may be something. `WouldBlock` means that nothing more is queued.
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

    /// Waits for room to send. This is rare, so a duplicate of the descriptor is registered with
    /// tokio only for this wait.
    pub(in crate::socket) async fn writable(&self) -> io::Result<()> {
        let socket = register(self.0.get_ref().try_clone()?, Interest::WRITABLE)?;
        socket.ready(Interest::WRITABLE).await.map(drop)
    }
}

/// Registers the socket with tokio.
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
