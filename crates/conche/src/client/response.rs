//! [`Response`], and [`GroupResponses`] to a multicast request.

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::str::Utf8Error;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use conche_proto::codec::{Block, Code, ContentFormat, OptionNumber, OwnedMessage};
use conche_proto::{ExchangeStats, Request};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Client, Error, Target};
use crate::driver::{Exchange, ExchangeKind, Sender};
use crate::problem::Problem;
use crate::security::Identity;

/// A response with any code.
#[derive(Clone)]
pub struct Response {
    from: Sender,
    message: OwnedMessage,
    course: ExchangeStats,
    age: Option<Duration>,
}

impl Response {
    pub(super) fn new(from: Sender, message: OwnedMessage, course: ExchangeStats) -> Self {
        Self { from, message, course, age: None }
    }

    pub(super) fn aged(self, age: Duration) -> Self {
        Self { age: Some(age), ..self }
    }

    pub(super) fn set_course(&mut self, course: ExchangeStats) {
        self.course = course;
    }

    /// Returns the address that sent the response.
    #[must_use]
    pub fn from(&self) -> SocketAddr {
        self.from.address
    }

    /// Returns the sender's identity, authenticated by OSCORE keys or a DTLS session, if any. See
    /// [`expect_peer`](super::RequestBuilder::expect_peer).
    ///
    /// ```
    /// # #[cfg(feature = "dtls")] {
    /// use conche::security::{Identity, Secret};
    /// use conche::server::get;
    /// use conche::{Client, Server};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let keys = |identity: &[u8]| (identity == b"lamp-7").then(|| Secret::new(*b"sesame"));
    /// let server = Server::builder().psk(keys).route("/hello", get(async || "world")).bind("127.0.0.1:0").await?;
    ///
    /// let client = Client::builder().psk(*b"lamp-7", Secret::new(*b"sesame"))?.build()?;
    /// let response = client.get(format!("coaps://{}/hello", server.local_addr())).await?;
    /// assert_eq!(response.peer_identity(), Some(&Identity::psk(b"lamp-7")));
    /// # Ok(())
    /// # }
    /// # }
    /// ```
    #[must_use]
    pub fn peer_identity(&self) -> Option<&Identity> {
        self.from.identity.as_deref()
    }

    pub(super) fn sender(&self) -> &Sender {
        &self.from
    }

    /// Returns the code, such as [`Code::CONTENT`].
    #[must_use]
    pub fn code(&self) -> Code {
        self.message.code()
    }

    /// Returns the response if its code is a success.
    ///
    /// # Errors
    /// [`Error::Response`] if the code is 4.xx or 5.xx.
    pub fn successful(self) -> Result<Self, Error> {
        if self.code().is_success() {
            return Ok(self);
        }
        let diagnostic = match self.content_format() {
            None if self.payload().is_empty() => None,
            None => Some(String::from_utf8_lossy(self.payload()).into_owned()),
            Some(_) => self.problem().map(|problem| problem.to_string()),
        };
        Err(Error::Response { peer: self.from(), code: self.code(), diagnostic })
    }

    /// Returns the payload's problem details (RFC 9290), if any.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        let is_problem = self.content_format() == Some(ContentFormat::PROBLEM_DETAILS);
        is_problem.then(|| Problem::decode(self.payload())).flatten()
    }

    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.message.payload()
    }

    /// Returns the payload without copying.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.message.payload_bytes()
    }

    /// Decodes the payload as JSON (RFC 8259), whatever its Content-Format.
    ///
    /// # Errors
    /// [`Error::Decode`] if it is not JSON of this type.
    #[cfg(feature = "json")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(self.payload())
            .map_err(|error| Error::Decode { format: "JSON", problem: error.to_string() })
    }

    /// Decodes the payload as CBOR (RFC 8949), whatever its Content-Format.
    ///
    /// # Errors
    /// [`Error::Decode`] if it is not CBOR of this type.
    #[cfg(feature = "cbor")]
    pub fn cbor<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        ciborium::from_reader(self.payload())
            .map_err(|error| Error::Decode { format: "CBOR", problem: error.to_string() })
    }

    /// Returns the payload as text.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(self.payload())
    }

    /// Returns the Content-Format, if present.
    #[must_use]
    pub fn content_format(&self) -> Option<ContentFormat> {
        let format = self.message.uint(OptionNumber::CONTENT_FORMAT)?;
        u16::try_from(format).ok().map(ContentFormat)
    }

    /// Returns the representation's ETag, if present (RFC 7252 §5.10.6).
    #[must_use]
    pub fn etag(&self) -> Option<&[u8]> {
        self.option(OptionNumber::ETAG)
    }

    /// Returns the location of the created resource, if present: a relative URI reference (RFC 7252
    /// §5.10.7).
    #[must_use]
    pub fn location(&self) -> Option<String> {
        self.message.content().location()
    }

    /// Returns the time since a response from the client's [cache](super::ClientBuilder::cache) was
    /// received or last validated. `None` for a new response.
    ///
    /// Max-Age remains the server's value. The [`course`](Self::course) is all zeros if nothing was
    /// sent.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.age
    }

    pub(super) fn is_first_block(&self) -> bool {
        let block = self.message.content().block(OptionNumber::BLOCK2);
        self.code().is_success() && matches!(block, Ok(Some(block)) if block.more)
    }

    /// Returns the Block2 option (RFC 7959) if [one block](super::RequestBuilder::block) was
    /// requested.
    #[must_use]
    pub fn block(&self) -> Option<Block> {
        self.option(OptionNumber::BLOCK2).and_then(|value| Block::decode(value).ok())
    }

    /// Returns the value of the first option of this number.
    #[must_use]
    pub fn option(&self, number: OptionNumber) -> Option<&[u8]> {
        self.message.option(number)
    }

    /// Returns the whole message.
    #[must_use]
    pub fn message(&self) -> &OwnedMessage {
        &self.message
    }

    /// Returns the exchange's transmissions and timing.
    #[must_use]
    pub fn course(&self) -> &ExchangeStats {
        &self.course
    }

    /// Returns the time from the first transmission to the first acknowledgement: the RTT if
    /// nothing was lost. For a block-wise transfer, that of the first block.
    #[must_use]
    pub fn acknowledged_after(&self) -> Duration {
        self.course.acknowledged_after.unwrap_or(self.course.elapsed)
    }

    /// Returns the number of retransmissions of all messages.
    #[must_use]
    pub fn retransmissions(&self) -> u32 {
        self.course.transmissions.saturating_sub(self.course.messages)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.message, self.from.address)
    }
}

/// The responses of a group, in order of arrival: a [`Stream`] that ends at the request's
/// [`timeout`](super::RequestBuilder::timeout). Dropping it ends the request.
///
/// Members may respond more than once. A unicast request completes a body whose first block
/// arrived.
#[derive(Debug)]
#[must_use = "responses are told to whom asks for them"]
pub struct GroupResponses {
    group: SocketAddr,
    responses: mpsc::UnboundedReceiver<(SocketAddr, OwnedMessage)>,
    body_limit: usize,
    exchange: Option<Exchange>,
}

impl GroupResponses {
    pub(super) async fn begin(
        client: &Client,
        group: SocketAddr,
        request: Request,
        deadline: Option<Instant>,
    ) -> Result<Self, Error> {
        // `Limits::group_responses` bounds the channel.
        let (sender, responses) = mpsc::unbounded_channel();
        let opening = |timeout| ExchangeKind::Group { request: Request { timeout, ..request }, responses: sender };
        let target = Target { deadline, ..Target::to(group) };
        let begun = client.begin(&target, opening).await?;
        Ok(Self { group, responses, body_limit: begun.body_limit, exchange: Some(begun.exchange) })
    }

    /// Returns the next response and its sender, or `None` after the timeout or an error.
    ///
    /// # Errors
    /// If the request was refused or could not be sent.
    pub async fn next(&mut self) -> Option<Result<(SocketAddr, Response), Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for GroupResponses {
    type Item = Result<(SocketAddr, Response), Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some((from, message)) = ready!(self.responses.poll_recv(context)) {
            let course = ExchangeStats { transmissions: 1, ..ExchangeStats::default() };
            return Poll::Ready(Some(Ok((from, Response::new(from.into(), message, course)))));
        }
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(None) };
        let ended = ready!(Pin::new(exchange).poll(context));
        self.exchange = None;
        Poll::Ready(ended.err().map(|error| Err(Error::exchange(self.group, error, self.body_limit))))
    }
}

impl FusedStream for GroupResponses {
    fn is_terminated(&self) -> bool {
        self.exchange.is_none()
    }
}
