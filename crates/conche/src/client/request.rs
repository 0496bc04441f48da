//! [`RequestBuilder`] builds a request; [`PreparedRequest`] sends it.

use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use conche_proto::codec::{Block, Body, BodyBuilder, Code, ContentFormat, NoResponse, OptionNumber, Token};
use conche_proto::{ExchangeStats, Failure, Reliability, Request, SubscriptionEnd};
use tokio::time::{Instant, sleep, timeout_at};

use super::cache::{CacheUse, Destination, Read};
use super::sockets::ActiveRequest;
use super::{Client, Error, GroupResponses, InSession, Observation, Response, Target, resolve};
use crate::driver::{End, ExchangeKind, Feed, Outcome, QueuePolicy, Subscription};
use crate::security::{Identity, PeerMismatch};
use crate::uri::{Uri, UriError};

/// A request under construction; awaiting it sends it, dropping the future cancels it.
///
/// ```no_run
/// # async fn example(client: conche::Client) -> Result<(), conche::Error> {
/// use conche::ContentFormat;
/// use std::time::Duration;
///
/// let response = client
///     .get("coap://example.com/sensors?type=temperature")
///     .accept(ContentFormat::JSON)
///     .timeout(Duration::from_secs(10))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a request is sent when it is awaited"]
pub struct RequestBuilder {
    client: Client,
    method: Code,
    uri: Result<Uri, UriError>,
    pub(super) body: BodyBuilder,
    reliability: Reliability,
    timeout: Option<Duration>,
    token: Option<Token>,
    whole: bool,
    fresh: bool,
    expected: Option<Arc<Identity>>,
    mistake: Option<PayloadProblem>,
}

#[derive(Clone, Debug)]
struct PayloadProblem {
    format: &'static str,
    problem: String,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, method: Code, uri: Result<Uri, UriError>) -> Self {
        let (body, timeout) = (BodyBuilder::new(), client.timeout);
        Self {
            client,
            method,
            uri,
            body,
            reliability: Reliability::Confirmable,
            timeout,
            token: None,
            whole: true,
            fresh: false,
            expected: None,
            mistake: None,
        }
    }

    /// Sets the payload and its Content-Format. A payload larger than one message is sent
    /// block-wise, up to [`body_limit`](super::ClientBuilder::body_limit) bytes.
    pub fn payload(self, format: ContentFormat, payload: impl Into<Bytes>) -> Self {
        self.content_format(format).bytes(payload)
    }

    /// Sets the payload without a Content-Format.
    pub fn bytes(self, payload: impl Into<Bytes>) -> Self {
        let payload: Bytes = payload.into();
        Self { body: self.body.payload(payload), ..self }
    }

    /// Sets a JSON payload (RFC 8259). Encoding errors are reported on send.
    #[cfg(feature = "json")]
    pub fn json(self, value: &(impl serde::Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(payload) => self.payload(ContentFormat::JSON, payload),
            Err(error) => self.mistaken("JSON", &error),
        }
    }

    /// Sets a CBOR payload (RFC 8949). Encoding errors are reported on send.
    #[cfg(feature = "cbor")]
    pub fn cbor(self, value: &(impl serde::Serialize + ?Sized)) -> Self {
        let mut payload = Vec::new();
        match ciborium::into_writer(value, &mut payload) {
            Ok(()) => self.payload(ContentFormat::CBOR, payload),
            Err(error) => self.mistaken("CBOR", &error),
        }
    }

    #[cfg(any(feature = "json", feature = "cbor"))]
    fn mistaken(self, format: &'static str, error: &dyn std::error::Error) -> Self {
        Self { mistake: Some(PayloadProblem { format, problem: error.to_string() }), ..self }
    }

    /// Sets the Content-Format of the payload.
    pub fn content_format(self, format: ContentFormat) -> Self {
        Self { body: self.body.content_format(format), ..self }
    }

    /// Sets the Accept option: the wanted Content-Format (RFC 7252 §5.10.4).
    pub fn accept(self, format: ContentFormat) -> Self {
        self.uint(OptionNumber::ACCEPT, format.0.into())
    }

    /// Adds a query argument to the URI's.
    pub fn query(self, argument: &str) -> Self {
        Self { body: self.body.query(argument), ..self }
    }

    /// Adds an option.
    pub fn option(self, number: OptionNumber, value: &[u8]) -> Self {
        Self { body: self.body.option(number, value), ..self }
    }

    /// Adds an option of format uint.
    pub fn uint(self, number: OptionNumber, value: u32) -> Self {
        Self { body: self.body.uint(number, value), ..self }
    }

    /// Sends the request as Non-confirmable: once, without an acknowledgement.
    ///
    /// Congestion control may make one Confirmable, to check that the peer is alive, except with
    /// [`Reliability::NeverConfirmable`].
    pub fn non(self) -> Self {
        self.reliability(Reliability::NonConfirmable)
    }

    /// Sets the reliability; Confirmable by default.
    pub fn reliability(self, reliability: Reliability) -> Self {
        Self { reliability, ..self }
    }

    /// Bounds the time to the response, including name resolution, queueing and retransmissions.
    /// Without it the protocol's timeouts add up to minutes. Overrides the
    /// [client's](super::ClientBuilder::timeout).
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Sets the token; by default a random one, which off-path attackers cannot guess. More than
    /// eight bytes ([`Token::extended`]) require a server with RFC 8974; others send a Reset.
    pub fn token(self, token: Token) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Sends the request only to this peer, authenticated by a DTLS session or OSCORE keys.
    ///
    /// If the address has another peer, nothing is sent and the error is [`Error::UnexpectedPeer`].
    /// Notifications must come from the same peer.
    ///
    /// Without it, `coaps` requests use only sessions that this program opened. Any client may open
    /// a session from that address to the server of a [`Server::client`](crate::Server::client), so
    /// requests in such sessions require `expect_peer`.
    ///
    /// ```no_run
    /// use conche::Server;
    /// use conche::security::Identity;
    /// use conche::server::Peer;
    ///
    /// /// Reads the manufacturer of an LwM2M device that has registered, with the address and the identity of its registration.
    /// async fn manufacturer(server: &Server, Peer(device): Peer, identity: Identity) -> Result<String, conche::Error> {
    ///     let request = server.client().get(format!("coaps://{device}/3/0/0"));
    ///     let response = request.expect_peer(identity).await?.successful()?;
    ///     Ok(String::from_utf8_lossy(response.payload()).into_owned())
    /// }
    /// ```
    pub fn expect_peer(self, identity: Identity) -> Self {
        Self { expected: Some(Arc::new(identity)), ..self }
    }

    /// Bypasses fresh responses in the [cache](super::ClientBuilder::cache). A cached response is
    /// still returned if the server validates it with 2.03.
    pub fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }

    /// Requests one block of the response's body (RFC 7959 §2.4); [`Response::block`] reads it.
    ///
    /// ```no_run
    /// # async fn example(client: conche::Client) -> Result<(), conche::Error> {
    /// use conche::codec::{Block, BlockSize};
    ///
    /// // The 64 bytes that begin 640 bytes from the start.
    /// let tenth = Block { num: 10, more: false, size: BlockSize::B64 };
    /// let response = client.get("coap://example.com/log").block(tenth).await?;
    /// let is_last = response.block().is_none_or(|block| !block.more);
    /// # Ok(())
    /// # }
    /// ```
    pub fn block(self, block: Block) -> Self {
        Self { whole: false, ..self.option(OptionNumber::BLOCK2, block.encode().as_slice()) }
    }

    /// Sends the request and waits for the response, like awaiting the builder. A 4.01 with Echo
    /// repeats the request with that value (RFC 9175 §2.3), at most twice.
    ///
    /// # Errors
    /// If no response arrives. Error codes are responses, not errors.
    pub fn send(self) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        self.send_with(QueuePolicy::Wait)
    }

    /// Like [`send`](Self::send), but only if fewer than
    /// [`Limits::queue_per_peer`](crate::Limits::queue_per_peer) requests are queued for its
    /// destination and [`Limits::queue`](crate::Limits::queue) in total.
    ///
    /// # Errors
    /// [`Error::Busy`] at once if more are queued; otherwise as for [`send`](Self::send).
    pub fn try_send(self) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        self.send_with(QueuePolicy::Try)
    }

    /// Sends the request once, as a Non-confirmable, to the multicast group of the URI (RFC 7252
    /// §8).
    ///
    /// Members respond after a random delay of some seconds, or not at all, until the
    /// [`timeout`](Self::timeout), or for the protocol's lifetime of minutes.
    ///
    /// The operating system chooses the network interface, unless the client has an
    /// [`interface`](super::ClientBuilder::interface) or the URI an IPv6 zone.
    ///
    /// # Errors
    /// If the URI names no group, or a limit is reached. Other errors appear among the responses.
    pub async fn multicast(self) -> Result<GroupResponses, Error> {
        let (PreparedRequest { client, method, body, deadline, expected, .. }, uri) =
            self.prepare(QueuePolicy::Wait)?;
        if uri.is_secured() {
            return Err(Error::SecuredGroup);
        }
        let mut found = resolve_until(deadline, &uri).await?;
        let group = found.next().ok_or_else(|| Error::NoAddress { host: uri.host().to_string() })?;
        if !is_group(group) {
            return Err(Error::NoGroup { peer: group });
        }
        if let Some(expected) = expected {
            return Err(Error::UnexpectedPeer { peer: group, mismatch: PeerMismatch::new(Some(expected), None) });
        }
        let request = Request::new(method, body).with_reliability(Reliability::NeverConfirmable);
        GroupResponses::begin(&client, group, request, deadline).await
    }

    /// Like [`send`](Self::send), but asks the server to suppress responses of these classes (RFC
    /// 7967).
    ///
    /// Returns `None` without a response: when a Confirmable request that wants none at all is
    /// acknowledged, otherwise after the response timeout or [`timeout`](Self::timeout).
    ///
    /// ```no_run
    /// # async fn example(client: conche::Client) -> Result<(), conche::Error> {
    /// use conche::ContentFormat;
    /// use conche::codec::NoResponse;
    ///
    /// let reading = client.post("coap://example.com/readings").payload(ContentFormat::TEXT_PLAIN, "21.5").non();
    /// reading.send_without_response(NoResponse::ALL).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub async fn send_without_response(self, unwanted: NoResponse) -> Result<Option<Response>, Error> {
        match self.uint(OptionNumber::NO_RESPONSE, unwanted.0.into()).send().await {
            Ok(response) => Ok(Some(response)),
            Err(Error::Unanswered { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Observes the resource (RFC 7641) with GET or FETCH, once the stream is polled. The
    /// [`timeout`](Self::timeout) applies to the first response.
    pub fn observe(self) -> Observation {
        Observation::new(self)
    }

    /// Encodes options now, to save memory while requests wait.
    fn send_with(self, policy: QueuePolicy) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        let timeout = self.timeout;
        let mut prepared = self.prepare(policy);
        async move {
            match prepared {
                Ok((ref mut prepared, ref uri)) => {
                    // The timeout starts when the future is first polled.
                    prepared.deadline = end_of(timeout);
                    let prepared = &*prepared;
                    try_addresses(prepared, uri, |address| prepared.send(address)).await
                }
                Err(error) => Err(error),
            }
        }
    }

    pub(super) async fn register(self) -> Result<(Response, Registered), Error> {
        let (prepared, uri) = self.prepare(QueuePolicy::Wait)?;
        let (address, response, subscription) =
            try_addresses(&prepared, &uri, |address| prepared.register(address)).await?;
        // Later requests have no deadline; the token remains that of the registration.
        let prepared = PreparedRequest { deadline: None, token: None, fresh: true, _active: None, ..prepared };
        Ok((response, Registered::new(subscription, prepared, address, FIRST_TRY)))
    }

    pub(super) fn prepare(self, policy: QueuePolicy) -> Result<(PreparedRequest, Uri), Error> {
        if let Some(PayloadProblem { format, problem }) = self.mistake {
            return Err(Error::Encode { format, problem });
        }
        let uri = self.uri?;
        let body = uri.body(self.body)?;
        let deadline = end_of(self.timeout);
        let Self { client, method, reliability, token, whole, fresh, expected, .. } = self;
        let name = uri.server_name();
        let active = client.sockets.begin_request();
        Ok((
            PreparedRequest {
                client,
                method,
                body,
                reliability,
                token,
                whole,
                fresh,
                deadline,
                policy,
                name,
                expected,
                _active: active,
            },
            uri,
        ))
    }
}

pub(super) fn end_of(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// Tries a host's addresses in order, while the request certainly had no effect.
pub(super) async fn try_addresses<T, F: Future<Output = Result<T, Error>>>(
    prepared: &PreparedRequest,
    uri: &Uri,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Error> {
    match uri.address() {
        Some(only) => attempt(no_group(only)?).await,
        // Few requests need several addresses.
        None => Box::pin(first_of_name(prepared, uri, attempt)).await,
    }
}

async fn first_of_name<T, F: Future<Output = Result<T, Error>>>(
    prepared: &PreparedRequest,
    uri: &Uri,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Error> {
    let mut failure = None;
    for address in resolve_until(prepared.deadline, uri).await? {
        match attempt(no_group(address)?).await {
            Err(error) if error.is_worth_another_address() => failure = Some(error),
            ended => return ended,
        }
    }
    Err(failure.unwrap_or_else(|| Error::NoAddress { host: uri.host().to_string() }))
}

pub(super) struct Registered {
    pub(super) subscription: Subscription,
    prepared: PreparedRequest,
    pub(super) address: SocketAddr,
    since: Instant,
    /// First pause after a 5.03 that comes soon.
    pause: Duration,
}

/// First and last delay before another attempt to open a session. Doubling gives a restarting
/// server about a minute.
const FIRST_TRY: Duration = Duration::from_secs(1);
const LAST_TRY: Duration = Duration::from_secs(32);

/// Doubling gives a server about 9 minutes beside Max-Age and the attempts.
const LAST_UNAVAILABLE_TRY: Duration = Duration::from_secs(256);

/// A longer Max-Age of a 5.03 ends an observation.
const MAX_UNAVAILABLE: Duration = Duration::from_secs(3600);

/// Returns when to retry after a 5.03 (RFC 7252 §5.9.3.4).
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let max_age = response.message().content().max_age();
    (response.code() == Code::SERVICE_UNAVAILABLE && max_age <= MAX_UNAVAILABLE).then_some(max_age)
}

/// Whether the server did not respond to a renewal.
pub(super) fn is_absent(end: End) -> bool {
    matches!(end, End::Over(SubscriptionEnd::Failed(Failure::TimedOut | Failure::Unreachable)))
}

/// Adds up to half as much, as ACK_RANDOM_FACTOR does (RFC 7252 §4.2).
fn with_jitter(pause: Duration) -> Duration {
    // Without random numbers all wait equally long.
    let part = getrandom::u32().map_or(0.0, |random| f64::from(random) / f64::from(u32::MAX));
    pause + pause.mul_f64(part / 2.0)
}

impl Registered {
    fn new(subscription: Subscription, prepared: PreparedRequest, address: SocketAddr, pause: Duration) -> Self {
        Self { subscription, prepared, address, since: Instant::now(), pause }
    }

    /// Whether to register again at once: a new session replaces one that ended or whose server is
    /// silent (it may have lost the session); new EDHOC keys replace those that the server lost.
    pub(super) fn can_reregister(&self, end: End) -> bool {
        match end {
            End::SessionOver => true,
            end if is_absent(end) => self.prepared.name.is_some(),
            #[cfg(feature = "edhoc")]
            End::Over(SubscriptionEnd::Failed(Failure::NotAuthenticated(_)))
            | End::Refused(conche_proto::RequestError::NotProtected(
                conche_proto::oscore::ProtectError::UnknownContext,
            )) => self.prepared.client.edhoc.has(&self.prepared.target(self.address)),
            End::Over(_) | End::Refused(_) | End::Stopped => false,
        }
    }

    /// Registers again, at once and then with pauses: as [`once_reachable`](Self::once_reachable)
    /// if the observation `waits` for its server, otherwise for about a minute.
    pub(super) async fn again(self, waits: bool) -> Result<(Response, Self), Error> {
        let Self { prepared, address, .. } = &self;
        let address = *address;
        let mut pause = FIRST_TRY;
        loop {
            match prepared.register(address).await {
                Ok((address, response, subscription)) => {
                    return Ok((response, Self::new(subscription, prepared.clone(), address, FIRST_TRY)));
                }
                Err(error) if !error.is_timeout_or_unreachable() || pause > LAST_TRY => return Err(error),
                Err(_) if waits => return self.once_reachable().await,
                Err(_) => {}
            }
            prepared.pause(address, pause).await?;
            pause *= 2;
        }
    }

    /// Registers again after a renewal without a response.
    pub(super) async fn once_reachable(self) -> Result<(Response, Self), Error> {
        Self { pause: FIRST_TRY, ..self }.once_available(Duration::ZERO).await
    }

    /// Registers again after a 5.03: not before its Max-Age, and a random part later, as other
    /// observers of the server received the same.
    pub(super) async fn once_available(self, max_age: Duration) -> Result<(Response, Self), Error> {
        let Self { prepared, address, since, pause, .. } = self;
        // A server that accepts and soon sends 5.03 again is not asked every second.
        let (mut wanted, mut pause) = (max_age, if since.elapsed() < LAST_UNAVAILABLE_TRY { pause } else { FIRST_TRY });
        loop {
            prepared.pause(address, with_jitter(wanted.max(pause))).await?;
            let is_last = pause >= LAST_UNAVAILABLE_TRY;
            pause *= 2;
            match prepared.register(address).await {
                Ok((address, response, subscription)) => match retry_after(&response).filter(|_| !is_last) {
                    Some(max_age) => wanted = max_age,
                    None => {
                        let pause = pause.min(LAST_UNAVAILABLE_TRY);
                        return Ok((response, Self::new(subscription, prepared, address, pause)));
                    }
                },
                Err(error) if is_last || !prepared.may_be_available_later(address, &error) => return Err(error),
                Err(_) => wanted = Duration::ZERO,
            }
        }
    }

    pub(super) fn fetch(&self) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        let (prepared, address) = (self.prepared.clone(), self.address);
        async move { prepared.send(address).await }
    }

    pub(super) fn notified(&self, response: &Response, received: Instant) {
        let PreparedRequest { client, method, body, .. } = &self.prepared;
        if let Some(cache) = &client.cache
            && let Some(place) = cache.supersede(self.prepared.cached(self.address), *method, body)
        {
            place.keep(response, received);
        }
    }
}

pub(super) fn no_group(address: SocketAddr) -> Result<SocketAddr, Error> {
    if is_group(address) { Err(Error::Group { peer: address }) } else { Ok(address) }
}

pub(super) fn is_group(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_multicast()
}

pub(super) async fn resolve_until(
    deadline: Option<Instant>,
    uri: &Uri,
) -> Result<impl Iterator<Item = SocketAddr> + use<>, Error> {
    let Some(deadline) = deadline else { return resolve(uri).await };
    timeout_at(deadline, resolve(uri)).await.unwrap_or_else(|_| {
        let cause =
            io::Error::new(io::ErrorKind::TimedOut, "the request's timeout passed before the resolver answered");
        Err(Error::Resolve { host: uri.host().to_string(), cause })
    })
}

impl IntoFuture for RequestBuilder {
    type Output = Result<Response, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A request without its destination address.
#[derive(Clone)]
pub(super) struct PreparedRequest {
    pub(super) client: Client,
    pub(super) method: Code,
    pub(super) body: Body,
    pub(super) reliability: Reliability,
    pub(super) token: Option<Token>,
    pub(super) whole: bool,
    pub(super) fresh: bool,
    pub(super) deadline: Option<Instant>,
    pub(super) policy: QueuePolicy,
    pub(super) name: Option<Arc<str>>,
    /// The only peer that may receive the request.
    pub(super) expected: Option<Arc<Identity>>,
    /// `None` for an observation, which no closing client waits for.
    _active: Option<ActiveRequest>,
}

/// Sessions to try: each may end before the response.
const SESSIONS: usize = 2;

/// Repetitions with an Echo value: a server may challenge both address and freshness.
pub(super) const CHALLENGES: usize = 2;

impl PreparedRequest {
    /// Waits before another attempt, at most until the client is closed or its server has ended.
    async fn pause(&self, to: SocketAddr, pause: Duration) -> Result<(), Error> {
        let (handle, _) = self.client.sockets.toward(to)?;
        tokio::select! {
            () = sleep(pause) => Ok(()),
            () = handle.stopped() => Err(Error::Stopped),
        }
    }

    /// Whether a server that restarts can cause the error. Without its state it has no EDHOC keys.
    fn may_be_available_later(
        &self,
        #[cfg_attr(not(feature = "edhoc"), expect(unused_variables, reason = "no peer has keys"))] to: SocketAddr,
        error: &Error,
    ) -> bool {
        match error {
            #[cfg(feature = "edhoc")]
            Error::Failed { failure: Failure::NotAuthenticated(_), .. } => self.client.edhoc.has(&self.target(to)),
            error => error.is_timeout_or_unreachable(),
        }
    }

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

    pub(super) async fn send(&self, to: SocketAddr) -> Result<Response, Error> {
        match self.client.cache {
            None => self.ask(to, &self.body).await,
            // Few clients have a cache.
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

    pub(super) fn cache_use(&self, to: SocketAddr) -> CacheUse {
        match &self.client.cache {
            Some(cache) => cache.admit(self.cached(to), self.method, &self.body),
            None => CacheUse::Bypass,
        }
    }

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

    /// Repeats the request with the server's Echo value if challenged (RFC 9175 §2.3).
    async fn ask(&self, to: SocketAddr, body: &Body) -> Result<Response, Error> {
        let response = self.exchange(to, body.clone()).await?;
        match challenged(body, &response)? {
            None => Ok(response),
            // Few servers challenge.
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

    /// Repeats a request in the next session if one ends before the response. Servers deduplicate
    /// within a session only, so a request that may have been executed must be idempotent.
    async fn exchange_in_session(&self, to: SocketAddr, body: Body) -> Result<Response, Error> {
        for _ in 0..SESSIONS {
            let request = |timeout| ExchangeKind::Request(self.request(body.clone(), timeout));
            match self.client.begin(&self.target(to), request).await?.end_in_session().await {
                Err(InSession::Over(course)) if self.is_resendable(&course) => {}
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
    fn is_resendable(&self, course: &ExchangeStats) -> bool {
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

/// Returns the request with the Echo value of a 4.01, unless it already carried one.
pub(super) fn challenged(body: &Body, response: &Response) -> Result<Option<Body>, Error> {
    let told = response.code() != Code::UNAUTHORIZED || body.option(OptionNumber::ECHO).is_some();
    let echo = response.option(OptionNumber::ECHO).filter(|_| !told);
    Ok(echo.map(|echo| body.to_builder().option(OptionNumber::ECHO, echo).build()).transpose()?)
}

/// Not `now`: the caller may process the response much later than it arrived.
fn received(asked: Instant, course: &ExchangeStats) -> Instant {
    let now = Instant::now();
    asked.checked_add(course.queued.saturating_add(course.elapsed)).map_or(now, |received| received.min(now))
}

pub(super) fn response(peer: SocketAddr, outcome: Outcome) -> Result<Response, Error> {
    match outcome {
        Outcome::Response { from, message, course } => Ok(Response::new(from, message, course)),
        Outcome::Unanswered { course } => Err(Error::Unanswered { peer, course }),
        Outcome::Pong { .. } | Outcome::GroupTimeout { .. } => {
            unreachable!("only pings end with an acknowledgement, and it was for no group")
        }
    }
}
