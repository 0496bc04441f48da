//! [`Pings`]: sources with an unanswered ping, and the messages held for each of them.
//!
//! Every bound is in total and by source group: a group holds at most as much as is free for all
//! others.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::time::Duration;

use super::LIFETIME;
use crate::codec::{MessageId, OwnedMessage};
use crate::exchange::Response;
use crate::hash::Fingerprint;
use crate::incoming::{EMPTY_BYTES, Waiting};
use crate::security::Security;
use crate::server::receive::Arrival;
use crate::shares::{Group, Shares};
use crate::store::{Arena, Index, Linked, Links, List};
use crate::transport::Source;
use conche_cc::Instant;

/// Maximum number of pings to a source without a new datagram of it.
const MOST_PINGS: u8 = 3;

/// The number of intervals in which a source can answer.
const INTERVALS: u8 = 6;

/// Bytes kept of a request's allowance when it pays for another ping: a 4.01 with an Echo value and
/// a token of 8 bytes.
const RESERVE: u16 = 35;

/// Maximum number of messages held for one source.
const HELD_PER_SOURCE: usize = 16;

/// Maximum bytes of all held messages, each counted with [`OVERHEAD`].
const HELD_BYTES: usize = 1 << 20;

/// Bytes of a held message beside its own.
const OVERHEAD: usize = 256;

/// Maximum number of wrong answers from one host in each [`LIFETIME`]. After that the host's
/// answers prove nothing until the next period. A forger guesses one of the 2^16 message IDs of a
/// host in three days. Other hosts of its network keep their proofs: anybody can send wrong
/// answers.
const GUESSES: usize = 64;

/// A message held until its source answers a ping.
#[derive(Debug)]
pub(crate) enum Held<P> {
    /// A request that was not passed to the application.
    Request(Box<(Arrival<P>, OwnedMessage)>),
    /// The response to a request.
    Response(Box<(Waiting<P>, Security, Response)>),
}

impl<P> Held<P> {
    fn bytes(&self) -> usize {
        OVERHEAD
            + match self {
                Self::Request(request) => request.1.view().as_bytes().len(),
                Self::Response(response) => response.2.body.len(),
            }
    }

    fn allowance(&mut self) -> &mut Option<NonZeroU16> {
        match self {
            Self::Request(request) => &mut request.0.allowance,
            Self::Response(response) => &mut response.0.allowance,
        }
    }

    /// Pays for a ping from the allowance of the request. Returns `false` if less than `left` would
    /// remain.
    fn pays(&mut self, left: u16) -> bool {
        let allowance = self.allowance();
        let rest =
            allowance.and_then(|allowance| allowance.get().checked_sub(EMPTY_BYTES)).filter(|&rest| rest >= left);
        if let Some(rest) = rest {
            *allowance = Some(NonZeroU16::new(rest).unwrap_or(NonZeroU16::MIN));
        }
        rest.is_some()
    }
}

/// A source with an unanswered ping.
#[derive(Debug)]
pub(crate) struct Pinged<P> {
    hash: u64,
    to: Source<P>,
    group: Group,
    host: Group,
    id: MessageId,
    due: Instant,
    pings: u8,
    intervals: u8,
    /// The bytes that retransmissions of held requests paid for, less those of pings.
    credit: usize,
    held: Vec<(Fingerprint, Held<P>)>,
    links: Links,
}

impl<P> Pinged<P> {
    pub(in crate::server) fn into_held(self) -> impl Iterator<Item = Held<P>> {
        self.held.into_iter().map(|(_, held)| held)
    }

    /// Returns the bytes that retransmissions paid for and that were not used.
    pub(in crate::server) fn credit(&self) -> usize {
        self.credit
    }

    /// Pays for another ping. Returns `false` if none may be sent.
    fn pays_for_another(&mut self) -> bool {
        if self.pings >= MOST_PINGS {
            return false;
        }
        if let Some(rest) = self.credit.checked_sub(EMPTY_BYTES.into()) {
            self.credit = rest;
            return true;
        }
        self.held.iter_mut().any(|(_, held)| held.pays(RESERVE))
    }
}

#[derive(Debug)]
struct ByDue;

impl<P> Linked<ByDue> for Pinged<P> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The next action for a source.
pub(crate) enum Due<P> {
    /// Send another ping.
    Ping(Source<P>, MessageId),
    /// Keep waiting.
    Wait,
    /// Its time for an answer is over.
    Over(Pinged<P>),
}

/// The source of a message to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<P> {
    pub(crate) source: Source<P>,
    pub(crate) hash: u64,
    pub(crate) group: Group,
    pub(crate) host: Group,
    /// Identifies the request.
    pub(crate) what: Fingerprint,
}

/// All sources with an unanswered ping.
#[derive(Debug)]
pub(crate) struct Pings<P> {
    pinged: Arena<Pinged<P>>,
    index: Index,
    /// The interval is the same for all, so the first is due first.
    order: List<ByDue>,
    interval: Duration,
    /// Bytes of the held messages, by source group.
    shares: Shares,
    held: usize,
    /// Wrong answers in the period that ends at `guesses_until`, by host.
    guesses: Shares,
    guesses_until: Instant,
}

impl<P> Pings<P> {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self {
            pinged: Arena::new(),
            index: Index::new(),
            order: List::new(),
            interval,
            shares: Shares::new(),
            held: 0,
            guesses: Shares::new(),
            guesses_until: Instant::ZERO,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pinged.len() == 0
    }

    /// Returns the number of sources.
    pub(crate) fn len(&self) -> usize {
        self.pinged.len()
    }

    /// Returns the number of held messages.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        Some(self.pinged.get(self.order.first()?)?.due)
    }

    /// Credits a retransmission of a held request to its source's pings. Returns `false` if no such
    /// request is held.
    pub(in crate::server) fn is_held(&mut self, hash: u64, what: Fingerprint, allowance: NonZeroU16) -> bool {
        let Some(index) = self.find(hash) else { return false };
        let pinged = &mut self.pinged[index];
        let held = pinged.held.iter().any(|(held, _)| *held == what);
        if held {
            pinged.credit = pinged.credit.saturating_add(allowance.get().into());
            pinged.pings = 0;
        }
        held
    }

    /// Holds a message until its source answers a ping. Returns the message ID of the ping to send,
    /// or `None` if one is unanswered already.
    ///
    /// The group must [have room](Self::has_room) for it.
    ///
    /// # Errors
    /// Returns the message if its source holds too many, if its bytes do not pay for a ping, or if
    /// its host made too many wrong answers.
    pub(in crate::server) fn hold(
        &mut self,
        now: Instant,
        from: &Origin<P>,
        id: MessageId,
        mut held: Held<P>,
    ) -> Result<Option<MessageId>, Held<P>>
    where
        P: Copy,
    {
        let bytes = held.bytes();
        if !self.believes(now, from.host) {
            return Err(held);
        }
        let index = match self.find(from.hash) {
            Some(index) if self.pinged[index].held.len() >= HELD_PER_SOURCE => return Err(held),
            Some(index) => {
                self.pinged[index].held.push((from.what, held));
                self.pinged[index].intervals = 0;
                self.held += 1;
                self.shares.take(from.group, bytes);
                return Ok(None);
            }
            None if !held.pays(0) => return Err(held),
            None => {
                let pinged = Pinged {
                    hash: from.hash,
                    to: from.source,
                    group: from.group,
                    host: from.host,
                    id,
                    due: now + self.interval,
                    pings: 1,
                    intervals: 0,
                    credit: 0,
                    held: Vec::new(),
                    links: Links::default(),
                };
                match self.pinged.insert(pinged) {
                    Some(index) => index,
                    None => return Err(held),
                }
            }
        };
        self.pinged[index].held.push((from.what, held));
        self.index.insert(from.hash, index);
        self.order.push_back(&mut self.pinged, index);
        self.held += 1;
        self.shares.take(from.group, bytes);
        Ok(Some(id))
    }

    /// Removes a source to make room for another one of this group, if the source has had half an
    /// interval for its answer and its own group holds more bytes.
    pub(in crate::server) fn make_room(&mut self, now: Instant, group: Group) -> Option<Pinged<P>> {
        let first = self.order.first()?;
        let pinged = &self.pinged[first];
        if pinged.due > now + self.interval / 2 || self.shares.held(pinged.group) <= self.shares.held(group) {
            return None;
        }
        self.remove(first)
    }

    /// Returns whether the share of a group has room for this message.
    pub(in crate::server) fn has_room(&self, group: Group, held: &Held<P>) -> bool {
        self.shares.admits(group, held.bytes(), HELD_BYTES)
    }

    /// Handles an Empty ACK or a Reset of a source. Returns whether it answers the source's ping. A
    /// wrong message ID is counted.
    pub(in crate::server) fn is_answered(&mut self, now: Instant, hash: u64, id: MessageId) -> bool {
        let Some(index) = self.find(hash) else { return false };
        let (host, is_right) = (self.pinged[index].host, self.pinged[index].id == id);
        let believed = self.believes(now, host);
        if believed && !is_right {
            self.guesses.take(host, 1);
        }
        believed && is_right
    }

    /// Returns whether the unanswered ping of a source has this message ID.
    pub(in crate::server) fn has_id(&mut self, hash: u64, id: MessageId) -> bool {
        self.find(hash).is_some_and(|index| self.pinged[index].id == id)
    }

    pub(in crate::server) fn take(&mut self, hash: u64) -> Option<Pinged<P>> {
        let index = self.find(hash)?;
        self.remove(index)
    }

    /// Returns the next action for the first source with a finished interval.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Due<P>>
    where
        P: Copy,
    {
        let index = self.order.first().filter(|&first| self.pinged[first].due <= now)?;
        self.order.remove(&mut self.pinged, index);
        let pinged = &mut self.pinged[index];
        pinged.intervals += 1;
        if pinged.intervals >= INTERVALS {
            self.order.push_back(&mut self.pinged, index);
            return self.remove(index).map(Due::Over);
        }
        pinged.due = now + self.interval;
        let again = pinged.pays_for_another();
        pinged.pings += u8::from(again);
        let due = if again { Due::Ping(pinged.to, pinged.id) } else { Due::Wait };
        self.order.push_back(&mut self.pinged, index);
        Some(due)
    }

    /// Returns whether answers of this host are accepted. Guesses of other hosts, [`GUESSES`] each,
    /// that fall into its cells do not count.
    fn believes(&mut self, now: Instant, host: Group) -> bool {
        if now >= self.guesses_until {
            (self.guesses, self.guesses_until) = (Shares::new(), now + LIFETIME);
        }
        self.guesses.excess(host, GUESSES) < GUESSES
    }

    fn remove(&mut self, index: u32) -> Option<Pinged<P>> {
        self.order.remove(&mut self.pinged, index);
        self.index.remove(index);
        let pinged = self.pinged.take(index)?;
        for (_, held) in &pinged.held {
            self.shares.give_back(pinged.group, held.bytes());
        }
        self.held -= pinged.held.len();
        Some(pinged)
    }

    fn find(&mut self, hash: u64) -> Option<u32> {
        self.index.find(&self.pinged, hash, |pinged: &Pinged<P>| pinged.hash == hash)
    }
}
