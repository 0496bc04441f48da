//! What an endpoint knows of each destination: congestion state, message IDs, what is outstanding and what waits.

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

/// One destination.
#[derive(Debug)]
pub(crate) struct Peer<P, C: Controller> {
    pub(crate) key: P,
    pub(crate) controller: ControllerId,
    pub(crate) control: C::Peer,
    pub(crate) next_id: NextId,
    pub(crate) used_ids: UsedIds,
    pub(crate) non: NonSent,
    pub(crate) marks: Marks,
    /// Since when a slot has been free and nothing waited for it; [`Instant::FAR_FUTURE`] if that is not so.
    pub(crate) starved_since: Instant,
    pub(crate) trust: Trust,
    /// The exchanges with it that do not wait for admission.
    pub(crate) exchanges: Chain<Queue>,
    /// Whose share it is of; nobody's if we wanted something of it first.
    group: Group,
    usage: Usage,
}

impl<P, C: Controller> Peer<P, C> {
    /// What is on its way, for the controller; `queued` does not count the message that is being asked about.
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

    /// The load as an exchange sees it that occupies a slot itself.
    #[inline]
    pub(crate) fn load_without(&self, bytes: u32) -> Load {
        let load = self.load(self.work().queued);
        Load { exchanges: load.exchanges.saturating_sub(1), bytes: load.bytes.saturating_sub(bytes), ..load }
    }

    /// Hands out the next message ID. `Err`: when it will be free.
    #[inline]
    pub(crate) fn allocate_id(&mut self, now: Instant, lifetime: Duration) -> Result<MessageId, Instant> {
        self.used_ids.allocate(&mut self.next_id, now, lifetime)
    }

    /// When the next message ID is free; `None` if it is.
    pub(crate) fn ids_blocked_until(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
        self.used_ids.blocked_until(self.next_id, now, lifetime)
    }

    /// When more than the last 1024 message IDs are free; `None` if they are.
    pub(crate) fn ids_scarce_until(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
        self.used_ids.scarce_until(self.next_id, now, lifetime)
    }

    /// A message from the peer made it, and none has proven that messages to its address reach it.
    fn is_unproven(&self) -> bool {
        self.group != Group::NOBODY && !self.marks.has(Mark::Answered) && !self.marks.has(Mark::Validated)
    }

    /// A message from the peer arrived that is not malformed.
    #[inline]
    pub(crate) fn heard(&mut self) {
        self.marks.set(Mark::Silent, false);
        self.non.heard();
    }
}

/// The kind of the list of peers that nothing needs.
#[derive(Debug)]
struct Idle;

/// What can be shown of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
