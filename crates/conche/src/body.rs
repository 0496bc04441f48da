//! Streamed bodies (RFC 7959), for bodies that exceed memory or have no known end.
//!
//! - Send a request's body:
//!   [`RequestBuilder::send_stream`](crate::client::RequestBuilder::send_stream).
//! - Receive a response's body: [`RequestBuilder::stream`](crate::client::RequestBuilder::stream).
//! - Receive a request's body: [`BodyStream`](crate::server::BodyStream), a handler argument.
//! - Send a response's body: [`Response::stream`](crate::server::Response::stream).
//!
//! Senders supply a [`Stream`] of [`Bytes`], such as [`from_reader`]'s. At most two blocks are read
//! ahead. Receivers get one block at a time; taking it requests or acknowledges the next.
//!
//! RFC 7959 allows one outstanding block, so at most one block per RTT. Q-Block (RFC 9177) is
//! faster, but does not support streams.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use tokio::io::{AsyncRead, ReadBuf};

/// Error of a body's source.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Two of the largest blocks.
const PIECE: usize = 2048;

/// Returns a reader's bytes, such as those of a file or a pipe, as a stream.
pub fn from_reader<R: AsyncRead>(reader: R) -> ReaderStream<R> {
    ReaderStream { reader: Box::pin(reader), buffer: Vec::new() }
}

/// A reader's bytes as a stream; see [`from_reader`].
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

#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) last: bool,
}

pub(crate) struct Source {
    chunks: Box<dyn Chunks>,
    gathered: BytesMut,
    over: bool,
}

#[derive(Debug)]
pub(crate) struct SizedSource {
    pub(crate) source: Source,
    pub(crate) size: Option<u32>,
}

impl Source {
    pub(crate) fn new<S, E>(stream: S) -> Self
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self { chunks: Box::new(Of(Box::pin(stream))), gathered: BytesMut::new(), over: false }
    }

    /// Returns at least `least` bytes, or the last ones. Cancel safe.
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
