//! One UDP socket: datagrams in batches, and the ICMP errors of what was sent.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Room for bursts, as far as the operating system grants it. Its usual 208 KiB hold only about 300 small datagrams,
/// since each is charged with the kernel's own overhead.
const BUFFER: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    local: SocketAddr,
}

/// What came out of the socket.
pub(super) enum Received {
    /// A datagram of so many bytes, at the front of the buffer.
    Datagram { from: SocketAddr, length: usize },
    /// A datagram of ours could not be delivered; so many bytes of it, at the front of the buffer, are quoted.
    Unreachable { peer: SocketAddr, quoted: usize },
    /// Nothing more for now.
    Nothing,
}

impl Socket {
    /// Binds a socket; one bound to `[::]` also serves IPv4.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), socket2::Type::DGRAM, Some(Protocol::UDP))?;
        if address.ip() == Ipv6Addr::UNSPECIFIED {
            socket.set_only_v6(false)?;
        }
        // More is better, but less is no error.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        #[cfg(target_os = "linux")]
        super::icmp::enable(&socket, address.is_ipv6())?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let io = UdpSocket::from_std(socket.into())?;
        let local = io.local_addr()?;
        Ok(Self { io, local })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Waits until there may be something to receive.
    pub(super) async fn ready(&self) -> io::Result<()> {
        self.io.ready(Interest::READABLE.add(Interest::ERROR)).await.map(drop)
    }

    /// What has arrived, without waiting.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(unreachable) = self.unreachable(buffer)? {
            return Ok(unreachable);
        }
        match self.io.try_recv_from(buffer) {
            Ok((length, from)) => Ok(Received::Datagram { from, length }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    #[cfg(target_os = "linux")]
    fn unreachable(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match self.io.try_io(Interest::ERROR, || super::icmp::receive(&self.io, buffer)) {
            Ok(Some((peer, quoted))) => Ok(Some(Received::Unreachable { peer, quoted })),
            Ok(None) => self.unreachable(buffer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn unreachable(&self, _: &mut [u8]) -> io::Result<Option<Received>> {
        Ok(None)
    }

    /// Sends a datagram, after waiting for room if the operating system's buffer is full.
    ///
    /// An error that an earlier datagram caused is reported by whatever the socket does next and then forgotten; hence
    /// one more try tells whether this datagram is meant.
    pub(super) async fn send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        match self.io.send_to(datagram, to).await {
            Ok(_) => Ok(()),
            Err(_) => self.io.send_to(datagram, to).await.map(drop),
        }
    }
}

/// The network has no way to the peer, as opposed to something that is wrong with the datagram or the socket.
pub(super) fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown
    )
}

/// The error says something of a datagram that was sent to some peer before, and nothing of the socket.
pub(super) fn is_about_a_peer(error: &io::Error) -> bool {
    is_unreachable(error) || error.kind() == io::ErrorKind::ConnectionReset
}
