//! The payload as it comes.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use conche_proto::StreamEnd;
use conche_proto::codec::{Code, OptionNumber};
use thiserror::Error;

use super::{FromRequest, Needs};
use crate::driver::Inlet;
use crate::server::{IntoResponse, Request, Response};

/// The payload as it comes: the handler runs as soon as the first block is there, and a payload may have any size.
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
/// A block is acknowledged to the client, with 2.31, when [`chunk`](Self::chunk) has yielded it; so the client sends no faster
/// than the handler takes, and no more than one block waits here. It may take its time: the client gets an Empty ACK and
/// waits, those that keep to EXCHANGE_LIFETIME for 247 s. A response ends the transfer, whenever it is given.
///
/// - What a client abandons ends with [`BodyError::Ended`], after 247 s in which nothing came.
/// - Neither [`body_limit`](crate::server::ServerBuilder::body_limit) nor
///   [`max_payload`](crate::server::Router::max_payload) holds for the whole of it: the handler has to know when it is too
///   much, and answers 4.13.
/// - A payload that fits into one message, and one that came in sets (RFC 9177), is one chunk.
/// - For 247 s at most [`Limits::transfers_per_peer`](crate::Limits::transfers_per_peer) of a client are under way; beyond
///   that it gets 5.03.
#[derive(Debug)]
pub struct BodyStream {
    here: Option<Bytes>,
    rest: Option<Inlet>,
    size: Option<u32>,
}

/// Why no more of a payload comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The client did not go on, or began anew. It does not wait for a response.
    #[error("{0}")]
    Ended(StreamEnd),
    /// The server has ended.
    #[error("the server has ended")]
    Stopped,
}

/// 4.08, which nobody waits for.
impl IntoResponse for BodyError {
    fn into_response(self, _method: Code) -> Response {
        Response::diagnostic(Code::REQUEST_ENTITY_INCOMPLETE, self.to_string())
    }
}

impl BodyStream {
    /// The next part; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// If the rest will not come. After that there is nothing more.
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

    /// How many bytes the whole payload has, if the client says so: with Size1 (RFC 7959 §4), which may be an estimate.
    #[must_use]
    pub fn size(&self) -> Option<u32> {
        self.size
    }
}

impl<S> FromRequest<S> for BodyStream {
    type Rejection = Infallible;

    const NEEDS: Needs = Needs::STREAM;

    fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        let rest = request.extension::<Rest>().and_then(Rest::take);
        let size = match rest {
            Some(_) => request.message().uint(OptionNumber::SIZE1),
            None => u32::try_from(request.payload().len()).ok(),
        };
        Ok(Self { here: Some(request.into_payload()), rest, size })
    }
}

/// What a request carries to [`BodyStream`].
pub(crate) struct Rest(Mutex<Option<Inlet>>);

impl Rest {
    pub(crate) const fn new(inlet: Inlet) -> Self {
        Self(Mutex::new(Some(inlet)))
    }

    fn take(&self) -> Option<Inlet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
