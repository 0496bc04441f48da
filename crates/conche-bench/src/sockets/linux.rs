//! What Linux has: many datagrams a system call, and timers of nanoseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io::{IoSlice, IoSliceMut};

use super::AT_ONCE;

/// Below so many datagrams fewer headers are made.
const FEW: usize = 8;

/// What the system calls need.
#[derive(Debug)]
pub(crate) struct Batch {
    headers: MultiHeaders<()>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { headers: MultiHeaders::preallocate(AT_ONCE, None) }
    }

    /// Takes datagrams into these buffers; the answer is how many.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        socket: &UdpSocket,
        buffers: &mut [Box<[u8]>],
        lengths: &mut [usize],
    ) -> io::Result<usize> {
        if buffers.len() <= FEW {
            self.receive_up_to::<FEW>(socket, buffers, lengths)
        } else {
            self.receive_up_to::<AT_ONCE>(socket, buffers, lengths)
        }
    }

    fn receive_up_to<const MOST: usize>(
        &mut self,
        socket: &UdpSocket,
        buffers: &mut [Box<[u8]>],
        lengths: &mut [usize],
    ) -> io::Result<usize> {
        let count = buffers.len();
        let mut buffers = buffers.iter_mut();
        let mut parts: [[IoSliceMut<'_>; 1]; MOST] =
            std::array::from_fn(|_| [IoSliceMut::new(buffers.next().map(|buffer| &mut **buffer).unwrap_or_default())]);
        let flags = MsgFlags::MSG_DONTWAIT;
        let came = recvmmsg(socket.as_raw_fd(), &mut self.headers, parts[..count].iter_mut(), flags, None)?;
        let mut datagrams = 0;
        for (length, message) in lengths.iter_mut().zip(came) {
            *length = message.bytes;
            datagrams += 1;
        }
        Ok(datagrams)
    }

    /// Sends so many bytes of each buffer; the answer is how many of them left, one at least.
    #[inline]
    pub(crate) fn send(&mut self, socket: &UdpSocket, buffers: &[Box<[u8]>], lengths: &[usize]) -> io::Result<usize> {
        if let ([buffer], [length]) = (buffers, lengths) {
            return socket.send(&buffer[..*length]).map(|_| 1);
        }
        let count = buffers.len();
        let mut datagrams = buffers.iter().zip(lengths);
        let parts: [[IoSlice<'_>; 1]; AT_ONCE] =
            std::array::from_fn(|_| [IoSlice::new(datagrams.next().map_or(&[], |(buffer, length)| &buffer[..*length]))]);
        let (addresses, flags) = ([None::<()>; AT_ONCE], MsgFlags::MSG_DONTWAIT);
        let sent = sendmmsg(socket.as_raw_fd(), &mut self.headers, parts[..count].iter(), addresses, [], flags)?;
        Ok(sent.count())
    }
}

/// Ends a wait at a time that has no whole milliseconds, as those of `epoll` have.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: TimerFd,
}

impl Alarm {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        registry.register(&mut SourceFd(&timer.as_fd().as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { timer })
    }

    /// Rings after so long; the answer is how long a wait may be that is ended by it.
    pub(crate) fn within(&self, longest: Option<Duration>) -> io::Result<Option<Duration>> {
        let Some(longest) = longest.filter(|longest| !longest.is_zero()) else { return Ok(longest) };
        // To set it anew makes it forget that it has rung.
        self.timer.set(Expiration::OneShot(TimeSpec::from_duration(longest)), TimerSetTimeFlags::empty())?;
        Ok(None)
    }
}
