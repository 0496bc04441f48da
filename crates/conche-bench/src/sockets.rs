//! A thread's connected sockets: batched datagrams, exact timers. Readiness is edge-triggered: read
//! until empty.

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

const AT_ONCE: usize = 64;

const READY_AT_ONCE: usize = 256;

/// For bursts.
const BUFFER: usize = 1 << 20;

const TRIES: usize = 100;

const ALARM: Token = Token(usize::MAX);

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
    /// The first `waiting` are filled.
    outgoing: Vec<Box<[u8]>>,
    leaving: [usize; AT_ONCE],
    waiting: usize,
    lane: u32,
    pub(crate) refused: Vec<u32>,
    pub(crate) dropped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadResult {
    pub(crate) datagrams: usize,
    pub(crate) more: bool,
}

impl Sockets {
    pub(crate) fn new(target: SocketAddr, local: Option<IpAddr>, message_bytes: usize) -> io::Result<Self> {
        let poll = Poll::new()?;
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        let buffers = || (0..AT_ONCE).map(|_| vec![0; message_bytes].into_boxed_slice()).collect();
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

    pub(crate) fn open(&mut self) -> io::Result<u32> {
        let lane = u32::try_from(self.sockets.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let socket = Socket::new(Domain::for_address(self.target), Type::DGRAM, Some(Protocol::UDP))?;
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

    /// Waits, with sub-millisecond precision if `exact`; adds lanes with possible datagrams to
    /// `ready`.
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

    #[inline]
    pub(crate) fn receive(&mut self, lane: u32, expected: usize) -> ReadResult {
        let socket = &self.sockets[lane as usize];
        let room = expected.clamp(1, AT_ONCE - 1) + 1;
        match self.batch.receive(socket, &mut self.incoming[..room], &mut self.lengths) {
            Ok(datagrams) => ReadResult { datagrams, more: datagrams == room },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ReadResult { datagrams: 0, more: false },
            Err(error) => {
                if is_of_the_peer(&error) {
                    self.refused.push(lane);
                }
                // An earlier datagram's error.
                ReadResult { datagrams: 0, more: true }
            }
        }
    }

    #[inline]
    pub(crate) fn received(&self, number: usize) -> &[u8] {
        &self.incoming[number][..self.lengths[number]]
    }

    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        &mut self.outgoing[self.waiting]
    }

    /// Returns whether it sent another lane's datagrams first, which takes time.
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

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::ConnectionReset | Kind::HostUnreachable | Kind::NetworkUnreachable
    )
}
