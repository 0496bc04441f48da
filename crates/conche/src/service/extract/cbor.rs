//! [`Cbor`]: CBOR as argument and result (RFC 8949).

use std::fmt;

use ciborium::de::Error;
use conche_proto::codec::{Code, ContentFormat};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::error;

use super::payload::expect_format;
use super::{FromRequest, Rejection};
use crate::service::{IntoResponse, Request, Response};

/// A value encoded as CBOR, Content-Format 60.
///
/// As an argument: 4.15 for another Content-Format; 4.00 with the position if the payload is no
/// CBOR of a `T`. As a result: 2.05 or 2.04, by method; 4.06 if the client does not accept CBOR;
/// 5.00 and a log line if encoding fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cbor<T>(pub T);

impl<S, T: DeserializeOwned> FromRequest<S> for Cbor<T> {
    type Rejection = Rejection;

    fn from_request(request: Request, _state: &S) -> Result<Self, Rejection> {
        expect_format(&request, ContentFormat::CBOR)?;
        let malformed =
            |what: fmt::Arguments<'_>| Err(Rejection::new(Code::BAD_REQUEST, format!("the CBOR payload: {what}")));
        let mut rest = request.payload();
        let length = rest.len();
        match ciborium::from_reader(&mut rest) {
            Ok(value) if rest.is_empty() => Ok(Self(value)),
            Ok(_) => malformed(format_args!("one item is wanted, but more follows at byte {}", length - rest.len())),
            Err(Error::Syntax(at)) => malformed(format_args!("no well-formed item at byte {at}")),
            Err(Error::Semantic(Some(at), what)) => malformed(format_args!("{what}, at byte {at}")),
            Err(Error::Semantic(None, what)) => malformed(format_args!("{what}, before byte {}", length - rest.len())),
            Err(Error::Io(_)) => malformed(format_args!("it ends within an item, at byte {length}")),
            Err(Error::RecursionLimitExceeded) => malformed(format_args!("it is nested too deeply")),
        }
    }
}

impl<T: Serialize> IntoResponse for Cbor<T> {
    fn into_response(self, method: Code) -> Response {
        let mut payload = Vec::new();
        match ciborium::into_writer(&self.0, &mut payload) {
            Ok(()) => (ContentFormat::CBOR, payload).into_response(method),
            Err(error) => {
                error!(%error, "a handler's result cannot be written as CBOR; its request is answered with 5.00");
                Response::new(Code::INTERNAL_SERVER_ERROR)
            }
        }
    }
}
