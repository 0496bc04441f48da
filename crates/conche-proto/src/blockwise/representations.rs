//! [`Representations`]: response bodies that exceed a message (RFC 7959 §2.4).
//!
//! All blocks come from the body of the first one. A request for a block of a missing body goes to
//! the application if the method is safe, and gets the block of the new response.
//!
//! A body is kept until its last block is sent or its client is silent for some time. A full table
//! refuses new responses: evicting bodies in use would let all downloads fail. To refuse requests
//! before their handlers run, the table remembers large responses to 256 requests; a repeated one
//! [reserves](Representations::reserve) a place on arrival.

use alloc::boxed::Box;
use core::time::Duration;

use conche_cc::Instant;

use super::contexts::{Bounds, Claim, Contexts, Full, Key, NewContext};
use super::transfer::{Missing, OutgoingBody};
use super::{cut, largest_fitting};
use crate::codec::{
    BLOCK_BYTES, Block, BlockSize, Body, Code, MARKER_BYTES, OptionNumber, Overhead, SIZE_BYTES, UintBytes, encode_uint,
};
use crate::shares::{Group, Shares};

#[derive(Clone, Debug)]
pub(crate) struct Representation {
    pub(crate) code: Code,
    head: Body,
    payload: OutgoingBody,
}

impl Representation {
    pub(crate) fn new(code: Code, body: &Body) -> Self {
        Self::with(code, body, OutgoingBody::whole(body.payload()))
    }

    pub(crate) fn beginning(code: Code, body: &Body, announced: Option<u32>) -> Self {
        Self::with(code, body, OutgoingBody::beginning(body.payload(), announced))
    }

    fn with(code: Code, body: &Body, payload: OutgoingBody) -> Self {
        // Size1 of a 4.13 is the application's limit for request bodies (RFC 7959 §4).
        let is_kept = |number: OptionNumber| number == OptionNumber::SIZE1 || !number.describes_blocks();
        Self { code, head: body.rewritten(is_kept, &[], b""), payload }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.payload.kept()
    }

    pub(crate) fn outgoing(&mut self) -> &mut OutgoingBody {
        &mut self.payload
    }

    /// Adds an ETag if missing, to distinguish blocks of different bodies (RFC 7959 §2.4).
    pub(crate) fn tag(&mut self, etag: impl FnOnce(&[u8]) -> [u8; 8]) {
        let tagged = self.head.content(self.code).is_some_and(|head| head.option(OptionNumber::ETAG).is_some());
        if !tagged {
            self.head = self.head.with_etag(&etag(self.payload.kept()));
        }
    }

    /// Returns the requested block, or the first one. `largest` is the maximum block size; without
    /// it, a body that fits is not split. `others` is the overhead, `limit` the maximum message
    /// size, `block1` the response's Block1 option.
    pub(crate) fn block(
        &self,
        requested: Option<Block>,
        block1: Option<Block>,
        largest: Option<BlockSize>,
        others: Overhead,
        limit: usize,
    ) -> Result<ExtractedBlock, BlockError> {
        let others = others.with(self.head.len() + block1.map_or(0, |_| BLOCK_BYTES) + MARKER_BYTES);
        if largest.is_none() && others.and(self.payload().len()) <= limit {
            let added = block1.map(|block1| (OptionNumber::BLOCK1, block1.encode()));
            let body = self.head.rewritten(|_| true, added.as_slice(), self.payload());
            return Ok(ExtractedBlock { body, block: None });
        }
        let largest = largest.unwrap_or_default();
        let wanted = requested.map_or(largest, |requested| requested.size.min(largest));
        let size = largest_fitting(wanted, others.with(BLOCK_BYTES + SIZE_BYTES), limit).ok_or(BlockError::NoRoom)?;
        let offset = requested.map_or(0, Block::offset);
        let (payload, block) = self.payload.block(offset, size)?;
        let mut added: smallvec::SmallVec<[(OptionNumber, UintBytes); 3]> = smallvec::SmallVec::new();
        added.extend(block1.map(|block1| (OptionNumber::BLOCK1, block1.encode())));
        let all = offset == 0 && !block.more;
        if requested.is_some() || !all {
            added.push((OptionNumber::BLOCK2, block.encode()));
        }
        let announced = self.payload.announced().filter(|_| offset == 0 && !all);
        added.extend(announced.map(|bytes| (OptionNumber::SIZE2, encode_uint(bytes))));
        Ok(ExtractedBlock { body: self.head.rewritten(|_| true, &added, &payload), block: (!all).then_some(block) })
    }

    pub(crate) fn version(&self) -> RepresentationVersion {
        let etag = self.head.option(OptionNumber::ETAG).unwrap_or_default();
        let mut version = RepresentationVersion { code: self.code, bytes: self.payload.kept().len(), etag: [0; 9] };
        version.etag.iter_mut().zip(etag).for_each(|(byte, given)| *byte = *given);
        version.etag[8] = u8::try_from(etag.len()).unwrap_or(u8::MAX);
        version
    }

    pub(crate) fn into_body(self) -> Body {
        self.head.rewritten(|_| true, &[], self.payload.kept())
    }

    /// Returns block `number` of a Q-Block body (RFC 9177 §4.4, §4.6); `None` if it does not exist
    /// or fit.
    pub(crate) fn block_of_burst(&self, number: u32, size: BlockSize, others: Overhead, limit: usize) -> Option<Body> {
        if self.size_in_bursts(size, others, limit)? < size {
            return None;
        }
        let payload = self.payload();
        let (range, block) = cut(payload.len(), number as usize * size.bytes(), size)?;
        let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let added = [(OptionNumber::Q_BLOCK2, block.encode()), (OptionNumber::SIZE2, encode_uint(bytes))];
        Some(self.head.rewritten(|_| true, &added, payload.get(range)?))
    }

    pub(crate) fn size_in_bursts(&self, wanted: BlockSize, others: Overhead, limit: usize) -> Option<BlockSize> {
        let added = BLOCK_BYTES + SIZE_BYTES + MARKER_BYTES;
        largest_fitting(wanted, others.with(self.head.len() + added), limit)
    }

    fn bytes(&self) -> usize {
        self.head.len() + self.payload.kept().len()
    }
}

/// Code, length, and ETag with its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RepresentationVersion {
    code: Code,
    bytes: usize,
    etag: [u8; 9],
}

#[derive(Debug)]
pub(crate) struct ExtractedBlock {
    pub(crate) body: Body,
    /// `None` if there are no other blocks.
    pub(crate) block: Option<Block>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockError {
    /// Not even the smallest block fits into a message.
    NoRoom,
    /// The block is missing.
    Missing(Missing),
}

impl From<Missing> for BlockError {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

const REMEMBERED: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct LargeResponse {
    /// Half of the hash of the request.
    tag: u32,
    /// 0 in an empty place.
    bytes: u32,
}

impl LargeResponse {
    fn place(identity: u64) -> (u32, usize) {
        let mixed = identity.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let [a, b, c, d, _, _, _, place] = mixed.rotate_left(8).to_be_bytes();
        (u32::from_be_bytes([a, b, c, d]), place.into())
    }
}

#[derive(Debug)]
pub(crate) struct Representations {
    contexts: Contexts<Representation>,
    large: Option<Box<[LargeResponse; REMEMBERED]>>,
}

impl Representations {
    pub(crate) const fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds), large: None }
    }

    pub(crate) fn contexts(&self) -> &Contexts<Representation> {
        &self.contexts
    }

    /// Returns the time of the next expiry.
    pub(crate) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    pub(crate) fn get(&mut self, now: Instant, key: Key) -> Option<&Representation> {
        self.contexts.use_of(now, key).map(|(_, representation)| &*representation)
    }

    pub(crate) fn idle(&mut self, now: Instant, key: Key) -> Option<Duration> {
        self.contexts.idle(now, key)
    }

    /// Reserves a place if the last response to this request was large; otherwise returns
    /// `Ok(false)`. The caller counts reserved places.
    pub(crate) fn reserve(&mut self, now: Instant, key: Key, group: Group, reserved: &Shares) -> Result<bool, Full> {
        let (tag, place) = LargeResponse::place(key.identity);
        let large = self.large.as_ref().and_then(|large| large.get(place)).filter(|large| large.tag == tag);
        match large.map_or(0, |large| large.bytes as usize) {
            bytes if bytes > 0 && self.contexts.can_hold(bytes) => {
                self.contexts.reserve(now, key, group, bytes, reserved).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Keeps a response for block-wise transfer. `Err(Full)` is temporary.
    pub(crate) fn keep(
        &mut self,
        now: Instant,
        key: Key,
        group: Group,
        representation: Representation,
        claim: Claim<'_>,
    ) -> Result<(), Full> {
        let bytes = representation.bytes();
        let (tag, place) = LargeResponse::place(key.identity);
        let large = self.large.get_or_insert_with(|| Box::new([LargeResponse::default(); REMEMBERED]));
        if let Some(large) = large.get_mut(place) {
            *large = LargeResponse { tag, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) };
        }
        let kept = self.contexts.insert(now, NewContext { key, group, value: representation, bytes }, claim);
        if self.contexts.can_hold(bytes) { kept } else { Ok(()) }
    }

    /// Frees the place once needed: the last block was sent.
    pub(crate) fn finish(&mut self, key: Key) {
        self.contexts.finish(key);
    }

    pub(crate) fn forget(&mut self, key: Key) {
        self.contexts.remove(key);
        let (tag, place) = LargeResponse::place(key.identity);
        if let Some(large) = self.large.as_mut().and_then(|large| large.get_mut(place)).filter(|large| large.tag == tag)
        {
            *large = LargeResponse::default();
        }
    }
}
