//! Handshakes of what stands below an endpoint, such as DTLS: they are under the congestion control of their destination, as all that the
//! endpoint sends by itself.
//!
//! The endpoint knows nothing of what a flight says. It says when the first may leave (NSTART, the window of the path, the controller) and when
//! one is to be repeated; whoever writes them tells it what has left and what was answered. A server's flights need none of this: they answer.

use super::{Endpoint, RequestError};
use crate::PeerKey;
use crate::exchange::{ExchangeId, Flight, Opening, Purpose, State};
use crate::shares::Group;
use conche_cc::control::Why;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Wants a handshake with a peer. It is an exchange as others are: [`Event::Flight`](super::Event::Flight) says when its first flight may
    /// leave, and when a flight is to be repeated, until it is [over](Self::handshake_over);
    /// [`Event::Failed`](super::Event::Failed) that it is over before that, since it never got its turn or the peer cannot be reached.
    ///
    /// # Errors
    /// If something that it needs is full.
    pub fn begin_handshake(&mut self, now: Instant, with: P) -> Result<ExchangeId, RequestError> {
        let peer = self.open_peer(now, with, Group::NOBODY)?;
        // What its flights take is known when they leave.
        self.submit(now, peer, &mut Opening { purpose: Purpose::Handshake, ..Opening::EMPTY })
    }

    /// A flight of a handshake has left, or a copy of one. Nothing happens if the handshake is over, or waits for its turn.
    pub fn flight_left(&mut self, now: Instant, handshake: ExchangeId, flight: &Flight) {
        if self.has_begun(handshake) {
            self.exchanges.flight_left(now, &mut self.peers, handshake.index, flight, &mut self.random);
            self.admit_waiting(now, self.exchanges.get(handshake.index).peer);
        }
    }

    /// The answer to the last flight of a handshake begins to arrive. `copy` says which copy of that flight is answered, from 0 on, where this
    /// is known for certain and the answer took its sender no time: it is a sample of the round-trip time then.
    pub fn flight_answered(&mut self, now: Instant, handshake: ExchangeId, copy: Option<u8>) {
        if self.has_begun(handshake) {
            self.exchanges.flight_answered(now, &mut self.peers, handshake.index, copy);
            self.admit_waiting(now, self.exchanges.get(handshake.index).peer);
        }
    }

    /// A handshake is done, or it has failed for this reason. No event follows.
    pub fn handshake_over(&mut self, now: Instant, handshake: ExchangeId, failed: Option<Why>) {
        if !self.goes_on(handshake) {
            return;
        }
        match failed {
            Some(why) => self.exchanges.abandon(now, &mut self.peers, handshake.index, why),
            None => self.exchanges.flight_answered(now, &mut self.peers, handshake.index, None),
        }
        self.close(now, handshake.index);
    }

    fn has_begun(&self, handshake: ExchangeId) -> bool {
        self.goes_on(handshake) && self.exchanges.get(handshake.index).state != State::Queued
    }

    fn goes_on(&self, handshake: ExchangeId) -> bool {
        self.exchanges.live(handshake).is_some_and(|exchange| exchange.purpose == Purpose::Handshake)
    }
}
