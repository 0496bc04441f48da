//! [`Assemblies`]: bodies of requests that come in blocks, until they are complete (RFC 7959 §2.5).
//!
//! Blocks come in order, since a client waits for the answer to each; what fits nowhere is 4.08, and the client begins
//! anew with the block of number 0, which replaces what was there.

use super::contexts::{Bounds, Claim, Contexts, Full, Key};
use super::cut::is_ours;
use crate::codec::{Block, BlockSize, Code, Content, Joined, OptionNumber};
use crate::shares::Group;
use conche_cc::Instant;

/// Bodies that are not complete.
#[derive(Debug)]
pub(crate) struct Assemblies {
    contexts: Contexts<Joined>,
}

/// What a block of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is kept, and the next one is asked for with 2.31: with blocks of this size (RFC 7959 §2.3).
    Kept(Block),
    /// The last one: with it the body is [complete](Assemblies::complete).
    Last,
    /// All there is: the request is whole.
    Whole,
    /// It is refused with this code, and so is a copy of it.
    Refused(Code),
    /// With it the body is too large. It is gone, so that a copy would be refused for what came before it.
    Outgrown,
}

impl Assemblies {
    pub(crate) const fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds) }
    }

    pub(crate) fn contexts(&self) -> &Contexts<Joined> {
        &self.contexts
    }

    /// Drops what is over; when something is next.
    pub(crate) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    /// A block of a request arrived. The next ones shall be of `largest` at most.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        key: Key,
        group: Group,
        content: &Content<'_>,
        block: Block,
        largest: BlockSize,
    ) -> Part {
        let (part, most) = (content.payload(), self.contexts.bounds().body_bytes);
        // "The size of the payload matches exactly, except for the last block" (RFC 7959 §2.2).
        let fits = if block.more { part.len() == block.size.bytes() } else { part.len() <= block.size.bytes() };
        if !fits {
            return Part::Refused(Code::BAD_REQUEST);
        }
        let announced = content.uint(OptionNumber::SIZE1).map_or(0, |size| size as usize);
        if announced.max(block.offset().saturating_add(part.len())) > most {
            let is_next = self
                .contexts
                .use_of(now, key)
                .is_some_and(|(_, joined)| joined.payload().len() == block.offset() && joined.code() == content.code());
            self.contexts.remove(key);
            // Of a body that is not here, what is missing is the beginning (RFC 7959 §2.9.2, §2.9.3).
            return match block.num == 0 || announced > most {
                true => Part::Refused(Code::REQUEST_ENTITY_TOO_LARGE),
                false if is_next => Part::Outgrown,
                false => Part::Refused(Code::REQUEST_ENTITY_INCOMPLETE),
            };
        }
        if block.num == 0 {
            return self.begin(now, key, group, content, block, largest);
        }
        let Some((index, joined)) = self.contexts.use_of(now, key) else {
            return Part::Refused(Code::REQUEST_ENTITY_INCOMPLETE);
        };
        let had = joined.payload();
        if let Some(again) = had.get(block.offset()..block.offset() + part.len())
            && block.more
            && again == part
        {
            // A copy that nobody remembers as one: what it brings is there already.
            return Part::Kept(Block { size: block.size.min(largest), ..block });
        }
        if block.offset() != had.len() || joined.code() != content.code() {
            return Part::Refused(Code::REQUEST_ENTITY_INCOMPLETE);
        }
        if !block.more {
            return Part::Last;
        }
        let capacity = joined.capacity_with(part.len(), most);
        if self.contexts.grow(now, index, capacity) == Err(Full) {
            return Part::Refused(Code::SERVICE_UNAVAILABLE);
        }
        if let Some((_, joined)) = self.contexts.use_of(now, key) {
            joined.push(part, most);
        }
        Part::Kept(Block { size: block.size.min(largest), ..block })
    }

    /// The whole body, whose [last](Part::Last) block has just been looked at.
    pub(crate) fn complete(&mut self, key: Key, content: &Content<'_>) -> Option<Joined> {
        let mut joined = self.contexts.remove(key)?;
        joined.push(content.payload(), 0);
        Some(joined)
    }

    /// The first block, in place of whatever was there (RFC 7959 §2.5).
    fn begin(
        &mut self,
        now: Instant,
        key: Key,
        group: Group,
        content: &Content<'_>,
        block: Block,
        largest: BlockSize,
    ) -> Part {
        if !block.more {
            self.contexts.remove(key);
            return Part::Whole;
        }
        let mut joined = Joined::new(content, |number| !is_ours(number));
        joined.push(content.payload(), 0);
        let bytes = joined.capacity();
        match self.contexts.insert(now, key, group, (joined, bytes), Claim::SHARE) {
            Ok(()) => Part::Kept(Block { size: block.size.min(largest), ..block }),
            Err(Full) => Part::Refused(Code::SERVICE_UNAVAILABLE),
        }
    }
}
