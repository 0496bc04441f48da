//! The way out: what leaves when the endpoint is polled, and what timers do.

use alloc::boxed::Box;
use core::net::IpAddr;

use super::{Ecn, Endpoint, Failure, TimerKey, Transmit};
use crate::PeerKey;
use crate::codec::{Body, Code, Encoder, MessageId, Token, Type, encode_empty};
use crate::exchange::{Purpose, State};
use crate::message::Reply;
use conche_cc::control::{Expired, Sent, Why};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

/// Something that waits to be polled.
#[derive(Debug)]
pub(super) enum Departure<P> {
    /// A copy of an exchange's message, encoded when it leaves.
    Exchange { index: u32, generation: u32 },
    /// The reply that the deduplication table remembers.
    Remembered { index: u32, generation: u32 },
    /// An Empty ACK or a Reset.
    Empty { to: P, local: Option<IpAddr>, ty: Type, id: MessageId },
    /// A message that nothing remembers.
    Message { to: P, local: Option<IpAddr>, datagram: Box<[u8]> },
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Writes a departure to `buf`; `None` if it has become void.
    pub(super) fn depart(&mut self, now: Instant, departure: Departure<P>, buf: &mut [u8]) -> Option<Transmit<P>> {
        let answer =
            |to, local, len| Some(Transmit { to, local, ecn: Ecn::NotCapable, len, exchange: None, attempt: 0 });
        match departure {
            Departure::Exchange { index, generation } => self.depart_exchange(now, index, generation, buf),
            Departure::Remembered { index, generation } => {
                let (to, id, reply) = self.received.get(index, generation)?;
                let local = self.received.local(index);
                match reply {
                    Reply::Datagram(datagram) => answer(to, local, write(datagram, buf)),
                    Reply::EmptyAck | Reply::Pending { acknowledged: true, confirmable: true, .. } => {
                        answer(to, local, write(&encode_empty(Type::Acknowledgement, id), buf))
                    }
                    Reply::Silence | Reply::Pending { .. } => None,
                }
            }
            Departure::Empty { to, local, ty, id } => {
                self.stats.resets_sent += u64::from(ty == Type::Reset);
                answer(to, local, write(&encode_empty(ty, id), buf))
            }
            Departure::Message { to, local, datagram } => answer(to, local, write(&datagram, buf)),
        }
    }

    /// A copy of an exchange's message leaves: the controller arms its timer, inside the envelope.
    fn depart_exchange(&mut self, now: Instant, index: u32, generation: u32, buf: &mut [u8]) -> Option<Transmit<P>> {
        self.exchange(index, generation)
            .filter(|exchange| exchange.state == State::Departing && now < exchange.deadline)?;
        let exchange = &mut self.exchanges[index as usize];
        let peer = self.peers.get_mut(exchange.peer);
        let len = encode(buf, exchange.message_type(), exchange.code, exchange.id, &exchange.token, &exchange.body);
        exchange.sent.push(now);
        let attempt = exchange.attempt();
        let event = Sent {
            now,
            attempt,
            confirmable: exchange.confirmable,
            bytes: exchange.bytes,
            random: self.random.next_u32(),
            load: peer.load_without(exchange.bytes),
        };
        let wanted =
            self.controllers[usize::from(peer.controller.0)].sent(&mut peer.control, &mut exchange.flight, &event);
        let timeout = self.config.envelope.hold(wanted, exchange.timeout);
        exchange.timeout = Some(timeout);
        exchange.state = State::AwaitingAck;
        exchange.state_until = now + timeout;
        if exchange.confirmable {
            // Nothing is expected any longer than this without an acknowledgement (RFC 7252 §4.7).
            exchange.state_until = exchange.state_until.min(exchange.sent[0] + self.derived.exchange_lifetime);
            peer.sent_confirmable(now, exchange.bytes, exchange.may_confirm);
        } else {
            peer.sent_non(now, exchange.bytes);
        }
        self.timers.set(TimerKey::Exchange(index), exchange.wake());
        self.stats.retransmissions += u64::from(attempt > 0);
        Some(Transmit {
            to: peer.key,
            local: exchange.local,
            ecn: Ecn::NotCapable,
            len,
            exchange: Some(exchange.id(index)),
            attempt,
        })
    }

    /// A timer ran out.
    pub(super) fn timer_due(&mut self, now: Instant, key: TimerKey) {
        match key {
            TimerKey::Exchange(index) => self.exchange_due(now, index),
            TimerKey::Request(index) => self.piggybacking_over(index),
            TimerKey::Peer(peer) => self.admit_waiting(now, peer),
        }
    }

    fn exchange_due(&mut self, now: Instant, index: u32) {
        let exchange = &self.exchanges[index as usize];
        if now >= exchange.deadline {
            self.abandon(now, index, Why::Cancelled);
            return self.fail(now, index, Failure::Deadline);
        }
        match exchange.state {
            State::Queued => self.fail(now, index, Failure::QueueExpired),
            State::Departing if exchange.since_first(now) > self.derived.max_transmit_span => self.give_up(now, index),
            State::Departing => self.push_departure(index),
            State::AwaitingAck if exchange.confirmable => self.acknowledgement_overdue(now, index),
            State::AwaitingAck => self.response_to_non_overdue(now, index),
            State::AwaitingResponse => {
                let reason = if exchange.acknowledged.is_some() { Failure::NoResponse } else { Failure::TimedOut };
                self.fail(now, index, reason);
            }
        }
    }

    /// The retransmission timer ran out (RFC 7252 §4.2): send another copy, if one is left and it still falls inside
    /// MAX_TRANSMIT_SPAN, or give up.
    fn acknowledgement_overdue(&mut self, now: Instant, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        let attempt = exchange.attempt();
        let peer = self.peers.get_mut(exchange.peer);
        let controller = &self.controllers[usize::from(peer.controller.0)];
        let span = self.derived.max_transmit_span;
        let departure = (attempt < self.config.transmission.max_retransmit && exchange.since_first(now) <= span)
            .then(|| {
                let event = Expired { now, attempt, load: peer.load_without(exchange.bytes) };
                controller.expired(&mut peer.control, &mut exchange.flight, &event)
            })
            .filter(|&at| exchange.since_first(at) <= span);
        match departure {
            None => self.give_up(now, index),
            Some(at) => {
                exchange.state = State::Departing;
                if at <= now {
                    exchange.state_until = Instant::FAR_FUTURE;
                    self.timers.set(TimerKey::Exchange(index), exchange.deadline);
                    self.push_departure(index);
                } else {
                    exchange.state_until = at;
                    self.timers.set(TimerKey::Exchange(index), exchange.wake());
                }
            }
        }
    }

    fn give_up(&mut self, now: Instant, index: u32) {
        self.stats.timeouts += 1;
        self.abandon(now, index, Why::GaveUp);
        self.fail(now, index, Failure::TimedOut);
    }

    /// The response to a NON request is not expected any more within the controller's timeout: its slot is free, though
    /// the response may still come.
    fn response_to_non_overdue(&mut self, now: Instant, index: u32) {
        self.free_slot(index);
        let exchange = &mut self.exchanges[index as usize];
        debug_assert_eq!(exchange.purpose, Purpose::Request, "only requests open exchanges that are not Confirmable");
        exchange.state = State::AwaitingResponse;
        exchange.state_until = exchange.first_sent().unwrap_or(now) + self.derived.response_timeout;
        let (peer, wake) = (exchange.peer, exchange.wake());
        self.timers.set(TimerKey::Exchange(index), wake);
        self.admit_waiting(now, peer);
    }
}

/// Copies `datagram` to the front of `buf`.
fn write(datagram: &[u8], buf: &mut [u8]) -> usize {
    buf[..datagram.len()].copy_from_slice(datagram);
    datagram.len()
}

/// Encodes a message whose size was checked when it was submitted.
pub(super) fn encode(buf: &mut [u8], ty: Type, code: Code, id: MessageId, token: &Token, body: &Body) -> usize {
    if code.is_empty() {
        return write(&encode_empty(ty, id), buf);
    }
    Encoder::new(buf, ty, code, id, token)
        .and_then(|mut encoder| encoder.body(body).map(|encoder| encoder.finish()))
        .expect("the size of the message was checked against Limits::message_bytes, and poll's buffer against that")
}
