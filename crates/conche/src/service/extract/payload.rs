//! [`Payload`], [`Text`] and [`BodyStream`].

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use conche_proto::StreamEnd;
use conche_proto::codec::{Code, ContentFormat, OptionNumber};
use thiserror::Error;

use super::{FromRequest, Rejection, Requirements};
use crate::driver::Inlet;
use crate::service::{IntoResponse, Request, Response};

/// The payload, of any Content-Format, without copying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload(pub Bytes);

impl<S> FromRequest<S> for Payload {
    type Rejection = Infallible;

    fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(request.into_payload()))
    }
}

/// Like [`Payload`].
impl<S> FromRequest<S> for Bytes {
    type Rejection = Infallible;

    fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        Ok(request.into_payload())
    }
}

/// The payload as text. Another Content-Format is answered with 4.15, invalid UTF-8 with 4.00.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub String);

impl<S> FromRequest<S> for Text {
    type Rejection = Rejection;

    fn from_request(request: Request, _state: &S) -> Result<Self, Rejection> {
        expect_format(&request, ContentFormat::TEXT_PLAIN)?;
        match std::str::from_utf8(request.payload()) {
            Ok(text) => Ok(Self(text.to_owned())),
            Err(error) => Err(Rejection::new(Code::BAD_REQUEST, format!("the payload: {error}"))),
        }
    }
}

/// Like [`Text`].
impl<S> FromRequest<S> for String {
    type Rejection = Rejection;

    fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        Text::from_request(request, state).map(|Text(text)| text)
    }
}

pub(super) fn expect_format(request: &Request, wanted: ContentFormat) -> Result<(), Rejection> {
    match request.content_format() {
        Some(other) if other != wanted => {
            let message = format!("Content-Format {wanted} is wanted, not {}", other.0);
            Err(Rejection::new(Code::UNSUPPORTED_CONTENT_FORMAT, message))
        }
        _ => Ok(()),
    }
}

/// The payload as a stream of any size; the handler runs once the first block has arrived.
///
/// ```
/// use conche::Code;
/// use conche::server::extract::BodyError;
/// use conche::server::{BodyStream, Router, post};
///
/// async fn count(mut body: BodyStream) -> Result<String, BodyError> {
///     let mut bytes = 0;
///     while let Some(chunk) = body.chunk().await? {
///         bytes += chunk.len();
///     }
///     Ok(format!("{bytes} bytes"))
/// }
///
/// let router: Router = Router::new().route("/log", post(count));
/// ```
///
/// A block is acknowledged with 2.31 once [`chunk`](Self::chunk) yields it, so the client sends no
/// faster than the handler reads. The client waits for a slow handler, after an Empty ACK, for 247
/// s if it follows EXCHANGE_LIFETIME. A response ends the transfer at any time.
///
/// - A transfer that the client abandons ends with [`BodyError::Ended`] after 247 s without a
///   block.
/// - The handler must check the size and answer 4.13:
///   [`body_limit`](crate::server::ServerBuilder::body_limit) and
///   [`max_payload`](crate::server::Router::max_payload) do not apply to the whole payload.
/// - A payload of one message, or sent with Q-Block (RFC 9177), is one chunk.
/// - Beyond [`Limits::transfers_per_peer`](crate::Limits::transfers_per_peer) transfers, a client
///   gets 5.03.
#[derive(Debug)]
pub struct BodyStream {
    here: Option<Bytes>,
    rest: Option<Inlet>,
    size: Option<u32>,
}

/// Reason why the rest of a payload does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The client stopped or started again.
    #[error("{0}")]
    Ended(StreamEnd),
    /// The server has ended.
    #[error("the server has ended")]
    Stopped,
}

/// Becomes 4.08.
impl IntoResponse for BodyError {
    fn into_response(self, _method: Code) -> Response {
        Response::diagnostic(Code::REQUEST_ENTITY_INCOMPLETE, self.to_string())
    }
}

impl BodyStream {
    /// Returns the next part, or `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// If the rest will not arrive. The stream ends after an error.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(chunk) = self.here.take() {
                if let Some(rest) = &self.rest {
                    rest.take();
                }
                if !chunk.is_empty() {
                    return Ok(Some(chunk));
                }
            }
            let Some(rest) = &mut self.rest else { return Ok(None) };
            match rest.next().await {
                Some(Ok(piece)) => {
                    self.here = Some(piece.bytes);
                    if piece.last {
                        self.rest = None;
                    }
                }
                Some(Err(end)) => {
                    self.rest = None;
                    return Err(BodyError::Ended(end));
                }
                None => {
                    self.rest = None;
                    return Err(BodyError::Stopped);
                }
            }
        }
    }

    /// Returns the whole payload's size in bytes, if sent (Size1, RFC 7959 §4); it may be an
    /// estimate.
    #[must_use]
    pub fn size(&self) -> Option<u32> {
        self.size
    }
}

impl<S> FromRequest<S> for BodyStream {
    type Rejection = Infallible;

    const NEEDS: Requirements = Requirements::STREAM;

    fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        let rest = request.extension::<Rest>().and_then(Rest::take);
        let size = match rest {
            Some(_) => request.message().uint(OptionNumber::SIZE1),
            None => u32::try_from(request.payload().len()).ok(),
        };
        Ok(Self { here: Some(request.into_payload()), rest, size })
    }
}

pub(in crate::service) struct Rest(Mutex<Option<Inlet>>);

impl Rest {
    pub(in crate::service) const fn new(inlet: Inlet) -> Self {
        Self(Mutex::new(Some(inlet)))
    }

    fn take(&self) -> Option<Inlet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
