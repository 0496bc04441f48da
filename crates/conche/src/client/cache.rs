//! A cache of responses (RFC 7252 §5.6): what a server said is said again as long as its Max-Age allows (§5.6.1), and is
//! validated by its ETag when it does not any more (§5.6.2). Notifications are such responses, too (RFC 7641 §3.3).
//!
//! Where the RFCs leave a choice, this one asks the server once too often rather than once too seldom:
//!
//! - A method that is not safe makes everything stale that is stored of the same path, whatever its query, its host's name
//!   and its outcome: without a response it may have had its effect. What was asked before its end is not stored, since the
//!   answer may be older than the effect. The same is done before a notification is stored.
//! - Requests with options that ask about one representation, one block or one way of answering pass by: see [`passes_by`].
//! - What has a Max-Age of 0 is not stored at all, not even to be validated. Neither is 4.08, which is about one transfer,
//!   and 4.01 with an Echo option, which is about one request.

mod store;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conche_proto::Course;
use conche_proto::codec::{Body, Code, MessagePool, OptionNumber, OwnedMessage, RawOption};
use tokio::time::Instant;

use super::Response;
use crate::driver::Address;
use crate::security::Identity;
use store::{Answer, Key, Store};

/// What the cache of a client may hold. What was used longest ago makes room for what is new.
///
/// No response takes more than half of it. As servers choose how large their responses are, destinations of one prefix
/// (/16 of IPv4, /32 of IPv6) that hold half or more make room among themselves, and not at the cost of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Bytes, of responses and of the requests that they answer, with what it takes to find them.
    pub bytes: usize,
    /// Responses.
    pub entries: usize,
}

impl CacheLimits {
    /// The default of [`bytes`](Self::bytes): 4 MiB.
    pub const BYTES: usize = 4 << 20;
    /// The default of [`entries`](Self::entries).
    pub const ENTRIES: usize = 4096;
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { bytes: Self::BYTES, entries: Self::ENTRIES }
    }
}

/// The cache of a client and its clones.
pub(super) struct Cache {
    store: Mutex<Store>,
    /// Resources are known by hashes: where two coincide, one becomes stale with the other.
    resources: RandomState,
}

/// What a request is to the cache.
pub(super) enum Passage {
    /// Its response may be known.
    Read(Read),
    /// It may change what is known.
    Change(Change),
    /// Nothing.
    Aside,
}

impl Cache {
    pub(super) fn new(limits: CacheLimits) -> Self {
        Self { store: Mutex::new(Store::new(limits)), resources: RandomState::new() }
    }

    /// What a request is that goes to an address.
    pub(super) fn admit(self: &Arc<Self>, to: Destination, method: Code, body: &Body) -> Passage {
        if !method.is_safe() {
            let resource = self.resource(to.address, path(body));
            return Passage::Change(Change { cache: Arc::clone(self), to: to.address, resource });
        }
        self.key(to, method, body).map_or(Passage::Aside, |key| Passage::Read(self.read(key)))
    }

    /// A notification has come, which answers this request (RFC 7641 §3.3).
    pub(super) fn notified(
        self: &Arc<Self>,
        (to, method, body): (Destination, Code, &Body),
        response: &Response,
        received: Instant,
    ) {
        if let Some(key) = self.key(to, method, body) {
            self.lock().supersede(key.resource);
            self.read(key).keep(response, received);
        }
    }

    /// What the response to a request is found by: all but the options that are no part of the cache key (RFC 7252 §5.6),
    /// and the payload, which matters to FETCH (RFC 8132 §2.1). `None` if the request passes by.
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

/// A destination, as part of a cache key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Destination {
    /// One address for each destination, however it is written. Responses that came through
    /// sessions are apart from others.
    pub(super) address: Address,
    /// The peer that a request names: a response of another one is none to it.
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

/// With such an option a request is about one representation that the program knows of, one block, or one way of answering,
/// or about a resource of another server.
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

/// A request under way, the response of which may be stored, or may be stored already.
pub(super) struct Read {
    cache: Arc<Cache>,
    key: Arc<Key>,
    /// How often the resource had changed when it began.
    changes: u64,
    stored: Option<Answer>,
}

impl Read {
    /// What can be answered without asking the server.
    pub(super) fn fresh(&self) -> Option<Response> {
        let stored = self.stored.as_ref().filter(|stored| stored.is_fresh())?;
        Some(tell(stored, Course::default()))
    }

    /// The ETag to validate what is stored with. Errors cannot be validated (RFC 7252 §5.9.2, §5.9.3).
    pub(super) fn etag(&self) -> Option<&[u8]> {
        self.stored.as_ref().filter(|stored| stored.message.code() == Code::CONTENT)?.etag()
    }

    /// Stores a response, in the place of what was stored; or nothing, if it is not to be stored.
    pub(super) fn keep(&self, response: &Response, received: Instant) {
        if response.is_first_block() {
            // There is a new state, but it is not here.
            self.cache.lock().change(self.key.resource);
        } else {
            self.replace(answer(response, received));
        }
    }

    /// What is stored, after a 2.03 that says that it is valid: renewed as the 2.03 says (RFC 7252 §5.9.1.3). `None` if that
    /// is about something else.
    pub(super) fn validated(&self, valid: &Response, received: Instant) -> Option<Response> {
        let stored = self.stored.as_ref().filter(|stored| valid.etag().is_some() && valid.etag() == stored.etag())?;
        let message = renewed(&stored.message, valid.message())?;
        let max_age = message.content().max_age();
        let answer = Answer { message, from: valid.sender().clone(), received, max_age, changed: false };
        let response = tell(&answer, *valid.course());
        self.replace(Some(answer).filter(|_| !max_age.is_zero()));
        Some(response)
    }

    fn replace(&self, answer: Option<Answer>) {
        let mut store = self.cache.lock();
        // What was asked before a change may have been answered before it.
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

/// A request under way that is not safe. When it is over, however it ended, what is stored of the resource is stale.
pub(super) struct Change {
    cache: Arc<Cache>,
    to: Address,
    resource: u64,
}

impl Change {
    /// What it made becomes stale, too (RFC 7252 §5.9.1.1).
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

/// A response as it is stored; `None` if it is not to be (RFC 7252 §5.6.1, §5.9).
fn answer(response: &Response, received: Instant) -> Option<Answer> {
    let message = response.message();
    let max_age = message.content().max_age();
    let is_cacheable = match response.code() {
        Code::CONTENT => true,
        Code::REQUEST_ENTITY_INCOMPLETE => false,
        Code::UNAUTHORIZED => response.option(OptionNumber::ECHO).is_none(),
        code => code.is_client_error() || code.is_server_error(),
    };
    let message = Some(message).filter(|_| is_cacheable && !max_age.is_zero()).and_then(on_its_own)?;
    Some(Answer { message, from: response.sender().clone(), received, max_age, changed: false })
}

/// The message without Observe (RFC 7641 §2), in memory that it shares with no other.
fn on_its_own(message: &OwnedMessage) -> Option<OwnedMessage> {
    if message.content().options().any(|option| option.number == OptionNumber::OBSERVE) {
        let kept = message.content().options().filter(|option| option.number != OptionNumber::OBSERVE);
        return with_body(message, &Body::builder().options(kept).payload(message.payload_bytes()).build().ok()?);
    }
    let is_pooled = message.view().as_bytes().len() <= MessagePool::CHUNK;
    Some(if is_pooled { message.view().into() } else { message.clone() })
}

/// What is stored, with the Max-Age of a 2.03 and those of its options that are safe to forward in the place of its own.
fn renewed(stored: &OwnedMessage, valid: &OwnedMessage) -> Option<OwnedMessage> {
    let tells = |number: OptionNumber| number == OptionNumber::MAX_AGE || !number.is_unsafe();
    let mut told: Vec<_> =
        valid.content().options().map(|option| option.number).filter(|number| tells(*number)).collect();
    told.dedup();
    let replaced = |number| number == OptionNumber::MAX_AGE || told.binary_search(&number).is_ok();
    let kept = stored.content().options().filter(|option| !replaced(option.number));
    let new = valid.content().options().filter(|option| tells(option.number));
    with_body(stored, &Body::builder().options(kept).options(new).payload(stored.payload_bytes()).build().ok()?)
}

fn with_body(message: &OwnedMessage, body: &Body) -> Option<OwnedMessage> {
    let header = message.header();
    OwnedMessage::encode(header.ty, header.code, header.id, &message.token(), body)
}

fn tell(stored: &Answer, course: Course) -> Response {
    Response::new(stored.from.clone(), stored.message.clone(), course).aged(stored.age())
}
