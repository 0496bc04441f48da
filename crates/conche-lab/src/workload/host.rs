//! The host on a node.

use conche_netsim::PacketId;
use conche_netsim::host::{Host, Port, Received};
use conche_netsim::mac::Transmitted;
use conche_netsim::mote::Mote;
use conche_netsim::node::Node;
use conche_netsim::transport::bulk::Bulk;
use conche_proto::cc::AnyController;

use super::application::{Application, Timer};
use super::open_sender::OpenSender;

/// The host on a node.
#[derive(Debug)]
pub enum AnyHost {
    /// CoAP with congestion control.
    Coap(Box<Node<Application>>),
    /// Messages at a fixed pace, whatever their outcome.
    OpenSender(OpenSender),
    /// Sends, receives and forwards bulk transfers.
    Mote(Box<Mote<AnyController, Timer>>),
    /// An end of a bulk transfer over wires.
    Bulk(Box<Bulk<AnyController, Timer>>),
}

impl AnyHost {
    fn host(&self) -> &dyn Host<Timer = Timer> {
        match self {
            Self::Coap(node) => &**node,
            Self::OpenSender(sender) => sender,
            Self::Mote(mote) => &**mote,
            Self::Bulk(bulk) => &**bulk,
        }
    }

    fn host_mut(&mut self) -> &mut dyn Host<Timer = Timer> {
        match self {
            Self::Coap(node) => &mut **node,
            Self::OpenSender(sender) => sender,
            Self::Mote(mote) => &mut **mote,
            Self::Bulk(bulk) => &mut **bulk,
        }
    }
}

impl Host for AnyHost {
    type Timer = Timer;

    fn start(&mut self, port: &mut Port<'_, Timer>) {
        self.host_mut().start(port);
    }

    fn receive(&mut self, port: &mut Port<'_, Timer>, packet: Received<'_>) {
        self.host_mut().receive(port, packet);
    }

    fn timer(&mut self, port: &mut Port<'_, Timer>, timer: Timer) {
        self.host_mut().timer(port, timer);
    }

    fn wake(&mut self, port: &mut Port<'_, Timer>) {
        self.host_mut().wake(port);
    }

    fn prefetch(&self) {
        self.host().prefetch();
    }

    fn prefetch_for(&self, packet: Received<'_>) {
        self.host().prefetch_for(packet);
    }

    fn transmitted(&mut self, port: &mut Port<'_, Timer>, frame: PacketId, outcome: Transmitted) {
        self.host_mut().transmitted(port, frame, outcome);
    }
}
