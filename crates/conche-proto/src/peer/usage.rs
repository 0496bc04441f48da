//! [`Usage`]: the part of a peer that differs between busy and idle peers.
//!
//! Most peers of a busy server are idle, and no peer is both, so both parts share their memory.

use core::num::NonZeroU32;

use super::{Idle, Peer};
use crate::store::{Linked, Links, List};
use conche_cc::{Controller, Instant};

/// The kind of the lists of a peer's exchanges: those that wait for admission, and the others.
#[derive(Debug)]
pub(crate) struct Queue;

/// The use of a peer by exchanges, or by requests with a response to come.
#[derive(Debug)]
pub(super) enum Usage {
    Idle {
        last_used: Instant,
        links: Links,
    },
    Busy {
        /// Number of holders. Never zero, which distinguishes the variants without an extra byte.
        holds: NonZeroU32,
        work: Work,
    },
}

/// Outstanding and queued messages of a peer. Only holders of the peer contribute to it.
#[derive(Debug)]
pub(crate) struct Work {
    /// Senders with a message that waits for admission, in FIFO order. Each keeps its place while
    /// it has more.
    pub(crate) queue: List<Queue>,
    pub(crate) queued: u32,
    /// Exchanges with an NSTART slot (RFC 7252 §4.7), and their bytes.
    pub(crate) outstanding: u16,
    pub(crate) outstanding_bytes: u32,
}

impl Work {
    const NONE: Self = Self { queue: List::new(), queued: 0, outstanding: 0, outstanding_bytes: 0 };
}

impl Usage {
    /// In use by one holder.
    pub(super) const BUSY: Self = Self::Busy { holds: NonZeroU32::MIN, work: Work::NONE };

    /// Creates the state of an unused peer.
    pub(super) fn idle(last_used: Instant) -> Self {
        Self::Idle { last_used, links: Links::default() }
    }
}

impl<P, C: Controller> Linked<Idle> for Peer<P, C> {
    #[inline]
    fn links(&mut self) -> &mut Links {
        match &mut self.usage {
            Usage::Idle { links, .. } => links,
            Usage::Busy { .. } => unreachable!("a peer in the list of idle ones is idle"),
        }
    }
}

impl<P, C: Controller> Peer<P, C> {
    /// Returns the outstanding and queued messages.
    #[inline]
    pub(crate) fn work(&self) -> &Work {
        match &self.usage {
            Usage::Busy { work, .. } => work,
            Usage::Idle { .. } => &Work::NONE,
        }
    }

    /// Returns the work of a held peer, for its exchanges.
    #[inline]
    pub(crate) fn work_mut(&mut self) -> &mut Work {
        match &mut self.usage {
            Usage::Busy { work, .. } => work,
            Usage::Idle { .. } => unreachable!("an exchange holds its peer"),
        }
    }

    #[inline]
    pub(crate) fn occupy_slot(&mut self, bytes: u32) {
        let work = self.work_mut();
        work.outstanding = work.outstanding.saturating_add(1);
        work.outstanding_bytes = work.outstanding_bytes.saturating_add(bytes);
    }

    #[inline]
    pub(crate) fn free_slot(&mut self, bytes: u32) {
        let work = self.work_mut();
        work.outstanding = work.outstanding.saturating_sub(1);
        work.outstanding_bytes = work.outstanding_bytes.saturating_sub(bytes);
    }
}
