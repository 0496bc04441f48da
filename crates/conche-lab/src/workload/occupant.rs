//! What sits on a node: a CoAP endpoint, or a sender that knows of no congestion.

use conche_netsim::PacketId;
use conche_netsim::host::{Host, Port, Received};
use conche_netsim::mac::Transmitted;
use conche_netsim::node::Node;

use super::application::{Application, Timer};
use super::unaware::Unaware;

/// What sits on a node.
#[derive(Debug)]
pub enum Occupant {
    /// CoAP, with congestion control.
    Coap(Box<Node<Application>>),
    /// Messages at a pace, whatever happens to them.
    Unaware(Unaware),
}

impl Host for Occupant {
    type Timer = Timer;

    fn start(&mut self, port: &mut Port<'_, Timer>) {
        match self {
            Self::Coap(node) => node.start(port),
            Self::Unaware(sender) => sender.start(port),
        }
    }

    fn receive(&mut self, port: &mut Port<'_, Timer>, packet: Received<'_>) {
        match self {
            Self::Coap(node) => node.receive(port, packet),
            Self::Unaware(_) => {}
        }
    }

    fn timer(&mut self, port: &mut Port<'_, Timer>, timer: Timer) {
        match self {
            Self::Coap(node) => node.timer(port, timer),
            Self::Unaware(sender) => sender.timer(port, timer),
        }
    }

    fn wake(&mut self, port: &mut Port<'_, Timer>) {
        match self {
            Self::Coap(node) => node.wake(port),
            Self::Unaware(_) => {}
        }
    }

    fn transmitted(&mut self, port: &mut Port<'_, Timer>, frame: PacketId, outcome: Transmitted) {
        match self {
            Self::Coap(node) => node.transmitted(port, frame, outcome),
            Self::Unaware(_) => {}
        }
    }
}
