//! Transmission: writes departures when the endpoint is polled.

use super::{Ecn, Endpoint, Event, Transmit};
use crate::PeerKey;
use crate::codec::{Type, encode_empty};
use crate::exchange::{ExchangeId, Failure, Purpose, State};
use crate::hash::Keyed;
use crate::message::Reply;
use crate::observe::Place;
use crate::transport::{Departure, Source, encode, write};
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Writes a departure to `buf`; `None` if it is obsolete.
    pub(super) fn depart(&mut self, now: Instant, departure: Departure<P>, buf: &mut [u8]) -> Option<Transmit<P>> {
        let (to, len) = match departure {
            Departure::Exchange(exchange) => return self.depart_exchange(now, exchange, buf),
            Departure::Remembered { to, id, remembered } => match self.transport.received.reply(remembered)? {
                Reply::Datagram(datagram) => (to, write(datagram, buf)),
                Reply::Short { length, bytes } => (to, write(bytes.get(..usize::from(*length)).unwrap_or(bytes), buf)),
                Reply::EmptyAck => (to, write(&encode_empty(Type::Acknowledgement, id), buf)),
                Reply::Silence | Reply::Pending => return None,
            },
            Departure::Empty { to, ty, id } => {
                self.transport.stats.resets_sent += u64::from(ty == Type::Reset);
                (to, write(&encode_empty(ty, id), buf))
            }
            Departure::Message { to, datagram } => (to, write(&datagram, buf)),
        };
        let Source { from, local } = to;
        let Some(len) = len else {
            self.transport.stats.oversized += 1;
            return None;
        };
        Some(Transmit { to: from, local, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 })
    }

    /// Transmits the message of an exchange, unless the exchange has ended.
    #[inline]
    fn depart_exchange(&mut self, now: Instant, id: ExchangeId, buf: &mut [u8]) -> Option<Transmit<P>> {
        let exchange = self.transport.exchanges.live(id).filter(|exchange| exchange.state == State::Departing)?;
        if now >= exchange.deadline {
            self.transport.exchanges.arm(id.index);
            return None;
        }
        if exchange.purpose == Purpose::Handshake {
            let peer = self.transport.peers.get(exchange.peer).key;
            self.announce(Event::Flight { exchange: id, peer });
            return None;
        }
        let mut token = exchange.token_sent();
        if let Some(transfer) = &exchange.transfer {
            if exchange.sends_sets() {
                return self.depart_payload(now, id, buf);
            }
            token = transfer.token.as_ref().unwrap_or(token);
        }
        let (ty, content) = (exchange.message_type(), &exchange.content);
        let message_id = self.inquiries.id_of(id, token).unwrap_or(exchange.id);
        let Some(len) = encode(buf, ty, content.code, message_id, token, &content.body) else {
            self.fail_oversized(now, id.index);
            return None;
        };
        let (to, local) = (self.transport.peers.get(exchange.peer).key, exchange.local);
        let transmit = Transmit { to, local, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 };
        if exchange.is_over_when_left() {
            // A Non-confirmable response that had to wait; the only possible answer is a Reset.
            let what = Keyed::fingerprint(self.transport.peers.hash(&to), 0, exchange.id.0);
            self.transport.rejectable.left(what, exchange.token.clone());
            if !self.observers.is_empty() {
                let (peer, token, local) = (exchange.peer, exchange.token.clone(), exchange.local);
                self.first_response_left(now, &Place { peer, token, local }, id, exchange.id);
            }
            self.close(now, id.index);
            return Some(transmit);
        }
        let attempt =
            self.transport.exchanges.sent(now, &mut self.transport.peers, id.index, &mut self.transport.random);
        let exchange = self.transport.exchanges.get(id.index);
        if let Purpose::Notification(observer) = exchange.purpose
            && !exchange.pings_observer()
        {
            self.observers.left(now, observer, exchange.id, exchange.confirmable);
        }
        self.transport.stats.retransmissions += u64::from(attempt > 0);
        Some(Transmit { exchange: Some(id), attempt, ..transmit })
    }

    /// Fails an exchange whose message does not fit into a datagram. Other exchanges are not
    /// affected.
    #[cold]
    pub(super) fn fail_oversized(&mut self, now: Instant, index: u32) {
        self.transport.stats.oversized += 1;
        self.transport.exchanges.abandon(now, &mut self.transport.peers, index, AbandonReason::Cancelled);
        self.fail(now, index, Failure::MessageTooLarge);
    }
}
