//! Bodies that go block by block while they are made or used (RFC 7959), for those that do not fit into memory or have no
//! end yet.
//!
//! | to | there is |
//! |---|---|
//! | send a request's body | [`RequestBuilder::send_stream`](crate::client::RequestBuilder::send_stream) |
//! | receive a response's body | [`RequestBuilder::stream`](crate::client::RequestBuilder::stream) |
//! | receive a request's body | [`BodyStream`](crate::server::BodyStream), an argument of handlers |
//! | send a response's body | [`Response::stream`](crate::server::Response::stream) |
//!
//! What is sent is a [`Stream`] of [`Bytes`]: one of `tokio-stream`'s or `futures`' for example, or what
//! [`from_reader`] makes of a file. No more of it is asked for than the next two blocks take, so that whoever makes it is
//! as fast as the path and the other end are. What is received comes block by block, and the next one is asked for, or
//! acknowledged, when the last has been taken.
//!
//! Each block is a message that passes congestion control like any other. By RFC 7959 one block is under way at a time, so
//! that the rate is a block in a round-trip time at most; bodies in sets (RFC 9177), which are faster, are whole ones only.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use tokio::io::{AsyncRead, ReadBuf};

/// What a body's source fails with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What is read at once: two of the largest blocks.
const PIECE: usize = 2048;

/// The bytes of a reader, such as a file or a pipe, as a stream.
pub fn from_reader<R: AsyncRead>(reader: R) -> ReaderStream<R> {
    ReaderStream { reader: Box::pin(reader), buffer: Vec::new() }
}

/// The bytes of a reader; made by [`from_reader`].
pub struct ReaderStream<R> {
    reader: Pin<Box<R>>,
    buffer: Vec<u8>,
}

impl<R: AsyncRead> Stream for ReaderStream<R> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { reader, buffer } = &mut *self;
        buffer.resize(PIECE, 0);
        let mut read = ReadBuf::new(buffer);
        Poll::Ready(match ready!(reader.as_mut().poll_read(context, &mut read)) {
            Ok(()) if read.filled().is_empty() => None,
            Ok(()) => Some(Ok(Bytes::copy_from_slice(read.filled()))),
            Err(error) => Some(Err(error)),
        })
    }
}

impl<R> fmt::Debug for ReaderStream<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderStream").finish_non_exhaustive()
    }
}

/// A stream of bytes, whatever its errors are.
trait Chunks: Send {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>>;
}

struct Of<S>(Pin<Box<S>>);

impl<S, E> Chunks for Of<S>
where
    S: Stream<Item = Result<Bytes, E>> + Send,
    E: Into<BoxError>,
{
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        self.0.as_mut().poll_next(context).map(|chunk| chunk.map(|chunk| chunk.map_err(Into::into)))
    }
}

/// Some bytes of a body.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// The body ends with them.
    pub(crate) last: bool,
}

/// Where a body comes from.
pub(crate) struct Source {
    chunks: Box<dyn Chunks>,
    gathered: BytesMut,
    over: bool,
}

impl Source {
    pub(crate) fn new<S, E>(stream: S) -> Self
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self { chunks: Box::new(Of(Box::pin(stream))), gathered: BytesMut::new(), over: false }
    }

    /// So many bytes at least, or the last of them. Dropping the future loses nothing.
    pub(crate) async fn piece(&mut self, least: usize) -> Result<Piece, BoxError> {
        poll_fn(|context| self.poll_piece(context, least)).await
    }

    fn poll_piece(&mut self, context: &mut Context<'_>, least: usize) -> Poll<Result<Piece, BoxError>> {
        while !self.over && self.gathered.len() < least {
            match ready!(self.chunks.poll_chunk(context)) {
                Some(Ok(chunk)) if self.gathered.is_empty() && chunk.len() >= least => {
                    return Poll::Ready(Ok(Piece { bytes: chunk, last: false }));
                }
                Some(Ok(chunk)) => self.gathered.extend_from_slice(&chunk),
                Some(Err(error)) => {
                    self.over = true;
                    return Poll::Ready(Err(error));
                }
                None => self.over = true,
            }
        }
        Poll::Ready(Ok(Piece { bytes: self.gathered.split().freeze(), last: self.over }))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("over", &self.over).finish_non_exhaustive()
    }
}
