//! [`Outflow`]: an outgoing body, complete or supplied in parts.

use alloc::vec::Vec;

use bytes::Bytes;

use super::cut::cut;
use crate::codec::{Block, BlockSize};

/// The available part of a body, from the last sent block on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outflow {
    kept: Bytes,
    /// Offset of the kept part in the body.
    start: usize,
    /// The body ends with the kept part.
    complete: bool,
    /// Size of the whole body, if known.
    announced: Option<u32>,
    /// The application was asked for more, and has not supplied it yet.
    told: bool,
}

/// AbandonReason a block is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The offset is beyond the body, or the block number is too large.
    BeyondTheEnd,
    /// The block was sent before and is no longer kept.
    Gone,
    /// The application must supply this many more bytes, or the end of the body.
    Later(usize),
}

impl Outflow {
    /// Creates a complete body.
    pub(crate) fn whole(payload: Bytes) -> Self {
        let announced = Some(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        Self { kept: payload, start: 0, complete: true, announced, told: false }
    }

    /// Creates a body from its start; the rest is [supplied](Self::supply) later.
    pub(crate) fn beginning(payload: Bytes, announced: Option<u32>) -> Self {
        Self { kept: payload, start: 0, complete: false, announced, told: false }
    }

    pub(crate) fn kept(&self) -> &Bytes {
        &self.kept
    }

    pub(crate) const fn is_whole(&self) -> bool {
        self.complete && self.start == 0
    }

    pub(crate) const fn announced(&self) -> Option<u32> {
        self.announced
    }

    /// Returns the block at `offset`. Whether more blocks follow is known only from the next byte
    /// or the end.
    pub(crate) fn block(&self, offset: usize, size: BlockSize) -> Result<(Bytes, Block), Missing> {
        let before = offset.checked_sub(self.start).ok_or(Missing::Gone)?;
        let there = self.kept.len().saturating_sub(before);
        if !self.complete && there <= size.bytes() {
            return Err(Missing::Later(size.bytes() + 1 - there + before.saturating_sub(self.kept.len())));
        }
        let (range, block) =
            cut(self.start.saturating_add(self.kept.len()), offset, size).ok_or(Missing::BeyondTheEnd)?;
        Ok((self.kept.slice(range.start - self.start..range.end - self.start), block))
    }

    /// Drops bytes before `offset`, which have been delivered.
    pub(crate) fn forget_before(&mut self, offset: usize) {
        let gone = offset.saturating_sub(self.start).min(self.kept.len());
        self.kept = self.kept.slice(gone..);
        self.start += gone;
    }

    /// Appends a part of the body; `last` marks its end. Returns `false` if the body was complete.
    pub(crate) fn supply(&mut self, more: Bytes, last: bool) -> bool {
        if self.complete {
            return false;
        }
        if self.kept.is_empty() {
            self.kept = more;
        } else if !more.is_empty() {
            let mut joined = Vec::with_capacity(self.kept.len() + more.len());
            joined.extend_from_slice(&self.kept);
            joined.extend_from_slice(&more);
            self.kept = joined.into();
        }
        self.complete = last;
        self.told = false;
        true
    }

    /// Returns the number of bytes needed for the block at `offset`, once until more is supplied.
    pub(crate) fn wants(&mut self, offset: usize, size: BlockSize) -> Option<usize> {
        match self.block(offset, size) {
            Err(Missing::Later(bytes)) if !self.told => {
                self.told = true;
                Some(bytes)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: BlockSize = BlockSize::B16;

    fn block(flow: &Outflow, offset: usize) -> Result<(Vec<u8>, alloc::string::String), Missing> {
        flow.block(offset, SIZE).map(|(bytes, block)| (bytes.to_vec(), alloc::format!("{block}")))
    }

    #[test]
    fn a_block_can_leave_when_the_first_byte_after_it_is_there_or_the_end() {
        let mut flow = Outflow::beginning(Bytes::from(alloc::vec![1; 15]), None);
        assert_eq!((block(&flow, 0), flow.wants(0, SIZE)), (Err(Missing::Later(2)), Some(2)));
        assert_eq!(flow.wants(0, SIZE), None, "it is told once");
        assert!(flow.supply(Bytes::from_static(&[1]), false));
        assert_eq!((block(&flow, 0), flow.wants(0, SIZE)), (Err(Missing::Later(1)), Some(1)));
        assert!(flow.supply(Bytes::from_static(&[2]), false));
        assert_eq!(block(&flow, 0), Ok((alloc::vec![1; 16], "0/1/16".into())));
        assert_eq!(block(&flow, 16), Err(Missing::Later(16)));
        assert!(flow.supply(Bytes::new(), true) && !flow.supply(Bytes::new(), true));
        assert_eq!(block(&flow, 16), Ok((alloc::vec![2], "1/0/16".into())));
        assert_eq!(block(&flow, 32), Err(Missing::BeyondTheEnd));
    }

    #[test]
    fn what_has_arrived_is_gone_and_what_left_last_is_not() {
        let mut flow = Outflow::beginning(Bytes::from(alloc::vec![7; 40]), None);
        flow.forget_before(16);
        assert_eq!((block(&flow, 0), flow.kept().len()), (Err(Missing::Gone), 24));
        assert_eq!(block(&flow, 16), Ok((alloc::vec![7; 16], "1/1/16".into())));
        flow.supply(Bytes::new(), true);
        assert_eq!(block(&flow, 32), Ok((alloc::vec![7; 8], "2/0/16".into())));
        assert!(!flow.is_whole());
    }

    #[test]
    fn an_empty_body_has_one_empty_block() {
        let flow = Outflow::whole(Bytes::new());
        assert_eq!(block(&flow, 0), Ok((Vec::new(), "0/0/16".into())));
    }
}
