//! Reports socket events: each datagram as a `tracing` event, and everything to [`Watchers`].
//!
//! The events have the target `conche::message` and the level TRACE. The datagram is a field of its
//! own, as bytes, so that a subscriber can decode it; `decoded` is for subscribers that print
//! fields as text.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use conche_proto::codec::Message;
use conche_proto::{
    Course, Datagram, Endpoint, Event, ExchangeId, Input, Instant, PeerSnapshot, Stats, Transmit, Undrained,
};
use tracing::{Level, enabled, trace};

use super::Address;
use super::clock::Clock;
use crate::controllers::SharedController;
use crate::fence::Fence;
use crate::watch::{DropReason, ExchangeState, Fact, Notice, Watchers};

/// Reports the events of one socket.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) watchers: Watchers,
    pub(super) socket: SocketAddr,
    pub(super) clock: Clock,
    /// Contains panics of watchers.
    pub(super) fence: Fence,
}

impl Traffic {
    /// Whether there are watchers.
    pub(super) fn is_watched(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// Whether datagrams are reported, to watchers or `tracing`.
    pub(super) fn tells(&self) -> bool {
        self.is_watched() || enabled!(target: "conche::message", Level::TRACE)
    }

    /// Reports a datagram that was sent or could not be.
    pub(super) fn departed(&self, now: Instant, transmit: &Transmit<Address>, datagram: &[u8], sent: &io::Result<()>) {
        let Transmit { to, attempt, ecn, local, .. } = *transmit;
        let exchange = transmit.exchange.map(ExchangeId::as_u64);
        let fact = match sent {
            Ok(()) => {
                trace!(target: "conche::message", peer = %to, attempt, datagram, decoded = %Decoded(datagram), "sent");
                Fact::Sent { attempt, exchange, ecn }
            }
            Err(error) => Fact::NotSent { attempt, exchange, error: error.kind() },
        };
        self.tell(now, to, local, fact, datagram);
    }

    /// Reports a received datagram.
    pub(super) fn arrived(&self, now: Instant, arrived: &Datagram<'_, Address>) {
        let Datagram { from, bytes: datagram, local, multicast, ecn, .. } = *arrived;
        trace!(target: "conche::message", peer = %from, datagram, decoded = %Decoded(datagram), "received");
        self.tell(now, from, local, Fact::Received { multicast, ecn }, datagram);
    }

    /// Passes a datagram to the endpoint and reports the outcome to watchers.
    #[inline]
    pub(super) fn hand_in<C: SharedController>(
        &self,
        now: Instant,
        arrived: Datagram<'_, Address>,
        endpoint: &mut Endpoint<Address, C>,
    ) -> Result<(), Undrained> {
        if !self.is_watched() {
            return endpoint.handle(now, Input::Datagram(arrived));
        }
        let before = *endpoint.stats();
        endpoint.handle(now, Input::Datagram(arrived))?;
        if let Some(reason) = why_dropped(&before, endpoint.stats()) {
            self.tell(now, arrived.from, arrived.local, Fact::Dropped { reason }, arrived.bytes);
        }
        self.path(now, arrived.from, endpoint.snapshot(&arrived.from));
        Ok(())
    }

    /// Reports an unreachable peer.
    pub(super) fn unreachable(&self, now: Instant, peer: Address) {
        self.tell(now, peer, None, Fact::Unreachable, &[]);
    }

    /// Reports path state after an event that congestion control processes.
    pub(super) fn path(&self, now: Instant, peer: Address, path: Option<PeerSnapshot>) {
        if let Some(path) = path {
            self.tell(now, peer, None, Fact::Path(path), &[]);
        }
    }

    /// Reports the progress of an exchange, if the event has any.
    pub(super) fn event(&self, now: Instant, event: &Event<Address>) {
        if let Some((peer, exchange, state, course)) = progress(event) {
            let exchange = exchange.as_u64();
            self.tell(now, peer, None, Fact::Exchange { exchange, state, course }, &[]);
        }
    }

    fn tell(&self, now: Instant, peer: Address, local: Option<IpAddr>, fact: Fact, datagram: &[u8]) {
        if !self.is_watched() {
            return;
        }
        // A time that tokio's clock cannot represent is centuries away.
        let Some(at) = self.clock.wake_up(now) else { return };
        let local = local.map(|local| local.to_canonical());
        let notice = Notice { at, socket: self.socket, local, peer: peer.canonical(), fact, datagram };
        self.fence.run("a watcher", || self.watchers.tell(&notice));
    }
}

/// Returns the progress of an exchange in an event.
fn progress(event: &Event<Address>) -> Option<(Address, ExchangeId, ExchangeState, Course)> {
    Some(match *event {
        Event::Response { exchange, from, ref message, course } => {
            (from, exchange, ExchangeState::Responded(message.code()), course)
        }
        Event::Acknowledged { exchange, from, course } => (from, exchange, ExchangeState::Acknowledged, course),
        Event::GroupOver { exchange, group, responses, course } => {
            (group, exchange, ExchangeState::GroupTimeout { responses }, course)
        }
        Event::Unanswered { exchange, peer, course } => (peer, exchange, ExchangeState::Unanswered, course),
        Event::Failed { exchange, peer, reason, course, .. } => (peer, exchange, ExchangeState::Failed(reason), course),
        _ => return None,
    })
}

/// Returns the reason whose counter a datagram has incremented.
fn why_dropped(before: &Stats, after: &Stats) -> Option<DropReason> {
    DropReason::ALL.into_iter().find(|reason| reason.count(after) > reason.count(before))
}

struct Decoded<'a>(&'a [u8]);

impl fmt::Display for Decoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Message::decode_extended(self.0) {
            Ok(message) => message.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}
