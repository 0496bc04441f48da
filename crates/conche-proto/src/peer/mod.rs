//! Peer state: congestion control, message IDs, outstanding and queued messages.

mod controllers;
mod gate;
mod marks;
mod non;
mod paths;
mod survey;
mod table;
mod trust;
mod usage;

pub use controllers::ControllerId;
pub(crate) use controllers::{ChooseController, Controllers};
pub(crate) use marks::{Mark, Marks};
pub use paths::PathKey;
pub(crate) use paths::{ChoosePath, Entry, Fate, LEAST_UNMEASURED};
pub use survey::Survey;
pub(crate) use table::{Peers, PeersFull};
pub(crate) use usage::Queue;

use crate::codec::MessageId;
use crate::message::{NextId, UsedIds};
use crate::shares::Group;
use crate::store::Chain;
use conche_cc::control::{Load, Snapshot};
use conche_cc::{Controller, Instant};
use core::time::Duration;
use non::NonSent;
use trust::Trust;
use usage::Usage;

#[derive(Debug)]
pub(crate) struct Peer<P, C: Controller> {
    pub(crate) key: P,
    pub(crate) controller: ControllerId,
    pub(crate) control: C::Peer,
    pub(crate) next_id: NextId,
    pub(crate) used_ids: UsedIds,
    pub(crate) non: NonSent,
    pub(crate) marks: Marks,
    /// Since when a slot has been free with an empty queue; [`Instant::FAR_FUTURE`] otherwise.
    pub(crate) starved_since: Instant,
    pub(crate) trust: Trust,
    /// Its exchanges that do not wait for admission.
    pub(crate) exchanges: Chain<Queue>,
    /// Group charged for the peer; none if this endpoint opened it.
    group: Group,
    usage: Usage,
}

impl<P, C: Controller> Peer<P, C> {
    /// Returns the load for the controller; `queued` excludes the message to be admitted.
    #[inline]
    pub(crate) fn load(&self, queued: u32) -> Load {
        let work = self.work();
        Load {
            exchanges: work.outstanding,
            bytes: work.outstanding_bytes,
            queued: u16::try_from(queued).unwrap_or(u16::MAX),
            non: self.non.history(),
        }
    }

    /// Returns the load without an exchange that occupies a slot.
    #[inline]
    pub(crate) fn load_without(&self, bytes: u32) -> Load {
        let load = self.load(self.work().queued);
        Load { exchanges: load.exchanges.saturating_sub(1), bytes: load.bytes.saturating_sub(bytes), ..load }
    }

    /// Allocates the next message ID. `Err`: when it will be free.
    #[inline]
    pub(crate) fn allocate_id(&mut self, now: Instant, lifetime: Duration) -> Result<MessageId, Instant> {
        self.used_ids.allocate(&mut self.next_id, now, lifetime)
    }

    /// Returns when the next message ID is free; `None` if it is free now.
    pub(crate) fn ids_blocked_until(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
        self.used_ids.blocked_until(self.next_id, now, lifetime)
    }

    /// Returns when message IDs beyond the current block of 1024 are free; `None` if some are free
    /// now.
    pub(crate) fn ids_scarce_until(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
        self.used_ids.scarce_until(self.next_id, now, lifetime)
    }

    /// Returns `true` if the peer was created by its own message and has not proven that it
    /// receives at its address.
    fn is_unproven(&self) -> bool {
        self.group != Group::NOBODY && !self.marks.has(Mark::Answered) && !self.marks.has(Mark::Validated)
    }

    /// Records the arrival of a well-formed message.
    #[inline]
    pub(crate) fn heard(&mut self) {
        self.marks.set(Mark::Silent, false);
        self.non.heard();
    }
}

/// The kind of the list of unused peers.
#[derive(Debug)]
struct Idle;

/// A snapshot of a peer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerSnapshot {
    /// The controller assigned to the peer.
    pub controller: ControllerId,
    /// The controller's state.
    pub congestion: Snapshot,
    /// Exchanges with an NSTART slot.
    pub outstanding: u16,
    /// Messages that wait for admission.
    pub queued: usize,
}
