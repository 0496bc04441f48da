//! What every operating system has: one datagram a system call, and timers of milliseconds.

use std::io;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Registry, Token};

/// No state is needed.
#[derive(Debug)]
pub(crate) struct Batch;

impl Batch {
    pub(crate) fn new() -> Self {
        Self
    }

    /// Takes datagrams into these buffers; the answer is how many.
    pub(crate) fn receive(
        &mut self,
        socket: &UdpSocket,
        buffers: &mut [Box<[u8]>],
        lengths: &mut [usize],
    ) -> io::Result<usize> {
        let mut datagrams = 0;
        for (buffer, length) in buffers.iter_mut().zip(lengths) {
            match socket.recv(buffer) {
                Ok(bytes) => *length = bytes,
                Err(error) if datagrams == 0 => return Err(error),
                Err(_) => break,
            }
            datagrams += 1;
        }
        Ok(datagrams)
    }

    /// Sends so many bytes of each buffer; the answer is how many of them left, one at least.
    pub(crate) fn send(&mut self, socket: &UdpSocket, buffers: &[Box<[u8]>], lengths: &[usize]) -> io::Result<usize> {
        let (Some(buffer), Some(length)) = (buffers.first(), lengths.first()) else { return Ok(0) };
        socket.send(&buffer[..*length]).map(|_| 1)
    }
}

/// Ends a wait before its last millisecond, which is spent without waiting.
#[derive(Debug)]
pub(crate) struct Alarm;

impl Alarm {
    pub(crate) fn new(_: &Registry, _: Token) -> io::Result<Self> {
        Ok(Self)
    }

    /// How long a wait may be that is to end after so long.
    pub(crate) fn within(&self, longest: Duration) -> io::Result<Option<Duration>> {
        Ok(Some(Duration::from_millis(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX))))
    }
}
