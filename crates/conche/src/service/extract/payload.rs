//! [`Payload`] and [`Text`]: the payload as bytes and as text.

use std::convert::Infallible;

use bytes::Bytes;
use conche_proto::codec::{Code, ContentFormat};

use super::{FromRequest, Rejection};
use crate::service::Request;

/// The payload's bytes, of any Content-Format, without copying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload(pub Bytes);

impl<S> FromRequest<S> for Payload {
    type Rejection = Infallible;

    fn from_request(request: Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(request.into_payload()))
    }
}

/// The payload's bytes, like [`Payload`].
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
        expect_format(&request, ContentFormat::TEXT_PLAIN, "text/plain; charset=utf-8")?;
        match std::str::from_utf8(request.payload()) {
            Ok(text) => Ok(Self(text.to_owned())),
            Err(error) => Err(Rejection::new(Code::BAD_REQUEST, format!("the payload: {error}"))),
        }
    }
}

/// The payload as text, like [`Text`].
impl<S> FromRequest<S> for String {
    type Rejection = Rejection;

    fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        Text::from_request(request, state).map(|Text(text)| text)
    }
}

/// Rejects a payload with another Content-Format. A missing one is accepted.
pub(super) fn expect_format(request: &Request, wanted: ContentFormat, name: &str) -> Result<(), Rejection> {
    match request.content_format() {
        Some(other) if other != wanted => {
            let message = format!("Content-Format {} ({name}) is wanted, not {}", wanted.0, other.0);
            Err(Rejection::new(Code::UNSUPPORTED_CONTENT_FORMAT, message))
        }
        _ => Ok(()),
    }
}
