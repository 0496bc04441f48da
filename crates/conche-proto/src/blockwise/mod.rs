//! Block-wise transfer (RFC 7959): splits bodies into blocks, and reassembles them.
//!
//! ```text
//!  client, Block1:  body ─> Transfer ─block─> … ─2.31─> Transfer ─last block─> … ─> response
//!  client, Block2:  … ─first block─> Transfer ─requests the next─> … ─last block─> joined response
//!  server, Block1:  … ─block─> Assemblies ─2.31─> … ─last block─> joined request ─> application
//!  server, Block2:  application ─> Representations ─first block─> …, and each requested block
//! ```
//!
//! A client's transfer is one exchange. A server stores [`Assemblies`] and [`Representations`] (RFC
//! 7959 §2.5, §2.6) within [`Limits`](crate::Limits). With streamed bodies, an `OutgoingBody`
//! pauses between blocks.
//!
//! If both ends support Q-Block (RFC 9177), Non-confirmable [bursts](crate::q_block) carry the
//! blocks.

mod assembly;
mod contexts;
mod representations;
mod transfer;

pub(crate) use assembly::{Assemblies, BlockResult, RequestBlock};
pub(crate) use contexts::{Bounds, Claim, ContextIndex, Contexts, Full, Key, NewContext};
pub(crate) use representations::{BlockError, ExtractedBlock, Representation, RepresentationVersion, Representations};
pub(crate) use transfer::{BodyIdentity, FETCHED_AGAIN, Missing, Rules, Step, Transfer, TransferError};

use core::num::NonZeroU32;
use core::ops::Range;

use crate::codec::{Block, BlockSize, Code, Message, OptionNumber, Overhead, decode_uint, encode_uint};

/// The part of a FETCH hash that depends on the payload.
const PAYLOAD: u64 = u32::MAX as u64;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockOptions {
    /// Equal for all blocks of a body.
    pub(crate) identity: u64,
    block1: Packed,
    block2: Packed,
}

impl BlockOptions {
    /// Adds the hash of a FETCH's payload, a part of its identity (RFC 8132 §2.1); requests for
    /// further blocks may omit it. Ignores a payload that arrives in blocks.
    pub(crate) fn fetches(&mut self, payload: Option<u64>) {
        let payload = payload.filter(|_| self.block1.0.is_none()).map_or(0, |payload| payload >> 32 | 1);
        self.identity = self.identity & !PAYLOAD | payload;
    }

    pub(crate) fn set(&mut self, number: OptionNumber, block: Block) {
        let request = matches!(number, OptionNumber::BLOCK1 | OptionNumber::Q_BLOCK1);
        let in_bursts = matches!(number, OptionNumber::Q_BLOCK1 | OptionNumber::Q_BLOCK2);
        let of = if request { &mut self.block1 } else { &mut self.block2 };
        *of = Packed::of(block, in_bursts);
    }

    /// Returns `true` if this option would mix RFC 7959 and RFC 9177.
    pub(crate) fn would_mix(&self, number: OptionNumber) -> bool {
        let in_bursts = matches!(number, OptionNumber::Q_BLOCK1 | OptionNumber::Q_BLOCK2);
        let before = [self.block1, self.block2];
        before.into_iter().any(|block| block.0.is_some() && block.is_in_bursts() != in_bursts)
    }

    pub(crate) fn is_in_bursts(&self) -> bool {
        self.block1.is_in_bursts() || self.block2.is_in_bursts()
    }

    pub(crate) fn q_block1(&self) -> Option<Block> {
        if self.block1.is_in_bursts() { self.block1.get() } else { None }
    }

    #[inline]
    pub(crate) fn q_block2(&self) -> Option<Block> {
        if self.block2.is_in_bursts() { self.block2.get() } else { None }
    }

    /// Returns how to send a response in bursts: by Q-Block2, or whole after Q-Block1, since its
    /// sender supports both (RFC 9177 §4.1).
    pub(crate) fn response_in_bursts(&self) -> Option<Block> {
        self.q_block2().or_else(|| self.q_block1().map(|block| Block { num: 0, more: true, ..block }))
    }

    pub(crate) fn block1(&self) -> Option<Block> {
        self.block1.get().filter(|_| !self.block1.is_in_bursts())
    }

    /// The response refers to the whole request.
    pub(crate) fn forget_block1(&mut self) {
        self.block1 = Packed(None);
    }

    pub(crate) fn block2(&self) -> Option<Block> {
        self.block2.get().filter(|_| !self.block2.is_in_bursts())
    }

    /// Returns the block options for notifications, from the first block on.
    pub(crate) fn for_states(self) -> Self {
        let in_bursts = self.response_in_bursts().map(|block| Packed::of(Block { num: 0, ..block }, true));
        let deliver_per_block = || self.block2().map(|block| Packed::of(Block { num: 0, more: false, ..block }, false));
        let block2 = in_bursts.or_else(deliver_per_block);
        Self { block1: Packed(None), block2: block2.unwrap_or_default(), ..self }
    }

    pub(crate) const fn is_plain(&self) -> bool {
        self.block1.0.is_none() && self.block2.0.is_none()
    }
}

/// 24 bits and a flag for RFC 9177, inverted: zero is a missing option.
#[derive(Clone, Copy, Debug, Default)]
struct Packed(Option<NonZeroU32>);

impl Packed {
    const IN_BURSTS: u32 = 1 << 24;

    fn of(block: Block, in_bursts: bool) -> Self {
        let flag = if in_bursts { Self::IN_BURSTS } else { 0 };
        Self(decode_uint(block.encode().as_slice()).and_then(|value| NonZeroU32::new(!(value | flag))))
    }

    #[inline]
    fn get(self) -> Option<Block> {
        Block::decode(encode_uint(!self.0?.get() & (Self::IN_BURSTS - 1)).as_slice()).ok()
    }

    #[inline]
    fn is_in_bursts(self) -> bool {
        self.0.is_some_and(|value| !value.get() & Self::IN_BURSTS != 0)
    }
}

/// Returns `true` if the response starts a transfer for an ordinary request.
#[inline]
pub(crate) fn begins_transfer(response: &Message<'_>) -> bool {
    // An invalid value, found later, must not pass for a whole body.
    let has = |number| response.options().any(|option| option.number == number);
    match response.code() {
        Code::REQUEST_ENTITY_TOO_LARGE => has(OptionNumber::BLOCK1),
        // A body of a single block is whole.
        _ => response
            .options()
            .find(|option| option.number == OptionNumber::BLOCK2)
            .is_some_and(|option| Block::decode(option.value).map_or(true, |block| block.num > 0 || block.more)),
    }
}

/// Returns the block at `offset`; `None` beyond the end. An empty body has one empty block.
pub(crate) fn cut(body_bytes: usize, offset: usize, size: BlockSize) -> Option<(Range<usize>, Block)> {
    if offset > 0 && offset >= body_bytes {
        return None;
    }
    let end = offset.saturating_add(size.bytes()).min(body_bytes);
    Some((offset..end, Block::at(offset, end < body_bytes, size)?))
}

/// Returns the largest block size up to `wanted` for messages of `limit` bytes.
pub(crate) fn largest_fitting(wanted: BlockSize, overhead: Overhead, limit: usize) -> Option<BlockSize> {
    BlockSize::fitting(overhead.room(limit)?).map(|size| size.min(wanted))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_blocks_of_a_body_follow_one_another_and_are_the_body(bytes in 0..5_000_usize, szx in 0..7_u8) {
            let size = BlockSize::of_szx(szx).expect("not reserved");
            let mut offset = 0;
            loop {
                let (range, block) = cut(bytes, offset, size).expect("inside of the body");
                prop_assert_eq!((range.start, block.offset()), (offset, offset));
                offset = range.end;
                if !block.more {
                    break;
                }
                prop_assert_eq!(range.len(), size.bytes());
            }
            prop_assert_eq!(offset, bytes);
            prop_assert!(cut(bytes, bytes.max(1).next_multiple_of(size.bytes()), size).is_none());
        }
    }

    #[test]
    fn blocks_are_as_large_as_messages_allow() {
        let fitting = |wanted, others, limit| {
            largest_fitting(wanted, Overhead::of_token_length(0).with(others), limit).map(BlockSize::bytes)
        };
        assert_eq!(fitting(BlockSize::B1024, 96, 1152), Some(1024));
        assert_eq!(fitting(BlockSize::B1024, 125, 1152), Some(512));
        assert_eq!(fitting(BlockSize::B64, 0, 1152), Some(64));
        assert_eq!([45, 61].map(|others| fitting(BlockSize::B1024, others, 64)), [None, None]);
    }
}
