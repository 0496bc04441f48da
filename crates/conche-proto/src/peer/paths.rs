//! [`Paths`]: the state that peers of one path share, and their window. The program defines the
//! paths: an address with all its ports, or a network behind one border router.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::gate::Gate;
use super::{Mark, Marks};
use crate::hash::Keyed;
use crate::store::{Arena, Index, Linked, Links, List, NIL};
use conche_cc::Instant;
use conche_cc::group::Group;

/// Names a path: an address prefix, IPv4 as IPv4-mapped (RFC 4291 §2.5.5.2), or any number of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathKey {
    prefix: u128,
    length: u8,
}

impl PathKey {
    /// The first `length` bits of a number of 128 bits; more than 128 count as that.
    #[must_use]
    pub fn new(prefix: u128, length: u8) -> Self {
        let length = length.min(128);
        let rest = u32::from(128 - length);
        Self { prefix: prefix.checked_shr(rest).and_then(|bits| bits.checked_shl(rest)).unwrap_or(0), length }
    }

    /// The prefix, followed by zeros.
    #[must_use]
    pub fn prefix(self) -> u128 {
        self.prefix
    }

    /// How many bits of it count.
    #[must_use]
    pub fn length(self) -> u8 {
        self.length
    }
}

/// Which path leads to a peer; `None` if it shares none.
pub(crate) type ChoosePath<P> = Box<dyn Fn(&P) -> Option<PathKey> + Send + Sync>;

/// The first timeout of a peer that is not measured itself is no shorter, whatever its neighbours have found out (RFC 8085
/// §3.1.1; RFC 8961 §4 (1)).
pub(crate) const LEAST_UNMEASURED: Duration = Duration::from_secs(1);

/// All paths of an endpoint whose peers share what they find out. Bounded: the one that has not been heard of for longest
/// makes room, but none on which something goes on.
pub(crate) struct Paths<P> {
    pub(super) choose: ChoosePath<P>,
    slots: Arena<Path>,
    index: Index,
    oldest: List<Oldest>,
    /// Those whose gate may be open for somebody who waits.
    opened: Vec<u32>,
    /// Whose turn it is: it need not stand behind those who wait.
    turn: Option<u32>,
    /// The path that was looked for last: an exchange asks for it twice, and many peers may be of one.
    recent: u32,
    hash: Keyed,
    capacity: usize,
}

/// Whether an exchange may begin on its path.
pub(crate) enum Entry {
    /// There is no gate.
    Free,
    /// It may, through the gate of this path. `waited`: its peer had to wait for that.
    Through { path: u32, waited: bool },
    /// When it is its peer's turn.
    Wait,
}

/// The outcome of the first copy of a message.
pub(crate) enum Fate {
    /// This peer answered it, after this time if that is a round trip.
    Answered { peer: u32, round_trip: Option<Duration> },
    /// Its timer is over.
    Lost,
    /// Nothing is known: it was cancelled, or never left.
    Unknown,
}

/// The kind of the list of all paths on which nothing goes on, the one not heard of for longest first.
struct Oldest;

struct Path {
    key: PathKey,
    group: Group,
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

    /// What is known of the path to a peer.
    pub(crate) fn to(&self, peer: &P) -> Option<&Group> {
        let key = (self.choose)(peer)?;
        let index = self.index.peek(&self.slots, self.hash.hash(&key), |path: &Path| path.key == key)?;
        Some(&self.slots[index].group)
    }

    /// The group of the path to a peer, to fold into it what happens now.
    pub(crate) fn heard(&mut self, now: Instant, peer: &P) -> Option<&mut Group> {
        let key = (self.choose)(peer)?;
        self.renew(key, || Group::new(now)).map(|index| &mut self.slots[index].group)
    }

    /// Remembers what was known of a path, unless something newer is.
    pub(crate) fn remember(&mut self, key: PathKey, group: Group) {
        let known = self.renew(key, || group).map(|index| &mut self.slots[index].group);
        if let Some(known) = known.filter(|known| known.learnt().is_none() || known.heard() < group.heard()) {
            *known = group;
        }
    }

    /// Forgets the path to a peer.
    pub(crate) fn forget(&mut self, peer: &P) {
        let Some(key) = (self.choose)(peer) else { return };
        if let Some(index) = self.find(key) {
            // What goes on over it goes on, and counts.
            match &mut self.slots[index] {
                path if path.gate.is_idle() => self.remove(index),
                path => path.group = Group::new(path.group.heard()),
            }
        }
    }

    /// The group of this path, which becomes the youngest; if there is none, a new one.
    fn renew(&mut self, key: PathKey, new: impl FnOnce() -> Group) -> Option<u32> {
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

    /// Asks for a peer whether an exchange may begin. If it may not, the peer [waits](Self::next) for its turn.
    pub(crate) fn ask(&mut self, now: Instant, peer: u32, key: &P, marks: &mut Marks) -> Entry {
        let Some(path) = (self.choose)(key) else { return Entry::Free };
        let Some(index) = self.renew(path, || Group::new(now)) else { return Entry::Free };
        let Path { gate, group, .. } = &mut self.slots[index];
        // A window that nobody has used for minutes says nothing of the path as it is now (RFC 7661 §4.4.3 has another).
        if gate.is_idle() && now - group.heard() > Group::FRESH {
            *gate = Gate::new();
        }
        let waited = self.turn == Some(peer);
        if gate.is_open_for(peer) && (waited || !gate.is_awaited()) {
            // It has had its turn.
            self.turn = None;
            return Entry::Through { path: index, waited };
        }
        let proven = marks.has(Mark::Answered);
        if !marks.set(Mark::Waits, true) {
            self.change(index, |gate| gate.wait(peer, proven));
        }
        Entry::Wait
    }

    /// An exchange with a peer begins.
    pub(crate) fn enter(&mut self, index: u32, peer: u32) {
        self.change(index, |gate| gate.enter(peer));
    }

    /// An exchange does not go on any more, as far as the path is concerned. What became of its first copy?
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

    /// The next peer that has waited for its turn and may ask again.
    pub(crate) fn next(&mut self) -> Option<u32> {
        self.turn = None;
        while let Some(&index) = self.opened.last() {
            // One that had nobody left to wait may have made room since.
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

    /// Changes a gate, and what depends on it: whether its path can make room, and whether somebody may ask again.
    fn change<T>(&mut self, index: u32, what: impl FnOnce(&mut Gate) -> T) -> T {
        let gate = &mut self.slots[index].gate;
        let was_idle = gate.is_idle();
        let changed = what(gate);
        let (is_idle, may_ask) = (gate.is_idle(), gate.is_awaited() && gate.is_open());
        if was_idle && !is_idle {
            self.oldest.remove(&mut self.slots, index);
        }
        if !was_idle && is_idle {
            // Of which nothing is known makes room first: who only asks for peers in ever other networks drives none out.
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

    /// Exchanges that go on over paths with a gate.
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

    /// All of them, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PathKey, &Group)> {
        self.slots.iter().map(|(_, path)| (path.key, &path.group))
    }
}

impl<P> fmt::Debug for Paths<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paths").field("count", &self.slots.len()).finish_non_exhaustive()
    }
}
