//! [`Paths`]: what the peers of one path share. A path is what the program says it is: a host on all its ports, or a network
//! behind one border router.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use crate::hash::Keyed;
use crate::store::{Arena, Index, Linked, Links, List};
use conche_cc::Instant;
use conche_cc::group::{Group, Members};

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

    /// Whom it leads to: all 128 bits name one host.
    #[must_use]
    pub fn members(self) -> Members {
        if self.length == 128 { Members::OneHost } else { Members::Many }
    }
}

/// Which path leads to a peer; `None` if it shares none.
pub(crate) type ChoosePath<P> = Box<dyn Fn(&P) -> Option<PathKey> + Send + Sync>;

/// The first timeout of a peer that is not measured itself is no shorter, whatever its neighbours have found out (RFC 8085
/// §3.1.1; RFC 8961 §4 (1)).
pub(crate) const LEAST_UNMEASURED: Duration = Duration::from_secs(1);

/// All paths of an endpoint whose peers share what they find out. Bounded: the one that has not been heard of for longest
/// makes room.
pub(crate) struct Paths<P> {
    choose: ChoosePath<P>,
    slots: Arena<Path>,
    index: Index,
    oldest: List<Oldest>,
    hash: Keyed,
    capacity: usize,
}

/// The kind of the list of all paths, the one not heard of for longest first.
struct Oldest;

struct Path {
    key: PathKey,
    group: Group,
    links: Links,
}

impl Linked<Oldest> for Path {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<P> Paths<P> {
    pub(crate) fn new(choose: ChoosePath<P>, capacity: usize, hash: Keyed) -> Self {
        Self { choose, slots: Arena::new(), index: Index::new(), oldest: List::new(), hash, capacity }
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
        self.renew(key, || Group::of(key.members(), now))
    }

    /// Remembers what was known of a path, unless something newer is.
    pub(crate) fn remember(&mut self, key: PathKey, group: Group) {
        let known = self.renew(key, || group);
        if let Some(known) = known.filter(|known| known.heard() < group.heard()) {
            *known = group;
        }
    }

    /// Forgets the path to a peer.
    pub(crate) fn forget(&mut self, peer: &P) {
        let Some(key) = (self.choose)(peer) else { return };
        let hash = self.hash.hash(&key);
        if let Some(index) = self.index.find(&self.slots, hash, |path: &Path| path.key == key) {
            self.remove(index);
        }
    }

    /// The group of this path, which becomes the youngest; if there is none, a new one.
    fn renew(&mut self, key: PathKey, new: impl FnOnce() -> Group) -> Option<&mut Group> {
        let hash = self.hash.hash(&key);
        let found = self.index.find(&self.slots, hash, |path: &Path| path.key == key);
        let index = match found {
            Some(index) => {
                self.oldest.remove(&mut self.slots, index);
                index
            }
            None => {
                self.make_room();
                let index = self.slots.insert(Path { key, group: new(), links: Links::default() })?;
                self.index.insert(hash, index);
                index
            }
        };
        self.oldest.push_back(&mut self.slots, index);
        Some(&mut self.slots[index].group)
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
