//! Linux: many datagrams per system call, and nanosecond timers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::errno::Errno;
use nix::sys::socket::sockopt::UdpGsoSegment;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, recvmmsg, sendmmsg, sendmsg, setsockopt};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{IoSlice, IoSliceMut};

use super::AT_ONCE;

const FEW: usize = 8;

/// Maximum IPv4 UDP payload, and of a segmented send.
const LARGEST_DATAGRAM: usize = 65_507;

#[derive(Debug)]
pub(crate) struct Batch {
    headers: MultiHeaders<()>,
    /// UDP_SEGMENT: the kernel splits a large datagram.
    segments: bool,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { headers: MultiHeaders::preallocate(AT_ONCE, None), segments: can_segment() }
    }

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

    /// Returns the datagrams sent, at least one.
    #[inline]
    pub(crate) fn send(&mut self, socket: &UdpSocket, buffers: &[Box<[u8]>], lengths: &[usize]) -> io::Result<usize> {
        if let ([buffer], [length]) = (buffers, lengths) {
            return socket.send(&buffer[..*length]).map(|_| 1);
        }
        let count = buffers.len();
        let mut datagrams = buffers.iter().zip(lengths);
        let parts: [[IoSlice<'_>; 1]; AT_ONCE] = std::array::from_fn(|_| {
            [IoSlice::new(datagrams.next().map_or(&[], |(buffer, length)| &buffer[..*length]))]
        });
        if self.segments {
            match send_segments(socket, &parts[..count], lengths) {
                Some(Ok(sent)) => return Ok(sent),
                // No device support, or segments beyond its MTU.
                Some(Err(Errno::EINVAL | Errno::EIO | Errno::ENOPROTOOPT | Errno::EMSGSIZE)) => self.segments = false,
                Some(Err(error)) => return Err(error.into()),
                None => {}
            }
        }
        let (addresses, flags) = ([None::<()>; AT_ONCE], MsgFlags::MSG_DONTWAIT);
        let sent = sendmmsg(socket.as_raw_fd(), &mut self.headers, parts[..count].iter(), addresses, [], flags)?;
        Ok(sent.count())
    }
}

/// Kernels before 4.18 refuse the socket option, but ignore the control message and would send a
/// batch as one datagram.
fn can_segment() -> bool {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP));
    socket.is_ok_and(|socket| setsockopt(&socket, UdpGsoSegment, &0).is_ok())
}

/// `None` for fewer than two.
fn send_segments(socket: &UdpSocket, parts: &[[IoSlice<'_>; 1]], lengths: &[usize]) -> Option<Result<usize, Errno>> {
    let size = *lengths.first()?;
    let most = LARGEST_DATAGRAM.checked_div(size)?;
    let same = lengths.iter().take(most).take_while(|length| **length == size).count();
    let shorter = lengths.get(same).is_some_and(|length| *length < size && same < most);
    let count = same + usize::from(shorter);
    let segment = u16::try_from(size).ok().filter(|_| count > 1)?;
    let control = [ControlMessage::UdpGsoSegments(&segment)];
    let sent = sendmsg::<()>(socket.as_raw_fd(), parts[..count].as_flattened(), &control, MsgFlags::MSG_DONTWAIT, None);
    Some(sent.map(|_| count))
}

/// With sub-millisecond precision, which `epoll` lacks.
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

    pub(crate) fn within(&self, longest: Duration) -> io::Result<Option<Duration>> {
        if longest.is_zero() {
            return Ok(Some(longest));
        }
        self.timer.set(Expiration::OneShot(TimeSpec::from_duration(longest)), TimerSetTimeFlags::empty())?;
        Ok(None)
    }
}
