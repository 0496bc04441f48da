//! [`Service`]: answers the requests of a driver. [`ServiceCalls`] bounds its calls, also per
//! source, and answers even if the service panics.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, Ready};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use conche_proto::codec::{BuildError, Code, MessagePool, OwnedMessage};
use conche_proto::shares::{Group, Shares};
use conche_proto::{RequestId, RespondError};
use tokio::task::{Id, JoinError, JoinSet, unconstrained};
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, debug_span, warn};

use super::observe_server::Observable;
use super::streams::Inlet;
use super::{Address, Driver, SharedController};
use crate::body::SizedSource;
use crate::fence::{Fence, Throttle};
use crate::refusal;
use crate::security::Identity;

pub(crate) trait Service: Send + Sync + 'static {
    type Response: ServiceResponse;
    type Future: Future<Output = Self::Response> + Send + Unpin + 'static;

    /// A panic ends only this request.
    fn call(&self, request: ServiceRequest) -> CallResult<Self>;

    /// Returns `None` if it is not observable.
    fn observable(&self, message: &OwnedMessage) -> Option<&Arc<Observable<Self::Response>>>;

    fn observables(&self) -> impl Iterator<Item = &Arc<Observable<Self::Response>>>;

    /// Whether any request may be answered before its payload is complete.
    fn streams_any(&self) -> bool;

    fn streams(&self, message: &OwnedMessage) -> bool;
}

#[derive(Debug)]
pub(crate) struct ServiceRequest {
    pub(crate) from: SocketAddr,
    /// Whether it came in a DTLS session.
    pub(crate) secured: bool,
    pub(crate) message: OwnedMessage,
    pub(crate) rest: Option<Inlet>,
    pub(crate) identity: Option<Identity>,
    pub(crate) is_for_observers: bool,
}

pub(crate) enum CallResult<S: Service + ?Sized> {
    Ready(S::Response),
    Pending(S::Future),
}

pub(crate) trait ServiceResponse: fmt::Debug + Clone + Send + 'static {
    fn code(&self) -> Code;

    /// Whether it need not be kept after sending.
    fn is_brief(&self) -> bool;

    fn is_stream(&self) -> bool;

    fn take_stream(&mut self) -> Option<SizedSource>;

    /// Uses its own memory or, if the response will not be kept, the pool's.
    fn build(self, pool: Option<&mut MessagePool>) -> Result<conche_proto::Response, BuildError>;
}

/// For a socket that only sends requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoService;

impl Service for NoService {
    type Response = conche_proto::Response;
    type Future = Ready<conche_proto::Response>;

    fn call(&self, _: ServiceRequest) -> CallResult<Self> {
        CallResult::Ready(refusal::empty(Code::NOT_FOUND))
    }

    fn observable(&self, _: &OwnedMessage) -> Option<&Arc<Observable<Self::Response>>> {
        None
    }

    fn observables(&self) -> impl Iterator<Item = &Arc<Observable<Self::Response>>> {
        std::iter::empty()
    }

    fn streams_any(&self) -> bool {
        false
    }

    fn streams(&self, _: &OwnedMessage) -> bool {
        false
    }
}

impl ServiceResponse for conche_proto::Response {
    fn code(&self) -> Code {
        self.code
    }

    fn is_brief(&self) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn take_stream(&mut self) -> Option<SizedSource> {
        None
    }

    fn build(self, _: Option<&mut MessagePool>) -> Result<conche_proto::Response, BuildError> {
        Ok(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handlers {
    pub(crate) max: usize,
    pub(crate) spawn: bool,
}

impl Handlers {
    pub(crate) const DEFAULT_MAX: usize = 1024;
}

impl Default for Handlers {
    fn default() -> Self {
        Self { max: Self::DEFAULT_MAX, spawn: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    Request(RequestId),
    Topic(u64),
}

pub(super) struct ServiceCalls<S: Service> {
    service: Arc<S>,
    handlers: Handlers,
    running: JoinSet<S::Response>,
    triggers: HashMap<Id, (Trigger, Option<Group>)>,
    topics: usize,
    shares: Shares,
    hash: RandomState,
    refusing: bool,
    refusals: Throttle,
    fence: Fence,
}

impl<C: SharedController, S: Service> Driver<C, S> {
    pub(super) fn serve(&mut self, id: RequestId, from: Address, message: OwnedMessage) {
        #[cfg(feature = "edhoc")]
        {
            let response = self.answer_edhoc(id, from, &message);
            // Before the identity lookup: this request may have brought its own context.
            self.remove_retired_contexts();
            if let Some(response) = response {
                return self.respond_at_once(id, Answer::Driver(response));
            }
        }
        let identity = match self.identify(id, from) {
            Ok(identity) => identity,
            Err(refusal) => return self.respond(id, Answer::Driver(refusal)),
        };
        self.register(id, from, &message);
        let rest = self.streams.begin_request(id, &message);
        let request = ServiceRequest {
            from: from.socket_addr(),
            secured: from.is_secured(),
            message,
            rest,
            identity,
            is_for_observers: false,
        };
        if let Some(response) = self.calls.start(id, from, request) {
            // The handler may have taken time.
            self.now = self.clock.now();
            self.respond_at_once(id, response);
        }
    }
}

struct RunningCall {
    trigger: Trigger,
    source: Option<Address>,
    /// Whether its handler may not wait.
    full: bool,
}

impl<S: Service> ServiceCalls<S> {
    pub(super) fn new(service: Arc<S>, handlers: Handlers, fence: Fence) -> Self {
        Self {
            service,
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

    pub(super) fn refuse(&mut self) {
        self.refusing = true;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns 5.03 for running handlers' requests. Ended handlers keep their responses.
    pub(super) fn give_up(&mut self) -> Vec<(RequestId, Answer<S::Response>)> {
        let mut answers = Vec::new();
        while let Some(ended) = self.running.try_join_next_with_id() {
            answers.extend(self.ended(ended));
        }
        self.running = JoinSet::new();
        self.shares = Shares::default();
        self.topics = 0;
        answers.extend(self.triggers.drain().map(|(_, (trigger, _))| (trigger, unavailable())));
        let request = |(trigger, response)| match trigger {
            Trigger::Request(request) => Some((request, response)),
            Trigger::Topic(_) => None,
        };
        let mut answers: Vec<_> = answers.into_iter().filter_map(request).collect();
        answers.sort_unstable_by_key(|(request, _)| *request);
        answers
    }

    pub(super) fn start(
        &mut self,
        id: RequestId,
        from: Address,
        request: ServiceRequest,
    ) -> Option<Answer<S::Response>> {
        if self.refusing {
            return Some(unavailable());
        }
        let full = self.is_full_for(from);
        let (source, id, message) = (Some(from), Trigger::Request(id), &request.message);
        let span = debug_span!("request", peer = %request.from, method = %message.code(), path = message.uri_path());
        if self.handlers.spawn {
            if full {
                return Some(self.full());
            }
            self.spawn(id, source, span, request);
            return None;
        }
        // The handler could be dropped at its first wait, and the client would repeat the request.
        if full && !message.code().is_idempotent() {
            return Some(self.full());
        }
        let calling = RunningCall { trigger: id, source, full };
        self.first(calling, span, request)
    }

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

    pub(super) fn observable(&self, message: &OwnedMessage) -> Option<Arc<Observable<S::Response>>> {
        if self.refusing { None } else { self.service.observable(message).cloned() }
    }

    pub(super) fn may_call_for_observers(&self) -> bool {
        !self.refusing && self.topics < self.handlers.max.max(1)
    }

    pub(super) fn call_for_observers(&mut self, topic: u64, request: ServiceRequest) -> Option<Answer<S::Response>> {
        let span = debug_span!("notification", path = request.message.uri_path());
        let trigger = Trigger::Topic(topic);
        if self.handlers.spawn {
            self.spawn(trigger, None, span, request);
            return None;
        }
        self.first(RunningCall { trigger, source: None, full: false }, span, request)
    }

    fn spawn(&mut self, trigger: Trigger, source: Option<Address>, span: Span, request: ServiceRequest) {
        let service = Arc::clone(&self.service);
        let answer = async move {
            match service.call(request) {
                CallResult::Ready(response) => response,
                CallResult::Pending(answer) => answer.await,
            }
        };
        self.run(trigger, source, answer.instrument(span));
    }

    fn first(&mut self, calling: RunningCall, span: Span, request: ServiceRequest) -> Option<Answer<S::Response>> {
        let RunningCall { trigger, source, full } = calling;
        let entered = span.enter();
        // A panic leaves no state behind: the handler's future is dropped.
        let first = self.fence.run(HANDLER, || match self.service.call(request) {
            CallResult::Ready(response) => Ok(response),
            // `unconstrained`: this single poll must not return pending for tokio's budget. The
            // answer is dropped inside the fence, since its drop may panic.
            CallResult::Pending(answer) if full => match poll_once(pin!(unconstrained(answer))) {
                Poll::Ready(response) => Ok(response),
                Poll::Pending => Err(None),
            },
            CallResult::Pending(mut answer) => match poll_once(Pin::new(&mut answer)) {
                Poll::Ready(response) => Ok(response),
                Poll::Pending => Err(Some(answer)),
            },
        });
        drop(entered);
        match first {
            Some(Ok(response)) => Some(Answer::Service(response)),
            Some(Err(None)) => Some(self.full()),
            Some(Err(Some(answer))) => {
                self.run(trigger, source, answer.instrument(span));
                None
            }
            None => Some(panicked()),
        }
    }

    fn run(
        &mut self,
        trigger: Trigger,
        source: Option<Address>,
        answer: impl Future<Output = S::Response> + Send + 'static,
    ) {
        let group = source.map(|source| self.group_of(source));
        let task = self.running.spawn(answer);
        self.triggers.insert(task.id(), (trigger, group));
        match group {
            Some(group) => self.shares.take(group, 1),
            None => self.topics += 1,
        }
    }

    pub(super) async fn next(&mut self) -> (Trigger, Answer<S::Response>) {
        loop {
            let Some(ended) = self.running.join_next_with_id().await else { std::future::pending().await };
            if let Some(answer) = self.ended(ended) {
                return answer;
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, S::Response), JoinError>) -> Option<(Trigger, Answer<S::Response>)> {
        let (task, response) = match ended {
            Ok((task, response)) => (task, Some(Answer::Service(response))),
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

    fn full(&mut self) -> Answer<S::Response> {
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

const HANDLER: &str = "a handler";

fn panicked<R>() -> Answer<R> {
    Answer::Driver(refusal::internal_error())
}

fn unavailable<R>() -> Answer<R> {
    Answer::Driver(refusal::unavailable())
}

fn poll_once<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[derive(Debug)]
pub(super) enum Answer<R> {
    Service(R),
    Driver(conche_proto::Response),
}

impl<R: ServiceResponse> Answer<R> {
    fn code(&self) -> Code {
        match self {
            Self::Service(response) => response.code(),
            Self::Driver(response) => response.code,
        }
    }

    fn is_brief(&self) -> bool {
        match self {
            Self::Service(response) => response.is_brief(),
            Self::Driver(_) => true,
        }
    }

    fn take_stream(&mut self) -> Option<SizedSource> {
        match self {
            Self::Service(response) => response.take_stream(),
            Self::Driver(_) => None,
        }
    }

    fn build(self, pool: Option<&mut MessagePool>) -> Result<conche_proto::Response, BuildError> {
        match self {
            Self::Service(response) => response.build(pool),
            Self::Driver(response) => Ok(response),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FutureMemory {
    Own,
    Lent,
}

impl<C: SharedController, S: Service> Driver<C, S> {
    pub(super) fn respond(&mut self, request: RequestId, response: Answer<S::Response>) {
        self.streams.on_answered(request);
        self.send_response(request, response, FutureMemory::Own);
        self.registration_answered(request);
    }

    /// Only a response that is not kept may use pooled memory: a kept one would retain others'.
    pub(super) fn respond_at_once(&mut self, request: RequestId, response: Answer<S::Response>) {
        if self.has_registrations() || !response.is_brief() {
            return self.respond(request, response);
        }
        self.streams.on_answered(request);
        self.send_response(request, response, FutureMemory::Lent);
    }

    pub(super) fn send_response(
        &mut self,
        request: RequestId,
        mut response: Answer<S::Response>,
        memory: FutureMemory,
    ) {
        let (code, stream) = (response.code(), response.take_stream());
        let pool = Some(&mut self.pool).filter(|_| memory == FutureMemory::Lent);
        let answered = match (response.build(pool), stream) {
            (Ok(head), Some(stream)) => self.respond_in_parts(request, head, stream).map_err(|error| error.to_string()),
            (Ok(response), None) => {
                let answered = self.endpoint.respond(self.now, request, response);
                answered.map(drop).map_err(|error| error.to_string())
            }
            (Err(error), _) => Err(error.to_string()),
        };
        let Err(error) = answered else { return };
        match self.endpoint.respond(self.now, request, refusal::internal_error()) {
            Err(RespondError::NotPending) => return debug!(%code, "a response came too late"),
            Err(_) => self.endpoint.ignore(self.now, request),
            Ok(_) => {}
        }
        if let Some(held_back) = self.response_errors.passes(tokio::time::Instant::now()) {
            warn!(error, %code, held_back, "a handler's response cannot be sent; it is replaced by 5.00");
        }
    }
}
