//! [`Paths`]: shared state and window of the peers of a path. The application defines the paths: an
//! address with all its ports, or a network behind a border router.
//!
//! [`Gate`]: limits the concurrent exchanges over one path, across all peers.
//!
//! A client that polls four hundred devices behind one thin link fills the link's queue with four
//! hundred initial messages, and each device's controller notices only when its own timer expires.
//! The peers of a path therefore share one window (the macroflow of RFC 3124). It is sized like
//! FAST TCP's (Wei, Jin, Low, Hegde, IEEE/ACM Transactions on Networking 14(6), 2006); once per
//! round trip it becomes
//!
//! ```text
//!   window · 2·base / rtt        at most doubled, at most halved
//! ```
//!
//! It doubles on an empty path and settles when the queueing delay equals the base RTT: at twice
//! the bandwidth-delay product. Such a queue causes no timeouts, and the link never idles.
//!
//! `rtt` is the first quartile of the last eight round trips, no two consecutive ones of the same
//! peer: the delay that *all but a few* peers observe, so that a single slow peer slows no other.
//! If the quartile is less than half of the median, half of the peers are behind another
//! bottleneck, or some are much closer. Then the window doubles, until each peer is limited by its
//! own controller or a common queue makes the round trips similar. (RFC 8382 also detects shared
//! bottlenecks by delays.)
//!
//! All messages with an NSTART slot count, except responses and messages to a peer that did not
//! answer its last one. A Non-confirmable message counts until its response or its controller's
//! timeout.
//!
//! While only one peer of the path has exchanges in progress, only its NSTART applies. Peers that
//! have never answered wait in a separate queue, and both queues take turns: a client that
//! registers many unreachable observers takes at most every other turn.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::peer::{PeerFlag, PeerFlags, PeerIndex};
use crate::hash::Keyed;
use crate::store::{Arena, ArenaIndex, Index, Linked, Links, List, index_type};
use conche_cc::Instant;
use conche_cc::path_history::PathHistory;

/// Identifies a path: an address prefix, IPv4 as IPv4-mapped (RFC 4291 §2.5.5.2), or any 128-bit
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathKey {
    prefix: u128,
    length: u8,
}

impl PathKey {
    /// Creates a key from the first `length` bits of `prefix`; at most 128.
    #[must_use]
    pub fn new(prefix: u128, length: u8) -> Self {
        let length = length.min(128);
        let rest = u32::from(128 - length);
        Self { prefix: prefix.checked_shr(rest).and_then(|bits| bits.checked_shl(rest)).unwrap_or(0), length }
    }

    /// Returns the prefix, padded with zeros.
    #[must_use]
    pub fn prefix(self) -> u128 {
        self.prefix
    }

    /// Returns the number of significant bits.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }
}

index_type!(pub(crate) PathIndex);

/// Returns the path to a peer; `None` if the peer shares none.
pub(crate) type ChoosePath<P> = Box<dyn Fn(&P) -> Option<PathKey> + Send + Sync>;

/// Minimum initial timeout of a peer without its own RTT sample (RFC 8085 §3.1.1; RFC 8961 §4 (1)).
pub(crate) const LEAST_UNMEASURED: Duration = Duration::from_secs(1);

/// The paths with shared state. Beyond the limit, the path without news for longest is evicted, but
/// none with exchanges in progress.
pub(crate) struct Paths<P> {
    pub(super) choose: ChoosePath<P>,
    slots: Arena<Path, PathIndex>,
    index: Index<PathIndex>,
    oldest: List<Oldest, PathIndex>,
    /// Paths whose gate may be open for a waiting peer.
    opened: Vec<PathIndex>,
    /// The peer that has the turn and need not queue again.
    turn: Option<PeerIndex>,
    /// The path found last: an exchange asks twice, and many peers may share it.
    recent: PathIndex,
    hash: Keyed,
    capacity: usize,
}

/// The decision of a path about a new exchange.
pub(crate) enum Entry {
    /// The path has no gate.
    Free,
    /// Admitted; `waited` if the peer had to wait.
    Through {
        path: PathIndex,
        waited: bool,
    },
    Wait,
}

/// The outcome of the first transmission of a message.
pub(crate) enum TransmissionOutcome {
    /// This peer answered it; with the RTT, if it is a valid sample.
    Answered {
        peer: PeerIndex,
        round_trip: Option<Duration>,
    },
    Lost,
    /// Cancelled or never sent.
    Unknown,
}

/// Idle paths: first those without state, then by last news, oldest first.
struct Oldest;

struct Path {
    key: PathKey,
    group: PathHistory,
    gate: Gate,
    links: Links,
}

impl Linked<Oldest> for Path {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<P> Paths<P> {
    pub(crate) fn new(choose: ChoosePath<P>, capacity: usize, hash: Keyed) -> Self {
        Self {
            choose,
            slots: Arena::new(),
            index: Index::new(),
            oldest: List::new(),
            opened: Vec::new(),
            turn: None,
            recent: PathIndex::NONE,
            hash,
            capacity,
        }
    }

    #[inline]
    fn find(&mut self, key: PathKey) -> Option<PathIndex> {
        if self.slots.get(self.recent).is_some_and(|path| path.key == key) {
            return Some(self.recent);
        }
        let found = self.index.find(&self.slots, self.hash.hash(&key), |path: &Path| path.key == key);
        self.recent = found.unwrap_or(self.recent);
        found
    }

    pub(crate) fn to(&self, peer: &P) -> Option<&PathHistory> {
        let key = (self.choose)(peer)?;
        let index = self.index.peek(&self.slots, self.hash.hash(&key), |path: &Path| path.key == key)?;
        Some(&self.slots[index].group)
    }

    /// Returns the group of the path to a peer, for updates.
    pub(crate) fn heard(&mut self, now: Instant, peer: &P) -> Option<&mut PathHistory> {
        let key = (self.choose)(peer)?;
        self.renew(key, || PathHistory::new(now)).map(|index| &mut self.slots[index].group)
    }

    /// Restores the state of a path, unless a newer one exists.
    pub(crate) fn remember(&mut self, key: PathKey, group: PathHistory) {
        let known = self.renew(key, || group).map(|index| &mut self.slots[index].group);
        if let Some(known) = known.filter(|known| known.learnt().is_none() || known.heard() < group.heard()) {
            *known = group;
        }
    }

    pub(crate) fn forget(&mut self, peer: &P) {
        let Some(key) = (self.choose)(peer) else { return };
        if let Some(index) = self.find(key) {
            // Exchanges in progress continue and count.
            match &mut self.slots[index] {
                path if path.gate.is_idle() => self.remove(index),
                path => path.group = PathHistory::new(path.group.heard()),
            }
        }
    }

    fn renew(&mut self, key: PathKey, new: impl FnOnce() -> PathHistory) -> Option<PathIndex> {
        let index = match self.find(key) {
            Some(index) if self.slots[index].gate.is_idle() => {
                self.oldest.remove(&mut self.slots, index);
                index
            }
            Some(index) => return Some(index),
            None => {
                self.make_room();
                if self.slots.len() >= self.capacity {
                    return None;
                }
                let path = Path { key, group: new(), gate: Gate::new(), links: Links::default() };
                let index = self.slots.insert(path)?;
                self.index.insert(self.hash.hash(&key), index);
                index
            }
        };
        self.oldest.push_back(&mut self.slots, index);
        Some(index)
    }

    /// Asks whether an exchange with a peer may start. If not, the peer [waits](Self::next).
    pub(crate) fn ask(&mut self, now: Instant, peer: PeerIndex, key: &P, flags: &mut PeerFlags) -> Entry {
        let Some(path) = (self.choose)(key) else { return Entry::Free };
        let Some(index) = self.renew(path, || PathHistory::new(now)) else { return Entry::Free };
        let Path { gate, group, .. } = &mut self.slots[index];
        // A window unused for minutes does not describe the path (RFC 7661 §4.4.3 has another
        // rule).
        if gate.is_idle() && now - group.heard() > PathHistory::FRESH {
            *gate = Gate::new();
        }
        let waited = self.turn == Some(peer);
        if gate.is_open_for(peer) && (waited || !gate.is_awaited()) {
            // The turn is used up.
            self.turn = None;
            return Entry::Through { path: index, waited };
        }
        let proven = flags.has(PeerFlag::Answered);
        if !flags.set(PeerFlag::Waits, true) {
            self.change(index, |gate| gate.wait(peer, proven));
        }
        Entry::Wait
    }

    pub(crate) fn enter(&mut self, index: PathIndex, peer: PeerIndex) {
        self.change(index, |gate| gate.enter(peer));
    }

    /// Records the end of an exchange, with the fate of its first transmission.
    pub(crate) fn leave(&mut self, index: PathIndex, fate: TransmissionOutcome) {
        self.change(index, |gate| {
            gate.leave();
            match fate {
                TransmissionOutcome::Answered { peer, round_trip } => gate.answered(peer, round_trip),
                TransmissionOutcome::Lost => gate.lost(),
                TransmissionOutcome::Unknown => {}
            }
        });
    }

    /// Returns the next peer that has waited for its turn and may ask again.
    pub(crate) fn next(&mut self) -> Option<PeerIndex> {
        self.turn = None;
        while let Some(&index) = self.opened.last() {
            // The path may have been evicted after its last waiting peer left.
            let next = if self.slots.get(index).is_some() { self.change(index, Gate::next) } else { None };
            match next {
                Some(peer) => {
                    self.turn = Some(peer);
                    break;
                }
                None => {
                    self.opened.pop();
                }
            }
        }
        self.turn
    }

    /// Changes a gate, then updates its path's place in the lists.
    fn change<T>(&mut self, index: PathIndex, update: impl FnOnce(&mut Gate) -> T) -> T {
        let gate = &mut self.slots[index].gate;
        let was_idle = gate.is_idle();
        let changed = update(gate);
        let (is_idle, may_ask) = (gate.is_idle(), gate.is_awaited() && gate.is_open());
        if was_idle && !is_idle {
            self.oldest.remove(&mut self.slots, index);
        }
        if !was_idle && is_idle {
            // Requests to peers in ever new networks must not evict paths with state.
            match self.slots[index].group.learnt() {
                Some(_) => self.oldest.push_back(&mut self.slots, index),
                None => self.oldest.push_front(&mut self.slots, index),
            }
        }
        if may_ask && !self.opened.contains(&index) {
            self.opened.push(index);
        }
        changed
    }

    /// Returns the number of exchanges over paths with a gate.
    pub(crate) fn outstanding(&self) -> usize {
        self.slots.iter().map(|(_, path)| path.gate.outstanding() as usize).sum()
    }

    fn make_room(&mut self) {
        while self.slots.len() >= self.capacity
            && let Some(oldest) = self.oldest.first()
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, index: PathIndex) {
        self.oldest.remove(&mut self.slots, index);
        self.index.remove(index);
        self.slots.remove(index);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PathKey, &PathHistory)> {
        self.slots.iter().map(|(_, path)| (path.key, &path.group))
    }
}

impl<P> fmt::Debug for Paths<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paths").field("count", &self.slots.len()).finish_non_exhaustive()
    }
}

/// The minimum and initial window: NSTART of an adaptive CoAP (draft-ietf-core-cocoa-03 §4.3)
/// \[assumption\].
const LEAST: u32 = 4;
/// The maximum window: the number of message IDs of a single peer.
const MOST: u32 = 1 << 16;
/// The minimum base RTT, in microseconds. Shorter round trips consist of the hosts' own delays and
/// indicate no queue (compare `Temper::clock_granularity`).
const LEAST_BASE: u32 = 10_000;
const SAMPLES: usize = 8;

/// The window of a path, and the peers that wait for it.
#[derive(Debug)]
pub(super) struct Gate {
    window: u32,
    /// Exchanges with a first transmission that is neither acknowledged nor timed out.
    outstanding: u32,
    /// The peer of all these exchanges, if there is only one.
    only: Option<PeerIndex>,
    /// Peers with a message to send, in order of arrival: those that have answered before, and the
    /// others.
    waiting: [VecDeque<PeerIndex>; 2],
    next: usize,
    /// The minimum RTT over rounds, in microseconds; 0 before the first.
    base: u32,
    round: Round,
}

/// Events since the window was last changed.
#[derive(Debug, Default)]
struct Round {
    answered: u32,
    lost: u32,
    /// A peer had to wait: the window was fully used.
    full: bool,
    rtts: [u32; SAMPLES],
    sampled: usize,
    last_peer: Option<PeerIndex>,
    /// Exchanges admitted under a larger window, to be ignored for this one.
    stale: u32,
}

impl Gate {
    pub(super) fn new() -> Self {
        let waiting = [VecDeque::new(), VecDeque::new()];
        Self { window: LEAST, outstanding: 0, only: None, waiting, next: 0, base: 0, round: Round::default() }
    }

    pub(super) fn is_open_for(&self, peer: PeerIndex) -> bool {
        self.is_open() || self.only == Some(peer)
    }

    pub(super) fn is_open(&self) -> bool {
        self.outstanding < self.window
    }

    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0 && !self.is_awaited()
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|queue| !queue.is_empty())
    }

    /// Queues a peer; `proven` if it has answered before.
    pub(super) fn wait(&mut self, peer: PeerIndex, proven: bool) {
        self.round.full = true;
        self.waiting[usize::from(!proven)].push_back(peer);
    }

    pub(super) fn next(&mut self) -> Option<PeerIndex> {
        if !self.is_open() {
            return None;
        }
        let queue = if self.waiting[self.next].is_empty() { 1 - self.next } else { self.next };
        self.next = 1 - queue;
        self.waiting[queue].pop_front()
    }

    pub(super) fn enter(&mut self, peer: PeerIndex) {
        self.only = if self.outstanding == 0 || self.only == Some(peer) { Some(peer) } else { None };
        self.outstanding = self.outstanding.saturating_add(1);
    }

    pub(super) fn leave(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.only = self.only.filter(|_| self.outstanding > 0);
    }

    /// Records the answer to a first transmission.
    pub(super) fn answered(&mut self, peer: PeerIndex, round_trip: Option<Duration>) {
        if self.is_stale() {
            return;
        }
        let round = &mut self.round;
        round.answered += 1;
        if let Some(round_trip) = round_trip
            && round.last_peer.replace(peer) != Some(peer)
        {
            round.rtts[round.sampled % SAMPLES] = u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX).max(1);
            round.sampled += 1;
        }
        self.step_if_due();
    }

    pub(super) fn lost(&mut self) {
        if self.is_stale() {
            return;
        }
        self.round.lost += 1;
        self.step_if_due();
    }

    fn is_stale(&mut self) -> bool {
        let stale = &mut self.round.stale;
        let is_stale = *stale > 0;
        *stale = stale.saturating_sub(1);
        is_stale
    }

    /// Ends a round when as many exchanges have ended as the window allows.
    fn step_if_due(&mut self) {
        self.round.full |= self.is_awaited();
        let Round { answered, lost, full, .. } = self.round;
        if answered.saturating_add(lost) < self.window {
            return;
        }
        let view = self.round.view();
        let wanted = match view {
            _ if lost > answered => self.window / 2,
            Some(QueueEstimate::OneQueue { rtt }) => self.sized_for(rtt),
            Some(QueueEstimate::Apart) => self.window.saturating_mul(2),
            None => self.window,
        };
        let before = self.window;
        if wanted < self.window || full {
            self.window = wanted.clamp(LEAST, MOST);
        }
        let stale = if self.window < before { self.outstanding } else { 0 };
        // Few peers that answer in bursts give too few samples in one round.
        let (rtts, sampled) = if view.is_none() { (self.round.rtts, self.round.sampled) } else { Default::default() };
        self.round = Round { last_peer: self.round.last_peer, stale, rtts, sampled, ..Round::default() };
    }

    fn sized_for(&mut self, rtt: u32) -> u32 {
        // At the minimum window, the RTT is the path without our queue: another route, or other
        // traffic.
        if self.base == 0 || rtt < self.base || self.window == LEAST {
            self.base = rtt;
        }
        let base = self.base.max(LEAST_BASE);
        let wanted = u64::from(self.window) * 2 * u64::from(base) / u64::from(rtt);
        u32::try_from(wanted).unwrap_or(MOST).clamp(self.window / 2, self.window.saturating_mul(2))
    }
}

/// The state of a path according to its round trips.
enum QueueEstimate {
    OneQueue { rtt: u32 },
    Apart,
}

impl Round {
    fn view(&self) -> Option<QueueEstimate> {
        let mut rtts = self.rtts;
        let rtts = &mut rtts[..self.sampled.min(SAMPLES)];
        rtts.sort_unstable();
        let last = rtts.len().checked_sub(1).filter(|_| rtts.len() >= LEAST as usize)?;
        let (rtt, median) = (rtts[last / 4], rtts[last / 2]);
        Some(if rtt.saturating_mul(2) < median { QueueEstimate::Apart } else { QueueEstimate::OneQueue { rtt } })
    }
}

#[cfg(test)]
mod tests;
