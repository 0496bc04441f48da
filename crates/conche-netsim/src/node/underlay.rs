//! [`Underlay`]: a layer between endpoint and network, such as DTLS.

use std::collections::{BTreeMap, VecDeque};

use conche_proto::{ExchangeId, Flight};

use crate::packet::{Cause, Transmission};
use crate::{Instant, NodeId};

/// A layer that turns messages into datagrams and back, and may send its own. The node polls it
/// after every input. A connection's end fails all exchanges with the peer.
pub trait Underlay {
    /// Returns [`poll`](Self::poll)'s buffer size in bytes.
    fn buffer_bytes(&self) -> usize;

    /// Handles a datagram.
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &[u8]);

    /// Takes a message for [`poll`](Self::poll); returns `false` without an open connection.
    fn send(&mut self, to: NodeId, message: &[u8]) -> bool;

    /// Returns `true` if the connection is open.
    fn is_open(&self, to: NodeId) -> bool;

    /// Sends a handshake's first flight, or retransmits the last, when congestion control permits.
    /// [`Step::Left`] and [`Step::Answered`] report progress, [`Step::Opened`] or [`Step::Refused`]
    /// the outcome.
    fn send_flight(&mut self, now: Instant, to: NodeId);

    /// Abandons a handshake; [`Step::Refused`] follows.
    fn give_up(&mut self, to: NodeId);

    /// Requires a handshake for the next connect, after an unacknowledged message.
    fn mark_doubtful(&mut self, peer: NodeId);

    /// Returns the next step, until [`Step::Wait`].
    fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Step;
}

/// A step of an [`Underlay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the datagram in the buffer.
    Transmit {
        /// Destination.
        to: NodeId,
        /// Length in bytes.
        len: usize,
    },
    /// Pass the message in the buffer to the endpoint.
    Received {
        /// Sender.
        from: NodeId,
        /// Length in bytes.
        len: usize,
    },
    /// A flight or retransmission was sent: the peer's datagrams since the last such step.
    Left(NodeId, Flight),
    /// The answer to the last flight begins; with the transmission it answers if the time between
    /// them is a round trip.
    Answered(NodeId, Option<u8>),
    /// The requested connection is open.
    Opened(NodeId),
    /// The requested connection failed.
    Refused(NodeId),
    /// The connection has ended.
    Lost(NodeId),
    /// Nothing to do before this time.
    Wait(Option<Instant>),
}

pub(super) struct UnderlayState {
    pub(super) layer: Box<dyn Underlay>,
    sent: VecDeque<(NodeId, Origin)>,
    pub(super) handshakes: BTreeMap<NodeId, ExchangeId>,
    pub(super) refused: VecDeque<NodeId>,
}

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

    pub(super) fn origin(&mut self, to: NodeId) -> Origin {
        let first = self.sent.iter().position(|(of, _)| *of == to);
        first.and_then(|first| self.sent.remove(first)).map_or((None, None), |(_, origin)| origin)
    }

    pub(super) fn settled(&mut self) {
        self.sent.clear();
    }
}
