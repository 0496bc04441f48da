//! [`Store`]: answers by what was asked, bounded in bytes and number. What was used longest ago makes room.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use tokio::time::Instant;

use super::{CacheLimits, Destination};
use crate::driver::Sender;

/// What an entry takes beyond the bytes of request and response, rounded up: its parts and its places in the indexes.
const OVERHEAD: usize = 512;

/// What an answer is found by.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) to: Destination,
    pub(super) method: Code,
    pub(super) body: Body,
    /// Stands for destination and path, which the rest of the key tells exactly.
    pub(super) resource: u64,
}

/// A response that is stored.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) message: OwnedMessage,
    pub(super) from: Sender,
    /// When it came, or was found valid last.
    pub(super) received: Instant,
    pub(super) max_age: Duration,
    /// The resource has changed since.
    pub(super) changed: bool,
}

impl Answer {
    pub(super) fn age(&self) -> Duration {
        self.received.elapsed()
    }

    /// It may be used without asking the server (RFC 7252 §5.6.1).
    pub(super) fn is_fresh(&self) -> bool {
        !self.changed && self.age() <= self.max_age
    }

    pub(super) fn etag(&self) -> Option<&[u8]> {
        self.message.option(OptionNumber::ETAG)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Store {
    limits: CacheLimits,
    entries: HashMap<Arc<Key>, Entry>,
    /// All of them, by the number of their last use.
    order: BTreeMap<u64, Arc<Key>>,
    /// The same numbers, for each prefix of destinations and for each resource.
    of_prefix: BTreeSet<(u64, u64)>,
    of_resource: BTreeSet<(u64, u64)>,
    /// What all hold, and what those of each prefix do.
    total: Held,
    held: HashMap<u64, Held>,
    /// Numbers of uses that were given out.
    uses: u64,
    /// Resources that are being asked for.
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
    /// One more would still be within a part of the limits: the whole divided by `parts`.
    fn admits(self, cost: usize, limits: CacheLimits, parts: usize) -> bool {
        self.bytes.saturating_add(cost) <= limits.bytes / parts && self.entries < limits.entries / parts
    }
}

/// Requests for a resource that are under way.
#[derive(Debug, Default)]
struct Reads {
    count: usize,
    /// How often the resource changed since the first of them began.
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

    /// What is stored, to be used now.
    pub(super) fn get(&mut self, key: &Key) -> Option<Answer> {
        let (key, Entry { answer, cost, .. }) = self.take(key)?;
        self.insert(key, answer.clone(), cost);
        Some(answer)
    }

    /// Stores an answer, in the place of an earlier one.
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

    /// Whose turn it is to go, so that one with a destination of this prefix has room.
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

    /// A request for a resource begins. The answer is how often that has changed.
    pub(super) fn begin_read(&mut self, resource: u64) -> u64 {
        let reads = self.reads.entry(resource).or_default();
        reads.count += 1;
        reads.changes
    }

    /// How often a resource has changed that is being asked for.
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

    /// What is being asked for now may be answered by what is older than what is known.
    pub(super) fn supersede(&mut self, resource: u64) {
        if let Some(reads) = self.reads.get_mut(&resource) {
            reads.changes += 1;
        }
    }

    /// What is stored of a resource is stale.
    pub(super) fn change(&mut self, resource: u64) {
        self.supersede(resource);
        for used in all_of(&self.of_resource, resource) {
            if let Some(entry) = self.order.get(&used).and_then(|key| self.entries.get_mut(key)) {
                entry.answer.changed = true;
            }
        }
    }
}

/// The numbers of a prefix or resource, the smallest first.
fn all_of(index: &BTreeSet<(u64, u64)>, of: u64) -> impl Iterator<Item = u64> {
    index.range((of, 0)..=(of, u64::MAX)).map(|(_, used)| *used)
}

#[cfg(test)]
mod tests;
