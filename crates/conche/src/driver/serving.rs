//! Runs handlers, bounded in number and per source, with a response to every request even if a
//! handler panics.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use conche_proto::RequestId;
use conche_proto::codec::{Code, OptionNumber, OwnedMessage};
use conche_proto::shares::{Group, Shares};
use tokio::task::{Id, JoinError, JoinSet, unconstrained};
use tokio::time::Instant;
use tracing::{Instrument, Span, debug_span, warn};

use super::streams::Inlet;
use super::{Address, Driver};
use crate::controllers::SharedController;
use crate::fence::Fence;
use crate::security::Identity;
use crate::server::{Dispatch, Notifier, Request, Response, Router};
use crate::throttle::Throttle;

/// Max-Age in seconds of a 5.03, after which the client may retry (RFC 7252 §5.9.3.4).
pub(crate) const RETRY_AFTER_SECONDS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handlers {
    /// Maximum number of waiting handlers.
    pub(crate) max: usize,
    /// Whether each is a task from the start; otherwise only once it waits.
    pub(crate) spawn: bool,
}

impl Handlers {
    /// The default of [`max`](Self::max).
    pub(crate) const DEFAULT_MAX: usize = 1024;
}

impl Default for Handlers {
    fn default() -> Self {
        Self { max: Self::DEFAULT_MAX, spawn: false }
    }
}

/// The cause of a handler's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    Request(RequestId),
    /// All observers of a topic.
    Topic(u64),
}

#[derive(Debug)]
pub(super) struct Serving {
    router: Arc<Router>,
    handlers: Handlers,
    running: JoinSet<Response>,
    triggers: HashMap<Id, (Trigger, Option<Group>)>,
    /// Number of running topics, which take no share.
    topics: usize,
    /// Shares of running handlers, by source.
    shares: Shares,
    /// Hasher of the groups of sources.
    hash: RandomState,
    refusing: bool,
    refusals: Throttle,
    /// Contains panics of handlers.
    fence: Fence,
}

impl<C: SharedController> Driver<C> {
    /// Starts the handler of a request, and sends its response if it is ready at once.
    pub(super) fn serve(&mut self, id: RequestId, from: Address, message: OwnedMessage) {
        #[cfg(feature = "edhoc")]
        {
            let response = self.agree(id, from, &message);
            // Before the identity is looked up, since this request may have brought its own
            // context.
            self.retire();
            if let Some(response) = response {
                return self.respond_at_once(id, response);
            }
        }
        let identity = match self.identify(id, from) {
            Ok(identity) => identity,
            Err(refusal) => return self.respond(id, refusal),
        };
        self.register(id, from, &message);
        let rest = self.streams.begun(id, &message);
        if let Some(response) = self.serving.start(id, from, message, (rest, identity)) {
            // The handler may have taken time.
            self.now = self.clock.now();
            self.respond_at_once(id, response);
        }
    }
}

impl Serving {
    pub(super) fn new(router: Arc<Router>, handlers: Handlers, fence: Fence) -> Self {
        Self {
            router,
            handlers,
            running: JoinSet::new(),
            triggers: HashMap::new(),
            topics: 0,
            shares: Shares::default(),
            hash: RandomState::new(),
            refusing: false,
            refusals: Throttle::default(),
            fence,
        }
    }

    /// Answers further requests with 5.03.
    pub(super) fn refuse(&mut self) {
        self.refusing = true;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Drops all running handlers and returns 5.03 for their requests. Handlers that have already
    /// ended keep their responses.
    pub(super) fn give_up(&mut self) -> Vec<(RequestId, Response)> {
        let mut answers = Vec::new();
        while let Some(ended) = self.running.try_join_next_with_id() {
            answers.extend(self.ended(ended));
        }
        self.running = JoinSet::new();
        self.shares = Shares::default();
        self.topics = 0;
        answers.extend(self.triggers.drain().map(|(_, (trigger, _))| (trigger, unavailable())));
        // Observed resources are not notified any more.
        let request = |(trigger, response)| match trigger {
            Trigger::Request(request) => Some((request, response)),
            Trigger::Topic(_) => None,
        };
        let mut answers: Vec<_> = answers.into_iter().filter_map(request).collect();
        answers.sort_unstable_by_key(|(request, _)| *request);
        answers
    }

    /// Starts to answer a request. Most handlers do not wait: their response is returned without a
    /// task.
    pub(super) fn start(
        &mut self,
        id: RequestId,
        from: Address,
        message: OwnedMessage,
        beside: (Option<Inlet>, Option<Identity>),
    ) -> Option<Response> {
        if self.refusing {
            return Some(unavailable());
        }
        let full = self.is_full_for(from);
        let (source, from, id) = (Some(from), from.socket_addr(), Trigger::Request(id));
        let span = debug_span!("request", peer = %from, method = ?message.code(), path = message.uri_path());
        if self.handlers.spawn {
            if full {
                return Some(self.full());
            }
            self.spawn(id, source, span, move |router| router.dispatch(from, message, beside));
            return None;
        }
        // The handler could be dropped halfway, at its first wait, and the client would repeat the
        // request.
        if full && !message.code().is_idempotent() {
            return Some(self.full());
        }
        self.first(id, source, full, span, |router| router.dispatch(from, message, beside))
    }

    /// Whether the client's prefix has used up its handlers. Without running handlers no lookup is
    /// needed.
    fn is_full_for(&self, from: Address) -> bool {
        match self.running.is_empty() {
            true => self.handlers.max == 0,
            false => !self.shares.admits(self.group_of(from), 1, self.handlers.max),
        }
    }

    pub(super) fn group_of(&self, from: Address) -> Group {
        Group::of(self.hash.hash_one(from.prefix()))
    }

    #[cfg(feature = "edhoc")]
    pub(super) fn host_of(&self, from: Address) -> Group {
        Group::of(self.hash.hash_one((from.prefix(), from.host())))
    }

    /// Returns the notifier of the requested resource, unless new requests are refused.
    pub(super) fn observed(&self, message: &OwnedMessage) -> Option<Notifier> {
        if self.refusing { None } else { self.router.observed(message).cloned() }
    }

    /// Whether a notification's handler may start. Notifications have as many handlers as requests.
    pub(super) fn may_ask(&self) -> bool {
        !self.refusing && self.topics < self.handlers.max.max(1)
    }

    /// Runs a handler for observers. A response that is ready at once is returned.
    pub(super) fn ask(&mut self, topic: u64, request: Request) -> Option<Response> {
        let span = debug_span!("notification", path = request.message().uri_path());
        let trigger = Trigger::Topic(topic);
        if self.handlers.spawn {
            self.spawn(trigger, None, span, |router| router.handle(request));
            return None;
        }
        self.first(trigger, None, false, span, |router| router.handle(request))
    }

    /// Runs a handler as a task from the start.
    fn spawn(
        &mut self,
        id: Trigger,
        source: Option<Address>,
        span: Span,
        dispatch: impl FnOnce(&Router) -> Dispatch + Send + 'static,
    ) {
        let router = Arc::clone(&self.router);
        let answer = async move {
            match dispatch(&router) {
                Dispatch::Reply(response) => response,
                Dispatch::Handle(answer) => answer.await,
            }
        };
        self.run(id, source, answer.instrument(span));
    }

    /// Runs a handler until it ends or first waits.
    fn first(
        &mut self,
        id: Trigger,
        source: Option<Address>,
        full: bool,
        span: Span,
        dispatch: impl FnOnce(&Router) -> Dispatch,
    ) -> Option<Response> {
        let entered = span.enter();
        // A panic leaves no state behind: the router is unchanged, and the handler's future is
        // dropped.
        let first = self.fence.run(HANDLER, || match dispatch(&self.router) {
            Dispatch::Reply(response) => Ok(response),
            // `unconstrained`, because this single poll must not return pending for tokio's
            // cooperative budget. The answer is dropped inside the fence, since that may panic too.
            Dispatch::Handle(answer) if full => match poll_once(pin!(unconstrained(answer))) {
                Poll::Ready(response) => Ok(response),
                Poll::Pending => Err(None),
            },
            Dispatch::Handle(mut answer) => match poll_once(Pin::new(&mut answer)) {
                Poll::Ready(response) => Ok(response),
                Poll::Pending => Err(Some(answer)),
            },
        });
        drop(entered);
        match first {
            Some(Ok(response)) => Some(response),
            Some(Err(None)) => Some(self.full()),
            Some(Err(Some(answer))) => {
                self.run(id, source, answer.instrument(span));
                None
            }
            None => Some(panicked()),
        }
    }

    fn run(&mut self, id: Trigger, source: Option<Address>, answer: impl Future<Output = Response> + Send + 'static) {
        let group = source.map(|source| self.group_of(source));
        let task = self.running.spawn(answer);
        self.triggers.insert(task.id(), (id, group));
        match group {
            Some(group) => self.shares.take(group, 1),
            None => self.topics += 1,
        }
    }

    /// Waits for the next handler to end; forever while none runs.
    pub(super) async fn next(&mut self) -> (Trigger, Response) {
        loop {
            let Some(ended) = self.running.join_next_with_id().await else { std::future::pending().await };
            if let Some(answer) = self.ended(ended) {
                return answer;
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, Response), JoinError>) -> Option<(Trigger, Response)> {
        let (task, response) = match ended {
            Ok((task, response)) => (task, Some(response)),
            Err(error) => (error.id(), None),
        };
        let (trigger, group) = self.triggers.remove(&task)?;
        match group {
            Some(group) => self.shares.give_back(group, 1),
            None => self.topics -= 1,
        }
        let response = response.unwrap_or_else(|| {
            self.fence.count(HANDLER, 1);
            panicked()
        });
        Some((trigger, response))
    }

    fn full(&mut self) -> Response {
        if let Some(held_back) = self.refusals.passes(Instant::now()) {
            let limit = self.handlers.max;
            warn!(
                limit,
                held_back, "as many handlers run for a source as the server's concurrency allows: it gets 5.03"
            );
        }
        unavailable()
    }
}

/// Log name of handlers.
const HANDLER: &str = "a handler";

fn panicked() -> Response {
    Response::new(Code::INTERNAL_SERVER_ERROR)
}

/// Returns the response to a client that should retry later (RFC 7252 §5.9.3.4).
pub(super) fn unavailable() -> Response {
    Response::new(Code::SERVICE_UNAVAILABLE).uint(OptionNumber::MAX_AGE, RETRY_AFTER_SECONDS)
}

/// Polls a future once without a waker; the caller must poll it again.
fn poll_once<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
