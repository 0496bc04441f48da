//! [`Exchanges`]: exchanges with a caller.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use conche_proto::codec::OwnedMessage;
use conche_proto::{ExchangeId, ExchangeStats, Transmit};
use tokio::sync::mpsc;
use tracing::{Level, Span, debug, enabled};

use super::Address;
use super::admission::Permit;
use super::channels::OutcomeSender;
use super::commands::{ExchangeError, Outcome, StreamEvent};
use crate::security::Identity;

#[derive(Debug, Default)]
pub(super) struct Exchanges {
    callers: IdMap<ExchangeId, Caller>,
    tickets: IdMap<u64, ExchangeId>,
    ended: bool,
}

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) ticket: u64,
    pub(super) ping: bool,
    pub(super) responses: Option<mpsc::UnboundedSender<(SocketAddr, OwnedMessage)>>,
    pub(super) events: Option<mpsc::UnboundedSender<StreamEvent>>,
    pub(super) outcome: OutcomeSender,
    /// Held until the first datagram is sent.
    pub(super) permit: Option<Permit>,
    pub(super) peer: Sender,
    pub(super) span: Span,
}

impl Exchanges {
    pub(super) fn insert(&mut self, exchange: ExchangeId, caller: Caller) {
        self.tickets.insert(caller.ticket, exchange);
        self.callers.insert(exchange, caller);
    }

    pub(super) fn take_ended(&mut self) -> bool {
        std::mem::take(&mut self.ended)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    pub(super) fn cancel(&mut self, ticket: u64) -> Option<ExchangeId> {
        let exchange = self.tickets.remove(&ticket)?;
        if let Some(caller) = self.callers.remove(&exchange) {
            caller.span.in_scope(|| debug!("cancelled"));
        }
        Some(exchange)
    }

    pub(super) fn end(
        &mut self,
        exchange: ExchangeId,
        summary: impl fmt::Debug,
        course: ExchangeStats,
        outcome: impl FnOnce(Sender) -> Result<Outcome, ExchangeError>,
    ) {
        let Some(caller) = self.remove(exchange) else { return };
        caller.span.in_scope(|| {
            debug!(
                messages = course.messages,
                transmissions = course.transmissions,
                queued = ?course.queued,
                acknowledged_after = ?course.acknowledged_after,
                elapsed = ?course.elapsed,
                "{summary:?}"
            );
        });
        drop(caller.responses);
        drop(caller.events);
        self.ended = true;
        caller.outcome.send(outcome(caller.peer));
    }

    pub(super) fn remove(&mut self, exchange: ExchangeId) -> Option<Caller> {
        let caller = self.callers.remove(&exchange)?;
        self.tickets.remove(&caller.ticket);
        Some(caller)
    }

    pub(super) fn group_response(&self, exchange: ExchangeId, from: Address, message: OwnedMessage) {
        let Some(caller) = self.callers.get(&exchange) else { return };
        caller.span.in_scope(|| debug!(%from, code = %message.code(), "a response"));
        if let Some(responses) = &caller.responses {
            // The receiver is missing if a cancellation is queued.
            let _ = responses.send((from.canonical(), message));
        }
    }

    pub(super) fn of(&self, ticket: u64) -> Option<ExchangeId> {
        self.tickets.get(&ticket).copied()
    }

    pub(super) fn send_event(&self, exchange: ExchangeId, event: impl FnOnce(Sender) -> StreamEvent) {
        if let Some(caller) = self.callers.get(&exchange)
            && let Some(events) = &caller.events
        {
            let _ = events.send(event(caller.peer.clone()));
        }
    }

    pub(super) fn acknowledged(&mut self, exchange: ExchangeId, course: ExchangeStats) {
        match self.callers.get(&exchange) {
            Some(caller) if !caller.ping => caller.span.in_scope(|| debug!("acknowledged; the response follows")),
            _ => self.end(exchange, format_args!("acknowledged"), course, |_| Ok(Outcome::Pong { course })),
        }
    }

    pub(super) fn on_departure(
        &mut self,
        exchange: ExchangeId,
        transmit: &Transmit<Address>,
        rto: impl FnOnce() -> Option<std::time::Duration>,
    ) {
        let caller = self.callers.get_mut(&exchange);
        let span = caller.map(|caller| {
            caller.permit = None;
            &caller.span
        });
        if !enabled!(Level::DEBUG) {
            return;
        }
        let rto = rto();
        span.unwrap_or(&Span::none()).in_scope(|| match transmit.attempt {
            0 => debug!(bytes = transmit.len, ?rto, "sent"),
            attempt => debug!(attempt, bytes = transmit.len, ?rto, "retransmitted"),
        });
    }
}

/// The peer of a response or notification.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) address: SocketAddr,
    pub(crate) identity: Option<Arc<Identity>>,
}

impl From<SocketAddr> for Sender {
    fn from(address: SocketAddr) -> Self {
        Self { address, identity: None }
    }
}

/// No keyed hash: this program assigns the keys, so peers cannot make them collide.
pub(super) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<SpreadHasher>>;

/// Odd, and without a pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads all input bits to the highest and lowest bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpreadHasher(u64);

impl Hasher for SpreadHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "each half is taken by itself")]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number).wrapping_mul(u128::from(FACTOR));
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        // Keeps the next write from cancelling this one.
        self.write_u64(u64::from(number) | 1 << 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::*;

    #[test]
    fn consecutive_numbers_hash_to_distinct_map_bits() {
        let hash = |number: (u32, u32)| BuildHasherDefault::<SpreadHasher>::default().hash_one(number);
        let rows: [Vec<_>; 2] = [(0..4096).map(|n| hash((n, 1))).collect(), (0..4096).map(|n| hash((1, n))).collect()];
        for hashes in rows {
            let low: HashSet<_> = hashes.iter().map(|hash| hash % 4096).collect();
            let high: HashSet<_> = hashes.iter().map(|hash| hash >> 57).collect();
            // A random hash would give 2590 distinct low parts and all high parts.
            assert!(low.len() > 2300 && high.len() == 128, "{} and {}", low.len(), high.len());
        }
    }
}
