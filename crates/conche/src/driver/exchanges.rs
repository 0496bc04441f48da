//! Exchanges that somebody waits for.

use std::fmt;
use std::net::SocketAddr;

use conche_proto::codec::OwnedMessage;
use conche_proto::{Course, ExchangeId, Transmit};
use tokio::sync::mpsc;
use tracing::{Level, Span, debug, enabled};

use super::handle::{ExchangeError, Outcome, Told};
use super::numbered::Numbered;
use super::reply::Reply;
use super::turns::Place;
use super::{Address, Sender};

/// All exchanges of a driver that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    waiting: Numbered<ExchangeId, Waiting>,
    /// By what the one who waits calls them.
    tickets: Numbered<u64, ExchangeId>,
    /// Somebody was told an end since this was asked last.
    told: bool,
}

/// Somebody waits for the end of an exchange.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ticket: u64,
    /// It is a ping, which an acknowledgement ends.
    pub(super) ping: bool,
    /// Where the responses of a group go.
    pub(super) responses: Option<mpsc::UnboundedSender<(SocketAddr, OwnedMessage)>>,
    /// Where goes what is to be known of a body that goes block by block.
    pub(super) told: Option<mpsc::UnboundedSender<Told>>,
    pub(super) outcome: Reply,
    /// Held until the first datagram leaves.
    pub(super) place: Option<Place>,
    /// The peer as its response authenticates it.
    pub(super) peer: Sender,
    pub(super) span: Span,
}

impl Exchanges {
    pub(super) fn insert(&mut self, exchange: ExchangeId, waiting: Waiting) {
        self.tickets.insert(waiting.ticket, exchange);
        self.waiting.insert(exchange, waiting);
    }

    /// Whether somebody was told an end since this was asked last.
    pub(super) fn someone_was_told(&mut self) -> bool {
        std::mem::take(&mut self.told)
    }

    /// Nobody waits for any.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Nobody waits for it any more.
    pub(super) fn cancel(&mut self, ticket: u64) -> Option<ExchangeId> {
        let exchange = self.tickets.remove(&ticket)?;
        if let Some(waiting) = self.waiting.remove(&exchange) {
            waiting.span.in_scope(|| debug!("cancelled"));
        }
        Some(exchange)
    }

    /// An exchange is over. Nobody waits for separate responses.
    pub(super) fn end(
        &mut self,
        exchange: ExchangeId,
        told: impl fmt::Debug,
        course: Course,
        outcome: impl FnOnce(Sender) -> Result<Outcome, ExchangeError>,
    ) {
        let Some(waiting) = self.remove(exchange) else { return };
        waiting.span.in_scope(|| {
            debug!(
                messages = course.messages,
                transmissions = course.transmissions,
                queued = ?course.queued,
                acknowledged_after = ?course.acknowledged_after,
                elapsed = ?course.elapsed,
                "{told:?}"
            );
        });
        drop(waiting.responses);
        drop(waiting.told);
        self.told = true;
        // If the receiver is gone, the cancellation is on its way and comes too late.
        waiting.outcome.send(outcome(waiting.peer));
    }

    /// An exchange is over, before anything is known of its course.
    pub(super) fn remove(&mut self, exchange: ExchangeId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&exchange)?;
        self.tickets.remove(&waiting.ticket);
        Some(waiting)
    }

    /// A member of a group answered.
    pub(super) fn group_response(&self, exchange: ExchangeId, from: Address, message: OwnedMessage) {
        let Some(waiting) = self.waiting.get(&exchange) else { return };
        waiting.span.in_scope(|| debug!(%from, code = ?message.code(), "a response"));
        if let Some(responses) = &waiting.responses {
            // If the receiver is gone, the cancellation is on its way.
            let _ = responses.send((from.canonical(), message));
        }
    }

    /// The exchange that somebody with this ticket waits for.
    pub(super) fn of(&self, ticket: u64) -> Option<ExchangeId> {
        self.tickets.get(&ticket).copied()
    }

    /// Something is to be known of a body that goes block by block.
    pub(super) fn tell(&self, exchange: ExchangeId, what: impl FnOnce(Sender) -> Told) {
        if let Some(waiting) = self.waiting.get(&exchange)
            && let Some(told) = &waiting.told
        {
            // If the receiver is gone, the cancellation is on its way.
            let _ = told.send(what(waiting.peer.clone()));
        }
    }

    /// The peer acknowledged an exchange, which ends a ping.
    pub(super) fn acknowledged(&mut self, exchange: ExchangeId, course: Course) {
        match self.waiting.get(&exchange) {
            Some(waiting) if !waiting.ping => waiting.span.in_scope(|| debug!("acknowledged; the response follows")),
            _ => self.end(exchange, format_args!("acknowledged"), course, |_| Ok(Outcome::Pong { course })),
        }
    }

    /// A datagram of an exchange leaves: it does not wait for its turn any more. Logs it with the RTO that the controller
    /// has by now.
    pub(super) fn departs(
        &mut self,
        exchange: ExchangeId,
        transmit: &Transmit<Address>,
        rto: impl FnOnce() -> Option<std::time::Duration>,
    ) {
        let waiting = self.waiting.get_mut(&exchange);
        let span = waiting.map(|waiting| {
            waiting.place = None;
            &waiting.span
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
