//! Streams request and response bodies block-wise.

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use conche_proto::codec::{Body, Code, OptionNumber, decode_uint};
use conche_proto::{Failure, RemainingBody, Request};
use futures_core::Stream;
use tokio::sync::mpsc;

use super::cache::CacheUse;
use super::request::{
    CHALLENGES, PreparedRequest, RequestBuilder, challenged, no_group, resolve_until, response, try_addresses,
};
use super::{Error, OpenExchange, Response, Target};
use crate::body::{BoxError, Piece, Source};
use crate::driver::{ExchangeKind, QueuePolicy, StreamEvent};

/// The largest block and one byte, which shows that more follow.
const BEGINNING: usize = 1025;

/// A response with a streamed body, once the first block arrived.
///
/// ```no_run
/// # async fn example(client: conche::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::Write;
///
/// let mut firmware = client.get("coap://example.com/firmware").stream().await?.successful()?;
/// let mut file = std::fs::File::create("firmware.bin")?;
/// while let Some(chunk) = firmware.chunk().await? {
///     file.write_all(&chunk)?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// Taking a chunk requests the next block, so one block is in flight while the last is used.
/// Servers that apply EXCHANGE_LIFETIME (RFC 7252) allow 247 s between two chunks.
///
/// If the resource changes meanwhile, the next chunk is [`Error::Failed`] with
/// [`Failure::BodyChanged`]. Dropping the stream aborts the transfer.
#[must_use = "the body comes when it is asked for"]
pub struct ResponseStream {
    head: Response,
    size: Option<u32>,
    state: State,
}

enum State {
    Buffered(Bytes, Option<IncomingBody>),
    Waiting(IncomingBody),
    Over,
}

struct IncomingBody {
    events: mpsc::UnboundedReceiver<StreamEvent>,
    open: OpenExchange,
}

impl ResponseStream {
    fn new(head: Response, rest: Option<IncomingBody>) -> Self {
        let size = head.message().uint(OptionNumber::SIZE2);
        let size = if rest.is_some() { size } else { u32::try_from(head.payload().len()).ok() };
        let chunk = head.bytes();
        Self { head, size, state: State::Buffered(chunk, rest) }
    }

    /// Returns the code, such as [`Code::CONTENT`].
    #[must_use]
    pub fn code(&self) -> Code {
        self.head.code()
    }

    /// Returns the options, with the first chunk as payload. The course covers all messages so far.
    #[must_use]
    pub fn head(&self) -> &Response {
        &self.head
    }

    /// Returns the whole body's size in bytes, if sent (Size2, RFC 7959 §4); it may be an estimate.
    #[must_use]
    pub fn size(&self) -> Option<u32> {
        self.size
    }

    /// Returns the stream if its code is a success.
    ///
    /// # Errors
    /// [`Error::Response`] if the code is 4.xx or 5.xx.
    pub fn successful(self) -> Result<Self, Error> {
        match self.code().is_success() {
            true => Ok(self),
            false => Err(refusal(self.head)),
        }
    }

    /// Returns the next part of the body, or `None` at its end. Cancel safe.
    ///
    /// # Errors
    /// If the rest does not arrive. The stream ends after an error.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        poll_fn(|context| self.poll_chunk(context)).await.transpose()
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Buffered(chunk, rest) => {
                    if let Some(coming) = rest {
                        coming.open.exchange.fetch_next();
                        self.state = State::Waiting(coming);
                    }
                    if !chunk.is_empty() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                State::Waiting(mut coming) => match coming.poll(context) {
                    Poll::Ready(Ok((part, more))) => {
                        if part.code() != self.code() {
                            return Poll::Ready(Some(Err(refusal(part))));
                        }
                        self.head.set_course(*part.course());
                        self.state = State::Buffered(part.bytes(), more.then_some(coming));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Poll::Pending => {
                        self.state = State::Waiting(coming);
                        return Poll::Pending;
                    }
                },
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

fn refusal(response: Response) -> Error {
    let (peer, course) = (response.from(), *response.course());
    match response.successful() {
        Ok(_) => Error::Failed { peer, failure: Failure::BodyChanged, course },
        Err(error) => error,
    }
}

impl IncomingBody {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(Response, bool), Error>> {
        loop {
            if let StreamStep::Part(response, more) = ready!(self.poll_step(context))? {
                return Poll::Ready(Ok((response, more)));
            }
        }
    }

    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Result<StreamStep, Error>> {
        if let Poll::Ready(Some(event)) = self.events.poll_recv(context) {
            return Poll::Ready(Ok(match event {
                StreamEvent::Block { from, message, course } => {
                    StreamStep::Part(Response::new(from, message, course), true)
                }
                StreamEvent::Wanted(bytes) => StreamStep::Wanted(bytes),
            }));
        }
        let (peer, outcome) = (self.open.to, ready!(self.open.poll_end(context)));
        Poll::Ready(
            outcome.and_then(|outcome| response(peer, outcome)).map(|response| StreamStep::Part(response, false)),
        )
    }
}

enum StreamStep {
    Part(Response, bool),
    Wanted(usize),
}

impl Stream for ResponseStream {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_chunk(context)
    }
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream").field("head", &self.head).field("size", &self.size).finish_non_exhaustive()
    }
}

impl RequestBuilder {
    /// Like [`send`](Self::send), but streams a response body of any size, bypassing the cache.
    /// Returns once the first block arrives; the [`timeout`](Self::timeout) applies to the whole
    /// body.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub async fn stream(self) -> Result<ResponseStream, Error> {
        let (prepared, uri) = self.prepare(QueuePolicy::Wait)?;
        let (stream, to) = try_addresses(&prepared, &uri, async |to| Ok((prepared.stream(to).await?, to))).await?;
        if let CacheUse::Change(change) = prepared.cache_use(to) {
            change.answered(stream.head());
        }
        Ok(stream)
    }

    /// Like [`send`](Self::send), with a streamed payload of any size: see [`body`](crate::body).
    /// Set a known size with [`OptionNumber::SIZE1`]. An early response, such as 4.13, ends the
    /// transfer.
    ///
    /// ```no_run
    /// # async fn example(client: conche::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use conche::{ContentFormat, body};
    ///
    /// # let file = tokio::io::empty();
    /// let log = client.post("coap://example.com/log").content_format(ContentFormat::TEXT_PLAIN);
    /// log.send_stream(body::from_reader(file)).await?.successful()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Body`] if the payload's source fails, which aborts the transfer; else as for
    /// [`send`](Self::send).
    pub async fn send_stream<S, E>(self, payload: S) -> Result<Response, Error>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.upload(payload, false).await.map(|(response, _)| response)
    }

    /// Like [`send_stream`](Self::send_stream), with a response as from [`stream`](Self::stream).
    ///
    /// # Errors
    /// As for [`send_stream`](Self::send_stream).
    pub async fn send_and_stream<S, E>(self, payload: S) -> Result<ResponseStream, Error>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.upload(payload, true).await.map(|(head, rest)| ResponseStream::new(head, rest))
    }

    async fn upload<S, E>(self, payload: S, streamed: bool) -> Result<(Response, Option<IncomingBody>), Error>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let size = self.body.value(OptionNumber::SIZE1).and_then(decode_uint);
        let (prepared, uri) = self.prepare(QueuePolicy::Wait)?;
        let mut upload = Upload::of(Source::new(payload), size, streamed).await?;
        let mut failure = None;
        for to in resolve_until(prepared.deadline, &uri).await? {
            match prepared.upload(no_group(to)?, &mut upload).await {
                Ok((response, rest)) => {
                    if let CacheUse::Change(change) = prepared.cache_use(to) {
                        change.answered(&response);
                    }
                    return Ok((response, rest));
                }
                Err(error) if error.is_worth_another_address() && upload.can_begin_anew() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::NoAddress { host: uri.host().to_string() }))
    }
}

impl PreparedRequest {
    pub(super) async fn stream(&self, to: SocketAddr) -> Result<ResponseStream, Error> {
        let mut stream = self.begin_stream(to, self.body.clone()).await?;
        for _ in 0..CHALLENGES {
            let Some(body) = challenged(&self.body, &stream.head)? else { break };
            stream = self.begin_stream(to, body).await?;
        }
        Ok(stream)
    }

    async fn begin_stream(&self, to: SocketAddr, body: Body) -> Result<ResponseStream, Error> {
        let request = self.request(body, None).streamed();
        let mut coming = self.open_stream(to, request).await?;
        let (head, more) = poll_fn(|context| coming.poll(context)).await?;
        Ok(ResponseStream::new(head, more.then_some(coming)))
    }

    async fn open_stream(&self, to: SocketAddr, request: Request) -> Result<IncomingBody, Error> {
        let (sender, events) = mpsc::unbounded_channel();
        let opening = |timeout| ExchangeKind::Streamed { request: Request { timeout, ..request }, events: sender };
        let target = self.target(to);
        let target = Target { may_carry_message_3: target.may_carry_message_3 && request.rest.is_none(), ..target };
        let open = self.client.begin(&target, opening).await?;
        Ok(IncomingBody { events, open })
    }

    /// Repeats a challenged request only while the server has received no more than the body's
    /// beginning.
    async fn upload(&self, to: SocketAddr, upload: &mut Upload) -> Result<(Response, Option<IncomingBody>), Error> {
        let mut answer = self.upload_once(to, &self.body, upload).await?;
        for _ in 0..CHALLENGES {
            let Some(body) = challenged(&self.body, &answer.0)?.filter(|_| upload.can_begin_anew()) else { break };
            answer = self.upload_once(to, &body, upload).await?;
        }
        Ok(answer)
    }

    async fn upload_once(
        &self,
        to: SocketAddr,
        body: &Body,
        upload: &mut Upload,
    ) -> Result<(Response, Option<IncomingBody>), Error> {
        upload.resent = 0;
        let Piece { bytes, last } = upload.beginning.clone();
        let whole = last && bytes.len() < BEGINNING;
        let body = body.to_builder().payload(bytes).build()?;
        if whole && !upload.streamed {
            return self.exchange(to, body).await.map(|response| (response, None));
        }
        let mut request = self.request(body, None);
        request.streamed = upload.streamed;
        if !whole {
            request = request.with_rest(RemainingBody { size: upload.size });
        }
        let mut coming = self.open_stream(to, request).await?;
        let mut wanted = None;
        loop {
            tokio::select! {
                biased;
                turn = poll_fn(|context| coming.poll_step(context)) => match turn? {
                    StreamStep::Part(response, more) => return Ok((response, more.then_some(coming))),
                    StreamStep::Wanted(bytes) => wanted = Some(bytes),
                },
                piece = upload.more(wanted.unwrap_or_default()), if wanted.is_some() => {
                    wanted = None;
                    coming.open.exchange.supply(piece?);
                }
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Upload {
    source: Source,
    beginning: Piece,
    size: Option<u32>,
    streamed: bool,
    /// The first pieces after the beginning. A server that challenges with Echo, or an unreachable
    /// address, has received no more.
    kept: Vec<Piece>,
    resent: usize,
    unrepeatable: bool,
}

const KEPT: usize = 3;

impl Upload {
    pub(super) async fn of(mut source: Source, size: Option<u32>, streamed: bool) -> Result<Self, Error> {
        let beginning = source.piece(BEGINNING).await.map_err(Error::Body)?;
        Ok(Self { source, beginning, size, streamed, kept: Vec::new(), resent: 0, unrepeatable: false })
    }

    pub(super) const fn can_begin_anew(&self) -> bool {
        !self.unrepeatable
    }

    async fn more(&mut self, wanted: usize) -> Result<Piece, Error> {
        if self.beginning.last {
            return Ok(Piece { bytes: Bytes::new(), last: true });
        }
        if let Some(piece) = self.kept.get(self.resent) {
            self.resent += 1;
            return Ok(piece.clone());
        }
        let piece = self.source.piece(wanted).await.map_err(Error::Body)?;
        if self.kept.len() < KEPT {
            self.kept.push(piece.clone());
            self.resent = self.kept.len();
        } else {
            self.unrepeatable = true;
        }
        Ok(piece)
    }
}
