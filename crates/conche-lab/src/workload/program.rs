//! The node of a program outside the simulation.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::{Instant, NodeId, PacketId};

use super::application::Timer;

/// A datagram that arrived at the node of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedAtProgram {
    /// Number of the packet, as [`Simulation::send`](conche_netsim::Simulation::send) returns it.
    pub id: PacketId,
    /// Arrival time.
    pub at: Instant,
    /// Number of the packet that it answers, if a simulated node sent it.
    pub answers: Option<PacketId>,
    /// The sender.
    pub from: NodeId,
    /// The program's node.
    pub to: NodeId,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

/// Arrivals at all programs, by time.
pub type Inbox = Rc<RefCell<VecDeque<ArrivedAtProgram>>>;

/// Keeps what arrives for a program, which sends by
/// [`Simulation::send`](conche_netsim::Simulation::send).
#[derive(Debug)]
pub struct Program(Inbox);

impl Program {
    /// Creates a host that puts arrivals into the inbox.
    #[must_use]
    pub fn new(inbox: Inbox) -> Self {
        Self(inbox)
    }
}

impl Host for Program {
    type Timer = Timer;

    fn start(&mut self, _: &mut Port<'_, Timer>) {}

    fn receive(&mut self, port: &mut Port<'_, Timer>, packet: Received<'_>) {
        let arrived = ArrivedAtProgram {
            id: packet.meta.id,
            at: port.now(),
            answers: packet.meta.cause.map(|cause| cause.packet),
            from: packet.meta.from,
            to: port.node(),
            bytes: packet.bytes.to_vec(),
        };
        self.0.borrow_mut().push_back(arrived);
    }

    fn timer(&mut self, _: &mut Port<'_, Timer>, _: Timer) {}

    fn wake(&mut self, _: &mut Port<'_, Timer>) {}
}
