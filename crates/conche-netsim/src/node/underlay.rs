//! [`Underlay`]: a layer between an endpoint and the network, such as DTLS.

use std::collections::{BTreeMap, VecDeque};

use conche_proto::{ExchangeId, Flight};

use crate::packet::{Cause, Transmission};
use crate::{Instant, NodeId};

/// A layer that turns the endpoint's messages into datagrams and back, and may send datagrams of
/// its own.
///
/// Like the endpoint it has neither clock nor network: the node polls it after every input. The
/// endpoint's peers are nodes, across successive connections to them. When a connection ends, all
/// exchanges over it fail.
pub trait Underlay {
    /// Returns the size in bytes of the buffer for [`poll`](Self::poll).
    fn buffer_bytes(&self) -> usize;

    /// Handles a datagram that arrived.
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &[u8]);

    /// Takes a message of the endpoint, to be returned as a datagram by [`poll`](Self::poll).
    /// Returns `false` if the connection to the peer is not open.
    fn send(&mut self, to: NodeId, message: &[u8]) -> bool;

    /// Returns `true` if the connection to the peer is open.
    fn is_open(&self, to: NodeId) -> bool;

    /// Sends a flight of the handshake with a peer: its first, or a retransmission of the last.
    ///
    /// The endpoint's congestion control decides the time. The layer reports progress with
    /// [`Step::Left`] and [`Step::Answered`], and the outcome with [`Step::Opened`] or
    /// [`Step::Refused`].
    fn send_flight(&mut self, now: Instant, to: NodeId);

    /// Abandons the handshake with a peer. [`Step::Refused`] follows.
    fn give_up(&mut self, to: NodeId);

    /// Marks the connection to a peer as doubtful, because a message was never acknowledged: the
    /// peer may have lost its state. The next connect needs a new handshake.
    fn mark_doubtful(&mut self, peer: NodeId);

    /// Returns the next step. The node calls it until it waits.
    fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Step;
}

/// A step of an [`Underlay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the datagram at the front of the buffer.
    Transmit {
        /// The destination.
        to: NodeId,
        /// Length in bytes.
        len: usize,
    },
    /// Pass the message at the front of the buffer to the endpoint.
    Received {
        /// The sender.
        from: NodeId,
        /// Length in bytes.
        len: usize,
    },
    /// A flight, or a retransmission, was sent: the datagrams for this peer since the last such
    /// step.
    Left(NodeId, Flight),
    /// The answer to the last flight starts to arrive, with the transmission it answers if that is
    /// known and its time is a round trip.
    Answered(NodeId, Option<u8>),
    /// The requested connection to a peer is open.
    Opened(NodeId),
    /// The requested connection failed.
    Refused(NodeId),
    /// The connection to a peer has ended.
    Lost(NodeId),
    /// Nothing to do before this time.
    Wait(Option<Instant>),
}

/// An underlay and the origins of its datagrams.
pub(super) struct UnderlayState {
    pub(super) layer: Box<dyn Underlay>,
    /// Messages passed to the layer and not yet sent.
    sent: VecDeque<(NodeId, Origin)>,
    /// Handshakes in progress, under the endpoint's exchange IDs.
    pub(super) handshakes: BTreeMap<NodeId, ExchangeId>,
    /// Peers whose handshake the endpoint refused.
    pub(super) refused: VecDeque<NodeId>,
}

/// The transmission that a datagram is, and the packet it answers.
type Origin = (Option<Transmission>, Option<Cause>);

impl UnderlayState {
    pub(super) fn new(layer: Box<dyn Underlay>) -> Self {
        Self { layer, sent: VecDeque::new(), handshakes: BTreeMap::new(), refused: VecDeque::new() }
    }

    pub(super) fn send(&mut self, to: NodeId, message: &[u8], origin: Origin) -> bool {
        let is_sent = self.layer.send(to, message);
        if is_sent {
            self.sent.push_back((to, origin));
        }
        is_sent
    }

    /// Returns the origin of the next datagram to a peer. The layer's own datagrams carry no
    /// message; while messages for a peer wait, the layer has no such datagrams for it.
    pub(super) fn origin(&mut self, to: NodeId) -> Origin {
        let first = self.sent.iter().position(|(of, _)| *of == to);
        first.and_then(|first| self.sent.remove(first)).map_or((None, None), |(_, origin)| origin)
    }

    /// Forgets the messages that were never sent: they are lost with their connection.
    pub(super) fn settled(&mut self) {
        self.sent.clear();
    }
}
