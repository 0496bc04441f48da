//! Other operating systems: one datagram per system call, and millisecond timers.

use std::io;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Registry, Token};

#[derive(Debug)]
pub(crate) struct Batch;

impl Batch {
    pub(crate) fn new() -> Self {
        Self
    }

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

    pub(crate) fn send(&mut self, socket: &UdpSocket, buffers: &[Box<[u8]>], lengths: &[usize]) -> io::Result<usize> {
        let (Some(buffer), Some(length)) = (buffers.first(), lengths.first()) else { return Ok(0) };
        socket.send(&buffer[..*length]).map(|_| 1)
    }
}

/// Ends a wait before its last millisecond, which the caller polls.
#[derive(Debug)]
pub(crate) struct Alarm;

impl Alarm {
    pub(crate) fn new(_: &Registry, _: Token) -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn within(&self, longest: Duration) -> io::Result<Option<Duration>> {
        Ok(Some(Duration::from_millis(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX))))
    }
}
