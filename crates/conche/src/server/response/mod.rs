//! What a handler answers.

mod into_response;

pub use into_response::IntoResponse;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use conche_proto::Reliability;
use conche_proto::codec::{Body, BodyBuilder, BuildError, Code, ContentFormat, MessagePool, OptionNumber};
use futures_core::Stream;

use crate::body::{BoxError, Source};

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
    /// All other options. Most responses have none, and a response is small wherever it may stand for an error.
    options: Option<Box<BodyBuilder>>,
    reliability: Option<Reliability>,
    stream: Option<Arc<Made>>,
}

/// A body that a stream makes. Of the clones of a response the first that is sent has it.
#[derive(Debug)]
struct Made {
    source: Mutex<Option<Source>>,
    size: Option<u32>,
}

impl Response {
    /// A response without options and payload.
    pub fn new(code: Code) -> Self {
        Self { code, format: None, payload: Bytes::new(), options: None, reliability: None, stream: None }
    }

    /// An error with a diagnostic payload for humans (RFC 7252 §5.5.2).
    pub fn diagnostic(code: Code, message: impl Into<String>) -> Self {
        Self { payload: message.into().into(), ..Self::new(code) }
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
    pub fn payload(self, format: ContentFormat, payload: impl Into<Bytes>) -> Self {
        Self { format: Some(format), payload: payload.into(), stream: None, ..self }
    }

    /// A payload that is made while it is sent, and may have any size: see [`body`](crate::body). `size` is how many bytes it
    /// will have, or about, if that is known; clients are told (RFC 7959 §4).
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
    /// The client has to ask for the blocks in their order, as clients do; the last one it may ask for again. What is not
    /// asked for within 247 s is dropped, as is what the same client asks for anew. An [`etag`](Self::etag) that names the
    /// representation has two transfers of one client at the same time be the same; without one the second takes
    /// the place of the first, which the client learns. An error of the stream is a 5.00 in the place of a block. It is not for
    /// what is observed, or asked of a group: those get 5.00.
    pub fn stream<S, E>(self, format: ContentFormat, size: Option<u32>, payload: S) -> Self
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let made = Made { source: Mutex::new(Some(Source::new(payload))), size };
        Self { format: Some(format), payload: Bytes::new(), stream: Some(Arc::new(made)), ..self }
    }

    /// The payload is made by a stream.
    pub(crate) fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// The stream that makes the payload, and how large that will be.
    pub(crate) fn take_stream(&mut self) -> Option<(Source, Option<u32>)> {
        let made = self.stream.take()?;
        let source = made.source.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some((source, made.size))
    }

    /// What the payload is.
    #[must_use]
    pub fn content_format(&self) -> Option<ContentFormat> {
        self.format
    }

    /// The payload.
    #[must_use]
    pub fn payload_bytes(&self) -> &[u8] {
        &self.payload
    }

    /// The value of an option that was added, the first of several.
    pub(super) fn option_value(&self, number: OptionNumber) -> Option<&[u8]> {
        self.options.as_ref().and_then(|options| options.value(number))
    }

    /// The same without the representation, which the client has already (RFC 7252 §5.9.1.3).
    pub(super) fn into_valid(self) -> Self {
        Self { code: Code::VALID, format: None, payload: Bytes::new(), stream: None, ..self }
    }

    /// Adds an ETag: 1 to 8 bytes that name this representation (RFC 7252 §5.10.6). To a client that has it already,
    /// the router answers 2.03 without the payload.
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
        self.change(|options| options.option(number, value))
    }

    /// Adds any option of format uint.
    pub fn uint(self, number: OptionNumber, value: u32) -> Self {
        self.change(|options| options.uint(number, value))
    }

    fn change(mut self, change: impl FnOnce(BodyBuilder) -> BodyBuilder) -> Self {
        let options = self.options.get_or_insert_default();
        **options = change(std::mem::take(&mut **options));
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

    /// Nothing of it has to be kept until it has arrived, or until its rest is asked for.
    pub(crate) fn is_brief(&self) -> bool {
        const ONE_BLOCK: usize = 1024;
        self.reliability.is_none() && self.stream.is_none() && self.payload.len() <= ONE_BLOCK
    }

    /// The response as the endpoint takes it, in memory of its own or, if it will not be kept, in what a pool lends.
    pub(crate) fn build(self, pool: Option<&mut MessagePool>) -> Result<conche_proto::Response, BuildError> {
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

    /// The same response to say what went wrong: a text is then a diagnostic payload, which has no Content-Format.
    fn into_error(self, code: Code) -> Self {
        let format = self.format.filter(|format| *format != ContentFormat::TEXT_PLAIN);
        Self { code, format, ..self }
    }
}
