//! The response to a request.

use std::fmt;
use std::net::SocketAddr;
use std::str::Utf8Error;
use std::time::Duration;

use bytes::Bytes;
use conche_proto::Course;
use conche_proto::codec::{Block, Code, ContentFormat, OptionNumber, OwnedMessage};

use super::Error;
use crate::Problem;
use crate::driver::Sender;
use crate::security::Identity;

/// The response to a request, whatever its code.
#[derive(Clone)]
pub struct Response {
    from: Sender,
    message: OwnedMessage,
    course: Course,
    age: Option<Duration>,
}

impl Response {
    pub(super) fn new(from: Sender, message: OwnedMessage, course: Course) -> Self {
        Self { from, message, course, age: None }
    }

    /// The same, from the cache.
    pub(super) fn aged(self, age: Duration) -> Self {
        Self { age: Some(age), ..self }
    }

    /// The exchange has gone on like this.
    pub(super) fn set_course(&mut self, course: Course) {
        self.course = course;
    }

    /// The address that it came from.
    #[must_use]
    pub fn from(&self) -> SocketAddr {
        self.from.address
    }

    /// The peer that sent it, as OSCORE keys or a DTLS session authenticate it. `None` over plain
    /// `coap`. [`expect_peer`](super::RequestBuilder::expect_peer) sends a request to one identity
    /// only.
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

    /// Its code, such as [`Code::CONTENT`].
    #[must_use]
    pub fn code(&self) -> Code {
        self.message.code()
    }

    /// The response itself if its code is one of success.
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
        Err(Error::Response { code: self.code(), diagnostic })
    }

    /// What went wrong, if the payload are problem details (RFC 9290).
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        let is_problem = self.content_format() == Some(ContentFormat::PROBLEM_DETAILS);
        is_problem.then(|| Problem::decode(self.payload())).flatten()
    }

    /// The payload; empty if there is none.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.message.payload()
    }

    /// The payload, to be kept longer than the response. It is shared with it, not copied.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.message.payload_bytes()
    }

    /// The payload, read as JSON (RFC 8259), whatever its Content-Format.
    ///
    /// # Errors
    /// [`Error::Decode`] if it is no JSON, or not of this type.
    #[cfg(feature = "json")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(self.payload())
            .map_err(|error| Error::Decode { format: "JSON", problem: error.to_string() })
    }

    /// The payload, read as CBOR (RFC 8949), whatever its Content-Format.
    ///
    /// # Errors
    /// [`Error::Decode`] if it is no CBOR, or not of this type.
    #[cfg(feature = "cbor")]
    pub fn cbor<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        ciborium::from_reader(self.payload())
            .map_err(|error| Error::Decode { format: "CBOR", problem: error.to_string() })
    }

    /// The payload as text.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(self.payload())
    }

    /// What the payload is, if the server says so.
    #[must_use]
    pub fn content_format(&self) -> Option<ContentFormat> {
        let format = self.message.uint(OptionNumber::CONTENT_FORMAT)?;
        u16::try_from(format).ok().map(ContentFormat)
    }

    /// The ETag of the representation, if it has one (RFC 7252 §5.10.6).
    #[must_use]
    pub fn etag(&self) -> Option<&[u8]> {
        self.option(OptionNumber::ETAG)
    }

    /// Where the resource is that the request made: path and query of a relative URI reference (RFC 7252 §5.10.7). `None`
    /// if the server does not say.
    #[must_use]
    pub fn location(&self) -> Option<String> {
        self.message.content().location()
    }

    /// How old it is, if it comes from the client's [cache](super::ClientBuilder::cache): for how long the client has had it,
    /// or since the server last said that it is valid. `None` if the server has just sent it, and so always without a cache.
    ///
    /// Its Max-Age is what the server said. With nothing sent and nothing waited for, its [`course`](Self::course) is
    /// all zeros, unless the server was asked whether it is valid.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.age
    }

    /// More of the state is at the server (RFC 7959 §2.2).
    pub(super) fn is_first_block(&self) -> bool {
        let block = self.message.content().block(OptionNumber::BLOCK2);
        self.code().is_success() && matches!(block, Ok(Some(block)) if block.more)
    }

    /// Which block of the body the payload is (RFC 7959), of a request that asked for [one](super::RequestBuilder::block).
    /// `None` for what is whole, and for a value that is malformed.
    #[must_use]
    pub fn block(&self) -> Option<Block> {
        self.option(OptionNumber::BLOCK2).and_then(|value| Block::decode(value).ok())
    }

    /// The value of an option, the first if there are several.
    #[must_use]
    pub fn option(&self, number: OptionNumber) -> Option<&[u8]> {
        self.message.option(number)
    }

    /// The whole message.
    #[must_use]
    pub fn message(&self) -> &OwnedMessage {
        &self.message
    }

    /// How the exchange went.
    #[must_use]
    pub fn course(&self) -> &Course {
        &self.course
    }

    /// From the first transmission to the first acknowledgement; the round-trip time if nothing was lost. Of a body that
    /// went in blocks, that of the first block.
    #[must_use]
    pub fn acknowledged_after(&self) -> Duration {
        self.course.acknowledged_after.unwrap_or(self.course.elapsed)
    }

    /// How many copies were sent beyond the first of each message.
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
