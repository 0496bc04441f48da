//! Handshakes of the layer below as exchanges: flights in place of messages.

use super::Transport;
use crate::PeerKey;
use crate::exchange::{ExchangeId, Flight, Purpose, State};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Transport<P, C> {
    /// Reports that a flight of a handshake was sent, for the first time or again. Has no effect if
    /// the handshake is over or waits for admission.
    pub(crate) fn flight_left(&mut self, now: Instant, handshake: ExchangeId, flight: &Flight) {
        if self.has_begun(handshake) {
            self.exchanges.flight_left(now, &mut self.peers, handshake.index, flight, &mut self.random);
            self.admit_waiting(now, self.exchanges.get(handshake.index).peer);
        }
    }

    /// Reports that the answer to the last flight of a handshake starts to arrive. `copy` is the
    /// number of the answered transmission of that flight, from 0 on, if it is known for certain
    /// and the peer answered without delay: it is then an RTT sample.
    pub(crate) fn flight_answered(&mut self, now: Instant, handshake: ExchangeId, copy: Option<u8>) {
        if self.has_begun(handshake) {
            self.exchanges.flight_answered(now, &mut self.peers, handshake.index, copy);
            self.admit_waiting(now, self.exchanges.get(handshake.index).peer);
        }
    }

    pub(crate) fn has_begun(&self, handshake: ExchangeId) -> bool {
        self.goes_on(handshake) && self.exchanges.get(handshake.index).state != State::Queued
    }

    pub(crate) fn goes_on(&self, handshake: ExchangeId) -> bool {
        self.exchanges.live(handshake).is_some_and(|exchange| exchange.purpose == Purpose::Handshake)
    }
}
