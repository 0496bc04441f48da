//! [`Tap`]: a relay on the loopback that records every datagram, and can drop or change some.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use conche_proto::codec::{Encoder, Message, OptionNumber};

use crate::ladder::{Direction, Line};

/// Interval at which a thread checks whether the tap is closed.
const STEP: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct Captured {
    pub direction: Direction,
    pub lost: bool,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Fates {
    /// Lines that drop their first matching datagram, or each.
    pub lose: Vec<Line>,
    /// Added to the first matching datagram.
    pub add: Vec<(Line, OptionNumber, Vec<u8>)>,
}

pub struct Tap {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    record: Mutex<Record>,
    changed: Condvar,
    closed: AtomicBool,
}

#[derive(Default)]
struct Record {
    captured: Vec<Captured>,
    /// Datagrams before the current step.
    earlier: usize,
    fates: Fates,
}

impl Tap {
    pub fn open(server: SocketAddr) -> io::Result<Self> {
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        front.set_read_timeout(Some(STEP))?;
        let address = front.local_addr()?;
        let shared =
            Arc::new(Shared { record: Mutex::default(), changed: Condvar::new(), closed: AtomicBool::new(false) });
        let relaying = shared.clone();
        thread::spawn(move || relaying.relay(&Arc::new(front), server));
        Ok(Self { address, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn begin(&self, fates: Fates) {
        let mut record = self.shared.locked();
        record.earlier = record.captured.len();
        record.fates = fates;
    }

    pub fn captured(&self) -> Vec<Captured> {
        self.shared.locked().of_step().to_vec()
    }

    pub fn everything(&self) -> Vec<Captured> {
        self.shared.locked().captured.clone()
    }

    /// Returns `false` on timeout.
    pub fn wait(&self, until: Instant, mut wanted: impl FnMut(&[Captured]) -> bool) -> bool {
        let mut record = self.shared.locked();
        loop {
            if wanted(record.of_step()) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(record, left.min(STEP));
            (record, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Record {
    fn of_step(&self) -> &[Captured] {
        self.captured.get(self.earlier..).unwrap_or_default()
    }

    fn decide(&mut self, direction: Direction, bytes: &[u8]) -> Captured {
        let lost = Captured { direction, lost: true, bytes: bytes.to_vec() };
        if let Some(at) = self.fates.lose.iter().position(|line| line.fits(&lost, self.of_step())) {
            if !self.fates.lose[at].is_about_each() {
                self.fates.lose.remove(at);
            }
            return lost;
        }
        let passed = Captured { lost: false, ..lost };
        let Some(at) = self.fates.add.iter().position(|(line, ..)| line.fits(&passed, self.of_step())) else {
            return passed;
        };
        let (_, number, value) = self.fates.add.remove(at);
        Captured { bytes: with_option(bytes, number, &value).unwrap_or(passed.bytes), ..passed }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes to forward, if any.
    fn passed(&self, direction: Direction, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut record = self.locked();
        let captured = record.decide(direction, bytes);
        let passed = (!captured.lost).then(|| captured.bytes.clone());
        record.captured.push(captured);
        self.changed.notify_all();
        passed
    }

    /// Each client gets its own socket, so that the server can distinguish them.
    fn relay(self: Arc<Self>, front: &Arc<UdpSocket>, server: SocketAddr) {
        let mut buffer = vec![0; 65536];
        let mut backs = HashMap::<SocketAddr, Arc<UdpSocket>>::new();
        while !self.closed.load(Ordering::Relaxed) {
            // The loopback reports closed ports.
            let Ok((length, client)) = front.recv_from(&mut buffer) else { continue };
            let back = match backs.get(&client) {
                Some(back) => back.clone(),
                None => match self.clone().open_back(front.clone(), client, server) {
                    Ok(back) => backs.entry(client).or_insert(back).clone(),
                    Err(_) => continue,
                },
            };
            if let Some(bytes) = self.passed(Direction::ToServer, &buffer[..length]) {
                let _ = back.send(&bytes);
            }
        }
    }

    fn open_back(
        self: Arc<Self>,
        front: Arc<UdpSocket>,
        client: SocketAddr,
        server: SocketAddr,
    ) -> io::Result<Arc<UdpSocket>> {
        let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        back.set_read_timeout(Some(STEP))?;
        back.connect(server)?;
        let back = Arc::new(back);
        let receiving = back.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while !self.closed.load(Ordering::Relaxed) {
                let Ok(length) = receiving.recv(&mut buffer) else { continue };
                if let Some(bytes) = self.passed(Direction::ToClient, &buffer[..length]) {
                    let _ = front.send_to(&bytes, client);
                }
            }
        });
        Ok(back)
    }
}

/// `None` if the message is malformed or has no room.
fn with_option(bytes: &[u8], number: OptionNumber, value: &[u8]) -> Option<Vec<u8>> {
    let message = Message::decode(bytes).ok()?;
    let mut options: Vec<_> = message.options().map(|option| (option.number, option.value)).collect();
    options.push((number, value));
    options.sort_by_key(|(number, _)| *number);
    let mut buffer = vec![0; 65536];
    let mut encoder = Encoder::new(&mut buffer, message.ty(), message.code(), message.id(), &message.token()).ok()?;
    for (number, value) in options {
        encoder.option(number, value).ok()?;
    }
    let length = encoder.payload(message.payload()).ok()?.finish();
    buffer.truncate(length);
    Some(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<Line> {
        lines.iter().map(|line| Line::parse(line).expect("a line")).collect()
    }

    /// CON GET [1] token=0a Uri-Path=test
    const REQUEST: &[u8] = b"\x41\x01\x00\x01\x0a\xb4test";

    #[test]
    fn a_loss_line_drops_the_first_or_each_matching_datagram() {
        let fates_of_three = |line| {
            let mut record = Record { fates: Fates { lose: lines(&[line]), add: Vec::new() }, ..Record::default() };
            [(); 3].map(|()| record.decide(Direction::ToServer, REQUEST).lost)
        };
        assert_eq!(fates_of_three("x> CON GET"), [true, false, false]);
        assert_eq!(fates_of_three("xx> CON GET"), [true, true, true]);
        assert_eq!(fates_of_three("xx< CON GET"), [false, false, false]);
    }

    #[test]
    fn an_option_is_added_in_its_order_to_the_first_that_fits() {
        let add = |number| (lines(&["> CON GET"]).remove(0), OptionNumber(number), b"x".to_vec());
        let fates = Fates { lose: Vec::new(), add: vec![add(65001), add(4)] };
        let mut record = Record { fates, ..Record::default() };
        let bytes = [(); 3].map(|()| record.decide(Direction::ToServer, REQUEST).bytes);
        assert_eq!(bytes[0], b"\x41\x01\x00\x01\x0a\xb4test\xe1\xfc\xd1x");
        assert_eq!(bytes[1], b"\x41\x01\x00\x01\x0a\x41x\x74test");
        assert_eq!(bytes[2], REQUEST);
    }
}
