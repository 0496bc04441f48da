//! [`Outbox`]: a batch of outgoing datagrams, in the endpoint's order.

use conche_proto::{Instant, Transmit};

use super::Departure;
use crate::address::Address;

#[derive(Debug)]
pub(crate) struct Outbox {
    /// Places for the datagrams, one after the other.
    memory: Box<[u8]>,
    /// Bytes per place.
    place: usize,
    transmits: Vec<Transmit<Address>>,
    /// Time of the first datagram.
    since: Instant,
}

impl Outbox {
    /// Allocates room for `places` datagrams of at most `place` bytes. Untouched memory is only
    /// reserved.
    pub(crate) fn new(places: usize, place: usize) -> Self {
        let transmits = Vec::with_capacity(places);
        Self { memory: vec![0; places.saturating_mul(place)].into(), place, transmits, since: Instant::ZERO }
    }

    /// Returns the place of the next datagram, which [`push`](Self::push) then adds. Requires that
    /// the outbox is not [full](Self::is_full).
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let start = self.transmits.len() * self.place;
        &mut self.memory[start..start + self.place]
    }

    /// Adds the datagram that was written.
    pub(crate) fn push(&mut self, now: Instant, transmit: Transmit<Address>) {
        if self.transmits.is_empty() {
            self.since = now;
        }
        self.transmits.push(transmit);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.transmits.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.transmits.len() * self.place >= self.memory.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.transmits.len()
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn transmit(&self, index: usize) -> &Transmit<Address> {
        &self.transmits[index]
    }

    pub(crate) fn datagram(&self, index: usize) -> &[u8] {
        &self.memory[index * self.place..][..self.transmits[index].len]
    }

    pub(crate) fn departure(&self, index: usize) -> Departure {
        Departure::of(&self.transmits[index])
    }

    /// Returns how many datagrams from `first` on have the same local address and codepoint, and so
    /// need one system call.
    pub(crate) fn alike(&self, first: usize) -> usize {
        let Transmit { local, ecn, .. } = self.transmits[first];
        self.transmits[first..].iter().take_while(|other| other.local == local && other.ecn == ecn).count()
    }

    pub(crate) fn clear(&mut self) {
        self.transmits.clear();
    }
}
