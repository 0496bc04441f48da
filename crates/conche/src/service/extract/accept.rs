//! The Accept option as a handler argument.

use std::convert::Infallible;

use conche_proto::codec::{Code, ContentFormat};

use super::{FromRequestParts, Rejection};
use crate::service::Request;

/// The Content-Format that the client wants (RFC 7252 §5.10.4); `None` if it accepts any.
///
/// [`Response::offer`](crate::server::Response::offer) selects a representation,
/// [`choose`](Self::choose) only its format:
///
/// ```
/// use conche::ContentFormat;
/// use conche::server::{Accept, Rejection, Router, get};
///
/// async fn temperature(accept: Accept) -> Result<(ContentFormat, String), Rejection> {
///     let format = accept.choose(&[ContentFormat::TEXT_PLAIN, ContentFormat::JSON])?;
///     let body = if format == ContentFormat::JSON { r#"{"celsius":21.5}"# } else { "21.5 °C" };
///     Ok((format, body.to_owned()))
/// }
///
/// let router: Router = Router::new().route("/temperature", get(temperature));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accept(pub Option<ContentFormat>);

impl Accept {
    /// Returns the wanted format, or the first one if the client accepts any.
    ///
    /// # Errors
    /// 4.06 if the wanted format is not available.
    pub fn choose(self, available: &[ContentFormat]) -> Result<ContentFormat, Rejection> {
        let chosen = match self.0 {
            Some(wanted) => available.contains(&wanted).then_some(wanted),
            None => available.first().copied(),
        };
        chosen.ok_or_else(|| {
            let available: Vec<_> = available.iter().map(ContentFormat::to_string).collect();
            let available = if available.is_empty() { "none".to_owned() } else { available.join(", ") };
            Rejection::new(Code::NOT_ACCEPTABLE, format!("available Content-Formats: {available}"))
        })
    }
}

impl<S> FromRequestParts<S> for Accept {
    type Rejection = Infallible;

    fn from_request_parts(request: &Request, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(request.accept()))
    }
}
