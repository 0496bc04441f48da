//! Requesting resources.

#[cfg(feature = "edhoc")]
mod agreeing;
mod builder;
mod cache;
mod error;
mod group;
mod observation;
mod ready;
mod request;
mod response;
mod sockets;
mod stream;

pub use builder::{ClientBuilder, ClientRole};
pub use cache::CacheLimits;
pub use error::Error;
pub use group::GroupResponses;
pub use observation::Observation;
pub use request::RequestBuilder;
pub use response::Response;
pub use stream::ResponseStream;

pub use crate::driver::{Busy, Full, Waiting};

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conche_proto::codec::Code;
use conche_proto::{Course, Failure, PeerSnapshot, Stats};
use tokio::time::{Instant, timeout_at};

use crate::controllers::Setup;
use crate::driver::{
    Address, Exchange, ExchangeError, Handle, OpenError, Opening, Outcome, Patience, Place, Submission,
};
use crate::security::{HandshakeError, Identity};
use crate::uri::{Uri, UriError};
use cache::Cache;
use sockets::Sockets;

/// How long [`Client::multicast`] waits for responses.
const GROUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A CoAP client. Cloning it is cheap; all clones share their sockets, queues, cache and what was learnt of the paths.
///
/// It opens one socket for IPv4 and one for IPv6 when they are needed first, each driven by a task of its own that ends
/// with the last clone. Toward a destination that is sent more than 64 512 messages within four minutes it goes on from others, as
/// message IDs may not be used again before (RFC 7252 §4.4), unless it was given a port or a socket: then requests wait for IDs.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use conche::{Client, ContentFormat};
///
/// let client = Client::new();
/// let response = client.get("coap://[2001:db8::1]/temperature").await?;
/// println!("{:?}: {}", response.code(), response.text()?);
///
/// client.put("coap://[2001:db8::1]/setpoint").payload(ContentFormat::TEXT_PLAIN, "21.5").await?.successful()?;
/// # Ok(())
/// # }
/// ```
///
/// # Waiting
///
/// Congestion control lets few requests be under way to one destination at the same time; with NSTART = 1, as RFC 7252
/// §4.7 has it, one that is not acknowledged yet. Any number of requests may be awaited all the same: each waits for its
/// turn, first come first served among those for one destination, and held up by none for another. It waits at most for
/// its own [`timeout`](RequestBuilder::timeout) or, without one, for
/// [`queue_lifetime`](crate::EndpointConfig::queue_lifetime) in the line and as long again among its first few; raise that
/// for destinations with long lines. Dropping its future takes it out of the line.
///
/// [`Waiting`] bounds how many may wait; those beyond fail with [`Error::Busy`], which names what is full and which setting
/// raises it. Whoever would rather not wait in a long line sends with [`try_send`](RequestBuilder::try_send).
#[derive(Clone, Debug)]
pub struct Client {
    sockets: Arc<Sockets>,
    cache: Option<Arc<Cache>>,
    #[cfg(feature = "edhoc")]
    agreeing: Arc<agreeing::Agreeing>,
}

impl Client {
    /// A client with temper as its congestion control and RFC 7252's parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults do not contradict each other")
    }

    /// A client with other settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    fn with(sockets: Sockets, cache: Option<CacheLimits>) -> Self {
        Self {
            sockets: Arc::new(sockets),
            cache: cache.map(|limits| Arc::new(Cache::new(limits))),
            #[cfg(feature = "edhoc")]
            agreeing: Arc::default(),
        }
    }

    /// A client that sends from the socket of a server.
    pub(crate) fn of_server(handle: Handle, cache: Option<CacheLimits>) -> Self {
        Self::with(Sockets::Server(handle), cache)
    }

    /// A client with the settings of a server, but with sockets of its own.
    pub(crate) fn beside_server(setup: Setup, cache: Option<CacheLimits>) -> Self {
        ClientRole::caching(cache).client(setup)
    }

    /// GET: reads a resource (RFC 7252 §5.8.1).
    pub fn get(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::GET, uri)
    }

    /// POST: has a resource process the payload (RFC 7252 §5.8.2).
    pub fn post(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::POST, uri)
    }

    /// PUT: makes a resource, or replaces it (RFC 7252 §5.8.3).
    pub fn put(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::PUT, uri)
    }

    /// DELETE: removes a resource (RFC 7252 §5.8.4).
    pub fn delete(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::DELETE, uri)
    }

    /// GET, and all changes from then on (RFC 7641): short for
    /// [`get`](Self::get)`(uri).`[`observe`](RequestBuilder::observe)`()`.
    pub fn observe(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> Observation {
        self.get(uri).observe()
    }

    /// A request with any method. A URI that is malformed is reported when the request is sent.
    pub fn request(&self, method: Code, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        RequestBuilder::new(self.clone(), method, uri.try_into().map_err(Into::into))
    }

    /// Reads a resource of all members of a group (RFC 7252 §8): GET, with [`RequestBuilder::multicast`] and a timeout of
    /// 10 s, twice the time over which members spread their responses by default.
    ///
    /// ```no_run
    /// # async fn example(client: conche::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// // All CoAP nodes of the network (RFC 7252 §12.8).
    /// let mut responses = client.multicast("coap://224.0.1.187/.well-known/core").await?;
    /// while let Some(response) = responses.next().await {
    ///     let (from, response) = response?;
    ///     println!("{from}: {}", response.text()?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`RequestBuilder::multicast`].
    pub async fn multicast(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> Result<GroupResponses, Error> {
        self.get(uri).timeout(GROUP_TIMEOUT).multicast().await
    }

    /// Pings the host that a URI names (RFC 7252 §4.3): asks whether its CoAP endpoint is there, and how far away.
    ///
    /// # Errors
    /// As for a request.
    pub async fn ping(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> Result<Course, Error> {
        let uri = uri.try_into().map_err(|error| Error::Uri(error.into()))?;
        let mut failure = None;
        for address in resolve(&uri).await? {
            let name = uri.server_name();
            let way = Way { name: name.as_ref(), ..Way::to(address) };
            // It is nothing that could be protected.
            let begun = self.begin_with(&way, false, |_| Opening::Ping).await;
            let outcome = match begun {
                Ok(begun) => begun.end().await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(
                    Outcome::Pong { course }
                    | Outcome::Response { course, .. }
                    | Outcome::Unanswered { course }
                    | Outcome::GroupOver { course },
                ) => {
                    return Ok(course);
                }
                Err(error) if error.is_worth_another_address() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::NoAddress { host: uri.host().to_string() }))
    }

    /// The counters of its endpoints, added up. They begin anew when a socket has to be opened again.
    pub async fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for handle in self.sockets.open() {
            sum += handle.stats().await.unwrap_or_default();
        }
        sum
    }

    /// The counters of its endpoints, what it holds, and what congestion control knows of up to `destinations` destinations, the
    /// busiest, as OpenMetrics text. With 0 there are none; otherwise each that has state is looked at, a part of them at a time, so
    /// that traffic goes on.
    /// See [`metrics`](crate::metrics).
    #[cfg(feature = "metrics")]
    pub async fn metrics(&self, destinations: usize) -> String {
        crate::metrics::of(self.sockets.open(), destinations).await
    }

    /// What is known of the path to a destination; `None` if nothing is.
    pub async fn snapshot(&self, peer: SocketAddr) -> Option<PeerSnapshot> {
        self.sockets.known(peer)?.snapshot(peer).await
    }

    /// Writes what is known of paths to the [`path_store`](ClientBuilder::path_store), if there is one, and waits for that. A program that
    /// ends right after its last request does this first, or loses up to a minute; one that goes on need not.
    /// What stands in the way is not an error but a warning.
    pub async fn keep_paths(&self) {
        for handle in self.sockets.open() {
            handle.keep_paths().await;
        }
    }

    /// Forgets what was learnt of the path to a destination, as after a change of the network that the program knows of; what its
    /// neighbours [found out](ClientBuilder::share_paths) of it, too.
    /// Requests that are under way keep their timers.
    pub async fn reset_path(&self, peer: SocketAddr) {
        for handle in self.sockets.open() {
            handle.reset_path(peer).await;
        }
    }

    /// Opens an exchange when its turn has come, and waits for its end. What it is may depend on the time that is left.
    async fn open(&self, way: &Way<'_>, what: impl FnOnce(Option<Duration>) -> Opening) -> Result<Outcome, Error> {
        self.begin(way, what).await?.end().await
    }

    /// Opens an exchange when its turn has come, and the keys that it needs are there.
    fn begin(
        &self,
        way: &Way<'_>,
        what: impl FnOnce(Option<Duration>) -> Opening,
    ) -> impl Future<Output = Result<Begun, Error>> {
        self.begin_with(way, true, what)
    }

    async fn begin_with(
        &self,
        way: &Way<'_>,
        #[cfg_attr(not(feature = "edhoc"), expect(unused_variables, reason = "there are none"))] needs_keys: bool,
        what: impl FnOnce(Option<Duration>) -> Opening,
    ) -> Result<Begun, Error> {
        #[cfg(feature = "edhoc")]
        let (keys, _hold) = match needs_keys && self.agreeing.has(way) {
            true => self.agree(way).await?,
            false => (None, None),
        };
        let Way { to, deadline, patience, .. } = *way;
        let (handle, mut address) = self.sockets.toward(to)?;
        if let Some(name) = way.name {
            address = session(&handle, address, name, way).await?;
        }
        let mut place = handle.join(address, patience)?;
        let mut waited = Duration::ZERO;
        if !place.is_next() {
            let start = Instant::now();
            wait_for_turn(&mut place, to, deadline, handle.queue_lifetime()).await?;
            waited = start.elapsed();
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let body_limit = handle.body_limit();
        let exchange = handle.open(
            place,
            Submission {
                what: what(left),
                expected: way.expected.cloned(),
                #[cfg(feature = "edhoc")]
                keys,
            },
        );
        Ok(Begun { exchange, to, waited, body_limit })
    }
}

/// How a request gets to where it goes.
#[derive(Clone, Copy, Debug)]
struct Way<'a> {
    to: SocketAddr,
    /// The server's, if it is asked through a session.
    name: Option<&'a Arc<str>>,
    /// The only peer that it may go to, if it names one.
    expected: Option<&'a Arc<Identity>>,
    deadline: Option<Instant>,
    patience: Patience,
    /// The request may bring the last message of EDHOC: it is acknowledged, and leaves without waiting for a body.
    brings: bool,
}

impl Way<'_> {
    /// To an address, without a session.
    fn to(to: SocketAddr) -> Self {
        Self { to, name: None, expected: None, deadline: None, patience: Patience::Wait, brings: false }
    }
}

/// Why an exchange in a session did not end well.
enum InSession {
    /// The session ended before a response came.
    Over(Course),
    Failed(Error),
}

/// An exchange that is under way.
#[must_use]
struct Begun {
    exchange: Exchange,
    to: SocketAddr,
    /// How long it was in the line.
    waited: Duration,
    body_limit: usize,
}

impl Begun {
    /// Waits for its end.
    async fn end(mut self) -> Result<Outcome, Error> {
        poll_fn(|context| self.poll_end(context)).await
    }

    /// Waits for its end, where the session may end before it.
    async fn end_in_session(mut self) -> Result<Outcome, InSession> {
        let (to, body_limit) = (self.to, self.body_limit);
        poll_fn(|context| self.poll_exchange(context)).await.map_err(|error| match error {
            ExchangeError::SessionOver { course } => InSession::Over(course),
            error => InSession::Failed(Error::exchange(to, error, body_limit)),
        })
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<Outcome, Error>> {
        let outcome = ready!(self.poll_exchange(context));
        Poll::Ready(outcome.map_err(|error| Error::exchange(self.to, error, self.body_limit)))
    }

    fn poll_exchange(&mut self, context: &mut Context<'_>) -> Poll<Result<Outcome, ExchangeError>> {
        let Self { exchange, waited, .. } = self;
        let mut outcome = ready!(Pin::new(exchange).poll(context));
        if let Ok(Outcome::Response { course, .. } | Outcome::Pong { course } | Outcome::Unanswered { course })
        | Err(ExchangeError::Failed { course, .. } | ExchangeError::SessionOver { course }) = &mut outcome
        {
            course.queued += *waited;
        }
        Poll::Ready(outcome)
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

/// What few requests wait for: it has memory of its own, or all of them would have that, and is compiled once for all kinds of requests.
type Rare<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

fn wait_for_turn(
    place: &mut Place,
    peer: SocketAddr,
    deadline: Option<Instant>,
    queue_lifetime: Duration,
) -> Rare<'_, ()> {
    Box::pin(async move {
        let start = Instant::now();
        let expiry = start.checked_add(queue_lifetime);
        let Some(end) = [deadline, expiry].into_iter().flatten().min() else {
            place.turn().await;
            return Ok(());
        };
        timeout_at(end, place.turn()).await.map_err(|_| {
            let failure = if Some(end) == deadline { Failure::Deadline } else { Failure::QueueExpired };
            Error::Failed { peer, failure, course: Course { queued: start.elapsed(), ..Course::default() } }
        })
    })
}

/// The session with a server.
fn session<'a>(handle: &'a Handle, address: Address, name: &'a Arc<str>, way: &'a Way<'_>) -> Rare<'a, Address> {
    Box::pin(async move {
        let opening = handle.secure(address, Arc::clone(name), way.expected.cloned());
        let late = |_| Some(Err(OpenError::Handshake(HandshakeError::late())));
        let opened = match way.deadline {
            Some(deadline) => timeout_at(deadline, opening).await.unwrap_or_else(late),
            None => opening.await,
        };
        let peer = way.to;
        opened.ok_or(Error::Stopped)?.map_err(|error| match error {
            OpenError::Handshake(source) => Error::Handshake { peer, source },
            OpenError::Peer(mismatch) => Error::UnexpectedPeer { peer, mismatch },
        })
    })
}

/// The addresses that a URI's host has, in the order of preference that the operating system gives them.
async fn resolve(uri: &Uri) -> Result<impl Iterator<Item = SocketAddr> + use<>, Error> {
    if let Some(only) = uri.address() {
        return Ok(Some(only).into_iter().chain(Vec::new()));
    }
    let host = uri.host().to_string();
    let found = tokio::net::lookup_host((host.as_str(), uri.port())).await.map(Iterator::collect::<Vec<_>>);
    let found = found.map_err(|source| Error::Resolve { host, source })?;
    Ok(None.into_iter().chain(found))
}
