//! The way in of duplicates (RFC 7252 §4.5): a message whose ID is remembered.

use core::num::NonZeroU16;

use super::Endpoint;
use super::known::Known;
use super::outbox::Source;
use super::repeats::{Repeat, Verdict};
use super::validation::allows;
use crate::PeerKey;
use crate::codec::{Message, Type};
use crate::message::{Remembered, Reply};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// A message ID that is remembered came again, in a message that may be answered by so many bytes.
    pub(super) fn receive_copy(
        &mut self,
        now: Instant,
        (to, hash): (Source<P>, u64),
        message: &Message<'_>,
        remembered: Remembered,
        allowance: Option<NonZeroU16>,
    ) {
        self.stats.duplicates += 1;
        let (id, confirmable) = (message.id(), message.ty() == Type::Confirmable);
        match self.received.reply(remembered) {
            Some(reply) if !allows(allowance, reply.len()) => {}
            Some(Reply::Pending) => {}
            Some(reply) if confirmable => {
                let (acknowledges, repeat) = (matches!(reply, Reply::EmptyAck), Repeat { to, id, remembered });
                match Known::repeats(&mut self.known) {
                    Some(repeats) if !acknowledges => {
                        let arrived = self.received.arrived(now, remembered).unwrap_or(now);
                        let (verdict, early) = repeats.duplicate(now, hash, arrived, repeat);
                        early.into_iter().for_each(|early| self.outbox.push_back(early.into()));
                        match verdict {
                            Verdict::Repeat => self.outbox.push_back(repeat.into()),
                            Verdict::Hold => self.stats.held_repeats += 1,
                        }
                    }
                    _ => self.outbox.push_back(repeat.into()),
                }
            }
            _ => {}
        }
    }
}
