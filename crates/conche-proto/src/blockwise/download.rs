//! [`Download`]: a response that comes in blocks (RFC 7959 §2.4), as far as it has come.

use crate::blockwise::cut::is_ours;
use crate::codec::{Block, Code, Joined, Message, OptionNumber};

/// A response that is not complete.
#[derive(Debug)]
pub(crate) struct Download {
    code: Code,
    /// Payload so far, in bytes.
    len: usize,
    /// `None` if each block was told on its own.
    joined: Option<Joined>,
    /// Of all blocks.
    marks: Marks,
}

/// What tells the blocks of one body from those of another: ETag and Content-Format (RFC 7959 §2.4).
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
    /// The first block arrived. With `told` each goes to the application on its own, and nothing is joined.
    pub(crate) fn new(response: &Message<'_>, told: bool) -> Self {
        let joined = (!told).then(|| Joined::new(&response.content(), |number| !is_ours(number)));
        Self { code: response.code(), len: 0, joined, marks: Marks::of(response) }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Payload so far, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes that it takes in memory.
    pub(crate) fn capacity(&self) -> usize {
        self.joined.as_ref().map_or(0, Joined::capacity)
    }

    /// Returns `true` if the response is a block of the same body: it has the ETag and the
    /// Content-Format of the first block. With an ETag, a later block may omit the Content-Format,
    /// as node-coap does from the third block on.
    pub(crate) fn belongs(&self, response: &Message<'_>) -> bool {
        let marks = Marks::of(response);
        let omits_format = marks.etag.is_some() && marks.format.is_none();
        marks.etag == self.marks.etag && (omits_format || marks.format == self.marks.format)
    }

    /// The block is the next one.
    pub(crate) fn follows(&self, block: Block) -> bool {
        block.offset() == self.len
    }

    /// The next block's payload; the body has `most` bytes at most.
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
