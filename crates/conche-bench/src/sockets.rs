//! The sockets of a thread: datagrams in batches, one wait for all of them, and timers that are exact.
//!
//! Sockets are connected, so that the kernel tells them apart by itself and reports what is unreachable. Readiness is told once for
//! what has come since (edge-triggered), so whoever is told has to read all of it.

#[cfg_attr(target_os = "linux", path = "sockets/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "sockets/portable.rs")]
mod batch;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, Socket, Type};

use batch::{Alarm, Batch};

/// Datagrams that are taken or given at once.
const AT_ONCE: usize = 64;

/// Sockets that are told of at once.
const READY_AT_ONCE: usize = 256;

/// Room for bursts, as far as the operating system grants it.
const BUFFER: usize = 1 << 20;

/// How often a datagram is handed to the operating system whose buffer is full.
const TRIES: usize = 100;

/// What the operating system uses for its alarm; no lane has this number.
const ALARM: Token = Token(usize::MAX);

/// The sockets of one thread, by the number of their lane.
#[derive(Debug)]
pub(crate) struct Sockets {
    target: SocketAddr,
    local: Option<IpAddr>,
    poll: Poll,
    events: Events,
    alarm: Alarm,
    sockets: Vec<UdpSocket>,
    batch: Batch,
    incoming: Vec<Box<[u8]>>,
    lengths: [usize; AT_ONCE],
    /// Datagrams that wait to leave on one lane, of which the first `waiting` are filled.
    outgoing: Vec<Box<[u8]>>,
    leaving: [usize; AT_ONCE],
    waiting: usize,
    lane: u32,
    /// Lanes on which the network has reported the server unreachable since this was asked last.
    pub(crate) refused: Vec<u32>,
    /// Datagrams that the operating system did not take: lost, as any may be.
    pub(crate) dropped: u64,
}

/// How much came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) datagrams: usize,
    /// There may be more.
    pub(crate) more: bool,
}

impl Sockets {
    pub(crate) fn new(target: SocketAddr, local: Option<IpAddr>, message_bytes: usize) -> io::Result<Self> {
        let poll = Poll::new()?;
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        let buffers = || (0..AT_ONCE).map(|_| vec![0; message_bytes].into_boxed_slice()).collect();
        // One byte more than is allowed shows what is too long.
        let incoming = (0..AT_ONCE).map(|_| vec![0; message_bytes + 1].into_boxed_slice()).collect();
        Ok(Self {
            target,
            local,
            poll,
            events: Events::with_capacity(READY_AT_ONCE),
            alarm,
            sockets: Vec::new(),
            batch: Batch::new(),
            incoming,
            lengths: [0; AT_ONCE],
            outgoing: buffers(),
            leaving: [0; AT_ONCE],
            waiting: 0,
            lane: 0,
            refused: Vec::new(),
            dropped: 0,
        })
    }

    /// Opens a socket of its own port; the answer is its number.
    pub(crate) fn open(&mut self) -> io::Result<u32> {
        let lane = u32::try_from(self.sockets.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let socket = Socket::new(Domain::for_address(self.target), Type::DGRAM, Some(Protocol::UDP))?;
        // More is better, but less is no error.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        socket.set_nonblocking(true)?;
        if let Some(local) = self.local {
            socket.bind(&SocketAddr::new(local, 0).into())?;
        }
        socket.connect(&self.target.into())?;
        let mut socket = UdpSocket::from_std(socket.into());
        self.poll.registry().register(&mut socket, Token(lane as usize), Interest::READABLE)?;
        self.sockets.push(socket);
        Ok(lane)
    }

    /// Waits until something comes, or for so long; `exact` to less than a millisecond. The lanes on which something may have
    /// come are added to `ready`.
    pub(crate) fn wait(&mut self, longest: Duration, exact: bool, ready: &mut Vec<u32>) -> io::Result<()> {
        let longest = if exact { self.alarm.within(longest)? } else { Some(longest) };
        match self.poll.poll(&mut self.events, longest) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        let lanes = self.events.iter().filter(|event| event.token() != ALARM);
        ready.extend(lanes.filter_map(|event| u32::try_from(event.token().0).ok()));
        Ok(())
    }

    /// Takes what has come on a lane, where up to `expected` datagrams are likely.
    #[inline]
    pub(crate) fn receive(&mut self, lane: u32, expected: usize) -> Came {
        let socket = &self.sockets[lane as usize];
        let room = expected.clamp(1, AT_ONCE - 1) + 1;
        match self.batch.receive(socket, &mut self.incoming[..room], &mut self.lengths) {
            Ok(datagrams) => Came { datagrams, more: datagrams == room },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Came { datagrams: 0, more: false },
            Err(error) => {
                if is_of_the_peer(&error) {
                    self.refused.push(lane);
                }
                // It was about an earlier datagram of ours, and what has come is behind it.
                Came { datagrams: 0, more: true }
            }
        }
    }

    /// One of those that came last.
    #[inline]
    pub(crate) fn received(&self, number: usize) -> &[u8] {
        &self.incoming[number][..self.lengths[number]]
    }

    /// Where the next datagram is to be written that leaves.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        &mut self.outgoing[self.waiting]
    }

    /// The datagram that has been written to the buffer leaves on this lane, together with those that follow on it. The
    /// answer is whether others have left for it, so that time has passed.
    #[inline]
    pub(crate) fn send(&mut self, lane: u32, length: usize) -> bool {
        let mut flushed = false;
        if lane != self.lane && self.waiting > 0 {
            let last = self.waiting;
            self.flush();
            self.outgoing.swap(0, last);
            flushed = true;
        }
        self.lane = lane;
        self.leaving[self.waiting] = length;
        self.waiting += 1;
        if self.waiting == AT_ONCE {
            self.flush();
            flushed = true;
        }
        flushed
    }

    /// Everything leaves that waits to.
    pub(crate) fn flush(&mut self) {
        let (mut gone, mut tries) = (0, 0);
        let socket = &self.sockets.get(self.lane as usize);
        let Some(socket) = socket else { return };
        while gone < self.waiting {
            match self.batch.send(socket, &self.outgoing[gone..self.waiting], &self.leaving[gone..self.waiting]) {
                Ok(sent) => {
                    gone += sent;
                    tries = 0;
                }
                Err(error) => {
                    if is_of_the_peer(&error) {
                        self.refused.push(self.lane);
                    }
                    tries += 1;
                    if tries == TRIES {
                        self.dropped += 1;
                        gone += 1;
                        tries = 0;
                    } else if error.kind() == io::ErrorKind::WouldBlock {
                        std::thread::yield_now();
                    }
                }
            }
        }
        self.waiting = 0;
    }
}

/// The network says that nobody is there.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::ConnectionReset | Kind::HostUnreachable | Kind::NetworkUnreachable
    )
}
