//! [`Representations`]: bodies of responses that did not fit into one message, of which a client asks for block after
//! block (RFC 7959 §2.4).
//!
//! The table keeps the body that the first block was cut from, so all blocks are of one state of
//! the resource even if the resource changes meanwhile. A request for a block of a body that is not
//! in the table goes to the application again, if the method is safe, and the block is cut from the
//! new response.
//!
//! A body stays until its last block has left or its client has been silent for a while. When the
//! table is full, a new response is refused and no old one is dropped: otherwise the downloads of
//! all clients would fail as soon as there are more clients than places. To refuse before the
//! handler runs, the table remembers the size of the last response to each of 256 requests. A
//! request whose last response was large [reserves](Representations::reserve) a place on arrival.

use alloc::boxed::Box;
use core::time::Duration;

use super::contexts::{Bounds, Claim, Contexts, Full, Key};
use super::cut::{cut, is_ours, largest_fitting};
use super::outflow::{Missing, Outflow};
use crate::codec::{
    BLOCK_BYTES, Block, BlockSize, Body, Code, MARKER_BYTES, OptionNumber, Overhead, SIZE_BYTES, UintBytes, encode_uint,
};
use crate::shares::{Group, Shares};
use conche_cc::Instant;

/// A response with a body of any size.
#[derive(Clone, Debug)]
pub(crate) struct Representation {
    pub(crate) code: Code,
    /// Its options, without those that say which block it is.
    head: Body,
    payload: Outflow,
}

impl Representation {
    /// Of what the application answered.
    pub(crate) fn new(code: Code, body: &Body) -> Self {
        Self::with(code, body, Outflow::whole(body.payload()))
    }

    /// Of which there is no more than the beginning yet.
    pub(crate) fn beginning(code: Code, body: &Body, announced: Option<u32>) -> Self {
        Self::with(code, body, Outflow::beginning(body.payload(), announced))
    }

    fn with(code: Code, body: &Body, payload: Outflow) -> Self {
        // By Size1 a 4.13 says how large the request's body may be (RFC 7959 §4), which is for the application to say.
        let is_kept = |number| number == OptionNumber::SIZE1 || !is_ours(number);
        Self { code, head: body.rewritten(is_kept, &[], b""), payload }
    }

    /// What is kept of its body, which is all of it unless the rest is supplied.
    pub(crate) fn payload(&self) -> &[u8] {
        self.payload.kept()
    }

    pub(crate) fn outflow(&mut self) -> &mut Outflow {
        &mut self.payload
    }

    /// Adds this ETag, if the application gave none: by it a client tells blocks of different bodies apart (RFC 7959 §2.4).
    pub(crate) fn tag(&mut self, etag: impl FnOnce(&[u8]) -> [u8; 8]) {
        let tagged = self.head.content(self.code).is_some_and(|head| head.option(OptionNumber::ETAG).is_some());
        if !tagged {
            self.head = self.head.with_etag(&etag(self.payload.kept()));
        }
    }

    /// The block that was asked for; the first one if none was. `largest` is the largest size of
    /// blocks, of which the peer may want smaller ones; without it the whole body goes into one
    /// message if it fits. `others` is the overhead of the message, `limit` the largest message,
    /// `block1` what the response says of the request's blocks.
    pub(crate) fn block(
        &self,
        asked: Option<Block>,
        block1: Option<Block>,
        largest: Option<BlockSize>,
        others: Overhead,
        limit: usize,
    ) -> Result<Cut, NoBlock> {
        let others = others.with(self.head.len() + block1.map_or(0, |_| BLOCK_BYTES) + MARKER_BYTES);
        if largest.is_none() && others.and(self.payload().len()) <= limit {
            let added = block1.map(|block1| (OptionNumber::BLOCK1, block1.encode()));
            let body = self.head.rewritten(|_| true, added.as_slice(), self.payload());
            return Ok(Cut { body, block: None });
        }
        let largest = largest.unwrap_or_default();
        let wanted = asked.map_or(largest, |asked| asked.size.min(largest));
        let size = largest_fitting(wanted, others.with(BLOCK_BYTES + SIZE_BYTES), limit).ok_or(NoBlock::NoRoom)?;
        let offset = asked.map_or(0, Block::offset);
        let (payload, block) = self.payload.block(offset, size)?;
        let mut added: smallvec::SmallVec<[(OptionNumber, UintBytes); 3]> = smallvec::SmallVec::new();
        added.extend(block1.map(|block1| (OptionNumber::BLOCK1, block1.encode())));
        let all = offset == 0 && !block.more;
        if asked.is_some() || !all {
            added.push((OptionNumber::BLOCK2, block.encode()));
        }
        let announced = self.payload.announced().filter(|_| offset == 0 && !all);
        added.extend(announced.map(|bytes| (OptionNumber::SIZE2, encode_uint(bytes))));
        Ok(Cut { body: self.head.rewritten(|_| true, &added, &payload), block: (!all).then_some(block) })
    }

    /// What tells it from other responses to the same request.
    pub(crate) fn mark(&self) -> Mark {
        let etag = self.head.option(OptionNumber::ETAG).unwrap_or_default();
        let mut mark = Mark { code: self.code, bytes: self.payload.kept().len(), etag: [0; 9] };
        mark.etag.iter_mut().zip(etag).for_each(|(byte, given)| *byte = *given);
        mark.etag[8] = u8::try_from(etag.len()).unwrap_or(u8::MAX);
        mark
    }

    /// All of it as one body.
    pub(crate) fn into_body(self) -> Body {
        self.head.rewritten(|_| true, &[], self.payload.kept())
    }

    /// Block `number` of a body that goes in sets (RFC 9177 §4.4): each says how large the body is (§4.6). `None` if there is no
    /// such block, or if blocks of this size do not fit beside so many other bytes.
    pub(crate) fn block_of_set(&self, number: u32, size: BlockSize, others: Overhead, limit: usize) -> Option<Body> {
        if self.size_in_sets(size, others, limit)? < size {
            return None;
        }
        let payload = self.payload();
        let (range, block) = cut(payload.len(), number as usize * size.bytes(), size)?;
        let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let added = [(OptionNumber::Q_BLOCK2, block.encode()), (OptionNumber::SIZE2, encode_uint(bytes))];
        Some(self.head.rewritten(|_| true, &added, payload.get(range)?))
    }

    /// The largest size of blocks that fit, of those that are wanted.
    pub(crate) fn size_in_sets(&self, wanted: BlockSize, others: Overhead, limit: usize) -> Option<BlockSize> {
        let added = BLOCK_BYTES + SIZE_BYTES + MARKER_BYTES;
        largest_fitting(wanted, others.with(self.head.len() + added), limit)
    }

    fn bytes(&self) -> usize {
        self.head.len() + self.payload.kept().len()
    }
}

/// Of a response: code, length, and ETag with its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    code: Code,
    bytes: usize,
    etag: [u8; 9],
}

/// A block of a response.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) body: Body,
    /// Which block it is, if there are others.
    pub(crate) block: Option<Block>,
}

/// Why there is no such block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBlock {
    /// Not even the smallest block fits into a message.
    NoRoom,
    /// It is not there.
    Missing(Missing),
}

impl From<Missing> for NoBlock {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

/// The number of requests for which the table remembers that their last response was large.
const REMEMBERED: usize = 256;

/// A request that was answered with a large body.
#[derive(Clone, Copy, Debug, Default)]
struct Large {
    /// Half of the hash of the request.
    tag: u32,
    /// The bytes of its response, 0 in an empty place.
    bytes: u32,
}

impl Large {
    /// The tag of a request and its place in the table.
    fn place(what: u64) -> (u32, usize) {
        let mixed = what.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let [a, b, c, d, _, _, _, place] = mixed.rotate_left(8).to_be_bytes();
        (u32::from_be_bytes([a, b, c, d]), place.into())
    }
}

/// Response bodies of which blocks may be asked for.
#[derive(Debug)]
pub(crate) struct Representations {
    contexts: Contexts<Representation>,
    /// Made for the first response with a large body.
    large: Option<Box<[Large; REMEMBERED]>>,
}

impl Representations {
    pub(crate) const fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds), large: None }
    }

    pub(crate) fn contexts(&self) -> &Contexts<Representation> {
        &self.contexts
    }

    /// Drops what is over; when something is next.
    pub(crate) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    /// What the response to this request was, if it is kept.
    pub(crate) fn get(&mut self, now: Instant, key: Key) -> Option<&Representation> {
        self.contexts.use_of(now, key).map(|(_, representation)| &*representation)
    }

    /// How long ago the response to this request was last asked for.
    pub(crate) fn idle(&mut self, now: Instant, key: Key) -> Option<Duration> {
        self.contexts.idle(now, key)
    }

    /// Reserves a place for the response to a request, if the last one was large. `Ok(false)`: it
    /// was not large, or is not remembered. The caller counts the reserved places, by source.
    pub(crate) fn reserve(&mut self, now: Instant, key: Key, group: Group, reserved: &Shares) -> Result<bool, Full> {
        let (tag, place) = Large::place(key.what);
        let large = self.large.as_ref().and_then(|large| large.get(place)).filter(|large| large.tag == tag);
        match large.map_or(0, |large| large.bytes as usize) {
            bytes if bytes > 0 && self.contexts.can_hold(bytes) => {
                self.contexts.reserve(now, key, group, bytes, reserved).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Keeps a response that leaves in blocks. `Err(Full)`: the table is full, and would have room
    /// with fewer others.
    pub(crate) fn keep(
        &mut self,
        now: Instant,
        key: Key,
        group: Group,
        representation: Representation,
        claim: Claim<'_>,
    ) -> Result<(), Full> {
        let bytes = representation.bytes();
        let (tag, place) = Large::place(key.what);
        let large = self.large.get_or_insert_with(|| Box::new([Large::default(); REMEMBERED]));
        if let Some(large) = large.get_mut(place) {
            *large = Large { tag, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) };
        }
        let kept = self.contexts.insert(now, key, group, (representation, bytes), claim);
        if self.contexts.can_hold(bytes) { kept } else { Ok(()) }
    }

    /// The last block of a response has left: its place is free for another one.
    pub(crate) fn finish(&mut self, key: Key) {
        self.contexts.finish(key);
    }

    /// The response to this request is another one now, which goes whole.
    pub(crate) fn forget(&mut self, key: Key) {
        self.contexts.remove(key);
        let (tag, place) = Large::place(key.what);
        if let Some(large) = self.large.as_mut().and_then(|large| large.get_mut(place)).filter(|large| large.tag == tag)
        {
            *large = Large::default();
        }
    }
}
