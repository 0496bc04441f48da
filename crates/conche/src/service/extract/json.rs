//! [`Json`]: JSON as argument and result (RFC 8259).

use conche_proto::codec::{Code, ContentFormat};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::error;

use super::payload::expect_format;
use super::{FromRequest, Rejection};
use crate::service::{IntoResponse, Request, Response};

/// A value encoded as JSON, Content-Format 50.
///
/// As an argument: 4.15 for another Content-Format; 4.00 with the position if the payload is no
/// JSON of a `T`. As a result: 2.05 or 2.04, by method; 4.06 if the client does not accept JSON;
/// 5.00 and a log line if encoding fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<S, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Rejection;

    fn from_request(request: Request, _state: &S) -> Result<Self, Rejection> {
        expect_format(&request, ContentFormat::JSON)?;
        let value = serde_json::from_slice(request.payload());
        value.map(Self).map_err(|error| Rejection::new(Code::BAD_REQUEST, format!("the JSON payload: {error}")))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self, method: Code) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(payload) => (ContentFormat::JSON, payload).into_response(method),
            Err(error) => {
                error!(%error, "a handler's result cannot be written as JSON; its request is answered with 5.00");
                Response::new(Code::INTERNAL_SERVER_ERROR)
            }
        }
    }
}
