//! CoAP client: requests, responses and observations.

mod builder;
mod cache;
#[cfg(feature = "edhoc")]
mod edhoc;
mod error;
mod observation;
mod request;
mod response;
mod sockets;
mod stream;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conche_proto::codec::Code;
use conche_proto::{ExchangeStats, Failure, PeerSnapshot, Stats};
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::builder::Setup;
pub use crate::driver::{Busy, Full, Waiting};
use crate::driver::{Exchange, ExchangeError, ExchangeKind, Handle, Outcome, Permit, QueuePolicy, Submission};
use crate::dtls::OpenError;
use crate::security::{HandshakeError, Identity};
use crate::uri::{Uri, UriError};
pub(crate) use builder::RequestSettings;
pub use builder::{ClientBuilder, ClientRole};
use cache::Cache;
pub use cache::CacheLimits;
pub use error::Error;
pub use observation::Observation;
pub use request::RequestBuilder;
use request::{end_of, resolve_until};
pub use response::{GroupResponses, Response};
use sockets::Sockets;
pub use stream::ResponseStream;

const GROUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A CoAP client. Clones are cheap and share sockets, queues, cache and path state.
///
/// It opens a socket per IP version on first use, each driven by a task that ends with the last
/// clone. Message IDs cannot be reused within EXCHANGE_LIFETIME (RFC 7252 §4.4), so beyond 64 512
/// messages to one destination in four minutes the client opens further ports. With a fixed port or
/// a given socket, requests wait for free IDs.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use conche::{Client, ContentFormat};
///
/// let client = Client::new();
/// let response = client.get("coap://[2001:db8::1]/temperature").await?;
/// println!("{}: {}", response.code(), response.text()?);
///
/// client.put("coap://[2001:db8::1]/setpoint").payload(ContentFormat::TEXT_PLAIN, "21.5").await?.successful()?;
/// # Ok(())
/// # }
/// ```
///
/// # Waiting
///
/// Congestion control limits the requests outstanding to one destination; with NSTART = 1, the
/// default of RFC 7252 §4.7, to one unacknowledged request. Further ones queue per destination, at
/// most for their [`timeout`](RequestBuilder::timeout), or without one for
/// [`queue_lifetime`](crate::EndpointConfig::queue_lifetime) in the queue and as long again near
/// its head.
///
/// Beyond the bounds of [`Waiting`], requests fail with [`Error::Busy`], which names the full queue
/// and its setting.
#[derive(Clone, Debug)]
pub struct Client {
    sockets: Arc<Sockets>,
    cache: Option<Arc<Cache>>,
    timeout: Option<Duration>,
    #[cfg(feature = "edhoc")]
    edhoc: Arc<edhoc::EdhocInitiators>,
}

impl Client {
    /// Returns a client with the controller temper and the parameters of RFC 7252.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults do not contradict each other")
    }

    /// Returns a builder for a client with other settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    fn with(sockets: Sockets, requests: RequestSettings) -> Self {
        let RequestSettings { cache, timeout } = requests;
        Self {
            sockets: Arc::new(sockets),
            cache: cache.map(|limits| Arc::new(Cache::new(limits))),
            timeout,
            #[cfg(feature = "edhoc")]
            edhoc: Arc::default(),
        }
    }

    pub(crate) fn of_server(handle: Handle, requests: RequestSettings) -> Self {
        Self::with(Sockets::Server(handle), requests)
    }

    pub(crate) fn beside_server(setup: Setup, requests: RequestSettings) -> Self {
        ClientRole::requesting(requests).client(setup)
    }

    /// GET: reads a resource (RFC 7252 §5.8.1).
    pub fn get(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::GET, uri)
    }

    /// POST: submits the payload to a resource for processing (RFC 7252 §5.8.2).
    pub fn post(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::POST, uri)
    }

    /// PUT: creates or replaces a resource (RFC 7252 §5.8.3).
    pub fn put(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::PUT, uri)
    }

    /// DELETE: deletes a resource (RFC 7252 §5.8.4).
    pub fn delete(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::DELETE, uri)
    }

    /// Observes a resource (RFC 7641). Short for
    /// [`get`](Self::get)`(uri).`[`observe`](RequestBuilder::observe)`()`.
    pub fn observe(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> Observation {
        self.get(uri).observe()
    }

    /// Builds a request with any method. A malformed URI is reported on send.
    pub fn request(&self, method: Code, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        RequestBuilder::new(self.clone(), method, uri.try_into().map_err(Into::into))
    }

    /// Reads a resource from all members of a group (RFC 7252 §8) within 10 s, twice the default
    /// leisure. See [`RequestBuilder::multicast`].
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

    /// Pings the host of a URI (RFC 7252 §4.3), to check that it is alive and measure the RTT.
    ///
    /// Takes at most the client's [`timeout`](crate::client::ClientBuilder::timeout), if set, with
    /// name resolution, handshake and queueing; otherwise retransmission ends after
    /// MAX_TRANSMIT_WAIT (RFC 7252 §4.8.2).
    ///
    /// # Errors
    /// As for a request.
    pub async fn ping(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> Result<ExchangeStats, Error> {
        let uri = uri.try_into().map_err(|error| Error::Uri(error.into()))?;
        let _active = self.sockets.begin_request();
        let (deadline, mut failure) = (end_of(self.timeout), None);
        for address in resolve_until(deadline, &uri).await? {
            let name = uri.server_name();
            let target = Target { name: name.as_ref(), deadline, ..Target::to(address) };
            let begun = self.begin_with(&target, false, |timeout| ExchangeKind::Ping { timeout }).await;
            let outcome = match begun {
                Ok(begun) => begun.end().await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(
                    Outcome::Pong { course }
                    | Outcome::Response { course, .. }
                    | Outcome::Unanswered { course }
                    | Outcome::GroupTimeout { course },
                ) => {
                    return Ok(course);
                }
                Err(error) if error.is_worth_another_address() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::NoAddress { host: uri.host().to_string() }))
    }

    /// Returns the summed counters of the client's endpoints. Reopening a socket resets them.
    pub async fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for handle in self.sockets.open() {
            sum += handle.stats().await.unwrap_or_default();
        }
        sum
    }

    /// Returns OpenMetrics text: counters, gauges, and the path state of the `destinations` busiest
    /// destinations. See [`metrics`](crate::metrics).
    ///
    /// All destinations are scanned in batches between traffic.
    #[cfg(feature = "metrics")]
    pub async fn metrics(&self, destinations: usize) -> String {
        crate::driver::metrics(self.sockets.open(), destinations).await
    }

    /// Returns the path state of a destination, or `None` without state.
    pub async fn snapshot(&self, peer: SocketAddr) -> Option<PeerSnapshot> {
        self.sockets.known(peer)?.snapshot(peer).await
    }

    /// Writes path state to the [`path_store`](ClientBuilder::path_store), if set, and waits for
    /// the write. Failures are logged.
    ///
    /// Only a program that ends within a minute after its last request needs this.
    pub async fn keep_paths(&self) {
        for handle in self.sockets.open() {
            handle.keep_paths().await;
        }
    }

    /// Closes the client and all its clones, in at most `within`: for programs that end soon after
    /// their last request.
    ///
    /// Requests may finish, including new ones in the meantime; then the client deregisters its
    /// observations, closes its DTLS sessions with a close_notify alert (RFC 5246 §7.2.1) and writes
    /// the [`path_store`](ClientBuilder::path_store). After that, or after `within`, requests and
    /// observations end with [`Error::Stopped`].
    ///
    /// Without it, a client does the same except waiting when its last clone is dropped, if the
    /// runtime still runs. A server evicts sessions that were not closed only when it needs their
    /// places. On a [`Server::client`](crate::Server::client) it has no effect: the server's shutdown
    /// closes it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let client = conche::Client::new();
    /// println!("{}", client.get("coap://example.com/temperature").await?.text()?);
    /// client.close(Duration::from_secs(2)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self, within: Duration) {
        self.sockets.close(within).await;
    }

    /// Discards the path state of a destination, including [shared](ClientBuilder::share_paths)
    /// state, as after a change of the network. Outstanding requests keep their timers.
    pub async fn reset_path(&self, peer: SocketAddr) {
        for handle in self.sockets.open() {
            handle.reset_path(peer).await;
        }
    }

    async fn open(
        &self,
        target: &Target<'_>,
        kind: impl FnOnce(Option<Duration>) -> ExchangeKind,
    ) -> Result<Outcome, Error> {
        self.begin(target, kind).await?.end().await
    }

    fn begin(
        &self,
        target: &Target<'_>,
        kind: impl FnOnce(Option<Duration>) -> ExchangeKind,
    ) -> impl Future<Output = Result<OpenExchange, Error>> {
        self.begin_with(target, true, kind)
    }

    async fn begin_with(
        &self,
        target: &Target<'_>,
        #[cfg_attr(not(feature = "edhoc"), expect(unused_variables, reason = "there are none"))] needs_keys: bool,
        kind: impl FnOnce(Option<Duration>) -> ExchangeKind,
    ) -> Result<OpenExchange, Error> {
        #[cfg(feature = "edhoc")]
        let (keys, _hold) = match needs_keys && self.edhoc.has(target) {
            true => self.exchange_keys(target).await?,
            false => (None, None),
        };
        let Target { to, deadline, policy, .. } = *target;
        let (handle, mut address) = self.sockets.toward(to)?;
        if let Some(name) = target.name {
            address = session(&handle, address, name, target).await?;
        }
        let mut permit = handle.join(address, policy)?;
        let mut queued = Duration::ZERO;
        if !permit.try_acquire() {
            let start = Instant::now();
            wait_for_permit(&mut permit, to, deadline, handle.queue_lifetime()).await?;
            queued = start.elapsed();
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let body_limit = handle.body_limit();
        let exchange = handle.open(
            permit,
            Submission {
                kind: kind(left),
                expected: target.expected.cloned(),
                #[cfg(feature = "edhoc")]
                keys,
            },
        );
        Ok(OpenExchange { exchange, to, queued, body_limit })
    }
}

#[derive(Clone, Copy, Debug)]
struct Target<'a> {
    to: SocketAddr,
    name: Option<&'a Arc<str>>,
    expected: Option<&'a Arc<Identity>>,
    deadline: Option<Instant>,
    policy: QueuePolicy,
    /// EDHOC message_3 requires a request that is acknowledged and does not wait for a body.
    may_carry_message_3: bool,
}

impl Target<'_> {
    fn to(to: SocketAddr) -> Self {
        Self { to, name: None, expected: None, deadline: None, policy: QueuePolicy::Wait, may_carry_message_3: false }
    }
}

enum InSession {
    Over(ExchangeStats),
    Failed(Error),
}

#[must_use]
struct OpenExchange {
    exchange: Exchange,
    to: SocketAddr,
    queued: Duration,
    body_limit: usize,
}

impl OpenExchange {
    async fn end(mut self) -> Result<Outcome, Error> {
        poll_fn(|context| self.poll_end(context)).await
    }

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
        let Self { exchange, queued, .. } = self;
        let mut outcome = ready!(Pin::new(exchange).poll(context));
        if let Ok(Outcome::Response { course, .. } | Outcome::Pong { course } | Outcome::Unanswered { course })
        | Err(ExchangeError::Failed { course, .. } | ExchangeError::SessionOver { course }) = &mut outcome
        {
            course.queued += *queued;
        }
        Poll::Ready(outcome)
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

/// Boxed, to keep the futures of other requests small.
type Rare<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

fn wait_for_permit(
    permit: &mut Permit,
    peer: SocketAddr,
    deadline: Option<Instant>,
    queue_lifetime: Duration,
) -> Rare<'_, ()> {
    Box::pin(async move {
        let start = Instant::now();
        let expiry = start.checked_add(queue_lifetime);
        let Some(end) = [deadline, expiry].into_iter().flatten().min() else {
            permit.acquire().await;
            return Ok(());
        };
        timeout_at(end, permit.acquire()).await.map_err(|_| {
            let failure = if Some(end) == deadline { Failure::Deadline } else { Failure::QueueExpired };
            Error::Failed {
                peer,
                failure,
                course: ExchangeStats { queued: start.elapsed(), ..ExchangeStats::default() },
            }
        })
    })
}

fn session<'a>(handle: &'a Handle, address: Address, name: &'a Arc<str>, target: &'a Target<'_>) -> Rare<'a, Address> {
    Box::pin(async move {
        let opening = handle.open_session(address, Arc::clone(name), target.expected.cloned());
        let late = |_| Some(Err(OpenError::Handshake(HandshakeError::late())));
        let opened = match target.deadline {
            Some(deadline) => timeout_at(deadline, opening).await.unwrap_or_else(late),
            None => opening.await,
        };
        let peer = target.to;
        opened.ok_or(Error::Stopped)?.map_err(|error| match error {
            OpenError::Handshake(cause) => Error::Handshake { peer, cause },
            OpenError::Peer(mismatch) => Error::UnexpectedPeer { peer, mismatch },
        })
    })
}

/// Resolves in the operating system's order of preference.
async fn resolve(uri: &Uri) -> Result<impl Iterator<Item = SocketAddr> + use<>, Error> {
    if let Some(only) = uri.address() {
        return Ok(Some(only).into_iter().chain(Vec::new()));
    }
    let host = uri.host().to_string();
    let found = tokio::net::lookup_host((host.as_str(), uri.port())).await.map(Iterator::collect::<Vec<_>>);
    let found = found.map_err(|cause| Error::Resolve { host, cause })?;
    Ok(None.into_iter().chain(found))
}
