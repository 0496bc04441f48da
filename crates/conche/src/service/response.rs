//! [`Response`], and [`IntoResponse`] for handler results.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use conche_proto::Reliability;
use conche_proto::codec::{Body, BodyBuilder, BuildError, Code, ContentFormat, MessagePool, OptionNumber};
use futures_core::Stream;

use super::extract::Accept;
use crate::body::{BoxError, SizedSource, Source};
use crate::driver::ServiceResponse;
use crate::problem::Problem;

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
    payload: Bytes,
    /// All other options. Boxed, as few responses have any.
    options: Option<Box<BodyBuilder>>,
    reliability: Option<Reliability>,
    stream: Option<Arc<StreamedBody>>,
}

/// The first of a response's clones to be sent takes the stream.
#[derive(Debug)]
struct StreamedBody {
    source: Mutex<Option<Source>>,
    size: Option<u32>,
}

impl Response {
    /// Returns a response without options and payload.
    pub fn new(code: Code) -> Self {
        Self { code, format: None, payload: Bytes::new(), options: None, reliability: None, stream: None }
    }

    /// Returns an error with a diagnostic payload for humans (RFC 7252 §5.5.2).
    pub fn diagnostic(code: Code, message: impl Into<String>) -> Self {
        Self { payload: message.into().into(), ..Self::new(code) }
    }

    /// Returns 2.05 with the representation in the format that the client accepts, the first one if
    /// it accepts any, or 4.06 if none matches (RFC 7252 §5.10.4).
    ///
    /// ```
    /// use conche::ContentFormat;
    /// use conche::server::{Accept, Response, Router, get};
    ///
    /// async fn temperature(accept: Accept) -> Response {
    ///     Response::offer(accept, [
    ///         (ContentFormat::TEXT_PLAIN, "21.5 °C"),
    ///         (ContentFormat::JSON, r#"{"celsius":21.5}"#),
    ///     ])
    /// }
    ///
    /// let router: Router = Router::new().route("/temperature", get(temperature));
    /// ```
    pub fn offer<T: Into<Bytes>>(
        accept: Accept,
        representations: impl IntoIterator<Item = (ContentFormat, T)>,
    ) -> Self {
        let mut representations: Vec<_> = representations.into_iter().collect();
        let formats: Vec<_> = representations.iter().map(|(format, _)| *format).collect();
        let chosen = match accept.choose(&formats) {
            Ok(chosen) => formats.iter().position(|format| *format == chosen),
            Err(rejection) => return rejection.into(),
        };
        let (format, payload) = representations.swap_remove(chosen.unwrap_or_default());
        Self::new(Code::CONTENT).payload(format, payload)
    }

    /// Returns the code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Sets the code.
    pub fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// Sets a UTF-8 text as payload, with its Content-Format.
    pub fn text(self, payload: impl Into<String>) -> Self {
        self.payload(ContentFormat::TEXT_PLAIN, payload.into())
    }

    /// Sets a payload and its Content-Format.
    pub fn payload(self, format: ContentFormat, payload: impl Into<Bytes>) -> Self {
        Self { format: Some(format), payload: payload.into(), stream: None, ..self }
    }

    /// Sets a streamed payload of any size: see [`body`](crate::body). `size`, exact or
    /// approximate, is sent as Size2 (RFC 7959 §4).
    ///
    /// ```
    /// use conche::server::{Response, Router, get};
    /// use conche::{Code, ContentFormat, body};
    ///
    /// async fn noise() -> Response {
    ///     let endless = body::from_reader(tokio::io::repeat(7));
    ///     Response::new(Code::CONTENT).stream(ContentFormat::OCTET_STREAM, None, endless)
    /// }
    ///
    /// let router: Router = Router::new().route("/noise", get(noise));
    /// ```
    ///
    /// Clients must request the blocks in order; the last one may be repeated. A transfer without a
    /// request for 247 s, or that the same client starts again, is dropped. Two concurrent
    /// transfers of one client with an [`etag`](Self::etag) are the same; without one the second
    /// replaces the first. A stream error becomes a 5.00 in place of a block, as does a stream for
    /// observed resources and multicast requests.
    pub fn stream<S, E>(self, format: ContentFormat, size: Option<u32>, payload: S) -> Self
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let made = StreamedBody { source: Mutex::new(Some(Source::new(payload))), size };
        Self { format: Some(format), payload: Bytes::new(), stream: Some(Arc::new(made)), ..self }
    }

    /// Returns the Content-Format of the payload.
    #[must_use]
    pub fn content_format(&self) -> Option<ContentFormat> {
        self.format
    }

    /// Returns the payload.
    #[must_use]
    pub fn payload_bytes(&self) -> &[u8] {
        &self.payload
    }

    pub(super) fn option_value(&self, number: OptionNumber) -> Option<&[u8]> {
        self.options.as_ref().and_then(|options| options.value(number))
    }

    /// RFC 7252 §5.9.1.3.
    pub(super) fn into_valid(self) -> Self {
        Self { code: Code::VALID, format: None, payload: Bytes::new(), stream: None, ..self }
    }

    /// Adds an ETag: 1 to 8 bytes that identify this representation (RFC 7252 §5.10.6). For a
    /// client that has it, the router sends 2.03 without the payload.
    pub fn etag(self, tag: &[u8]) -> Self {
        self.option(OptionNumber::ETAG, tag)
    }

    /// Sets Max-Age in whole seconds (RFC 7252 §5.10.5).
    pub fn max_age(self, age: Duration) -> Self {
        self.uint(OptionNumber::MAX_AGE, u32::try_from(age.as_secs()).unwrap_or(u32::MAX))
    }

    /// Sets the created resource's location, an absolute path (RFC 7252 §5.10.7).
    pub fn location(self, path: &str) -> Self {
        let segments = path.strip_prefix('/').unwrap_or(path).split('/');
        segments.fold(self, |response, segment| response.option(OptionNumber::LOCATION_PATH, segment.as_bytes()))
    }

    /// Adds an option.
    pub fn option(self, number: OptionNumber, value: &[u8]) -> Self {
        self.change(|options| options.option(number, value))
    }

    /// Adds an option of format uint.
    pub fn uint(self, number: OptionNumber, value: u32) -> Self {
        self.change(|options| options.uint(number, value))
    }

    fn change(mut self, change: impl FnOnce(BodyBuilder) -> BodyBuilder) -> Self {
        let options = self.options.get_or_insert_default();
        **options = change(std::mem::take(&mut **options));
        self
    }

    /// Sets the reliability of a separate response; the request's by default.
    pub fn reliability(self, reliability: Reliability) -> Self {
        Self { reliability: Some(reliability), ..self }
    }

    /// Returns 4.06 for another format than `accept` (RFC 7252 §5.10.4).
    pub(super) fn accepted_as(self, accept: ContentFormat) -> Self {
        match self.format {
            Some(format) if self.code == Code::CONTENT && format != accept => {
                Self::diagnostic(Code::NOT_ACCEPTABLE, format!("Content-Format {format} is available, {accept} is not"))
            }
            _ => self,
        }
    }

    /// Makes a text a diagnostic payload.
    fn into_error(self, code: Code) -> Self {
        let format = self.format.filter(|format| *format != ContentFormat::TEXT_PLAIN);
        Self { code, format, ..self }
    }
}

impl ServiceResponse for Response {
    fn code(&self) -> Code {
        self.code
    }

    fn is_brief(&self) -> bool {
        const ONE_BLOCK: usize = 1024;
        self.reliability.is_none() && self.stream.is_none() && self.payload.len() <= ONE_BLOCK
    }

    fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    fn take_stream(&mut self) -> Option<SizedSource> {
        let made = self.stream.take()?;
        let source = made.source.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(SizedSource { source, size: made.size })
    }

    fn build(self, pool: Option<&mut MessagePool>) -> Result<conche_proto::Response, BuildError> {
        let Self { code, format, payload, options, reliability, .. } = self;
        let body = match (options, pool) {
            (None, Some(pool)) => Body::pooled(format, &payload, pool),
            (options, _) => {
                let options = options.map_or_else(BodyBuilder::new, |options| *options);
                let options = match format {
                    Some(format) => options.content_format(format),
                    None => options,
                };
                options.payload(payload).build()?
            }
        };
        Ok(conche_proto::Response { reliability, ..conche_proto::Response::new(code, body) })
    }
}

/// A handler's result.
///
/// Without an explicit code: 2.05 for GET and FETCH, 2.02 for DELETE, 2.04 for others.
pub trait IntoResponse {
    /// Returns the response to a request with this method.
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

/// Success, with a text payload.
impl IntoResponse for &'static str {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::TEXT_PLAIN, self)
    }
}

impl IntoResponse for String {
    fn into_response(self, method: Code) -> Response {
        success(method).text(self)
    }
}

impl IntoResponse for Cow<'_, str> {
    fn into_response(self, method: Code) -> Response {
        success(method).text(self)
    }
}

/// Success, with a payload of application/octet-stream.
impl IntoResponse for Bytes {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::OCTET_STREAM, self)
    }
}

/// Never constructed.
impl IntoResponse for Infallible {
    fn into_response(self, _method: Code) -> Response {
        match self {}
    }
}

impl IntoResponse for Vec<u8> {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(ContentFormat::OCTET_STREAM, self)
    }
}

/// Success, with a payload and its Content-Format.
impl<T: Into<Bytes>> IntoResponse for (ContentFormat, T) {
    fn into_response(self, method: Code) -> Response {
        success(method).payload(self.0, self.1)
    }
}

/// The second's response with the code of the first.
impl<T: IntoResponse> IntoResponse for (Code, T) {
    fn into_response(self, method: Code) -> Response {
        let response = self.1.into_response(method);
        let is_error = self.0.is_client_error() || self.0.is_server_error();
        if is_error { response.into_error(self.0) } else { response.with_code(self.0) }
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

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self, method: Code) -> Response {
        match self {
            Ok(value) => value.into_response(method),
            Err(error) => error.into_response(method),
        }
    }
}

/// The problem's code; 5.00 unless that is an error.
impl IntoResponse for Problem {
    fn into_response(self, _method: Code) -> Response {
        let code = self.response_code.filter(|code| code.is_client_error() || code.is_server_error());
        let code = code.unwrap_or(Code::INTERNAL_SERVER_ERROR);
        Response::new(code).payload(ContentFormat::PROBLEM_DETAILS, self.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_a_handler_has_its_code_and_never_one_of_success() {
        let response = Problem::new(Code::CONFLICT, "taken").into_response(Code::POST);
        assert_eq!(
            (response.code(), response.content_format()),
            (Code::CONFLICT, Some(ContentFormat::PROBLEM_DETAILS))
        );
        assert_eq!(Problem::new(Code::CONTENT, "odd").into_response(Code::POST).code(), Code::INTERNAL_SERVER_ERROR);
    }
}
