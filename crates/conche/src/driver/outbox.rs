//! [`Outbox`]: datagrams that are to leave together, in the order in which the endpoint made them.

use conche_proto::{Instant, Transmit};

use super::Address;
use super::socket::Departure;

/// Memory for some datagrams of one endpoint.
#[derive(Debug)]
pub(super) struct Outbox {
    /// A place for each, one behind the other.
    memory: Box<[u8]>,
    /// Bytes of a place.
    place: usize,
    transmits: Vec<Transmit<Address>>,
    /// When the first of them was put in.
    since: Instant,
}

impl Outbox {
    /// Room for so many datagrams of at most so many bytes. Memory that no datagram has reached yet is only reserved.
    pub(super) fn new(places: usize, place: usize) -> Self {
        let transmits = Vec::with_capacity(places);
        Self { memory: vec![0; places.saturating_mul(place)].into(), place, transmits, since: Instant::ZERO }
    }

    /// Where the next datagram is to be written, which is [`push`](Self::push)ed then. There is room unless it [is
    /// full](Self::is_full).
    pub(super) fn room(&mut self) -> &mut [u8] {
        let start = self.transmits.len() * self.place;
        &mut self.memory[start..start + self.place]
    }

    /// What was written is to leave like this.
    pub(super) fn push(&mut self, now: Instant, transmit: Transmit<Address>) {
        if self.transmits.is_empty() {
            self.since = now;
        }
        self.transmits.push(transmit);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.transmits.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.transmits.len() * self.place >= self.memory.len()
    }

    pub(super) fn len(&self) -> usize {
        self.transmits.len()
    }

    /// When the first of them was put in.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn transmit(&self, index: usize) -> &Transmit<Address> {
        &self.transmits[index]
    }

    pub(super) fn datagram(&self, index: usize) -> &[u8] {
        &self.memory[index * self.place..][..self.transmits[index].len]
    }

    pub(super) fn departure(&self, index: usize) -> Departure {
        Departure::of(&self.transmits[index])
    }

    /// How many from this one on leave from the same address with the same codepoint: one call of the operating system is enough for
    /// them.
    pub(super) fn alike(&self, first: usize) -> usize {
        let Transmit { local, ecn, .. } = self.transmits[first];
        self.transmits[first..].iter().take_while(|other| other.local == local && other.ecn == ecn).count()
    }

    /// All have left, or never will.
    pub(super) fn clear(&mut self) {
        self.transmits.clear();
    }
}
