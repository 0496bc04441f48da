//! A request that is being put together.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use conche_proto::codec::{BodyBuilder, Code, ContentFormat, OptionNumber, Token};
use conche_proto::{Reliability, Request};
use tokio::time::Instant;

use super::{Client, Error, Response, resolve};
use crate::driver::{Opening, Outcome};
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
    body: BodyBuilder,
    reliability: Reliability,
    timeout: Option<Duration>,
    token: Option<Token>,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, method: Code, uri: Result<Uri, UriError>) -> Self {
        let body = BodyBuilder::new();
        Self { client, method, uri, body, reliability: Reliability::Confirmable, timeout: None, token: None }
    }

    /// The payload and what it is.
    pub fn payload(self, format: ContentFormat, payload: impl Into<Vec<u8>>) -> Self {
        let payload: Vec<u8> = payload.into();
        Self { body: self.body.content_format(format).payload(payload), ..self }
    }

    /// The payload, without saying what it is.
    pub fn bytes(self, payload: impl Into<Vec<u8>>) -> Self {
        let payload: Vec<u8> = payload.into();
        Self { body: self.body.payload(payload), ..self }
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

    /// How long to wait for the response, queueing and all retransmissions included. By default as long as the protocol
    /// does, which is minutes.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// The token to send it with, instead of a random one that an attacker cannot guess.
    pub fn token(self, token: Token) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Sends the request and waits for the response.
    ///
    /// # Errors
    /// If no response comes. A response with an error code is a response.
    pub async fn send(self) -> Result<Response, Error> {
        let uri = self.uri?;
        let body = uri.options(self.body).build()?;
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut failure = None;
        for address in resolve(&uri).await? {
            let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let request = Request {
                code: self.method,
                body: body.clone(),
                reliability: self.reliability,
                timeout,
                token: self.token,
            };
            match self.client.open(address, Opening::Request(request)).await {
                Ok(Outcome::Response { from, message, course }) => return Ok(Response::new(from, message, course)),
                Ok(Outcome::Pong { .. }) => unreachable!("only pings end with an acknowledgement"),
                Err(error) if error.is_worth_another_address() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::no_address(&uri)))
    }
}

impl IntoFuture for RequestBuilder {
    type Output = Result<Response, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
