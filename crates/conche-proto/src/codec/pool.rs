//! [`MessagePool`]: memory for received messages, several of them per allocation.

use bytes::{Bytes, BytesMut};

/// The memory of [`OwnedMessage::pooled`](super::OwnedMessage::pooled): datagrams are placed one
/// after the other in chunks of [`CHUNK`](Self::CHUNK) bytes. A full chunk is reused if all its
/// messages have been dropped; otherwise the next chunk is allocated, and the full one is freed
/// with its last message. An endpoint whose messages are handled soon therefore does not allocate.
///
/// A message or a slice of its payload keeps its whole chunk in memory. Each kept message thus
/// holds at most `CHUNK` bytes; larger messages have their own allocation. To keep a small message
/// for long, for instance in a cache, copy it: `OwnedMessage::from(message.view())`.
#[derive(Debug, Default)]
pub struct MessagePool {
    /// Empty; its capacity is the rest of the chunk.
    chunk: BytesMut,
}

impl MessagePool {
    /// Chunk size in bytes: three messages of the maximum size that RFC 7252 §4.6 recommends, or
    /// about eighty sensor readings.
    pub const CHUNK: usize = 4096;

    /// Creates a pool without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies the bytes into a chunk.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Bytes {
        self.join([bytes])
    }

    /// Copies all parts, one after the other, into a chunk.
    #[inline]
    pub(super) fn join<const N: usize>(&mut self, parts: [&[u8]; N]) -> Bytes {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > Self::CHUNK {
            return parts.concat().into();
        }
        if length > self.chunk.capacity() {
            // Reserving a whole chunk, not just the missing bytes, lets `reserve` reuse the old
            // chunk if it is free.
            self.chunk.reserve(Self::CHUNK);
        }
        parts.iter().for_each(|part| self.chunk.extend_from_slice(part));
        self.chunk.split().freeze()
    }
}
