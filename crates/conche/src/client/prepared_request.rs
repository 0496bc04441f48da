//! [`PreparedRequest`]: a complete request, and how it is sent through cache, session and Echo
//! challenges.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use conche_proto::codec::{Body, Code, OptionNumber, Token};
use conche_proto::{Course, Failure, Reliability, Request};
use tokio::time::Instant;

use super::cache::{CacheUse, Destination, Read};
use super::{Client, Error, InSession, Response, Target};
use crate::driver::{ExchangeKind, Feed, Outcome, QueuePolicy, Subscription};
use crate::security::Identity;

/// A request that is complete except for its destination address.
#[derive(Clone)]
pub(super) struct PreparedRequest {
    pub(super) client: Client,
    pub(super) method: Code,
    pub(super) body: Body,
    pub(super) reliability: Reliability,
    pub(super) token: Option<Token>,
    pub(super) whole: bool,
    /// Bypasses the cache.
    pub(super) fresh: bool,
    pub(super) deadline: Option<Instant>,
    pub(super) policy: QueuePolicy,
    /// The server's name, if it is reached through a session.
    pub(super) name: Option<Arc<str>>,
    /// The only identity that may receive the request, if it names one.
    pub(super) expected: Option<Arc<Identity>>,
}

/// Maximum number of sessions that may end before a request is answered; it fails with the next.
const SESSIONS: usize = 2;

/// Maximum number of repetitions with an Echo value. Different parts of a server ask whether the
/// address is genuine and whether the request is fresh.
pub(super) const CHALLENGES: usize = 2;

impl PreparedRequest {
    /// Returns a destination as its cache key.
    pub(super) fn cached(&self, to: SocketAddr) -> Destination {
        Destination::new(to, self.name.is_some(), self.expected.clone())
    }

    pub(super) fn target(&self, to: SocketAddr) -> Target<'_> {
        let may_carry_message_3 = self.reliability == Reliability::Confirmable;
        Target {
            to,
            name: self.name.as_ref(),
            expected: self.expected.as_ref(),
            deadline: self.deadline,
            policy: self.policy,
            may_carry_message_3,
        }
    }

    /// Sends the request, unless the cache has the response.
    pub(super) async fn send(&self, to: SocketAddr) -> Result<Response, Error> {
        match self.client.cache {
            None => self.ask(to, &self.body).await,
            // Few clients have a cache; boxing spares the others the memory.
            Some(_) => Box::pin(self.send_by_cache(to)).await,
        }
    }

    async fn send_by_cache(&self, to: SocketAddr) -> Result<Response, Error> {
        match self.cache_use(to) {
            CacheUse::Bypass => self.ask(to, &self.body).await,
            CacheUse::Read(read) => self.read(to, read).await,
            CacheUse::Change(change) => {
                let response = self.ask(to, &self.body).await?;
                change.answered(&response);
                Ok(response)
            }
        }
    }

    /// Classifies the request for the client's cache.
    pub(super) fn cache_use(&self, to: SocketAddr) -> CacheUse {
        match &self.client.cache {
            Some(cache) => cache.admit(self.cached(to), self.method, &self.body),
            None => CacheUse::Bypass,
        }
    }

    /// Answers from the cache, or from the server and updates the cache.
    async fn read(&self, to: SocketAddr, read: Read) -> Result<Response, Error> {
        if let Some(response) = read.fresh().filter(|_| !self.fresh) {
            return Ok(response);
        }
        if let Some(etag) = read.etag() {
            let asked = Instant::now();
            let response = self.ask(to, &self.body.to_builder().option(OptionNumber::ETAG, etag).build()?).await?;
            let received = received(asked, response.course());
            if response.code() != Code::VALID {
                read.keep(&response, received);
                return Ok(response);
            }
            if let Some(valid) = read.validated(&response, received) {
                return Ok(valid);
            }
        }
        let asked = Instant::now();
        let response = self.ask(to, &self.body).await?;
        read.keep(&response, received(asked, response.course()));
        Ok(response)
    }

    /// Sends the request with these options, and repeats it with the server's Echo value if
    /// challenged (RFC 9175 §2.3).
    async fn ask(&self, to: SocketAddr, body: &Body) -> Result<Response, Error> {
        let response = self.exchange(to, body.clone()).await?;
        match challenged(body, &response)? {
            None => Ok(response),
            // Few servers challenge; boxing spares the other requests the memory.
            Some(with_echo) => Box::pin(self.ask_again(to, body, with_echo)).await,
        }
    }

    async fn ask_again(&self, to: SocketAddr, body: &Body, mut with_echo: Body) -> Result<Response, Error> {
        for _ in 1..CHALLENGES {
            let response = self.exchange(to, with_echo).await?;
            match challenged(body, &response)? {
                None => return Ok(response),
                Some(anew) => with_echo = anew,
            }
        }
        self.exchange(to, with_echo).await
    }

    /// Registers an observation, repeating it with Echo if challenged.
    pub(super) async fn register(&self, to: SocketAddr) -> Result<(SocketAddr, Response, Subscription), Error> {
        let (cache_use, asked) = (self.cache_use(to), Instant::now());
        let (mut response, mut subscription) = self.subscribe(to, self.body.clone()).await?;
        for _ in 0..CHALLENGES {
            let Some(body) = challenged(&self.body, &response)? else { break };
            (response, subscription) = self.subscribe(to, body).await?;
        }
        if let CacheUse::Read(read) = cache_use {
            read.keep(&response, received(asked, response.course()));
        }
        Ok((to, response, subscription))
    }

    pub(super) async fn exchange(&self, to: SocketAddr, body: Body) -> Result<Response, Error> {
        if self.name.is_some() {
            return Box::pin(self.exchange_in_session(to, body)).await;
        }
        let request = |timeout| ExchangeKind::Request(self.request(body, timeout));
        response(to, self.client.open(&self.target(to), request).await?)
    }

    /// Sends a request through a session, and again through the next one if the session ends before
    /// the response. A server deduplicates within a session only, so a request that may have been
    /// executed is sent again only if its method is idempotent.
    async fn exchange_in_session(&self, to: SocketAddr, body: Body) -> Result<Response, Error> {
        for _ in 0..SESSIONS {
            let request = |timeout| ExchangeKind::Request(self.request(body.clone(), timeout));
            match self.client.begin(&self.target(to), request).await?.end_in_session().await {
                Err(InSession::Over(course)) if self.may_be_sent_again(&course) => {}
                // The request was not sent.
                Err(InSession::Failed(Error::Failed { failure: Failure::Unreachable, course, .. }))
                    if course.transmissions == 0 => {}
                Err(InSession::Failed(error)) => return Err(error),
                Err(InSession::Over(course)) => {
                    return Err(Error::SessionOver { peer: to, course });
                }
                Ok(outcome) => return response(to, outcome),
            }
        }
        let request = |timeout| ExchangeKind::Request(self.request(body, timeout));
        response(to, self.client.open(&self.target(to), request).await?)
    }

    /// Whether the request was not sent, or is idempotent (RFC 7252 §5.1) and unacknowledged.
    fn may_be_sent_again(&self, course: &Course) -> bool {
        course.transmissions == 0 || self.method.is_idempotent() && course.acknowledged_after.is_none()
    }

    async fn subscribe(&self, to: SocketAddr, body: Body) -> Result<(Response, Subscription), Error> {
        let feed = Feed::default();
        let request = |timeout| ExchangeKind::Observe(self.request(body, timeout), feed.sender());
        let begun = self.client.begin(&self.target(to), request).await?;
        let subscription = begun.exchange.subscription(feed);
        Ok((response(to, begun.end().await?)?, subscription))
    }

    pub(super) fn request(&self, body: Body, timeout: Option<Duration>) -> Request {
        let Self { method: code, reliability, whole, .. } = *self;
        let token = self.token.clone();
        let request = Request::new(code, body).with_reliability(reliability);
        Request { timeout, token, whole, ..request }
    }
}

/// Returns the request with the Echo value of a 4.01 challenge, unless it already carried one.
pub(super) fn challenged(body: &Body, response: &Response) -> Result<Option<Body>, Error> {
    let told = response.code() != Code::UNAUTHORIZED || body.option(OptionNumber::ECHO).is_some();
    let echo = response.option(OptionNumber::ECHO).filter(|_| !told);
    Ok(echo.map(|echo| body.to_builder().option(OptionNumber::ECHO, echo).build()).transpose()?)
}

/// Returns when a response arrived to a request made at `asked`. The caller may process it later.
fn received(asked: Instant, course: &Course) -> Instant {
    let now = Instant::now();
    asked.checked_add(course.queued.saturating_add(course.elapsed)).map_or(now, |received| received.min(now))
}

/// Converts an exchange's outcome into the request's result.
pub(super) fn response(peer: SocketAddr, outcome: Outcome) -> Result<Response, Error> {
    match outcome {
        Outcome::Response { from, message, course } => Ok(Response::new(from, message, course)),
        Outcome::Unanswered { course } => Err(Error::Unanswered { peer, course }),
        Outcome::Pong { .. } | Outcome::GroupTimeout { .. } => {
            unreachable!("only pings end with an acknowledgement, and it was for no group")
        }
    }
}
