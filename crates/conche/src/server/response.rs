//! What a handler answers.

use std::time::Duration;

use conche_proto::Reliability;
use conche_proto::codec::{BodyBuilder, BuildError, Code, ContentFormat, OptionNumber};

/// A response to send.
///
/// ```
/// use conche::server::Response;
/// use conche::{Code, ContentFormat};
/// use std::time::Duration;
///
/// let response = Response::new(Code::CONTENT)
///     .text("21.5")
///     .etag(b"v7")
///     .max_age(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Response {
    code: Code,
    format: Option<ContentFormat>,
    /// Boxed, so that a response is small wherever it may stand for an error.
    body: Box<BodyBuilder>,
    reliability: Option<Reliability>,
}

impl Response {
    /// A response without options and payload.
    pub fn new(code: Code) -> Self {
        Self { code, format: None, body: Box::default(), reliability: None }
    }

    /// An error with a diagnostic payload for humans (RFC 7252 §5.5.2).
    pub fn diagnostic(code: Code, message: impl Into<String>) -> Self {
        Self::new(code).bytes(message.into())
    }

    /// Its code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// The same response with another code.
    pub fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// A payload that is UTF-8 text, with its Content-Format.
    pub fn text(self, payload: impl Into<String>) -> Self {
        self.payload(ContentFormat::TEXT_PLAIN, payload.into())
    }

    /// A payload and what it is.
    pub fn payload(self, format: ContentFormat, payload: impl Into<Vec<u8>>) -> Self {
        Self { format: Some(format), ..self }.bytes(payload)
    }

    fn bytes(self, payload: impl Into<Vec<u8>>) -> Self {
        let payload: Vec<u8> = payload.into();
        self.body(|body| body.payload(payload))
    }

    /// Adds an ETag: 1 to 8 bytes that name this representation (RFC 7252 §5.10.6).
    pub fn etag(self, tag: &[u8]) -> Self {
        self.option(OptionNumber::ETAG, tag)
    }

    /// How long the response may be cached, in whole seconds (RFC 7252 §5.10.5).
    pub fn max_age(self, age: Duration) -> Self {
        self.uint(OptionNumber::MAX_AGE, u32::try_from(age.as_secs()).unwrap_or(u32::MAX))
    }

    /// Where the resource is that the request made, as an absolute path (RFC 7252 §5.10.7).
    pub fn location(self, path: &str) -> Self {
        let segments = path.strip_prefix('/').unwrap_or(path).split('/');
        segments.fold(self, |response, segment| response.option(OptionNumber::LOCATION_PATH, segment.as_bytes()))
    }

    /// Adds any option.
    pub fn option(self, number: OptionNumber, value: &[u8]) -> Self {
        self.body(|body| body.option(number, value))
    }

    /// Adds any option of format uint.
    pub fn uint(self, number: OptionNumber, value: u32) -> Self {
        self.body(|body| body.uint(number, value))
    }

    fn body(mut self, change: impl FnOnce(BodyBuilder) -> BodyBuilder) -> Self {
        *self.body = change(std::mem::take(&mut *self.body));
        self
    }

    /// How it is sent if it becomes a separate response; otherwise as the request was.
    pub fn reliability(self, reliability: Reliability) -> Self {
        Self { reliability: Some(reliability), ..self }
    }

    /// It answers a request for `accept`. A representation in another format becomes 4.06 (RFC 7252 §5.10.4).
    pub(super) fn accepted_as(self, accept: ContentFormat) -> Self {
        match self.format {
            Some(format) if self.code == Code::CONTENT && format != accept => Self::diagnostic(
                Code::NOT_ACCEPTABLE,
                format!("Content-Format {} is available, {} is not", format.0, accept.0),
            ),
            _ => self,
        }
    }

    pub(crate) fn build(self) -> Result<conche_proto::Response, BuildError> {
        let body = match self.format {
            Some(format) => self.body.content_format(format),
            None => *self.body,
        };
        Ok(conche_proto::Response { code: self.code, body: body.build()?, reliability: self.reliability })
    }
}

/// What a handler may return.
///
/// The code of what has none of its own follows from the method: 2.05 for GET and FETCH, 2.02 for DELETE, 2.04 for the
/// others.
pub trait IntoResponse {
    /// The response to a request with this method.
    fn into_response(self, method: Code) -> Response;
}

fn success(method: Code) -> Response {
    Response::new(match method {
        Code::GET | Code::FETCH => Code::CONTENT,
        Code::DELETE => Code::DELETED,
        _ => Code::CHANGED,
    })
}

impl IntoResponse for Response {
    fn into_response(self, _method: Code) -> Response {
        self
    }
}

/// Success, without a payload.
impl IntoResponse for () {
    fn into_response(self, method: Code) -> Response {
        success(method)
    }
}

/// A code, without a payload.
impl IntoResponse for Code {
    fn into_response(self, _method: Code) -> Response {
        Response::new(self)
    }
}

/// Success, with a text.
impl IntoResponse for &str {
    fn into_response(self, method: Code) -> Response {
        success(method).text(self)
    }
}

/// Success, with a text.
impl IntoResponse for String {
    fn into_response(self, method: Code) -> Response {
        success(method).text(self)
    }
}

/// Success, with a payload of which only the application knows what it is.
impl IntoResponse for Vec<u8> {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::OCTET_STREAM, self)
    }
}

/// Success, with a payload and what it is.
impl<T: Into<Vec<u8>>> IntoResponse for (ContentFormat, T) {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(self.0, self.1)
    }
}

/// What the second would be, with the code of the first. An error's text is a diagnostic payload.
impl<T: IntoResponse> IntoResponse for (Code, T) {
    fn into_response(self, method: Code) -> Response {
        let Response { body, format, reliability, .. } = self.1.into_response(method);
        let diagnostic = self.0.is_client_error() || self.0.is_server_error();
        let format = if diagnostic && format == Some(ContentFormat::TEXT_PLAIN) { None } else { format };
        Response { code: self.0, format, body, reliability }
    }
}

/// 4.04 for `None`.
impl<T: IntoResponse> IntoResponse for Option<T> {
    fn into_response(self, method: Code) -> Response {
        match self {
            Some(value) => value.into_response(method),
            None => Response::new(Code::NOT_FOUND),
        }
    }
}

/// Whichever it is.
impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self, method: Code) -> Response {
        match self {
            Ok(value) => value.into_response(method),
            Err(error) => error.into_response(method),
        }
    }
}
