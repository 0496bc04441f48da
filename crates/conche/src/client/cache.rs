//! Response cache (RFC 7252 §5.6). A response is reused until its Max-Age expires (§5.6.1), then
//! validated by its ETag (§5.6.2); notifications likewise (RFC 7641 §3.3). Where the RFCs leave a
//! choice, an unnecessary request is preferred to a stale response:
//!
//! - An unsafe method makes everything stored for its path stale, regardless of query, host name
//!   and outcome. Responses to requests sent before its end may predate the effect and are not
//!   stored. A notification also invalidates outstanding requests.
//! - Requests with options about one representation, block or way of answering bypass the cache:
//!   see [`passes_by`].
//! - Responses with a Max-Age of 0 are not stored, even for validation. Neither is 4.08, which
//!   concerns one transfer, nor 4.01 with Echo, which concerns one request.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conche_proto::ExchangeStats;
use conche_proto::codec::{Body, Code, MessagePool, OptionNumber, OwnedMessage, RawOption};
use tokio::time::Instant;

use super::Response;
use crate::address::Address;
use crate::driver::Sender;
use crate::security::Identity;

/// Limits of a client's response cache, with LRU eviction.
///
/// No response takes more than half. A prefix (/16 for IPv4, /32 for IPv6) that holds half or more
/// evicts only its own responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Bytes of responses, their requests and index entries.
    pub bytes: usize,
    /// Number of responses.
    pub entries: usize,
}

impl CacheLimits {
    /// Default of [`bytes`](Self::bytes): 4 MiB.
    pub const BYTES: usize = 4 << 20;
    /// Default of [`entries`](Self::entries).
    pub const ENTRIES: usize = 4096;
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { bytes: Self::BYTES, entries: Self::ENTRIES }
    }
}

pub(super) struct Cache {
    store: Mutex<Store>,
    resources: RandomState,
}

pub(super) enum CacheUse {
    Read(Read),
    Change(Change),
    Bypass,
}

impl Cache {
    pub(super) fn new(limits: CacheLimits) -> Self {
        Self { store: Mutex::new(Store::new(limits)), resources: RandomState::new() }
    }

    pub(super) fn admit(self: &Arc<Self>, to: Destination, method: Code, body: &Body) -> CacheUse {
        if !method.is_safe() {
            let resource = self.resource(to.address, path(body));
            return CacheUse::Change(Change { cache: Arc::clone(self), to: to.address, resource });
        }
        self.key(to, method, body).map_or(CacheUse::Bypass, |key| CacheUse::Read(self.read(key)))
    }

    /// Drops older states of an observed resource and returns the place of the next. `None` if the
    /// request bypasses the cache.
    pub(super) fn supersede(self: &Arc<Self>, to: Destination, method: Code, body: &Body) -> Option<Read> {
        let key = self.key(to, method, body)?;
        self.lock().supersede(key.resource);
        Some(self.read(key))
    }

    /// Returns all options except NoCacheKey ones (RFC 7252 §5.6), and the payload (RFC 8132 §2.1).
    /// `None` if the request bypasses the cache.
    fn key(&self, to: Destination, method: Code, body: &Body) -> Option<Key> {
        if body.options().any(|option| passes_by(option.number)) {
            return None;
        }
        let resource = self.resource(to.address, path(body));
        let counts = |option: &RawOption<'_>| !option.number.is_no_cache_key();
        let body = if body.options().all(|option| counts(&option)) {
            body.clone()
        } else {
            Body::builder().options(body.options().filter(counts)).payload(body.payload()).build().ok()?
        };
        Some(Key { to, method, body, resource })
    }

    fn resource<'a>(&self, to: Address, path: impl Iterator<Item = &'a [u8]>) -> u64 {
        let mut hasher = self.resources.build_hasher();
        to.hash(&mut hasher);
        path.for_each(|segment| segment.hash(&mut hasher));
        hasher.finish()
    }

    fn read(self: &Arc<Self>, key: Key) -> Read {
        let mut store = self.lock();
        let (changes, stored) = (store.begin_read(key.resource), store.get(&key));
        drop(store);
        Read { cache: Arc::clone(self), key: Arc::new(key), changes, stored }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Destination {
    /// Canonical, by session.
    pub(super) address: Address,
    expected: Option<Arc<Identity>>,
}

impl Destination {
    pub(super) fn new(to: SocketAddr, secured: bool, expected: Option<Arc<Identity>>) -> Self {
        let to = Address::from(Address::from(to).canonical());
        Self { address: if secured { to.of_any_session() } else { to }, expected }
    }
}

fn path(body: &Body) -> impl Iterator<Item = &[u8]> {
    body.options().filter(|option| option.number == OptionNumber::URI_PATH).map(|option| option.value)
}

/// Whether an option selects one representation, block, way of answering, or another server.
fn passes_by(number: OptionNumber) -> bool {
    matches!(
        number,
        OptionNumber::ETAG
            | OptionNumber::IF_MATCH
            | OptionNumber::IF_NONE_MATCH
            | OptionNumber::OBSERVE
            | OptionNumber::BLOCK1
            | OptionNumber::BLOCK2
            | OptionNumber::Q_BLOCK1
            | OptionNumber::Q_BLOCK2
            | OptionNumber::NO_RESPONSE
            | OptionNumber::OSCORE
            | OptionNumber::PROXY_URI
            | OptionNumber::PROXY_SCHEME
    )
}

pub(super) struct Read {
    cache: Arc<Cache>,
    key: Arc<Key>,
    /// When the request began.
    changes: u64,
    stored: Option<StoredResponse>,
}

impl Read {
    pub(super) fn fresh(&self) -> Option<Response> {
        let stored = self.stored.as_ref().filter(|stored| stored.is_fresh())?;
        Some(cached_response(stored, ExchangeStats::default()))
    }

    /// Errors cannot be validated (RFC 7252 §5.9.2, §5.9.3).
    pub(super) fn etag(&self) -> Option<&[u8]> {
        self.stored.as_ref().filter(|stored| stored.message.code() == Code::CONTENT)?.etag()
    }

    pub(super) fn keep(&self, response: &Response, received: Instant) {
        if response.is_first_block() {
            // The state is new, but incomplete.
            self.cache.lock().change(self.key.resource);
        } else {
            self.replace(answer(response, received));
        }
    }

    /// Updates the stored response by a 2.03 (RFC 7252 §5.9.1.3). `None` if the ETags differ.
    pub(super) fn validated(&self, valid: &Response, received: Instant) -> Option<Response> {
        let stored = self.stored.as_ref().filter(|stored| valid.etag().is_some() && valid.etag() == stored.etag())?;
        let message = renewed(&stored.message, valid.message())?;
        let max_age = message.content().max_age();
        let answer = StoredResponse { message, from: valid.sender().clone(), received, max_age, changed: false };
        let response = cached_response(&answer, *valid.course());
        self.replace(Some(answer).filter(|_| !max_age.is_zero()));
        Some(response)
    }

    fn replace(&self, answer: Option<StoredResponse>) {
        let mut store = self.cache.lock();
        // A response to an earlier request may predate the change.
        if store.changes(self.key.resource) != self.changes {
            return;
        }
        match answer {
            Some(answer) => store.put(&self.key, answer),
            None => store.forget(&self.key),
        }
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        self.cache.lock().end_read(self.key.resource);
    }
}

/// Any outcome makes the resource stale.
pub(super) struct Change {
    cache: Arc<Cache>,
    to: Address,
    resource: u64,
}

impl Change {
    /// Marks the created resource as stale (RFC 7252 §5.9.1.1).
    pub(super) fn answered(&self, response: &Response) {
        if response.code() == Code::CREATED {
            let made = self.cache.resource(self.to, response.message().values(OptionNumber::LOCATION_PATH));
            self.cache.lock().change(made);
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.cache.lock().change(self.resource);
    }
}

/// Returns `None` if the response is not cacheable (RFC 7252 §5.6.1, §5.9).
fn answer(response: &Response, received: Instant) -> Option<StoredResponse> {
    let message = response.message();
    let max_age = message.content().max_age();
    let is_cacheable = match response.code() {
        Code::CONTENT => true,
        Code::REQUEST_ENTITY_INCOMPLETE => false,
        Code::UNAUTHORIZED => response.option(OptionNumber::ECHO).is_none(),
        code => code.is_client_error() || code.is_server_error(),
    };
    let message = Some(message).filter(|_| is_cacheable && !max_age.is_zero()).and_then(cacheable_copy)?;
    Some(StoredResponse { message, from: response.sender().clone(), received, max_age, changed: false })
}

/// Copies without Observe (RFC 7641 §2).
fn cacheable_copy(message: &OwnedMessage) -> Option<OwnedMessage> {
    if message.content().options().any(|option| option.number == OptionNumber::OBSERVE) {
        let kept = message.content().options().filter(|option| option.number != OptionNumber::OBSERVE);
        return with_body(message, &Body::builder().options(kept).payload(message.payload_bytes()).build().ok()?);
    }
    let is_pooled = message.view().as_bytes().len() <= MessagePool::CHUNK;
    Some(if is_pooled { message.view().into() } else { message.clone() })
}

/// Returns the stored message with Max-Age and the safe-to-forward options of a 2.03.
fn renewed(stored: &OwnedMessage, valid: &OwnedMessage) -> Option<OwnedMessage> {
    let is_updated = |number: OptionNumber| number == OptionNumber::MAX_AGE || !number.is_unsafe();
    let mut updated: Vec<_> =
        valid.content().options().map(|option| option.number).filter(|number| is_updated(*number)).collect();
    updated.dedup();
    let replaced = |number| number == OptionNumber::MAX_AGE || updated.binary_search(&number).is_ok();
    let kept = stored.content().options().filter(|option| !replaced(option.number));
    let new = valid.content().options().filter(|option| is_updated(option.number));
    with_body(stored, &Body::builder().options(kept).options(new).payload(stored.payload_bytes()).build().ok()?)
}

fn with_body(message: &OwnedMessage, body: &Body) -> Option<OwnedMessage> {
    let header = message.header();
    OwnedMessage::encode(header.ty, header.code, header.id, &message.token(), body)
}

fn cached_response(stored: &StoredResponse, course: ExchangeStats) -> Response {
    Response::new(stored.from.clone(), stored.message.clone(), course).aged(stored.age())
}

/// Beside request and response bytes.
const OVERHEAD: usize = 512;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    to: Destination,
    method: Code,
    body: Body,
    resource: u64,
}

#[derive(Clone, Debug)]
struct StoredResponse {
    message: OwnedMessage,
    from: Sender,
    received: Instant,
    max_age: Duration,
    changed: bool,
}

impl StoredResponse {
    fn age(&self) -> Duration {
        self.received.elapsed()
    }

    /// RFC 7252 §5.6.1.
    fn is_fresh(&self) -> bool {
        !self.changed && self.age() <= self.max_age
    }

    fn etag(&self) -> Option<&[u8]> {
        self.message.option(OptionNumber::ETAG)
    }
}

#[derive(Debug)]
struct Store {
    limits: CacheLimits,
    entries: HashMap<Arc<Key>, Entry>,
    order: BTreeMap<u64, Arc<Key>>,
    /// Keys of `order`, by prefix and by resource.
    of_prefix: BTreeSet<(u64, u64)>,
    of_resource: BTreeSet<(u64, u64)>,
    total: Usage,
    held: HashMap<u64, Usage>,
    uses: u64,
    reads: HashMap<u64, ReadCount>,
}

#[derive(Debug)]
struct Entry {
    answer: StoredResponse,
    used: u64,
    cost: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    bytes: usize,
    entries: usize,
}

impl Usage {
    /// Within the limits divided by `parts`.
    fn admits(self, cost: usize, limits: CacheLimits, parts: usize) -> bool {
        self.bytes.saturating_add(cost) <= limits.bytes / parts && self.entries < limits.entries / parts
    }
}

#[derive(Debug, Default)]
struct ReadCount {
    count: usize,
    changes: u64,
}

impl Store {
    fn new(limits: CacheLimits) -> Self {
        Self {
            limits,
            entries: HashMap::new(),
            order: BTreeMap::new(),
            of_prefix: BTreeSet::new(),
            of_resource: BTreeSet::new(),
            total: Usage::default(),
            held: HashMap::new(),
            uses: 0,
            reads: HashMap::new(),
        }
    }

    /// Marks the response as used.
    fn get(&mut self, key: &Key) -> Option<StoredResponse> {
        let (key, Entry { answer, cost, .. }) = self.take(key)?;
        self.insert(key, answer.clone(), cost);
        Some(answer)
    }

    fn put(&mut self, key: &Arc<Key>, answer: StoredResponse) {
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

    fn forget(&mut self, key: &Key) {
        self.take(key);
    }

    /// The prefix's oldest if the prefix holds half of the cache, otherwise the oldest.
    fn oldest(&self, prefix: u64, cost: usize) -> Option<Arc<Key>> {
        let has_its_half = !self.held.get(&prefix).copied().unwrap_or_default().admits(cost, self.limits, 2);
        let own = all_of(&self.of_prefix, prefix).next().filter(|_| has_its_half);
        match own {
            Some(used) => self.order.get(&used).cloned(),
            None => self.order.values().next().cloned(),
        }
    }

    fn insert(&mut self, key: Arc<Key>, answer: StoredResponse, cost: usize) {
        let (prefix, used) = (key.to.address.prefix(), self.uses);
        self.uses += 1;
        for held in [&mut self.total, self.held.entry(prefix).or_default()] {
            *held = Usage { bytes: held.bytes + cost, entries: held.entries + 1 };
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
            *held = Usage { bytes: held.bytes - entry.cost, entries: held.entries - 1 };
        }
        if self.held.get(&prefix).is_some_and(|held| held.entries == 0) {
            self.held.remove(&prefix);
        }
        self.of_prefix.remove(&(prefix, entry.used));
        self.of_resource.remove(&(key.resource, entry.used));
        self.order.remove(&entry.used);
        Some((key, entry))
    }

    fn begin_read(&mut self, resource: u64) -> u64 {
        let reads = self.reads.entry(resource).or_default();
        reads.count += 1;
        reads.changes
    }

    fn changes(&self, resource: u64) -> u64 {
        self.reads.get(&resource).map_or(0, |reads| reads.changes)
    }

    fn end_read(&mut self, resource: u64) {
        if let Some(reads) = self.reads.get_mut(&resource) {
            reads.count -= 1;
            if reads.count == 0 {
                self.reads.remove(&resource);
            }
        }
    }

    fn supersede(&mut self, resource: u64) {
        if let Some(reads) = self.reads.get_mut(&resource) {
            reads.changes += 1;
        }
    }

    fn change(&mut self, resource: u64) {
        self.supersede(resource);
        for used in all_of(&self.of_resource, resource) {
            if let Some(entry) = self.order.get(&used).and_then(|key| self.entries.get_mut(key)) {
                entry.answer.changed = true;
            }
        }
    }
}

fn all_of(index: &BTreeSet<(u64, u64)>, of: u64) -> impl Iterator<Item = u64> {
    index.range((of, 0)..=(of, u64::MAX)).map(|(_, used)| *used)
}

#[cfg(test)]
mod tests;
