//! What is observed here (RFC 7641 §4): which clients' requests ask for the same, so that a handler answers all of them at
//! once when a [`Notifier`] says that there is something new.
//!
//! A topic is what requests have in common that differ in nothing but who asks. Its handler runs at most once at a time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use conche_proto::{NotifyError, RequestId};
use tracing::warn;

use super::serving::unavailable;
use super::{Address, BATCH, Driver, LINGER};
use crate::controllers::SharedController;
use crate::server::notifier::{Ask, Changes, Mailbox};
use crate::server::{Notifier, Request, Response, Router};

/// The Observe option of a request that registers (RFC 7641 §2).
const REGISTER: u32 = 0;

/// Options that say nothing of what is asked for, but something of the client, its path, or what it knows already.
const OF_ONE_CLIENT: [OptionNumber; 11] = [
    OptionNumber::OBSERVE,
    OptionNumber::ETAG,
    OptionNumber::IF_MATCH,
    OptionNumber::IF_NONE_MATCH,
    OptionNumber::BLOCK1,
    OptionNumber::BLOCK2,
    OptionNumber::SIZE1,
    OptionNumber::SIZE2,
    OptionNumber::ECHO,
    OptionNumber::REQUEST_TAG,
    OptionNumber::NO_RESPONSE,
];

/// All that is observed at a server.
#[derive(Debug, Default)]
pub(super) struct Topics {
    mailbox: Arc<Mailbox>,
    by_key: HashMap<Key, u64>,
    topics: HashMap<u64, Topic>,
    by_notifier: HashMap<u64, BTreeSet<u64>>,
    /// Registrations that are not answered yet.
    registering: HashMap<RequestId, u64>,
    next: u64,
    /// Those whose handlers are to be asked.
    to_ask: VecDeque<u64>,
}

/// What requests ask for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    notifier: u64,
    method: Code,
    body: Body,
}

#[derive(Debug)]
struct Topic {
    notifier: Notifier,
    key: Key,
    /// What the handler is asked: the request of who observed first, without what is of one client only.
    request: Request,
    observers: usize,
    state: Progress,
}

/// How far a topic's handler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Idle,
    /// It will be asked.
    Waiting,
    /// It has its turn among those that will be asked, but nobody wants to know any more.
    Withdrawn,
    /// It has been asked.
    Asked {
        /// It is to be asked once more after that.
        again: bool,
        /// A state was told meanwhile that is newer than what it will say.
        outdated: bool,
    },
}

impl Topics {
    pub(super) fn new(router: &Router) -> Self {
        let topics = Self::default();
        router.notifiers().for_each(|notifier| notifier.attach(&topics.mailbox));
        topics
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Handlers wait to be asked.
    pub(super) fn has_to_ask(&self) -> bool {
        !self.to_ask.is_empty()
    }

    /// The topic that a request is about.
    fn open(&mut self, notifier: &Notifier, peer: Address, message: &OwnedMessage) -> Option<u64> {
        let kept = message.content().options().filter(|option| !OF_ONE_CLIENT.contains(&option.number));
        let body = Body::builder().options(kept).payload(message.payload_bytes()).build().ok()?;
        let key = Key { notifier: notifier.id(), method: message.code(), body };
        if let Some(&topic) = self.by_key.get(&key) {
            return Some(topic);
        }
        let request = Request::from_body(peer.socket_addr(), key.method, &key.body)?.into_notification();
        let topic = self.next;
        self.next += 1;
        self.by_key.insert(key.clone(), topic);
        self.by_notifier.entry(key.notifier).or_default().insert(topic);
        let notifier = notifier.clone();
        self.topics.insert(topic, Topic { notifier, key, request, observers: 0, state: Progress::Idle });
        Some(topic)
    }

    fn set_observers(&mut self, topic: u64, observers: usize) {
        let Some(found) = self.topics.get_mut(&topic) else { return };
        found.notifier.count(found.observers, observers);
        found.observers = observers;
        if observers == 0 {
            self.close(topic);
        }
    }

    /// What its observers are told no more of.
    fn close(&mut self, topic: u64) {
        let Some(Topic { notifier, key, observers, .. }) = self.topics.remove(&topic) else { return };
        notifier.count(observers, 0);
        self.by_key.remove(&key);
        if let Some(of_notifier) = self.by_notifier.get_mut(&key.notifier) {
            of_notifier.remove(&topic);
            if of_notifier.is_empty() {
                self.by_notifier.remove(&key.notifier);
            }
        }
    }

    /// Has its handler asked, in its turn.
    fn ask(&mut self, topic: u64) {
        let Some(found) = self.topics.get_mut(&topic) else { return };
        found.state = match found.state {
            Progress::Idle => {
                self.to_ask.push_back(topic);
                Progress::Waiting
            }
            Progress::Asked { outdated, .. } => Progress::Asked { again: true, outdated },
            Progress::Waiting | Progress::Withdrawn => Progress::Waiting,
        };
    }

    /// The program itself has told the state: whatever was asked before has no say any more.
    fn told(&mut self, topic: u64) {
        let Some(found) = self.topics.get_mut(&topic) else { return };
        found.state = match found.state {
            Progress::Idle => Progress::Idle,
            Progress::Waiting | Progress::Withdrawn => Progress::Withdrawn,
            Progress::Asked { .. } => Progress::Asked { again: false, outdated: true },
        };
    }

    /// The handler has answered.
    fn answered(&mut self, topic: u64) {
        let Some(found) = self.topics.get_mut(&topic) else { return };
        let again = matches!(found.state, Progress::Asked { again: true, .. });
        found.state = Progress::Idle;
        if again {
            self.ask(topic);
        }
    }
}

/// Nobody observes anything at a server that is gone.
impl Drop for Topics {
    fn drop(&mut self) {
        self.topics.values().for_each(|topic| topic.notifier.count(topic.observers, 0));
    }
}

impl<C: SharedController> Driver<C> {
    /// A request that wants to observe what can be observed registers, unless its response is an error (RFC 7641 §4.1).
    pub(super) fn register(&mut self, id: RequestId, from: Address, message: &OwnedMessage) {
        if message.uint(OptionNumber::OBSERVE) != Some(REGISTER) || !matches!(message.code(), Code::GET | Code::FETCH) {
            return;
        }
        let Some(notifier) = self.serving.observed(message) else { return };
        let Some(topic) = self.topics.open(&notifier, from, message) else { return };
        if self.endpoint.observe(self.now, id, topic).is_some() {
            self.topics.registering.insert(id, topic);
        }
        self.count_observers(topic);
    }

    /// Some request is a registration that is not answered yet.
    pub(super) fn someone_registers(&self) -> bool {
        !self.topics.registering.is_empty()
    }

    /// A request was answered, which may have been a registration.
    pub(super) fn registration_answered(&mut self, id: RequestId) {
        // Few requests register, and all come here.
        if !self.topics.registering.is_empty()
            && let Some(topic) = self.topics.registering.remove(&id)
        {
            self.count_observers(topic);
        }
    }

    pub(super) fn count_observers(&mut self, topic: u64) {
        self.topics.set_observers(topic, self.endpoint.observers(topic));
    }

    /// Notifiers have something to tell.
    pub(super) fn hear_notifiers(&mut self) {
        self.now = self.clock.now();
        for (notifier, Changes { dismiss, send, ask }) in self.topics.mailbox.take() {
            let topics = |driver: &Self| -> Vec<u64> {
                driver.topics.by_notifier.get(&notifier).into_iter().flatten().copied().collect()
            };
            if dismiss {
                for topic in topics(self) {
                    self.endpoint.dismiss_all(self.now, topic);
                    self.topics.close(topic);
                }
            }
            if let Some(response) = send {
                let state = State::of(response);
                for topic in topics(self) {
                    self.topics.told(topic);
                    self.publish(topic, &state);
                }
            }
            for topic in topics(self) {
                let found = self.topics.topics.get(&topic);
                let asked = match &ask {
                    Ask::All => true,
                    Ask::Paths(paths) => found.is_some_and(|found| paths.contains(&found.request.message().uri_path())),
                    Ask::None => false,
                };
                if asked {
                    self.topics.ask(topic);
                }
            }
        }
    }

    /// Runs some of the handlers that make new states, for about [`LINGER`]: requests are served in
    /// between.
    pub(super) fn ask_handlers(&mut self) {
        self.now = self.clock.now();
        let begun = self.now;
        for _ in 0..BATCH {
            if !self.serving.may_ask() || self.now - begun >= LINGER {
                return;
            }
            let Some(topic) = self.topics.to_ask.pop_front() else { return };
            // It may be over meanwhile.
            let Some(found) = self.topics.topics.get_mut(&topic) else { continue };
            if found.state == Progress::Withdrawn {
                found.state = Progress::Idle;
                continue;
            }
            found.state = Progress::Asked { again: false, outdated: false };
            if let Some(response) = self.serving.ask(topic, found.request.clone()) {
                self.now = self.clock.now();
                self.handler_says(topic, response);
            }
        }
    }

    /// The handler of something observed has answered.
    pub(super) fn handler_says(&mut self, topic: u64, response: Response) {
        let Some(found) = self.topics.topics.get(&topic) else { return };
        if !matches!(found.state, Progress::Asked { outdated: true, .. }) {
            self.publish(topic, &State::of(response));
        }
        self.topics.answered(topic);
    }

    /// Nothing that is observed will change any more: all observers are told so, with an error, which ends the observations
    /// (RFC 7641 §4.2).
    pub(super) fn dismiss_observers(&mut self) {
        let mut topics: Vec<u64> = self.topics.topics.keys().copied().collect();
        topics.sort_unstable();
        let state = State::of(unavailable());
        topics.into_iter().for_each(|topic| self.publish(topic, &state));
    }

    /// Notifies the observers of a topic of its new state.
    fn publish(&mut self, topic: u64, State { code, response }: &State) {
        let notified = match response {
            Ok(response) => self
                .endpoint
                .notify(self.now, topic, response.clone())
                .map_err(|error| (error.to_string(), matches!(error, NotifyError::StatesFull { .. }))),
            Err(error) => Err((error.clone(), false)),
        };
        let over = match notified {
            Ok(_) => !code.is_success(),
            Err((error, is_full)) => {
                let last = if is_full { unavailable() } else { Response::new(Code::INTERNAL_SERVER_ERROR) };
                if let Some(held_back) = self.response_errors.passes(tokio::time::Instant::now()) {
                    let replacement = last.code();
                    warn!(error, ?code, held_back, ?replacement, "a notification cannot be sent; observations end");
                }
                if let Ok(last) = last.build(None) {
                    let _: Result<usize, NotifyError> = self.endpoint.notify(self.now, topic, last);
                }
                true
            }
        };
        if over {
            self.topics.close(topic);
        }
    }
}

/// A new state of one topic or several, encoded once.
struct State {
    code: Code,
    response: Result<conche_proto::Response, String>,
}

impl State {
    fn of(response: Response) -> Self {
        // One stream could not make the payload for all observers.
        let response = if response.is_stream() { Response::new(Code::INTERNAL_SERVER_ERROR) } else { response };
        let code = response.code();
        Self { code, response: response.build(None).map_err(|error| error.to_string()) }
    }
}
