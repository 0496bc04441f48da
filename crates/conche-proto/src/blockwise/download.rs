//! [`Download`]: a partially received block-wise response (RFC 7959 §2.4).

use crate::blockwise::cut::is_ours;
use crate::codec::{Block, Code, Joined, Message, OptionNumber};

#[derive(Debug)]
pub(crate) struct Download {
    code: Code,
    /// Length of the received payload in bytes.
    len: usize,
    /// `None` if the application receives each block separately.
    joined: Option<Joined>,
    /// Common to all blocks.
    marks: Marks,
}

/// Distinguishes the blocks of different bodies: ETag and Content-Format (RFC 7959 §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    etag: Option<([u8; 8], usize)>,
    format: Option<u32>,
}

impl Marks {
    pub(super) fn of(response: &Message<'_>) -> Self {
        let etag = response.option(OptionNumber::ETAG).map(|etag| {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(etag).for_each(|(byte, given)| *byte = *given);
            (bytes, etag.len())
        });
        Self { etag, format: response.uint(OptionNumber::CONTENT_FORMAT) }
    }
}

impl Download {
    /// Starts a download with its first block. With `told` the application receives each block
    /// separately, and nothing is reassembled.
    pub(crate) fn new(response: &Message<'_>, told: bool) -> Self {
        let joined = (!told).then(|| Joined::new(&response.content(), |number| !is_ours(number)));
        Self { code: response.code(), len: 0, joined, marks: Marks::of(response) }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Returns the length of the received payload in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the allocated memory in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.joined.as_ref().map_or(0, Joined::capacity)
    }

    /// Returns `true` if the response is a block of the same body: with the ETag and the
    /// Content-Format of the first block. With an ETag, a later block may omit the Content-Format,
    /// as node-coap does from the third block on.
    pub(crate) fn belongs(&self, response: &Message<'_>) -> bool {
        let marks = Marks::of(response);
        let omits_format = marks.etag.is_some() && marks.format.is_none();
        marks.etag == self.marks.etag && (omits_format || marks.format == self.marks.format)
    }

    pub(crate) fn follows(&self, block: Block) -> bool {
        block.offset() == self.len
    }

    /// Appends the payload of the next block; the body has at most `most` bytes.
    pub(crate) fn push(&mut self, payload: &[u8], most: usize) {
        self.len = self.len.saturating_add(payload.len());
        if let Some(joined) = &mut self.joined {
            joined.push(payload, most);
        }
    }

    pub(crate) fn into_joined(self) -> Option<Joined> {
        self.joined
    }
}
