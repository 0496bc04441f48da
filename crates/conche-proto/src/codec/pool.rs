//! [`MessagePool`]: memory for received messages, many of them in one allocation.

use bytes::{Bytes, BytesMut};

/// Where [`OwnedMessage::pooled`](super::OwnedMessage::pooled) puts its datagrams: one behind the other into a chunk of
/// [`CHUNK`](Self::CHUNK) bytes. A full chunk is filled again from its start if all its messages are gone by then, so
/// that an endpoint whose messages are handled soon allocates nothing for them; else the next chunk is allocated and the
/// full one is freed with its last message.
///
/// A message pins its whole chunk, as does a slice of its payload. Kept messages, however many peers sent them, thus
/// hold at most `CHUNK` bytes each, or their own size where that is more: those are allocated apart. Who keeps a small
/// message for long, in a cache for instance, gives it memory of its own: `OwnedMessage::from(message.view())`.
#[derive(Debug, Default)]
pub struct MessagePool {
    /// Empty, with what is left of the chunk as capacity.
    chunk: BytesMut,
}

impl MessagePool {
    /// The size of a chunk, in bytes: three messages of the largest size that RFC 7252 §4.6 recommends, or some eighty
    /// of those that sensors send.
    pub const CHUNK: usize = 4096;

    /// A pool that has allocated nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes, in a chunk.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Bytes {
        self.join([bytes])
    }

    /// The bytes of all parts, one behind the other in a chunk.
    #[inline]
    pub(super) fn join<const N: usize>(&mut self, parts: [&[u8]; N]) -> Bytes {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > Self::CHUNK {
            return parts.concat().into();
        }
        if length > self.chunk.capacity() {
            // Asking for a whole chunk, not for what is missing, makes `reserve` start the old one again if it is free.
            self.chunk.reserve(Self::CHUNK);
        }
        parts.iter().for_each(|part| self.chunk.extend_from_slice(part));
        self.chunk.split().freeze()
    }
}
