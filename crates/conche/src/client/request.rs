//! A request that is being put together.

use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use conche_proto::codec::{Block, BodyBuilder, Code, ContentFormat, NoResponse, OptionNumber, Token};
use conche_proto::{Failure, Reliability, Request, SubscriptionEnd};
use tokio::time::{Instant, sleep, timeout_at};

use super::ready::Ready;
use super::{Client, Error, GroupResponses, Observation, Response, resolve};
use crate::driver::{End, Patience, Subscription};
use crate::security::{Identity, PeerMismatch};
use crate::uri::{Uri, UriError};

/// A request that is being put together; awaiting it sends it.
///
/// Dropping the future cancels the request: it is not retransmitted any more and frees its place in the queue.
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
    /// What is wrong with the payload, to be told when it is sent.
    mistake: Option<Mistake>,
}

/// A value that cannot be a payload.
#[derive(Clone, Debug)]
struct Mistake {
    format: &'static str,
    problem: String,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, method: Code, uri: Result<Uri, UriError>) -> Self {
        let body = BodyBuilder::new();
        Self {
            client,
            method,
            uri,
            body,
            reliability: Reliability::Confirmable,
            timeout: None,
            token: None,
            whole: true,
            fresh: false,
            expected: None,
            mistake: None,
        }
    }

    /// The payload and what it is. What does not fit into a message goes block by block, up to
    /// [`body_limit`](super::ClientBuilder::body_limit) bytes.
    pub fn payload(self, format: ContentFormat, payload: impl Into<Bytes>) -> Self {
        self.content_format(format).bytes(payload)
    }

    /// The payload, without saying what it is.
    pub fn bytes(self, payload: impl Into<Bytes>) -> Self {
        let payload: Bytes = payload.into();
        Self { body: self.body.payload(payload), ..self }
    }

    /// A value as payload, in JSON (RFC 8259). One that cannot be written is reported when the request is sent.
    #[cfg(feature = "json")]
    pub fn json(self, value: &(impl serde::Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(payload) => self.payload(ContentFormat::JSON, payload),
            Err(error) => self.mistaken("JSON", &error),
        }
    }

    /// A value as payload, in CBOR (RFC 8949). One that cannot be written is reported when the request is sent.
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
        Self { mistake: Some(Mistake { format, problem: error.to_string() }), ..self }
    }

    /// What the payload is.
    pub fn content_format(self, format: ContentFormat) -> Self {
        Self { body: self.body.content_format(format), ..self }
    }

    /// What the payload of the response shall be (RFC 7252 §5.10.4).
    pub fn accept(self, format: ContentFormat) -> Self {
        self.uint(OptionNumber::ACCEPT, format.0.into())
    }

    /// Adds an argument to those of the URI's query.
    pub fn query(self, argument: &str) -> Self {
        Self { body: self.body.query(argument), ..self }
    }

    /// Adds any option.
    pub fn option(self, number: OptionNumber, value: &[u8]) -> Self {
        Self { body: self.body.option(number, value), ..self }
    }

    /// Adds any option of format uint.
    pub fn uint(self, number: OptionNumber, value: u32) -> Self {
        Self { body: self.body.uint(number, value), ..self }
    }

    /// Sends it as Non-confirmable: once, and without an acknowledgement.
    ///
    /// Congestion control may still turn one of many into a Confirmable one, to learn whether the peer is there;
    /// [`reliability`](Self::reliability) with [`Reliability::NeverConfirmable`] forbids that.
    pub fn non(self) -> Self {
        self.reliability(Reliability::NonConfirmable)
    }

    /// How it is sent; Confirmable by default.
    pub fn reliability(self, reliability: Reliability) -> Self {
        Self { reliability, ..self }
    }

    /// How long to wait for the response, all included: the resolution of the name, waiting for its turn, and all
    /// retransmissions. By default as long as the protocol does, which is minutes.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// The token to send it with, instead of a random one that an attacker cannot guess. One of more than eight bytes
    /// ([`Token::extended`]) is for servers that know RFC 8974: others reject the request with a Reset.
    pub fn token(self, token: Token) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Sends the request only to the peer of this identity: through a DTLS session that
    /// authenticates it, or protected with its OSCORE keys. If keys authenticate another peer at
    /// the address, nothing is sent and the error is [`Error::UnexpectedPeer`], with both
    /// identities. Notifications of an observation come from the same peer.
    ///
    /// Without it a request expects the peer that its URI and the client's credentials name:
    /// `coaps` requests go through sessions that this program has opened, with a certificate for
    /// the URI's host or the pre-shared key for its address. So a request of
    /// [`Server::client`](crate::Server::client) through a session that the peer has opened needs
    /// `expect_peer`: any client with a session from that address may be there.
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

    /// Has the server asked even if the client's [cache](super::ClientBuilder::cache) has an answer that may still be used.
    /// If the server says that it is valid, with a 2.03, it is the response after all.
    pub fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }

    /// Asks for one block of the response's body (RFC 7959 §2.4), and gets that one alone instead of the whole body:
    /// [`Response::block`] says which one it is and whether others follow.
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

    /// Sends the request when its turn has come, and waits for the response; so does awaiting the builder itself. If the
    /// server asks whether the request is fresh, with an Echo option in a 4.01, it is sent once more (RFC 9175 §2.3), and once more again if it then asks anew.
    ///
    /// # Errors
    /// If no response comes. A response with an error code is a response.
    pub fn send(self) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        self.send_with(Patience::Wait)
    }

    /// As [`send`](Self::send), but only if few requests wait: no more than
    /// [`Limits::queue_per_peer`](crate::Limits::queue_per_peer) for its destination, and
    /// [`Limits::queue`](crate::Limits::queue) for all.
    ///
    /// # Errors
    /// [`Error::Busy`] at once if that many wait already; otherwise as for [`send`](Self::send).
    pub fn try_send(self) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        self.send_with(Patience::Hurry)
    }

    /// Sends the request to a group, the address of which the URI names (RFC 7252 §8): once, as a Non-confirmable message.
    /// Whoever hears it answers at a time of its own within some seconds, unless it has nothing of use to say. The responses
    /// are collected until the [`timeout`](Self::timeout) or, without one, for as long as the protocol waits, which is minutes.
    ///
    /// Of several network interfaces the operating system chooses one, unless the client has an
    /// [`interface`](super::ClientBuilder::interface) or the URI's IPv6 address a zone.
    ///
    /// # Errors
    /// If the URI names no group, or there is no room for the request. What else is wrong is told by the responses.
    pub async fn multicast(self) -> Result<GroupResponses, Error> {
        let (Ready { client, method, body, deadline, expected, .. }, uri) = self.ready(Patience::Wait)?;
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

    /// As [`send`](Self::send), and asks the server not to send responses of these classes (RFC 7967), as for measurements
    /// that come often enough. Without a response it ends well with `None`: a Confirmable request as soon as the server
    /// acknowledges it, if no response is wanted at all; otherwise when none came in the time that there is for one, of
    /// which [`timeout`](Self::timeout) can make less.
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
    /// If the request fails. A response with an error code is a response.
    pub async fn send_without_response(self, unwanted: NoResponse) -> Result<Option<Response>, Error> {
        match self.uint(OptionNumber::NO_RESPONSE, unwanted.0.into()).send().await {
            Ok(response) => Ok(Some(response)),
            Err(Error::Unanswered { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for the resource and to be told of its changes (RFC 7641): a GET or FETCH with Observe. Nothing is sent before
    /// the stream is polled. The [`timeout`](Self::timeout) is for the first response.
    pub fn observe(self) -> Observation {
        Observation::new(self)
    }

    /// The options are encoded now: they take less memory so, as many may wait.
    fn send_with(self, patience: Patience) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        let timeout = self.timeout;
        let mut ready = self.ready(patience);
        async move {
            match ready {
                Ok((ref mut ready, ref uri)) => {
                    // The time runs as soon as it is awaited.
                    ready.deadline = end_of(timeout);
                    let ready = &*ready;
                    first_that_answers(ready, uri, |address| ready.send(address)).await
                }
                Err(error) => Err(error),
            }
        }
    }

    /// Registers an observation; the answer is what is needed to keep it.
    pub(super) async fn register(self) -> Result<(Response, Registered), Error> {
        let (ready, uri) = self.ready(Patience::Wait)?;
        let (address, response, subscription) =
            first_that_answers(&ready, &uri, |address| ready.register(address)).await?;
        // What follows has no deadline, and the token remains that of the registration.
        let ready = Ready { deadline: None, token: None, fresh: true, ..ready };
        Ok((response, Registered { subscription, ready, address }))
    }

    pub(super) fn ready(self, patience: Patience) -> Result<(Ready, Uri), Error> {
        if let Some(Mistake { format, problem }) = self.mistake {
            return Err(Error::Encode { format, problem });
        }
        let uri = self.uri?;
        let body = uri.body(self.body)?;
        let deadline = end_of(self.timeout);
        let Self { client, method, reliability, token, whole, fresh, expected, .. } = self;
        let name = uri.server_name();
        Ok((Ready { client, method, body, reliability, token, whole, fresh, deadline, patience, name, expected }, uri))
    }
}

/// When a time is over that begins now.
fn end_of(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// Tries a host's addresses one after the other, as long as a request certainly had no effect.
pub(super) async fn first_that_answers<T, F: Future<Output = Result<T, Error>>>(
    ready: &Ready,
    uri: &Uri,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Error> {
    match uri.address() {
        Some(only) => attempt(no_group(only)?).await,
        // Of many that wait few do so for a name's addresses, and all would have the memory of that.
        None => Box::pin(first_of_name(ready, uri, attempt)).await,
    }
}

async fn first_of_name<T, F: Future<Output = Result<T, Error>>>(
    ready: &Ready,
    uri: &Uri,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Error> {
    let mut failure = None;
    for address in resolve_until(ready.deadline, uri).await? {
        match attempt(no_group(address)?).await {
            Err(error) if error.is_worth_another_address() => failure = Some(error),
            ended => return ended,
        }
    }
    Err(failure.unwrap_or_else(|| Error::NoAddress { host: uri.host().to_string() }))
}

/// A server has answered the registration of an observation.
pub(super) struct Registered {
    pub(super) subscription: Subscription,
    ready: Ready,
    pub(super) address: SocketAddr,
}

/// How long whoever observes waits before the first new try to open a session, and before the last one: doubled each time, so that
/// a server that restarts has about a minute.
const FIRST_TRY: Duration = Duration::from_secs(1);
const LAST_TRY: Duration = Duration::from_secs(32);

impl Registered {
    /// It may go on through another session: the one that it had is over, or its server is silent, as one is that has forgotten it. Or with
    /// other keys, if the server has lost those that were agreed on.
    pub(super) fn may_go_on(&self, end: End) -> bool {
        match end {
            End::SessionOver => true,
            End::Over(SubscriptionEnd::Failed(Failure::TimedOut | Failure::Unreachable)) => self.ready.name.is_some(),
            #[cfg(feature = "edhoc")]
            End::Over(SubscriptionEnd::Failed(Failure::NotAuthenticated(_)))
            | End::Refused(conche_proto::RequestError::NotProtected(
                conche_proto::oscore::ProtectError::UnknownContext,
            )) => self.ready.client.agreeing.has(&self.ready.way(self.address)),
            End::Over(_) | End::Refused(_) | End::Stopped => false,
        }
    }

    /// Registers the same again, through another session than the one that is over.
    pub(super) async fn again(self) -> Result<(Response, Self), Error> {
        let Self { ready, address, .. } = self;
        let mut pause = FIRST_TRY;
        loop {
            match ready.register(address).await {
                Ok((address, response, subscription)) => return Ok((response, Self { subscription, ready, address })),
                Err(error) if !error.is_timeout_or_unreachable() || pause > LAST_TRY => return Err(error),
                Err(_) => {}
            }
            sleep(pause).await;
            pause *= 2;
        }
    }

    /// Asks for the state without observing it.
    pub(super) fn fetch(&self) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        let (ready, address) = (self.ready.clone(), self.address);
        async move { ready.send(address).await }
    }

    /// A notification has come, which may be kept.
    pub(super) fn notified(&self, response: &Response, received: Instant) {
        let Ready { client, method, body, .. } = &self.ready;
        if let Some(cache) = &client.cache {
            cache.notified((self.ready.cached(self.address), *method, body), response, received);
        }
    }
}

/// An address at which one listens.
pub(super) fn no_group(address: SocketAddr) -> Result<SocketAddr, Error> {
    if is_group(address) { Err(Error::Group { peer: address }) } else { Ok(address) }
}

/// Many may listen at this address.
pub(super) fn is_group(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_multicast()
}

pub(super) async fn resolve_until(
    deadline: Option<Instant>,
    uri: &Uri,
) -> Result<impl Iterator<Item = SocketAddr> + use<>, Error> {
    let Some(deadline) = deadline else { return resolve(uri).await };
    timeout_at(deadline, resolve(uri)).await.unwrap_or_else(|_| {
        let source =
            io::Error::new(io::ErrorKind::TimedOut, "the request's timeout passed before the resolver answered");
        Err(Error::Resolve { host: uri.host().to_string(), source })
    })
}

impl IntoFuture for RequestBuilder {
    type Output = Result<Response, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
