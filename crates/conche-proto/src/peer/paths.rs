//! [`Paths`]: shared state and window of the peers of a path. The application defines the paths: an
//! address with all its ports, or a network behind a border router.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::gate::Gate;
use super::{Mark, Marks};
use crate::hash::Keyed;
use crate::store::{Arena, Index, Linked, Links, List, NIL};
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

/// Returns the path to a peer; `None` if the peer shares none.
pub(crate) type ChoosePath<P> = Box<dyn Fn(&P) -> Option<PathKey> + Send + Sync>;

/// Minimum initial timeout of a peer without an RTT sample of its own, regardless of its path's
/// state (RFC 8085 §3.1.1; RFC 8961 §4 (1)).
pub(crate) const LEAST_UNMEASURED: Duration = Duration::from_secs(1);

/// The paths with shared state. Bounded: the path without news for longest is evicted, but none
/// with exchanges in progress.
pub(crate) struct Paths<P> {
    pub(super) choose: ChoosePath<P>,
    slots: Arena<Path>,
    index: Index,
    oldest: List<Oldest>,
    /// Paths with a gate that may be open for a waiting peer.
    opened: Vec<u32>,
    /// The peer that has the turn and need not queue again.
    turn: Option<u32>,
    /// The path found last: an exchange asks twice, and many peers may share it.
    recent: u32,
    hash: Keyed,
    capacity: usize,
}

/// The decision of a path about a new exchange.
pub(crate) enum Entry {
    /// The path has no gate.
    Free,
    /// Admitted through the gate of this path; `waited` if the peer had to wait.
    Through { path: u32, waited: bool },
    /// The peer must wait for its turn.
    Wait,
}

/// The outcome of the first transmission of a message.
pub(crate) enum Fate {
    /// This peer answered it; with the RTT, if it is a valid sample.
    Answered { peer: u32, round_trip: Option<Duration> },
    /// Timeout.
    Lost,
    /// Cancelled or never sent.
    Unknown,
}

/// The kind of the list of idle paths: first those without state, then by the time of their last
/// news, oldest first.
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
            recent: NIL,
            hash,
            capacity,
        }
    }

    #[inline]
    fn find(&mut self, key: PathKey) -> Option<u32> {
        if self.slots.get(self.recent).is_some_and(|path| path.key == key) {
            return Some(self.recent);
        }
        let found = self.index.find(&self.slots, self.hash.hash(&key), |path: &Path| path.key == key);
        self.recent = found.unwrap_or(self.recent);
        found
    }

    /// Returns the state of the path to a peer.
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

    /// Returns the path and marks it as the most recent, or creates it.
    fn renew(&mut self, key: PathKey, new: impl FnOnce() -> PathHistory) -> Option<u32> {
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

    /// Asks whether an exchange with a peer may start. If not, the peer [waits](Self::next) for its
    /// turn.
    pub(crate) fn ask(&mut self, now: Instant, peer: u32, key: &P, marks: &mut Marks) -> Entry {
        let Some(path) = (self.choose)(key) else { return Entry::Free };
        let Some(index) = self.renew(path, || PathHistory::new(now)) else { return Entry::Free };
        let Path { gate, group, .. } = &mut self.slots[index];
        // A window that was unused for minutes does not describe the current path (RFC 7661 §4.4.3
        // has another rule).
        if gate.is_idle() && now - group.heard() > PathHistory::FRESH {
            *gate = Gate::new();
        }
        let waited = self.turn == Some(peer);
        if gate.is_open_for(peer) && (waited || !gate.is_awaited()) {
            // The turn is used up.
            self.turn = None;
            return Entry::Through { path: index, waited };
        }
        let proven = marks.has(Mark::Answered);
        if !marks.set(Mark::Waits, true) {
            self.change(index, |gate| gate.wait(peer, proven));
        }
        Entry::Wait
    }

    /// Records the start of an exchange with a peer.
    pub(crate) fn enter(&mut self, index: u32, peer: u32) {
        self.change(index, |gate| gate.enter(peer));
    }

    /// Records the end of an exchange on its path, with the fate of its first transmission.
    pub(crate) fn leave(&mut self, index: u32, fate: Fate) {
        self.change(index, |gate| {
            gate.leave();
            match fate {
                Fate::Answered { peer, round_trip } => gate.answered(peer, round_trip),
                Fate::Lost => gate.lost(),
                Fate::Unknown => {}
            }
        });
    }

    /// Returns the next peer that has waited for its turn and may ask again.
    pub(crate) fn next(&mut self) -> Option<u32> {
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

    /// Changes a gate, then updates whether its path can be evicted and whether a peer may ask
    /// again.
    fn change<T>(&mut self, index: u32, what: impl FnOnce(&mut Gate) -> T) -> T {
        let gate = &mut self.slots[index].gate;
        let was_idle = gate.is_idle();
        let changed = what(gate);
        let (is_idle, may_ask) = (gate.is_idle(), gate.is_awaited() && gate.is_open());
        if was_idle && !is_idle {
            self.oldest.remove(&mut self.slots, index);
        }
        if !was_idle && is_idle {
            // Paths without state are evicted first: requests to peers in ever new networks must
            // not evict others.
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

    fn remove(&mut self, index: u32) {
        self.oldest.remove(&mut self.slots, index);
        self.index.remove(index);
        self.slots.remove(index);
    }

    /// Returns all paths, in no meaningful order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PathKey, &PathHistory)> {
        self.slots.iter().map(|(_, path)| (path.key, &path.group))
    }
}

impl<P> fmt::Debug for Paths<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paths").field("count", &self.slots.len()).finish_non_exhaustive()
    }
}
