//! One UDP socket: datagrams in batches, and the ICMP errors of what was sent.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol};
use tokio::io::Interest;
use tokio::net::UdpSocket;

#[cfg(target_os = "linux")]
use super::linux;
use super::{Path, Role};

/// Room for bursts, as far as the operating system grants it. Its usual 208 KiB hold only about 300 small datagrams,
/// since each is charged with the kernel's own overhead.
const BUFFER: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    local: SocketAddr,
    /// It has several addresses and must answer from the one that it was asked at.
    #[cfg(target_os = "linux")]
    hears_destinations: bool,
    #[cfg(target_os = "linux")]
    control: Vec<u8>,
}

/// What came out of the socket.
pub(super) enum Received {
    /// A datagram of so many bytes, at the front of the buffer.
    Datagram { from: Path, length: usize },
    /// A datagram of ours could not be delivered; so many bytes of it, at the front of the buffer, are quoted.
    Unreachable { peer: Path, quoted: usize },
    /// Nothing more for now.
    Nothing,
}

impl Socket {
    /// Binds a socket; one bound to `[::]` also serves IPv4.
    pub(super) fn bind(address: SocketAddr, role: Role) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::for_address(address), socket2::Type::DGRAM, Some(Protocol::UDP))?;
        if address.ip() == Ipv6Addr::UNSPECIFIED {
            socket.set_only_v6(role == Role::Client)?;
        }
        // More is better, but less is no error.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        #[cfg(target_os = "linux")]
        let hears_destinations = role == Role::Server && address.ip().is_unspecified();
        #[cfg(target_os = "linux")]
        {
            linux::hear_icmp_errors(&socket, address.is_ipv6())?;
            if hears_destinations {
                linux::hear_destinations(&socket, address.is_ipv6())?;
            }
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let io = UdpSocket::from_std(socket.into())?;
        Ok(Self {
            local: io.local_addr()?,
            io,
            #[cfg(target_os = "linux")]
            hears_destinations,
            #[cfg(target_os = "linux")]
            control: linux::control_buffer(),
        })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Waits until there may be something to receive.
    pub(super) async fn ready(&self) -> io::Result<()> {
        self.io.ready(Interest::READABLE.add(Interest::ERROR)).await.map(drop)
    }

    /// What has arrived, without waiting.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(unreachable) = self.unreachable(buffer)? {
            return Ok(unreachable);
        }
        match self.datagram(buffer) {
            Ok((from, length)) => Ok(Received::Datagram { from, length }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    #[cfg(target_os = "linux")]
    fn unreachable(&mut self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let Self { io, control, .. } = self;
        loop {
            match io.try_io(Interest::ERROR, || linux::receive_error(io, buffer, control)) {
                Ok(Some((peer, quoted))) => return Ok(Some(Received::Unreachable { peer, quoted })),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn unreachable(&mut self, _: &mut [u8]) -> io::Result<Option<Received>> {
        Ok(None)
    }

    fn datagram(&mut self, buffer: &mut [u8]) -> io::Result<(Path, usize)> {
        #[cfg(target_os = "linux")]
        if self.hears_destinations {
            let Self { io, control, .. } = self;
            return io.try_io(Interest::READABLE, || linux::receive(io, buffer, control));
        }
        self.io.try_recv_from(buffer).map(|(length, peer)| (Path { peer, local: None }, length))
    }

    /// Sends a datagram, after waiting for room if the operating system's buffer is full.
    ///
    /// An error that an earlier datagram caused is reported by whatever the socket does next and then forgotten; hence
    /// one more try tells whether this datagram is meant.
    pub(super) async fn send(&self, datagram: &[u8], to: Path) -> io::Result<()> {
        match self.send_once(datagram, to).await {
            Ok(()) => Ok(()),
            Err(_) => self.send_once(datagram, to).await,
        }
    }

    async fn send_once(&self, datagram: &[u8], to: Path) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(local) = to.local {
            return self.io.async_io(Interest::WRITABLE, || linux::send(&self.io, datagram, to.peer, local)).await;
        }
        self.io.send_to(datagram, to.peer).await.map(drop)
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
