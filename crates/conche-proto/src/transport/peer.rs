//! [`Peer`]: the state of one destination.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use super::exchange::ExchangeIndex;
use super::message_id::{NextId, UsedIds};
use super::peer_table::Peers;
use crate::PeerKey;
use crate::codec::MessageId;
use crate::shares::Group;
use crate::store::{Chain, Linked, Links, List, index_type};
use conche_cc::control::{Load, NonHistory, Snapshot};
use conche_cc::units::Stamp;
use conche_cc::{Controller, Instant};

index_type!(pub(crate) PeerIndex);

#[derive(Debug)]
pub(crate) struct Peer<P, C: Controller> {
    pub(crate) key: P,
    pub(crate) controller: ControllerId,
    pub(crate) control: C::Peer,
    pub(crate) next_id: NextId,
    pub(crate) used_ids: UsedIds,
    pub(crate) non: NonSent,
    pub(crate) flags: PeerFlags,
    /// Since when a slot has been free with an empty queue; otherwise the far future.
    pub(crate) starved_since: Instant,
    pub(crate) trust: Trust,
    pub(crate) exchanges: Chain<Queue, ExchangeIndex>,
    /// Group charged for the peer.
    pub(super) group: Group,
    pub(super) usage: Usage,
}

impl<P, C: Controller> Peer<P, C> {
    /// Returns the load; `queued` excludes the message to be admitted.
    #[inline]
    pub(crate) fn load(&self, queued: u32) -> Load {
        let messages = self.messages();
        Load {
            exchanges: messages.outstanding,
            bytes: messages.outstanding_bytes,
            queued: u16::try_from(queued).unwrap_or(u16::MAX),
            non: self.non.history(),
        }
    }

    #[inline]
    pub(crate) fn load_without(&self, bytes: u32) -> Load {
        let load = self.load(self.messages().queued);
        Load { exchanges: load.exchanges.saturating_sub(1), bytes: load.bytes.saturating_sub(bytes), ..load }
    }

    /// Allocates a message ID. `Err`: when the next one will be free.
    #[inline]
    pub(crate) fn allocate_id(&mut self, now: Instant, lifetime: Duration) -> Result<MessageId, Instant> {
        self.used_ids.allocate(&mut self.next_id, now, lifetime)
    }

    /// Returns when the next message ID is free; `None` if it is now.
    pub(crate) fn ids_blocked_until(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
        self.used_ids.blocked_until(self.next_id, now, lifetime)
    }

    /// Returns when message IDs beyond the current block of 1024 are free; `None` if some are free
    /// now.
    pub(crate) fn ids_scarce_until(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
        self.used_ids.scarce_until(self.next_id, now, lifetime)
    }

    /// Returns `true` if its own message created it and its address is unproven.
    pub(super) fn is_unproven(&self) -> bool {
        self.group != Group::NOBODY && !self.flags.has(PeerFlag::Answered) && !self.flags.has(PeerFlag::Validated)
    }

    #[inline]
    pub(crate) fn heard(&mut self) {
        self.flags.set(PeerFlag::Silent, false);
        self.non.heard();
    }

    #[inline]
    pub(crate) fn messages(&self) -> &PeerMessages {
        match &self.usage {
            Usage::Busy { messages, .. } => messages,
            Usage::Idle { .. } => &PeerMessages::NONE,
        }
    }

    #[inline]
    pub(crate) fn messages_mut(&mut self) -> &mut PeerMessages {
        match &mut self.usage {
            Usage::Busy { messages, .. } => messages,
            Usage::Idle { .. } => unreachable!("an exchange holds its peer"),
        }
    }

    #[inline]
    pub(crate) fn occupy_slot(&mut self, bytes: u32) {
        let messages = self.messages_mut();
        messages.outstanding = messages.outstanding.saturating_add(1);
        messages.outstanding_bytes = messages.outstanding_bytes.saturating_add(bytes);
    }

    #[inline]
    pub(crate) fn free_slot(&mut self, bytes: u32) {
        let messages = self.messages_mut();
        messages.outstanding = messages.outstanding.saturating_sub(1);
        messages.outstanding_bytes = messages.outstanding_bytes.saturating_sub(bytes);
    }

    /// Returns the earliest time for a Non-confirmable message; `None` if it may leave now.
    pub(crate) fn probing_allows_at(&self, now: Instant, probing_rate: u32) -> Option<Instant> {
        let unresponsive = self.flags.has(PeerFlag::Silent)
            || self.non.since_confirmable >= UNANSWERED_BEFORE_SILENT
            || self.non.unanswered_bytes >= UNANSWERED_BYTES_BEFORE_SILENT;
        let since = self.non.history().unanswered_since.filter(|_| unresponsive)?;
        let debt = u64::from(self.non.unanswered_bytes) * 1_000_000_000 / u64::from(probing_rate.max(1));
        let earliest = since + Duration::from_nanos(debt);
        (earliest > now).then_some(earliest)
    }

    pub(crate) fn sent_non(&mut self, now: Instant, bytes: u32) {
        self.non.last = now;
        self.non.since_confirmable = self.non.since_confirmable.saturating_add(1);
        self.non.count_unanswered(now, bytes);
    }

    pub(crate) fn sent_confirmable(&mut self, now: Instant, bytes: u32, in_place_of_non: bool) {
        self.non.since_confirmable = 0;
        if in_place_of_non {
            self.non.count_unanswered(now, bytes);
        }
    }
}

#[derive(Debug)]
pub(super) struct Idle;

/// A snapshot of a peer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerSnapshot {
    /// The controller assigned to the peer.
    pub controller: ControllerId,
    /// The controller's state.
    pub congestion: Snapshot,
    /// Exchanges with an NSTART slot.
    pub outstanding: u16,
    /// Messages that wait for admission.
    pub queued: usize,
}

/// Identifies one of an endpoint's controllers; 0 is the initial one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ControllerId(u8);

pub(crate) type ChooseController<P> = Box<dyn Fn(&P) -> ControllerId + Send + Sync>;

/// All controllers, at least one.
pub(crate) struct Controllers<P, C> {
    all: Vec<C>,
    choose: Option<ChooseController<P>>,
}

impl<P, C: Controller> Controllers<P, C> {
    pub(crate) fn new(first: C) -> Self {
        Self { all: Vec::from([first]), choose: None }
    }

    /// Adds a controller; `None` if there are 256 already.
    pub(crate) fn add(&mut self, controller: C) -> Option<ControllerId> {
        let id = u8::try_from(self.all.len()).ok()?;
        self.all.push(controller);
        Some(ControllerId(id))
    }

    pub(crate) fn choose(&mut self, choose: ChooseController<P>) {
        self.choose = Some(choose);
    }

    /// Returns a controller; the first one if the ID belongs to another endpoint.
    pub(crate) fn get(&self, id: ControllerId) -> &C {
        self.all.get(usize::from(id.0)).unwrap_or(&self.all[0])
    }

    pub(crate) fn of(&self, key: &P) -> ControllerId {
        let chosen = self.choose.as_ref().map_or_else(ControllerId::default, |choose| choose(key));
        if usize::from(chosen.0) < self.all.len() { chosen } else { ControllerId::default() }
    }
}

impl<P, C> fmt::Debug for Controllers<P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controllers").field("count", &self.all.len()).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
pub(crate) enum PeerFlag {
    /// A Confirmable message was given up, and nothing has arrived since.
    Silent = 1,
    /// Its path seeded its congestion state, and it has no RTT sample of its own.
    Seeded = 2,
    Waits = 4,
    Lost = 8,
    /// It has acknowledged or answered a message since its congestion state was created.
    Answered = 16,
    Validated = 32,
    /// It is in the list of idle unproven peers.
    Listed = 64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerFlags(u8);

impl PeerFlags {
    #[inline]
    pub(crate) fn has(self, flag: PeerFlag) -> bool {
        self.0 & flag as u8 != 0
    }

    /// Returns the previous value.
    #[inline]
    pub(crate) fn set(&mut self, flag: PeerFlag, so: bool) -> bool {
        let was = self.has(flag);
        self.0 = if so { self.0 | flag as u8 } else { self.0 & !(flag as u8) };
        was
    }
}

#[derive(Debug)]
pub(crate) struct Queue;

#[derive(Debug)]
pub(super) enum Usage {
    Idle {
        last_used: Instant,
        links: Links,
    },
    Busy {
        /// Never zero, which distinguishes the variants without an extra byte.
        holds: NonZeroU32,
        messages: PeerMessages,
    },
}

#[derive(Debug)]
pub(crate) struct PeerMessages {
    pub(crate) queue: List<Queue, ExchangeIndex>,
    pub(crate) queued: u32,
    /// Exchanges with an NSTART slot (RFC 7252 §4.7), and their bytes.
    pub(crate) outstanding: u16,
    pub(crate) outstanding_bytes: u32,
}

impl PeerMessages {
    const NONE: Self = Self { queue: List::new(), queued: 0, outstanding: 0, outstanding_bytes: 0 };
}

impl Usage {
    pub(super) const BUSY: Self = Self::Busy { holds: NonZeroU32::MIN, messages: PeerMessages::NONE };

    pub(super) fn idle(last_used: Instant) -> Self {
        Self::Idle { last_used, links: Links::default() }
    }
}

impl<P, C: Controller> Linked<Idle> for Peer<P, C> {
    #[inline]
    fn links(&mut self) -> &mut Links {
        match &mut self.usage {
            Usage::Idle { links, .. } => links,
            Usage::Busy { .. } => unreachable!("a peer in the list of idle ones is idle"),
        }
    }
}

/// Number of unanswered Non-confirmable messages before the limit applies: a controller's
/// Confirmable probes (2 of 16, draft-ietf-core-cocoa-03 §5) must have been answered.
const UNANSWERED_BEFORE_SILENT: u8 = 16;

/// Number of unanswered bytes before the limit applies: eight messages of the maximum size for an
/// unknown path MTU (RFC 7252 §4.6) with UDP and IPv4 headers.
const UNANSWERED_BYTES_BEFORE_SILENT: u32 = 8 * (1152 + 28);

/// [`NonHistory`] without `Option`s: missing times are [`Instant::FAR_FUTURE`]. Packed.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed)]
pub(crate) struct NonSent {
    last: Instant,
    unanswered_since: Instant,
    unanswered_bytes: u32,
    since_confirmable: u8,
}

impl Default for NonSent {
    fn default() -> Self {
        Self {
            last: Instant::FAR_FUTURE,
            unanswered_since: Instant::FAR_FUTURE,
            unanswered_bytes: 0,
            since_confirmable: 0,
        }
    }
}

impl NonSent {
    pub(crate) fn history(&self) -> NonHistory {
        let happened = |at: Instant| (at != Instant::FAR_FUTURE).then_some(at);
        NonHistory {
            last: happened(self.last),
            since_confirmable: self.since_confirmable,
            unanswered_since: happened(self.unanswered_since),
            unanswered_bytes: self.unanswered_bytes,
        }
    }

    pub(super) fn heard(&mut self) {
        self.unanswered_since = Instant::FAR_FUTURE;
        self.unanswered_bytes = 0;
    }

    /// Records the response to the request sent at `sent`.
    pub(crate) fn answered(&mut self, sent: Instant) {
        if { self.last } == sent {
            self.last = Instant::FAR_FUTURE;
        }
    }

    fn count_unanswered(&mut self, now: Instant, bytes: u32) {
        self.unanswered_since = self.unanswered_since.min(now);
        self.unanswered_bytes = self.unanswered_bytes.saturating_add(bytes);
    }
}

/// Number of wrong guesses that ends the trust. Retransmission then continues until a response with
/// the right token arrives.
const DISTRUST: u8 = 16;

/// Milliseconds after which one wrong guess is forgiven.
const FORGIVEN_EVERY_MS: u32 = 4_000;

/// Maximum number of guesses counted; the longest distrust ends 196 s after the last one.
const MOST: u8 = 64;

/// Wrong guesses not yet forgiven. Packed to fill the padding of other fields.
#[derive(Clone, Copy, Debug, Default)]
#[repr(Rust, packed)]
pub(crate) struct Trust {
    guesses: u8,
    since: Stamp,
}

impl Trust {
    /// Counts an Empty ACK or Reset that matches nothing. A recent ID may be a late duplicate.
    pub(crate) fn guessed(&mut self, now: Instant, id: MessageId, next: NextId) {
        if next.is_recent(id) {
            return;
        }
        self.forgive(now);
        if self.guesses == 0 {
            self.since = Stamp::at(now);
        }
        self.guesses = (self.guesses + 1).min(MOST);
    }

    pub(crate) fn is_given(&mut self, now: Instant) -> bool {
        self.forgive(now);
        self.guesses < DISTRUST
    }

    fn forgive(&mut self, now: Instant) {
        let forgiven = self.since.age_ms(Stamp::at(now)) / FORGIVEN_EVERY_MS;
        if self.guesses > 0 && forgiven > 0 {
            self.guesses = u8::try_from(forgiven).map_or(0, |forgiven| self.guesses.saturating_sub(forgiven));
            self.since = Stamp::at(now);
        }
    }
}

/// A search for the busiest peers, in steps.
#[derive(Clone, Debug)]
pub struct BusiestPeersSearch {
    most: usize,
    next: usize,
    /// The least busy first.
    busiest: BinaryHeap<(Reverse<u64>, PeerIndex)>,
}

impl BusiestPeersSearch {
    /// Creates a search for the `most` peers with the most exchanges in flight and queued messages.
    #[must_use]
    pub const fn of(most: usize) -> Self {
        Self { most, next: 0, busiest: BinaryHeap::new() }
    }

    fn meet(&mut self, load: u64, index: PeerIndex) {
        let met = (Reverse(load), index);
        if self.busiest.len() < self.most {
            self.busiest.push(met);
        } else if let Some(mut least) = self.busiest.peek_mut()
            && met < *least
        {
            *least = met;
        }
    }
}

impl<P: PeerKey, C: Controller> Peers<P, C> {
    /// Visits `places` more places. After the last, returns the busiest peers that still exist.
    pub(crate) fn survey(&self, survey: &mut BusiestPeersSearch, places: usize) -> Option<Vec<PeerIndex>> {
        let end = if survey.most == 0 { 0 } else { self.slots.places() };
        let until = survey.next.saturating_add(places.max(1)).min(end);
        for place in survey.next..until {
            let Ok(index) = u32::try_from(place) else { break };
            let index = PeerIndex(index);
            if let Some(peer) = self.slots.get(index) {
                survey.meet(load(peer), index);
            }
        }
        survey.next = until;
        if until < end {
            return None;
        }
        let busiest = core::mem::take(&mut survey.busiest).into_sorted_vec().into_iter();
        Some(busiest.map(|(_, index)| index).filter(|&index| self.slots.get(index).is_some()).collect())
    }
}

fn load<P, C: Controller>(peer: &Peer<P, C>) -> u64 {
    u64::from(peer.messages().outstanding) + u64::from(peer.messages().queued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leaves_the_others_as_they_are() {
        let mut flags = PeerFlags::default();
        assert!(!flags.set(PeerFlag::Seeded, true) && !flags.set(PeerFlag::Waits, true));
        assert!(flags.set(PeerFlag::Seeded, false));
        assert_eq!(
            [PeerFlag::Silent, PeerFlag::Seeded, PeerFlag::Waits].map(|flag| flags.has(flag)),
            [false, false, true]
        );
    }
}

#[cfg(test)]
mod trust_tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn distrust_begins_with_the_sixteenth_guess_and_ends_196_seconds_after_the_last() {
        let (mut trust, next) = (Trust::default(), NextId::starting_at(0x8000));
        let mut now = Instant::from_millis(77_777);
        for _ in 0..15 {
            trust.guessed(now, MessageId(5), next);
            assert!(trust.is_given(now));
        }
        for _ in 0..65_536 {
            trust.guessed(now, MessageId(5), next);
            assert!(!trust.is_given(now));
        }
        now += Duration::from_secs(191);
        assert!(!trust.is_given(now), "it fades slowly");
        now += Duration::from_secs(8);
        assert!(trust.is_given(now));
    }

    #[test]
    fn a_guess_every_few_seconds_costs_no_trust() {
        let (mut trust, next) = (Trust::default(), NextId::starting_at(0x8000));
        for n in 0..1_000 {
            let now = Instant::from_millis(n * 4_100);
            trust.guessed(now, MessageId(5), next);
            assert!(trust.is_given(now));
        }
    }
}
