//! Observations of local resources (RFC 7641 §4). An [`Observable`] passes changes to its drivers,
//! which group requests that differ only in the client into [`Topics`]: one service call answers
//! all of them, and at most one call per topic is active.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use conche_proto::codec::{Body, BuildError, Code, MessageId, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::{NotifyError, RequestId};
use tracing::warn;

use super::channels::NotifyOne;
use super::service::{Answer, ServiceRequest, ServiceResponse};
use super::{Address, BATCH, Driver, LINGER, Service, SharedController};
use crate::refusal;

#[derive(Debug)]
pub(crate) struct Observable<R> {
    id: u64,
    observers: AtomicUsize,
    mailboxes: Mutex<Vec<Weak<Mailbox<R>>>>,
}

impl<R> Default for Observable<R> {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), observers: AtomicUsize::new(0), mailboxes: Mutex::default() }
    }
}

impl<R> Observable<R> {
    /// Unique in this process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn observers(&self) -> usize {
        self.observers.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, before: usize, after: usize) {
        if after >= before {
            self.observers.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.observers.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    pub(crate) fn attach(&self, mailbox: &Arc<Mailbox<R>>) {
        let mut mailboxes = locked(&self.mailboxes);
        mailboxes.retain(|other| other.strong_count() > 0);
        if !mailboxes.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(mailbox))) {
            mailboxes.push(Arc::downgrade(mailbox));
        }
    }

    pub(crate) fn change(&self, change: impl Fn(&mut Changes<R>)) {
        for mailbox in locked(&self.mailboxes).iter().filter_map(Weak::upgrade) {
            change(locked(&mailbox.changes).entry(self.id).or_default());
            mailbox.some.notify();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Mailbox<R> {
    changes: Mutex<HashMap<u64, Changes<R>>>,
    some: NotifyOne,
}

impl<R> Default for Mailbox<R> {
    fn default() -> Self {
        Self { changes: Mutex::default(), some: NotifyOne::default() }
    }
}

impl<R> Mailbox<R> {
    pub(super) async fn some(&self) {
        self.some.notified().await;
    }

    pub(crate) fn take(&self) -> HashMap<u64, Changes<R>> {
        std::mem::take(&mut *locked(&self.changes))
    }
}

/// Pending actions for a resource's observers, in this order.
#[derive(Debug)]
pub(crate) struct Changes<R> {
    pub(crate) dismiss: bool,
    pub(crate) send: Option<R>,
    pub(crate) call: Calls,
}

#[derive(Debug, Default)]
pub(crate) enum Calls {
    #[default]
    None,
    Paths(BTreeSet<String>),
    All,
}

/// Beyond it the service is called for all paths.
pub(crate) const MAX_PATHS: usize = 1024;

impl<R> Default for Changes<R> {
    fn default() -> Self {
        Self { dismiss: false, send: None, call: Calls::None }
    }
}

impl<R> Changes<R> {
    pub(crate) fn call_for_all(&mut self) {
        self.send = None;
        self.call = Calls::All;
    }

    pub(crate) fn call_for(&mut self, path: &str) {
        match &mut self.call {
            Calls::All => {}
            Calls::Paths(paths) if paths.len() >= MAX_PATHS => self.call = Calls::All,
            Calls::Paths(paths) => drop(paths.insert(path.to_owned())),
            Calls::None => self.call = Calls::Paths(BTreeSet::from([path.to_owned()])),
        }
    }

    pub(crate) fn send(&mut self, response: R) {
        *self = Self { dismiss: self.dismiss, send: Some(response), call: Calls::None };
    }

    pub(crate) fn dismiss(&mut self) {
        *self = Self { dismiss: true, ..Self::default() };
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// RFC 7641 §2.
const REGISTER: u32 = 0;

#[derive(Debug)]
pub(super) struct Topics<R> {
    mailbox: Arc<Mailbox<R>>,
    by_key: HashMap<Key, u64>,
    topics: HashMap<u64, Topic<R>>,
    by_observable: HashMap<u64, BTreeSet<u64>>,
    registering: HashMap<RequestId, u64>,
    next: u64,
    queued: VecDeque<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    observable: u64,
    method: Code,
    body: Body,
}

#[derive(Debug)]
struct Topic<R> {
    observable: Arc<Observable<R>>,
    key: Key,
    /// The first observer, and its request without client-specific options.
    peer: SocketAddr,
    message: OwnedMessage,
    observers: usize,
    state: Progress,
}

impl<R> Topic<R> {
    fn request(&self) -> ServiceRequest {
        let (from, message) = (self.peer, self.message.clone());
        ServiceRequest { from, secured: false, message, rest: None, identity: None, is_for_observers: true }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Idle,
    Waiting,
    Withdrawn,
    Called {
        again: bool,
        /// Whether a newer state was sent meanwhile.
        outdated: bool,
    },
}

impl<R> Topics<R> {
    pub(super) fn new<S: Service<Response = R>>(service: &S) -> Self {
        let mailbox = Arc::default();
        service.observables().for_each(|observable| observable.attach(&mailbox));
        Self {
            mailbox,
            by_key: HashMap::new(),
            topics: HashMap::new(),
            by_observable: HashMap::new(),
            registering: HashMap::new(),
            next: 0,
            queued: VecDeque::new(),
        }
    }

    pub(super) fn mailbox(&self) -> &Mailbox<R> {
        &self.mailbox
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    fn open(&mut self, observable: &Arc<Observable<R>>, peer: Address, message: &OwnedMessage) -> Option<u64> {
        let kept =
            message.content().options().filter(|option| option.number.spec().is_none_or(|spec| !spec.of_one_client));
        let body = Body::builder().options(kept).payload(message.payload_bytes()).build().ok()?;
        let key = Key { observable: observable.id(), method: message.code(), body };
        if let Some(&topic) = self.by_key.get(&key) {
            return Some(topic);
        }
        let message = OwnedMessage::encode(Type::Confirmable, key.method, MessageId(0), &Token::EMPTY, &key.body)?;
        let topic = self.next;
        self.next += 1;
        self.by_key.insert(key.clone(), topic);
        self.by_observable.entry(key.observable).or_default().insert(topic);
        let (observable, peer) = (Arc::clone(observable), peer.socket_addr());
        self.topics.insert(topic, Topic { observable, key, peer, message, observers: 0, state: Progress::Idle });
        Some(topic)
    }

    fn set_observers(&mut self, topic: u64, observers: usize) {
        let Some(found) = self.topics.get_mut(&topic) else { return };
        found.observable.count(found.observers, observers);
        found.observers = observers;
        if observers == 0 {
            self.close(topic);
        }
    }

    fn close(&mut self, topic: u64) {
        let Some(Topic { observable, key, observers, .. }) = self.topics.remove(&topic) else { return };
        observable.count(observers, 0);
        self.by_key.remove(&key);
        if let Some(of_observable) = self.by_observable.get_mut(&key.observable) {
            of_observable.remove(&topic);
            if of_observable.is_empty() {
                self.by_observable.remove(&key.observable);
            }
        }
    }

    fn queue(&mut self, topic: u64) {
        let Some(found) = self.topics.get_mut(&topic) else { return };
        found.state = match found.state {
            Progress::Idle => {
                self.queued.push_back(topic);
                Progress::Waiting
            }
            Progress::Called { outdated, .. } => Progress::Called { again: true, outdated },
            Progress::Waiting | Progress::Withdrawn => Progress::Waiting,
        };
    }

    /// Discards the results of pending and running handlers.
    fn supersede(&mut self, topic: u64) {
        let Some(found) = self.topics.get_mut(&topic) else { return };
        found.state = match found.state {
            Progress::Idle => Progress::Idle,
            Progress::Waiting | Progress::Withdrawn => Progress::Withdrawn,
            Progress::Called { .. } => Progress::Called { again: false, outdated: true },
        };
    }

    fn on_response(&mut self, topic: u64) {
        let Some(found) = self.topics.get_mut(&topic) else { return };
        let again = matches!(found.state, Progress::Called { again: true, .. });
        found.state = Progress::Idle;
        if again {
            self.queue(topic);
        }
    }
}

impl<R> Drop for Topics<R> {
    fn drop(&mut self) {
        self.topics.values().for_each(|topic| topic.observable.count(topic.observers, 0));
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// An error response undoes the registration (RFC 7641 §4.1).
    pub(super) fn register(&mut self, id: RequestId, from: Address, message: &OwnedMessage) {
        if message.uint(OptionNumber::OBSERVE) != Some(REGISTER) || !matches!(message.code(), Code::GET | Code::FETCH) {
            return;
        }
        let Some(observable) = self.calls.observable(message) else { return };
        let Some(topic) = self.topics.open(&observable, from, message) else { return };
        if self.endpoint.observe(self.now, id, topic).is_some() {
            self.topics.registering.insert(id, topic);
        }
        self.count_observers(topic);
    }

    pub(super) fn has_registrations(&self) -> bool {
        !self.topics.registering.is_empty()
    }

    pub(super) fn registration_answered(&mut self, id: RequestId) {
        // Called for every request; few are registrations.
        if !self.topics.registering.is_empty()
            && let Some(topic) = self.topics.registering.remove(&id)
        {
            self.count_observers(topic);
        }
    }

    pub(super) fn count_observers(&mut self, topic: u64) {
        self.topics.set_observers(topic, self.endpoint.observers(topic));
    }

    pub(super) fn on_resource_changes(&mut self) {
        self.now = self.clock.now();
        for (observable, Changes { dismiss, send, call }) in self.topics.mailbox.take() {
            let topics = |driver: &Self| -> Vec<u64> {
                driver.topics.by_observable.get(&observable).into_iter().flatten().copied().collect()
            };
            if dismiss {
                for topic in topics(self) {
                    self.endpoint.dismiss_all(self.now, topic);
                    self.topics.close(topic);
                }
            }
            if let Some(response) = send {
                let state = State::of(Answer::Service(response));
                for topic in topics(self) {
                    self.topics.supersede(topic);
                    self.publish(topic, &state);
                }
            }
            for topic in topics(self) {
                let found = self.topics.topics.get(&topic);
                let asked = match &call {
                    Calls::All => true,
                    Calls::Paths(paths) => found.is_some_and(|found| paths.contains(&found.message.uri_path())),
                    Calls::None => false,
                };
                if asked {
                    self.topics.queue(topic);
                }
            }
        }
    }

    /// Runs queued handlers for about [`LINGER`], then lets requests be served.
    pub(super) fn call_for_topics(&mut self) {
        self.now = self.clock.now();
        let begun = self.now;
        for _ in 0..BATCH {
            if !self.calls.may_call_for_observers() || self.now - begun >= LINGER {
                return;
            }
            let Some(topic) = self.topics.queued.pop_front() else { return };
            // The topic may be closed.
            let Some(found) = self.topics.topics.get_mut(&topic) else { continue };
            if found.state == Progress::Withdrawn {
                found.state = Progress::Idle;
                continue;
            }
            found.state = Progress::Called { again: false, outdated: false };
            let request = found.request();
            if let Some(response) = self.calls.call_for_observers(topic, request) {
                self.now = self.clock.now();
                self.on_new_state(topic, response);
            }
        }
    }

    pub(super) fn on_new_state(&mut self, topic: u64, response: Answer<S::Response>) {
        let Some(found) = self.topics.topics.get(&topic) else { return };
        if !matches!(found.state, Progress::Called { outdated: true, .. }) {
            self.publish(topic, &State::of(response));
        }
        self.topics.on_response(topic);
    }

    /// Ends all observations with an error notification (RFC 7641 §4.2).
    pub(super) fn dismiss_observers(&mut self) {
        let mut topics: Vec<u64> = self.topics.topics.keys().copied().collect();
        topics.sort_unstable();
        let state = State::of_driver(refusal::unavailable());
        topics.into_iter().for_each(|topic| self.publish(topic, &state));
    }

    fn publish(&mut self, topic: u64, State { code, response }: &State) {
        let notified = match response {
            Ok(response) => self
                .endpoint
                .notify(self.now, topic, response.clone())
                .map_err(|error| (error.to_string(), matches!(error, NotifyError::StatesFull { .. }))),
            Err(error) => Err((error.to_string(), false)),
        };
        let over = match notified {
            Ok(_) => !code.is_success(),
            Err((error, is_full)) => {
                let last = if is_full { refusal::unavailable() } else { refusal::internal_error() };
                if let Some(held_back) = self.response_errors.passes(tokio::time::Instant::now()) {
                    let replacement = last.code;
                    warn!(error, %code, held_back, %replacement, "a notification cannot be sent; observations end");
                }
                let _: Result<usize, NotifyError> = self.endpoint.notify(self.now, topic, last);
                true
            }
        };
        if over {
            self.topics.close(topic);
        }
    }
}

struct State {
    code: Code,
    response: Result<conche_proto::Response, BuildError>,
}

impl State {
    fn of(answer: Answer<impl ServiceResponse>) -> Self {
        match answer {
            // A stream cannot be sent to several observers.
            Answer::Service(response) if response.is_stream() => Self::of_driver(refusal::internal_error()),
            Answer::Service(response) => {
                let code = response.code();
                Self { code, response: response.build(None) }
            }
            Answer::Driver(response) => Self::of_driver(response),
        }
    }

    fn of_driver(response: conche_proto::Response) -> Self {
        Self { code: response.code, response: Ok(response) }
    }
}
