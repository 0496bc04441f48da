//! Handshakes of the layer below an endpoint, such as DTLS, under the congestion control of their
//! destination.
//!
//! The content of flights is unknown to the endpoint. It signals when the first flight may be sent
//! (NSTART, the window of the path, the controller) and when a flight is to be retransmitted. The
//! layer below reports sent flights and answers. Flights of a server need none of this, because
//! they are answers.

use super::{Endpoint, RequestError};
use crate::PeerKey;
use crate::exchange::{ExchangeId, Flight, Opening, Purpose};
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Starts a handshake with a peer, as an exchange. [`Event::Flight`](super::Event::Flight)
    /// signals when the first flight may be sent, and when a flight is to be retransmitted, until
    /// the handshake is [over](Self::handshake_over). [`Event::Failed`](super::Event::Failed) ends
    /// it earlier, if it was never admitted or the peer is unreachable.
    ///
    /// # Errors
    /// If a needed resource is used up.
    pub fn begin_handshake(&mut self, now: Instant, with: P) -> Result<ExchangeId, RequestError> {
        let peer = self.open_peer(now, with)?;
        // The size of its flights is known when they are sent.
        self.layers.submit(now, peer, &mut Opening { purpose: Purpose::Handshake, ..Opening::EMPTY })
    }

    /// Reports that a flight of a handshake was sent, for the first time or again. Has no effect if
    /// the handshake is over or waits for admission.
    pub fn flight_left(&mut self, now: Instant, handshake: ExchangeId, flight: &Flight) {
        self.layers.transport.flight_left(now, handshake, flight);
    }

    /// Reports that the answer to the last flight of a handshake starts to arrive. `copy` is the
    /// number of the answered transmission of that flight, from 0 on, if it is known for certain
    /// and the peer answered without delay: it is then an RTT sample.
    pub fn flight_answered(&mut self, now: Instant, handshake: ExchangeId, copy: Option<u8>) {
        self.layers.transport.flight_answered(now, handshake, copy);
    }

    /// Ends a handshake, as completed or as failed for this reason. No event follows.
    pub fn handshake_over(&mut self, now: Instant, handshake: ExchangeId, failed: Option<AbandonReason>) {
        let transport = &mut self.layers.transport;
        if !transport.goes_on(handshake) {
            return;
        }
        match failed {
            Some(why) => transport.exchanges.abandon(now, &mut transport.peers, handshake.index, why),
            None => transport.exchanges.flight_answered(now, &mut transport.peers, handshake.index, None),
        }
        transport.close(now, handshake.index);
    }
}
