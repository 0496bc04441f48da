//! Transmission: writes departures when the endpoint is polled.

use super::Endpoint;
use crate::PeerKey;
use crate::event::Event;
use crate::exchange::{ExchangeId, Failure, Purpose, State};
use crate::transport::{Departure, Transmit};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Writes a departure to `buf`; `None` if it is obsolete.
    pub(super) fn depart(&mut self, now: Instant, departure: Departure<P>, buf: &mut [u8]) -> Option<Transmit<P>> {
        match departure {
            Departure::Exchange(exchange) => self.transmit_exchange(now, exchange, buf),
            reply => self.layers.transport.write_reply(reply, buf),
        }
    }

    /// Transmits the message of an exchange, unless the exchange has ended.
    #[inline]
    fn transmit_exchange(&mut self, now: Instant, id: ExchangeId, buf: &mut [u8]) -> Option<Transmit<P>> {
        let transport = &mut self.layers.transport;
        let exchange = transport.exchanges.live(id).filter(|exchange| exchange.state == State::Departing)?;
        if now >= exchange.deadline {
            transport.exchanges.arm(id.index);
            return None;
        }
        let (purpose, is_last, pings) = (exchange.purpose, exchange.is_over_when_left(), exchange.pings_observer());
        let group_id = match purpose {
            Purpose::Handshake => {
                let peer = transport.peers.get(exchange.peer).key;
                self.layers.announce(Event::Flight { exchange: id, peer });
                return None;
            }
            Purpose::Response(_) | Purpose::Notification(_) if exchange.sends_sets() => {
                return self.server.transmit_payload(&mut self.layers, now, id, buf);
            }
            _ if exchange.sends_sets() => return self.client.transmit_payload(&mut self.layers, now, id, buf),
            Purpose::Request => self.client.group_requests.id_of(id, &exchange.token),
            _ => None,
        };
        let Some(transmit) = transport.write_exchange(now, id, group_id, buf) else {
            self.fail(now, id.index, Failure::MessageTooLarge);
            return None;
        };
        if is_last {
            return Some(self.server.response_sent(&mut self.layers, now, id, transmit));
        }
        let attempt = transport.sent(now, id.index);
        if let Purpose::Notification(observer) = purpose
            && !pings
        {
            let exchange = transport.exchanges.get(id.index);
            self.server.observers.left(now, observer, exchange.id, exchange.confirmable);
        }
        Some(Transmit { exchange: Some(id), attempt, ..transmit })
    }
}
