//! [`Store`]: cached responses by key, bounded in bytes and number, with LRU eviction.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use tokio::time::Instant;

use super::{CacheLimits, Destination};
use crate::driver::Sender;

/// Memory per entry beyond request and response bytes, rounded up: its structs and its places in
/// the indexes.
const OVERHEAD: usize = 512;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) to: Destination,
    pub(super) method: Code,
    pub(super) body: Body,
    /// Hash of destination and path, which `to` and `body` hold exactly.
    pub(super) resource: u64,
}

/// A stored response.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) message: OwnedMessage,
    pub(super) from: Sender,
    /// Time of its arrival or last validation.
    pub(super) received: Instant,
    pub(super) max_age: Duration,
    /// Whether the resource has changed since.
    pub(super) changed: bool,
}

impl Answer {
    pub(super) fn age(&self) -> Duration {
        self.received.elapsed()
    }

    /// Whether it may be used without asking the server (RFC 7252 §5.6.1).
    pub(super) fn is_fresh(&self) -> bool {
        !self.changed && self.age() <= self.max_age
    }

    pub(super) fn etag(&self) -> Option<&[u8]> {
        self.message.option(OptionNumber::ETAG)
    }
}

#[derive(Debug)]
pub(super) struct Store {
    limits: CacheLimits,
    entries: HashMap<Arc<Key>, Entry>,
    /// All entries, by the number of their last use.
    order: BTreeMap<u64, Arc<Key>>,
    /// The same numbers, by prefix of the destination and by resource.
    of_prefix: BTreeSet<(u64, u64)>,
    of_resource: BTreeSet<(u64, u64)>,
    /// Totals of all entries, and of those of each prefix.
    total: Held,
    held: HashMap<u64, Held>,
    /// The next number of a use.
    uses: u64,
    /// Resources with outstanding requests.
    reads: HashMap<u64, Reads>,
}

#[derive(Debug)]
struct Entry {
    answer: Answer,
    used: u64,
    cost: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: usize,
    entries: usize,
}

impl Held {
    /// Whether one more entry stays within the limits divided by `parts`.
    fn admits(self, cost: usize, limits: CacheLimits, parts: usize) -> bool {
        self.bytes.saturating_add(cost) <= limits.bytes / parts && self.entries < limits.entries / parts
    }
}

/// Outstanding requests for a resource.
#[derive(Debug, Default)]
struct Reads {
    count: usize,
    /// Changes of the resource since the first of them began.
    changes: u64,
}

impl Store {
    pub(super) fn new(limits: CacheLimits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            order: BTreeMap::new(),
            of_prefix: BTreeSet::new(),
            of_resource: BTreeSet::new(),
            total: Held::default(),
            held: HashMap::new(),
            uses: 0,
            reads: HashMap::new(),
        }
    }

    /// Returns a stored response and marks it as used.
    pub(super) fn get(&mut self, key: &Key) -> Option<Answer> {
        let (key, Entry { answer, cost, .. }) = self.take(key)?;
        self.insert(key, answer.clone(), cost);
        Some(answer)
    }

    /// Stores a response, replacing an earlier one.
    pub(super) fn put(&mut self, key: &Arc<Key>, answer: Answer) {
        self.forget(key);
        let cost = OVERHEAD + key.body.len() + answer.message.view().as_bytes().len();
        if cost > self.limits.bytes / 2 {
            return;
        }
        while !self.total.admits(cost, self.limits, 1) {
            let Some(oldest) = self.oldest(key.to.address.prefix(), cost) else { return };
            self.forget(&oldest);
        }
        self.insert(Arc::clone(key), answer, cost);
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.take(key);
    }

    /// Returns the entry to evict for a new one with a destination of this prefix: the prefix's own
    /// oldest if it holds half of the cache, otherwise the oldest of all.
    fn oldest(&self, prefix: u64, cost: usize) -> Option<Arc<Key>> {
        let has_its_half = !self.held.get(&prefix).copied().unwrap_or_default().admits(cost, self.limits, 2);
        let own = all_of(&self.of_prefix, prefix).next().filter(|_| has_its_half);
        match own {
            Some(used) => self.order.get(&used).cloned(),
            None => self.order.values().next().cloned(),
        }
    }

    fn insert(&mut self, key: Arc<Key>, answer: Answer, cost: usize) {
        let (prefix, used) = (key.to.address.prefix(), self.uses);
        self.uses += 1;
        for held in [&mut self.total, self.held.entry(prefix).or_default()] {
            *held = Held { bytes: held.bytes + cost, entries: held.entries + 1 };
        }
        self.of_prefix.insert((prefix, used));
        self.of_resource.insert((key.resource, used));
        self.order.insert(used, Arc::clone(&key));
        self.entries.insert(key, Entry { answer, used, cost });
    }

    fn take(&mut self, key: &Key) -> Option<(Arc<Key>, Entry)> {
        let (key, entry) = self.entries.remove_entry(key)?;
        let prefix = key.to.address.prefix();
        for held in [Some(&mut self.total), self.held.get_mut(&prefix)].into_iter().flatten() {
            *held = Held { bytes: held.bytes - entry.cost, entries: held.entries - 1 };
        }
        if self.held.get(&prefix).is_some_and(|held| held.entries == 0) {
            self.held.remove(&prefix);
        }
        self.of_prefix.remove(&(prefix, entry.used));
        self.of_resource.remove(&(key.resource, entry.used));
        self.order.remove(&entry.used);
        Some((key, entry))
    }

    /// Registers a request for a resource, and returns the resource's number of changes.
    pub(super) fn begin_read(&mut self, resource: u64) -> u64 {
        let reads = self.reads.entry(resource).or_default();
        reads.count += 1;
        reads.changes
    }

    /// Returns the number of changes of a resource with outstanding requests.
    pub(super) fn changes(&self, resource: u64) -> u64 {
        self.reads.get(&resource).map_or(0, |reads| reads.changes)
    }

    pub(super) fn end_read(&mut self, resource: u64) {
        if let Some(reads) = self.reads.get_mut(&resource) {
            reads.count -= 1;
            if reads.count == 0 {
                self.reads.remove(&resource);
            }
        }
    }

    /// Counts a change, because responses to outstanding requests may be older than the newest
    /// known state.
    pub(super) fn supersede(&mut self, resource: u64) {
        if let Some(reads) = self.reads.get_mut(&resource) {
            reads.changes += 1;
        }
    }

    /// Marks all stored responses of a resource as stale.
    pub(super) fn change(&mut self, resource: u64) {
        self.supersede(resource);
        for used in all_of(&self.of_resource, resource) {
            if let Some(entry) = self.order.get(&used).and_then(|key| self.entries.get_mut(key)) {
                entry.answer.changed = true;
            }
        }
    }
}

/// Returns the use numbers of a prefix or resource, in ascending order.
fn all_of(index: &BTreeSet<(u64, u64)>, of: u64) -> impl Iterator<Item = u64> {
    index.range((of, 0)..=(of, u64::MAX)).map(|(_, used)| *used)
}

#[cfg(test)]
mod tests;
