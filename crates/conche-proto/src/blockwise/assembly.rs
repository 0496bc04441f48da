//! [`Assemblies`]: incomplete request bodies (RFC 7959 §2.5). An unexpected block gets 4.08, and
//! the client restarts with block 0.

use super::contexts::{Bounds, Claim, Contexts, Full, Key, NewContext};
use crate::codec::{Block, BlockSize, Code, Content, JoinedBody, OptionNumber};
use crate::shares::Group;
use conche_cc::Instant;

#[derive(Debug)]
pub(crate) struct Assemblies {
    contexts: Contexts<JoinedBody>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestBlock<'a> {
    pub(crate) key: Key,
    pub(crate) group: Group,
    pub(crate) content: &'a Content<'a>,
    pub(crate) block: Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockResult {
    /// Stored; 2.31 requests the next block with this size (RFC 7959 §2.3).
    Stored(Block),
    /// The last block, which [completes](Assemblies::complete) the body.
    Last,
    Whole,
    /// Refused with this code, also for a duplicate.
    Refused(Code),
    /// The assembly was dropped, so a duplicate gets another code.
    Outgrown,
}

impl Assemblies {
    pub(crate) const fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds) }
    }

    pub(crate) fn contexts(&self) -> &Contexts<JoinedBody> {
        &self.contexts
    }

    /// Returns the time of the next expiry.
    pub(crate) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    /// Adds a block of a request; requests blocks of at most `largest`.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        RequestBlock { key, group, content, block }: RequestBlock<'_>,
        largest: BlockSize,
    ) -> BlockResult {
        let (part, most) = (content.payload(), self.contexts.bounds().body_bytes);
        // "The size of the payload matches exactly, except for the last block" (RFC 7959 §2.2).
        let fits = if block.more { part.len() == block.size.bytes() } else { part.len() <= block.size.bytes() };
        if !fits {
            return BlockResult::Refused(Code::BAD_REQUEST);
        }
        let announced = content.uint(OptionNumber::SIZE1).map_or(0, |size| size as usize);
        if announced.max(block.offset().saturating_add(part.len())) > most {
            let is_next = self
                .contexts
                .use_of(now, key)
                .is_some_and(|(_, joined)| joined.payload().len() == block.offset() && joined.code() == content.code());
            self.contexts.remove(key);
            // Without an assembly, the beginning is missing (RFC 7959 §2.9.2, §2.9.3).
            return match block.num == 0 || announced > most {
                true => BlockResult::Refused(Code::REQUEST_ENTITY_TOO_LARGE),
                false if is_next => BlockResult::Outgrown,
                false => BlockResult::Refused(Code::REQUEST_ENTITY_INCOMPLETE),
            };
        }
        if block.num == 0 {
            return self.begin(now, RequestBlock { key, group, content, block }, largest);
        }
        let Some((index, joined)) = self.contexts.use_of(now, key) else {
            return BlockResult::Refused(Code::REQUEST_ENTITY_INCOMPLETE);
        };
        let had = joined.payload();
        if let Some(again) = had.get(block.offset()..block.offset() + part.len())
            && block.more
            && again == part
        {
            // An undetected duplicate, already added.
            return BlockResult::Stored(Block { size: block.size.min(largest), ..block });
        }
        if block.offset() != had.len() || joined.code() != content.code() {
            return BlockResult::Refused(Code::REQUEST_ENTITY_INCOMPLETE);
        }
        if !block.more {
            return BlockResult::Last;
        }
        let capacity = joined.capacity_with(part.len(), most);
        if self.contexts.grow(now, index, capacity) == Err(Full) {
            return BlockResult::Refused(Code::SERVICE_UNAVAILABLE);
        }
        if let Some((_, joined)) = self.contexts.use_of(now, key) {
            joined.push(part, most);
        }
        BlockResult::Stored(Block { size: block.size.min(largest), ..block })
    }

    pub(crate) fn complete(&mut self, key: Key, content: &Content<'_>) -> Option<JoinedBody> {
        let mut joined = self.contexts.remove(key)?;
        joined.push(content.payload(), 0);
        Some(joined)
    }

    /// Starts an assembly, replacing a previous one (RFC 7959 §2.5).
    fn begin(
        &mut self,
        now: Instant,
        RequestBlock { key, group, content, block }: RequestBlock<'_>,
        largest: BlockSize,
    ) -> BlockResult {
        if !block.more {
            self.contexts.remove(key);
            return BlockResult::Whole;
        }
        let mut joined = JoinedBody::new(content, |number| !number.describes_blocks());
        joined.push(content.payload(), 0);
        let bytes = joined.capacity();
        match self.contexts.insert(now, NewContext { key, group, value: joined, bytes }, Claim::SHARE) {
            Ok(()) => BlockResult::Stored(Block { size: block.size.min(largest), ..block }),
            Err(Full) => BlockResult::Refused(Code::SERVICE_UNAVAILABLE),
        }
    }
}
