//! [`Monitor`]: observes the messages and events of nodes' endpoints.

use std::cell::RefCell;
use std::rc::Rc;

use conche_proto::{Event, PeerSnapshot, Stats, Transmit};

use crate::{Instant, NodeId};

/// Observes nodes' endpoints: the messages, unencrypted, and the events that the application gets.
///
/// `path` is the endpoint's state of the path to the peer afterwards, if it has any.
pub trait Monitor {
    /// Handles a sent message.
    fn sent(
        &mut self,
        now: Instant,
        node: NodeId,
        transmit: &Transmit<NodeId>,
        message: &[u8],
        path: Option<PeerSnapshot>,
    );

    /// Handles a received message, which the endpoint has taken in.
    fn received(&mut self, now: Instant, node: NodeId, received: &ReceivedMessage<'_>);

    /// Handles an event.
    fn event(&mut self, now: Instant, node: NodeId, event: &Event<NodeId>);
}

/// A received message and its effects.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedMessage<'a> {
    /// Its sender.
    pub from: NodeId,
    /// The message.
    pub message: &'a [u8],
    /// The endpoint's counters before.
    pub before: &'a Stats,
    /// The endpoint's counters after.
    pub after: &'a Stats,
    /// State of the path to the sender.
    pub path: Option<PeerSnapshot>,
}

/// A monitor of several nodes.
pub type SharedMonitor = Rc<RefCell<dyn Monitor>>;
