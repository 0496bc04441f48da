//! [`Underlay`]: what may stand between an endpoint and the network, as sessions of DTLS do.

use std::collections::{BTreeMap, VecDeque};

use conche_proto::{ExchangeId, Flight};

use crate::packet::{Cause, Copied};
use crate::{Instant, NodeId};

/// Turns messages of an endpoint into datagrams and back, and has datagrams of its own. It has neither clock nor network, as the
/// endpoint: its node polls it after all that happens to it.
///
/// The endpoint's peers are nodes, whatever ways to them there are one after the other. When one is over, all that went on over it fails.
pub trait Underlay {
    /// Bytes of the buffer that it is polled with.
    fn buffer_bytes(&self) -> usize;

    /// A datagram arrived.
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &[u8]);

    /// Takes a message of the endpoint; [`poll`](Self::poll) has the datagram. `false` if there is no way to the peer.
    fn send(&mut self, to: NodeId, message: &[u8]) -> bool;

    /// Whether the way to a peer is open.
    fn is_open(&self, to: NodeId) -> bool;

    /// A flight of the handshake that opens the way to a peer may leave: its first, or a copy of the last. The endpoint's congestion control says so,
    /// which [`Step::Left`] and [`Step::Answered`] tell what comes of it. [`Step::Opened`] or [`Step::Refused`] follows.
    fn fly(&mut self, now: Instant, to: NodeId);

    /// Nobody waits any more for the way that is being opened to a peer. [`Step::Refused`] follows.
    fn give_up(&mut self, to: NodeId);

    /// A message was never acknowledged: the peer may have forgotten the way, and whoever connects next needs another one.
    fn doubt(&mut self, peer: NodeId);

    /// What there is to do. It is polled until it waits.
    fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Step;
}

/// What an [`Underlay`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the datagram at the front of the buffer.
    Transmit {
        /// Whom to.
        to: NodeId,
        /// Its bytes.
        len: usize,
    },
    /// The front of the buffer holds a message.
    Received {
        /// Who has sent it.
        from: NodeId,
        /// Its bytes.
        len: usize,
    },
    /// A flight has left, or a copy of it: the datagrams for this peer since the last time.
    Left(NodeId, Flight),
    /// The answer to the last flight begins to come: to which copy, if that is known and it is a round trip.
    Answered(NodeId, Option<u8>),
    /// The way to a peer is open that was asked for.
    Opened(NodeId),
    /// There will be none.
    Refused(NodeId),
    /// The way to a peer is over.
    Lost(NodeId),
    /// Nothing before this time.
    Wait(Option<Instant>),
}

/// An underlay, and what its datagrams are of.
pub(super) struct Below {
    pub(super) layer: Box<dyn Underlay>,
    /// Messages that have gone into it and have not come out.
    sent: VecDeque<(NodeId, Origin)>,
    /// The handshakes that go on, as the endpoint names them.
    pub(super) handshakes: BTreeMap<NodeId, ExchangeId>,
    /// Those that the endpoint has refused.
    pub(super) refused: VecDeque<NodeId>,
}

/// What a datagram is a copy of, and what it answers.
type Origin = (Option<Copied>, Option<Cause>);

impl Below {
    pub(super) fn new(layer: Box<dyn Underlay>) -> Self {
        Self { layer, sent: VecDeque::new(), handshakes: BTreeMap::new(), refused: VecDeque::new() }
    }

    /// Hands a message down.
    pub(super) fn send(&mut self, to: NodeId, message: &[u8], origin: Origin) -> bool {
        let is_sent = self.layer.send(to, message);
        if is_sent {
            self.sent.push_back((to, origin));
        }
        is_sent
    }

    /// What the datagram is of that leaves for a peer. Its own datagrams are of no message: while messages wait, it has none for their peers.
    pub(super) fn origin(&mut self, to: NodeId) -> Origin {
        let first = self.sent.iter().position(|(of, _)| *of == to);
        first.and_then(|first| self.sent.remove(first)).map_or((None, None), |(_, origin)| origin)
    }

    /// Nothing more is to come out: what is left has been lost with its way.
    pub(super) fn settled(&mut self) {
        self.sent.clear();
    }
}
