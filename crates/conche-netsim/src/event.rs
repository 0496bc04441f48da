//! Scheduled events, and the state that their handlers share.

use crate::ids::{QueueIndex, Station};
use crate::packet::{PacketRef, Packets};
use crate::scheduler::Scheduler;
use crate::timers::TimerId;
use crate::trace::Observer;
use crate::{LinkId, NodeId, RadioId};

/// An aligned copy is one move: a load that straddles separate stores stalls.
#[derive(Clone, Copy, Debug)]
#[repr(u32, align(16))]
pub(crate) enum Event {
    Arrive(Arrival),
    Resume { link: LinkId, number: u32 },
    Lose { packet: PacketRef, link: LinkId },
    Radio(RadioEvent),
    Wake(NodeId),
    Timer(TimerId),
    Transmitted(RadioId),
}

#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct Arrival {
    pub(crate) packet: PacketRef,
    pub(crate) at: NodeId,
}

// A scheduler entry is half a cache line.
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
    Step,
    FrameEnd,
    /// The acknowledgment timeout of this wait.
    AckTimeout(u16),
    Ack,
    /// After this many earlier checks of the wake-up.
    Check(u8),
    EndListening,
    Control,
}

/// `dyn Observer`: radio networks rarely call it.
pub(crate) struct EventContext<'a, O: ?Sized = dyn Observer + 'a> {
    pub(crate) scheduler: &'a mut Scheduler<Event>,
    pub(crate) packets: &'a mut Packets,
    pub(crate) observer: &'a mut O,
}
