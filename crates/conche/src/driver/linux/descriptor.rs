//! [`Descriptor`]: a socket of which tokio tells what can be received, and nothing else.
//!
//! To tokio's own sockets the kernel says as well that there is room to send, and says it again whenever a datagram has left. So a task that
//! sends and then sleeps is woken up once for nothing.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A UDP socket that does not block.
#[derive(Debug)]
pub(in crate::driver) struct Descriptor(AsyncFd<UdpSocket>);

impl Descriptor {
    pub(in crate::driver) fn from_std(socket: UdpSocket) -> io::Result<Self> {
        told(socket, Interest::READABLE.add(Interest::ERROR)).map(Self)
    }

    /// Waits until there may be something to receive, or an error, as is asked for.
    pub(in crate::driver) async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.0.ready(interest).await.map(drop)
    }

    /// Receives, if there may be something. `WouldBlock` says that there is nothing more.
    pub(in crate::driver) fn try_io<T>(
        &self,
        interest: Interest,
        receive: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.0.try_io(interest, |_| receive())
    }

    pub(in crate::driver) fn try_send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.0.get_ref().send_to(datagram, to)
    }

    /// Waits until there is room to send, which there nearly always is: for this once tokio is told of the socket under another number.
    pub(in crate::driver) async fn writable(&self) -> io::Result<()> {
        let socket = told(self.0.get_ref().try_clone()?, Interest::WRITABLE)?;
        socket.ready(Interest::WRITABLE).await.map(drop)
    }
}

/// Has tokio told of this.
#[allow(
    deprecated,
    reason = "what is to take its place is unsafe, for types whose number may change: that of a socket does not"
)]
fn told(socket: UdpSocket, interest: Interest) -> io::Result<AsyncFd<UdpSocket>> {
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
