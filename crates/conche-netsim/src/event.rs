//! Scheduled events, and the state that their handlers share.

use crate::ids::{QueueIndex, Station};
use crate::packet::{PacketRef, Packets};
use crate::scheduler::Scheduler;
use crate::timers::TimerId;
use crate::trace::Observer;
use crate::{LinkId, NodeId, RadioId};

/// A scheduled event.
///
/// Aligned so that a copy is one move: a load that straddles separate stores stalls.
#[derive(Clone, Copy, Debug)]
#[repr(u32, align(16))]
pub(crate) enum Event {
    /// A packet arrives at a node.
    Arrive(Arrival),
    /// A link continues with its queue.
    Resume {
        link: LinkId,
        number: u32,
    },
    /// A packet is lost on the wire of a link.
    Lose {
        packet: PacketRef,
        link: LinkId,
    },
    Radio(RadioEvent),
    Wake(NodeId),
    Timer(TimerId),
    /// A host's frame has an outcome to report.
    Transmitted(RadioId),
}

#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct Arrival {
    pub(crate) packet: PacketRef,
    pub(crate) at: NodeId,
}

// A scheduler entry is then half a cache line.
const _: () = assert!(size_of::<Event>() <= 16);

impl Event {
    pub(crate) fn arrive(packet: PacketRef, at: NodeId) -> Self {
        Self::Arrive(Arrival { packet, at })
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct RadioEvent {
    pub(crate) network: u16,
    pub(crate) kind: RadioEventKind,
    pub(crate) station: Station,
}

const _: () = assert!(size_of::<RadioEvent>() <= 8);

#[derive(Clone, Copy, Debug)]
pub(crate) enum RadioEventKind {
    Attempt(QueueIndex),
    /// The attempt's current step has ended.
    Step,
    FrameEnd,
    /// The acknowledgment timeout of this wait.
    AckTimeout(u16),
    /// The turnaround before an acknowledgment has ended.
    Ack,
    /// Checks the channel, after this many earlier checks of the wake-up.
    Check(u8),
    EndListening,
    Control,
}

/// Radio networks rarely call the observer; `dyn Observer` compiles them once.
pub(crate) struct Surroundings<'a, O: ?Sized = dyn Observer + 'a> {
    pub(crate) scheduler: &'a mut Scheduler<Event>,
    pub(crate) packets: &'a mut Packets,
    pub(crate) observer: &'a mut O,
}
