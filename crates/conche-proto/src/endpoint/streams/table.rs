//! [`Streams`]: the requests of peers whose body, or whose response's body, goes block by block.

use alloc::boxed::Box;
use core::time::Duration;

use crate::blockwise::{Assemblies, Bounds, Contexts, Cut, Key, Missing, NoBlock, Representation};
use crate::codec::{Block, BlockSize, Code, Message, Overhead};
use crate::config::SharedConfig;
use crate::endpoint::bodies::bounds;
use crate::exchange::Response;
use crate::incoming::RequestId;
use crate::store::Seldom;
use conche_cc::Instant;

/// Tells of which requests the application wants the body as it comes.
pub(super) type Wanted = Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>;

/// All requests of peers with bodies that go block by block.
pub(in crate::endpoint) struct Streams {
    pub(super) contexts: Contexts<Stream>,
    pub(super) wanted: Option<Wanted>,
}

/// A request of which more is to come, or to leave. It keeps its place among those that wait for their response.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) request: RequestId,
    pub(super) phase: Phase,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Its body comes.
    Coming(Coming),
    /// The application has answered before the client asked: with its next message it will hear.
    Answered(Response),
    /// The body of its response leaves.
    Leaving(Box<Leaving>),
}

/// What has come of a request's body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coming {
    pub(super) code: Code,
    /// Where the next block begins.
    pub(super) next: usize,
    /// Stands for the payload of the last one.
    pub(super) last: u64,
}

/// What a block is to a body that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Next,
    /// The last one once more, in another message: its answer was lost.
    Again,
    Elsewhere,
}

impl Coming {
    /// The first block has come.
    pub(super) fn begun(code: Code, bytes: usize, digest: u64) -> Self {
        Self { code, next: bytes, last: digest }
    }

    pub(super) fn fit(&self, code: Code, block: Block, bytes: usize, digest: u64) -> Fit {
        let (begin, end) = (block.offset(), block.offset().saturating_add(bytes));
        match code == self.code {
            true if begin == self.next => Fit::Next,
            true if end == self.next && digest == self.last => Fit::Again,
            _ => Fit::Elsewhere,
        }
    }
}

/// A response of which blocks leave in their order.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) whole: Representation,
    /// So much of the body has left.
    pub(super) served: usize,
    /// In blocks of this size.
    pub(super) size: BlockSize,
}

impl Leaving {
    pub(super) fn new(whole: Representation, size: BlockSize) -> Self {
        Self { whole, served: 0, size }
    }

    /// The block that was asked for: the one that left last, or the next one. What is before it has arrived. `largest`,
    /// `others` and `limit` as for any [`Representation`].
    pub(super) fn cut(
        &mut self,
        asked: Option<Block>,
        block1: Option<Block>,
        largest: BlockSize,
        (others, limit): (Overhead, usize),
    ) -> Result<Cut, NoBlock> {
        let offset = asked.map_or(0, Block::offset);
        if offset > self.served {
            return Err(NoBlock::Missing(Missing::Gone));
        }
        // The client may want larger ones than before, of which more has to be there.
        self.size = asked.map_or(largest, |asked| asked.size.min(largest));
        let cut = self.whole.block(asked, block1, Some(largest), others, limit)?;
        self.whole.outflow().forget_before(offset);
        if let Some(block) = cut.block {
            self.size = block.size;
            self.served = self.served.max(offset + block.size.bytes());
        }
        Ok(cut)
    }

    /// How many bytes are wanted to go on, if that is to be told.
    pub(super) fn wants(&mut self) -> Option<usize> {
        let (served, size) = (self.served, self.size);
        self.whole.outflow().wants(served, size)
    }
}

impl Streams {
    const fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds), wanted: None }
    }

    /// The stream of this key, which counts as used.
    pub(super) fn find(&mut self, now: Instant, key: Key) -> Option<&mut Stream> {
        self.contexts.use_of(now, key).map(|(_, stream)| stream)
    }

    /// The application wants the body of this request as it comes.
    pub(super) fn wants(&self, message: &Message<'_>) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted(message))
    }

    /// When a body is over next that nobody goes on with. Those that are have been [taken out](Contexts::expired).
    pub(in crate::endpoint) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    pub(in crate::endpoint) fn len(&self) -> usize {
        self.contexts.len()
    }
}

/// Bodies that are not complete: those that are put together, and those that go on as they are.
pub(in crate::endpoint) struct Parts {
    pub(in crate::endpoint) assemblies: Assemblies,
    pub(in crate::endpoint) streams: Streams,
}

impl Seldom for Parts {
    type Recipe = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self { assemblies: Assemblies::new(Bounds::NONE), streams: Streams::new(Bounds::NONE) } }
    }

    fn make(config: &SharedConfig) -> Self {
        let bounds = bounds(config);
        // What goes on has its time, however long it takes all in all, and nobody else's body makes room.
        let of_streams = Bounds {
            longest: Duration::MAX,
            stale: Duration::MAX,
            unused_stale: Duration::MAX,
            own_stale: Duration::MAX,
            ..bounds
        };
        Self { assemblies: Assemblies::new(bounds), streams: Streams::new(of_streams) }
    }
}
