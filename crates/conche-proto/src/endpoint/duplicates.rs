//! Duplicates of requests (RFC 7252 §4.5): messages whose ID is in the deduplication table.

use core::num::NonZeroU16;

use super::Endpoint;
use super::outbox::{Departure, Source};
use super::validation::allows;
use crate::PeerKey;
use crate::codec::{Message, Type};
use crate::message::{Remembered, Reply};
use conche_cc::Controller;

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Answers a duplicate of a Confirmable request as before, within the bytes that `allowance`
    /// permits.
    pub(super) fn receive_copy(
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
}
