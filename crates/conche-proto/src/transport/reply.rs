//! Acknowledgements, Resets, and replies to duplicates (RFC 7252 §4.2 to §4.5).

use core::num::NonZeroU16;

use super::{Departure, Source, Transport};
use crate::PeerKey;
use crate::codec::{Message, MessageId, Type};
use crate::config::ResponseLimit;
use crate::hash::Fingerprint;
use crate::limit::Limiter;
use crate::message::{Received, Remembered, Reply};
use crate::shares::Group;
use conche_cc::{Controller, Instant};

/// Rate limit for Resets that reject responses of one source.
const RESETS: ResponseLimit = ResponseLimit { per_second: 1, burst: 16 };

/// Returns whether a message of this size may be sent to a source with this allowance.
pub(crate) fn allows(allowance: Option<NonZeroU16>, bytes: usize) -> bool {
    allowance.is_none_or(|allowance| bytes <= usize::from(allowance.get()))
}

impl<P: PeerKey, C: Controller> Transport<P, C> {
    /// Inserts a message into the deduplication table, if there is room. Pending replies of entries
    /// that are evicted for it are still sent.
    #[inline]
    pub(crate) fn remember(&mut self, now: Instant, received: Received, reply: Reply) -> Option<Remembered> {
        self.received.insert(now, received, reply, |received| self.outbox.keep(received)).ok()
    }

    /// Answers a duplicate of a Confirmable request as before, within the bytes that `allowance`
    /// permits.
    pub(crate) fn receive_copy(
        &mut self,
        to: Source<P>,
        message: &Message<'_>,
        remembered: Remembered,
        allowance: Option<NonZeroU16>,
    ) {
        self.stats.duplicates += 1;
        match self.received.reply(remembered) {
            None | Some(Reply::Pending) => {}
            Some(reply) if message.ty() != Type::Confirmable || !allows(allowance, reply.len()) => {}
            Some(_) => self.outbox.push_back(Departure::Remembered { to, id: message.id(), remembered }),
        }
    }

    pub(crate) fn push_empty(&mut self, to: Source<P>, ty: Type, id: MessageId) {
        self.outbox.push_back(Departure::Empty { to, ty, id });
    }

    /// Rejects a message without context or of a reserved class; also answers a ping.
    pub(crate) fn reject(&mut self, source: Source<P>, message: &Message<'_>) {
        if message.ty() == Type::Confirmable {
            self.push_empty(source, Type::Reset, message.id());
        }
    }

    /// Rejects a response with a Reset, or by ignoring it (RFC 7252 §4.2, §4.3) if its sender
    /// exceeds [`RESETS`]. A peer that answers a Reset with another response would do so forever.
    pub(crate) fn reject_response(&mut self, now: Instant, source: Source<P>, hash: u64, id: MessageId) {
        let limiters = self.limiters.get_or_insert_default();
        let resets = limiters.resets.get_or_insert_with(|| Limiter::small(RESETS));
        if resets.admits(now, Group::of(hash)) {
            self.push_empty(source, Type::Reset, id);
        } else {
            self.stats.resets_limited += 1;
        }
    }

    /// Acknowledges a Confirmable message with an Empty ACK, also its duplicates while it is
    /// remembered.
    pub(crate) fn acknowledge_empty(&mut self, now: Instant, to: Source<P>, what: Fingerprint, id: MessageId) {
        let _ = self.remember(now, Received { what, confirmable: true, idempotent: Ok(()) }, Reply::EmptyAck);
        self.push_empty(to, Type::Acknowledgement, id);
    }

    /// Remembers a Non-confirmable message, so that its duplicates are ignored.
    pub(crate) fn remember_silence(&mut self, now: Instant, what: Fingerprint) {
        let _ = self.remember(now, Received { what, confirmable: false, idempotent: Ok(()) }, Reply::Silence);
    }
}
