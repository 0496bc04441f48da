//! [`Streams`]: the requests of peers whose request or response body is transferred block by block.

use alloc::boxed::Box;
use core::time::Duration;

use crate::blockwise::{Assemblies, Bounds, Contexts, Cut, Key, Missing, NoBlock, Representation};
use crate::codec::{Block, BlockSize, Code, Message, Overhead};
use crate::config::SharedConfig;
use crate::exchange::Response;
use crate::incoming::RequestId;
use crate::server::blocks::bounds;
use crate::store::Seldom;
use conche_cc::Instant;

/// Returns whether the application takes the body of a request in parts.
pub(crate) type Wanted = Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>;

/// All requests of peers whose bodies are transferred block by block.
pub(crate) struct Streams {
    pub(crate) contexts: Contexts<Stream>,
    pub(crate) wanted: Option<Wanted>,
}

/// A request with a body to be continued. It keeps its place among the requests that wait for a
/// response.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) request: RequestId,
    pub(crate) phase: Phase,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// The request body is being received.
    Coming(Coming),
    /// The application has answered in advance; the client gets the response with its next message.
    Answered(Response),
    /// The response body is being sent.
    Leaving(Box<Leaving>),
}

/// The received part of a request body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub(crate) code: Code,
    /// The offset of the next block.
    pub(crate) next: usize,
    /// The digest of the last payload.
    pub(crate) last: u64,
}

/// How a block relates to a body that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Next,
    /// The last block again, in another message: its response was lost.
    Again,
    Elsewhere,
}

impl Coming {
    /// Begins a body with its first block.
    pub(in crate::server) fn begun(code: Code, bytes: usize, digest: u64) -> Self {
        Self { code, next: bytes, last: digest }
    }

    pub(in crate::server) fn fit(&self, code: Code, block: Block, bytes: usize, digest: u64) -> Fit {
        let (begin, end) = (block.offset(), block.offset().saturating_add(bytes));
        match code == self.code {
            true if begin == self.next => Fit::Next,
            true if end == self.next && digest == self.last => Fit::Again,
            _ => Fit::Elsewhere,
        }
    }
}

/// A response whose blocks are sent in order.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) whole: Representation,
    /// The number of bytes sent.
    pub(crate) served: usize,
    /// The size of the blocks.
    pub(crate) size: BlockSize,
}

impl Leaving {
    pub(crate) fn new(whole: Representation, size: BlockSize) -> Self {
        Self { whole, served: 0, size }
    }

    /// Returns the requested block, which must be the one sent last or the next one, and forgets
    /// the body before it, which has arrived. `largest`, `others` and `limit` are as for any
    /// [`Representation`].
    pub(in crate::server) fn cut(
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
        // The client may request larger blocks than before, which need more data.
        self.size = asked.map_or(largest, |asked| asked.size.min(largest));
        let cut = self.whole.block(asked, block1, Some(largest), others, limit)?;
        self.whole.outflow().forget_before(offset);
        if let Some(block) = cut.block {
            self.size = block.size;
            self.served = self.served.max(offset + block.size.bytes());
        }
        Ok(cut)
    }

    /// Returns the number of bytes needed to continue, if this is to be reported to the
    /// application.
    pub(crate) fn wants(&mut self) -> Option<usize> {
        let (served, size) = (self.served, self.size);
        self.whole.outflow().wants(served, size)
    }
}

impl Streams {
    const fn new(bounds: Bounds) -> Self {
        Self { contexts: Contexts::new(bounds), wanted: None }
    }

    /// Returns the stream with this key and marks it as used.
    pub(crate) fn find(&mut self, now: Instant, key: Key) -> Option<&mut Stream> {
        self.contexts.use_of(now, key).map(|(_, stream)| stream)
    }

    /// Returns whether the application takes the body of this request in parts.
    pub(crate) fn wants(&self, message: &Message<'_>) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted(message))
    }

    /// Purges expired bodies and returns the time of the next expiry. The expired ones must have
    /// been [taken out](Contexts::expired) before.
    pub(crate) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.contexts.purge(now);
        self.contexts.next_purge()
    }

    pub(crate) fn len(&self) -> usize {
        self.contexts.len()
    }
}

/// Incomplete bodies: those being assembled, and those transferred in parts.
pub(crate) struct Parts {
    pub(crate) assemblies: Assemblies,
    pub(crate) streams: Streams,
}

impl Seldom for Parts {
    type Recipe = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self { assemblies: Assemblies::new(Bounds::NONE), streams: Streams::new(Bounds::NONE) } }
    }

    fn make(config: &SharedConfig) -> Self {
        let bounds = bounds(config);
        // A body in parts may take any time in total, and none is evicted for another's.
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
