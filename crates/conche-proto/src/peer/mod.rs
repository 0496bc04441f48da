//! What an endpoint knows of each destination: congestion state, message IDs, what is outstanding and what waits.

mod non;
mod table;

pub(crate) use table::{Peers, PeersFull};

use alloc::collections::VecDeque;

use smallvec::SmallVec;

use crate::codec::MessageId;
use crate::message::MessageIds;
use conche_cc::control::{Load, NonHistory, Snapshot};
use conche_cc::{Controller, Instant};

/// Names one of an endpoint's controllers: 0 is the one it was made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ControllerId(pub(crate) u8);

/// After so many acknowledgements whose message ID fits nothing, Empty ACKs from this peer's address are not believed
/// any more: somebody may be guessing. Retransmission then goes on until a response with the right token comes. A peer
/// that was idle for its lifetime starts anew.
const MISMATCHES_BEFORE_DISTRUST: u8 = 16;

/// One destination.
#[derive(Debug)]
pub(crate) struct Peer<P, C: Controller> {
    pub(crate) key: P,
    pub(crate) controller: ControllerId,
    pub(crate) control: C::Peer,
    pub(crate) ids: MessageIds,
    /// Exchanges with this peer that are not over, in no order that means anything.
    pub(crate) exchanges: SmallVec<[u32; 2]>,
    /// Those of them that wait for admission, first come first served.
    pub(crate) queue: VecDeque<u32>,
    /// Those of them that occupy an NSTART slot (RFC 7252 §4.7), and their bytes.
    pub(crate) outstanding: u16,
    pub(crate) outstanding_bytes: u32,
    pub(crate) non: NonHistory,
    /// A Confirmable message was given up, and nothing has been heard since.
    pub(crate) silent: bool,
    /// Since when a slot has been free and nothing waited for it.
    pub(crate) starved_since: Option<Instant>,
    mismatched_acks: u8,
    last_used: Instant,
    /// The peers that have been idle a little longer and a little shorter; see [`Peers`].
    links: [Option<u32>; 2],
}

impl<P, C: Controller> Peer<P, C> {
    /// What is on its way, for the controller; `queued` does not count the message that is being asked about.
    pub(crate) fn load(&self, queued: usize) -> Load {
        Load {
            exchanges: self.outstanding,
            bytes: self.outstanding_bytes,
            queued: u16::try_from(queued).unwrap_or(u16::MAX),
            non: self.non,
        }
    }

    /// The load as an exchange sees it that occupies a slot itself.
    pub(crate) fn load_without(&self, bytes: u32) -> Load {
        let load = self.load(self.queue.len());
        Load { exchanges: load.exchanges.saturating_sub(1), bytes: load.bytes.saturating_sub(bytes), ..load }
    }

    pub(crate) fn occupy_slot(&mut self, bytes: u32) {
        self.outstanding = self.outstanding.saturating_add(1);
        self.outstanding_bytes = self.outstanding_bytes.saturating_add(bytes);
    }

    pub(crate) fn free_slot(&mut self, bytes: u32) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.outstanding_bytes = self.outstanding_bytes.saturating_sub(bytes);
    }

    /// A message from the peer arrived that is not malformed.
    pub(crate) fn heard(&mut self) {
        self.silent = false;
        self.non.unanswered_since = None;
        self.non.unanswered_bytes = 0;
    }

    /// An acknowledgement came that fits no message that waits for one. A late duplicate does not count.
    pub(crate) fn mismatched_ack(&mut self, id: MessageId) {
        if !self.ids.is_recent(id) {
            self.mismatched_acks = self.mismatched_acks.saturating_add(1);
        }
    }

    /// An Empty ACK is believed: its message ID alone vouches for it.
    pub(crate) fn trusts_empty_acks(&self) -> bool {
        self.mismatched_acks < MISMATCHES_BEFORE_DISTRUST
    }
}

/// What can be shown of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSnapshot {
    /// Which of the endpoint's controllers it has.
    pub controller: ControllerId,
    /// What that controller knows.
    pub congestion: Snapshot,
    /// Exchanges that occupy an NSTART slot.
    pub outstanding: u16,
    /// Messages that wait for admission.
    pub queued: usize,
}

impl<P, C: Controller> Peer<P, C> {
    pub(crate) fn snapshot(&self, controller: &C) -> PeerSnapshot {
        PeerSnapshot {
            controller: self.controller,
            congestion: controller.snapshot(&self.control),
            outstanding: self.outstanding,
            queued: self.queue.len(),
        }
    }
}
