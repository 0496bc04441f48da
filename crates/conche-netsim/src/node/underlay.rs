//! [`Underlay`]: what may stand between an endpoint and the network, as sessions of DTLS do.

use std::collections::{BTreeMap, VecDeque};

use conche_proto::cc::control::Why;
use conche_proto::{Event, ExchangeId, Failure, Flight, Input};

use super::{Application, Node};
use crate::host::Port;
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

impl<A: Application> Node<A> {
    /// One step of what is below the endpoint. The answer is when it has something to do next, if it has nothing to do now.
    pub(super) fn step_below(&mut self, port: &mut Port<'_, A::Timer>, buffer: &mut [u8]) -> Option<Option<Instant>> {
        let now = port.now();
        let Some(below) = &mut self.below else { return Some(None) };
        let handshake = |peer: &NodeId| below.handshakes.get(peer).copied();
        let refused = below.refused.pop_front().map(Step::Refused);
        match refused.unwrap_or_else(|| below.layer.poll(now, buffer)) {
            Step::Transmit { to, len } => {
                let (copy, cause) = below.origin(to);
                port.send(to, &buffer[..len], copy, cause);
            }
            Step::Received { from, len } => {
                let input = Input::datagram(from, &buffer[..len]);
                self.endpoint.handle(now, input).expect("the endpoint is drained after every input");
            }
            Step::Left(to, flight) => {
                if let Some(handshake) = handshake(&to) {
                    self.endpoint.flight_left(now, handshake, &flight);
                }
            }
            Step::Answered(peer, copy) => {
                if let Some(handshake) = handshake(&peer) {
                    self.endpoint.flight_answered(now, handshake, copy);
                }
            }
            Step::Opened(peer) => {
                if let Some(handshake) = below.handshakes.remove(&peer) {
                    self.endpoint.handshake_over(now, handshake, None);
                }
                self.act(port, |application, context| application.connected(context, peer, true));
            }
            Step::Refused(peer) => {
                if let Some(handshake) = below.handshakes.remove(&peer) {
                    self.endpoint.handshake_over(now, handshake, Some(Why::GaveUp));
                }
                self.act(port, |application, context| application.connected(context, peer, false));
            }
            Step::Lost(peer) => self.endpoint.lose_peer(now, &peer),
            Step::Wait(due) => {
                below.settled();
                return Some(due);
            }
        }
        None
    }

    /// What the endpoint says of a handshake is not for the application. `false` if it is about something else.
    pub(super) fn hear_of_handshake(&mut self, now: Instant, event: &Event<NodeId>) -> bool {
        let Some(below) = &mut self.below else { return false };
        let (Event::Flight { exchange, peer } | Event::Failed { exchange, peer, .. }) = event else { return false };
        if below.handshakes.get(peer) != Some(exchange) {
            return false;
        }
        match event {
            Event::Flight { .. } => below.layer.fly(now, *peer),
            _ => {
                below.handshakes.remove(peer);
                below.layer.give_up(*peer);
            }
        }
        true
    }

    /// A peer that acknowledges nothing may have started anew.
    pub(super) fn doubt(&mut self, event: &Event<NodeId>) {
        if let (Some(below), Event::Failed { peer, reason: Failure::TimedOut, course, .. }) = (&mut self.below, event)
            && course.acknowledged_after.is_none()
        {
            below.layer.doubt(*peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conche_proto::cc::default::CoapDefault;
    use conche_proto::codec::{Body, Code};
    use conche_proto::{EndpointConfig, Request, Response};

    use super::*;
    use crate::Simulation;
    use crate::node::Context;
    use crate::packet::{Packet, PacketMeta};
    use crate::trace::Observer;
    use crate::wired::{LinkConfig, Topology};

    const KNOCK: u8 = b'?';
    const COME_IN: u8 = b'!';
    const MESSAGE: u8 = b'>';

    /// Lets messages through behind a byte, once the peer has answered a knock. The first message that comes after `closes` closes it.
    #[derive(Default)]
    struct Door {
        steps: VecDeque<(Step, Vec<u8>)>,
        closes: Option<Instant>,
        knocked: bool,
        is_open: bool,
    }

    impl Door {
        fn transmit(&mut self, to: NodeId, bytes: Vec<u8>) {
            self.steps.push_back((Step::Transmit { to, len: bytes.len() }, bytes));
        }
    }

    impl Underlay for Door {
        fn buffer_bytes(&self) -> usize {
            64
        }

        fn receive(&mut self, now: Instant, from: NodeId, datagram: &[u8]) {
            match datagram {
                [KNOCK] => {
                    self.is_open = true;
                    self.transmit(from, vec![COME_IN]);
                }
                [COME_IN] => {
                    self.is_open = true;
                    self.steps.push_back((Step::Opened(from), Vec::new()));
                }
                [MESSAGE, ..] if self.closes.is_some_and(|closes| closes <= now) => {
                    self.is_open = false;
                    self.steps.push_back((Step::Lost(from), Vec::new()));
                }
                [MESSAGE, message @ ..] => {
                    self.steps.push_back((Step::Received { from, len: message.len() }, message.to_vec()));
                }
                other => panic!("{other:?}"),
            }
        }

        fn send(&mut self, to: NodeId, message: &[u8]) -> bool {
            if self.is_open {
                self.transmit(to, [&[MESSAGE], message].concat());
            }
            self.is_open
        }

        fn is_open(&self, _: NodeId) -> bool {
            self.is_open
        }

        fn fly(&mut self, _: Instant, to: NodeId) {
            self.transmit(to, vec![KNOCK]);
            let flight = Flight { bytes: 1, repeated: self.knocked, least_timeout: Duration::from_secs(1) };
            self.knocked = true;
            self.steps.push_back((Step::Left(to, flight), Vec::new()));
        }

        fn give_up(&mut self, to: NodeId) {
            self.steps.push_back((Step::Refused(to), Vec::new()));
        }

        fn doubt(&mut self, _: NodeId) {}

        fn poll(&mut self, _: Instant, buffer: &mut [u8]) -> Step {
            let Some((step, bytes)) = self.steps.pop_front() else { return Step::Wait(None) };
            buffer[..bytes.len()].copy_from_slice(&bytes);
            step
        }
    }

    /// Asks a server as soon as the way to it is open, and once more after each answer, or answers.
    #[derive(Default)]
    struct Asking {
        server: Option<NodeId>,
        seen: Vec<String>,
    }

    impl Asking {
        fn ask(&self, context: &mut Context<'_, Self>) {
            if let Some(server) = self.server.filter(|server| context.connect(*server)) {
                context.request(server, Request::new(Code::GET, Body::EMPTY)).expect("idle");
            }
        }
    }

    impl Application for Asking {
        type Controller = CoapDefault;
        type Timer = ();

        fn start(&mut self, context: &mut Context<'_, Self>) {
            self.ask(context);
        }

        fn connected(&mut self, context: &mut Context<'_, Self>, _: NodeId, is_open: bool) {
            self.seen.push(format!("{} ms: open {is_open}", context.now().as_millis()));
            self.ask(context);
        }

        fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
            let at = context.now().as_millis();
            match event {
                Event::Request { id, .. } => {
                    context.respond(id, Response::new(Code::CONTENT, Body::EMPTY)).expect("it waits");
                }
                Event::Response { .. } => {
                    self.seen.push(format!("{at} ms: response"));
                    self.ask(context);
                }
                Event::Failed { reason, .. } => self.seen.push(format!("{at} ms: {reason:?}")),
                other => panic!("{other:?}"),
            }
        }

        fn timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}
    }

    #[derive(Default)]
    struct Sent(Vec<(u8, PacketMeta)>);

    impl Observer for Sent {
        fn on_sent(&mut self, _: Instant, packet: &Packet) {
            self.0.push((packet.bytes()[0], packet.meta));
        }
    }

    #[test]
    fn messages_wait_for_the_way_to_their_peer_and_fail_with_it() {
        let mut net = Topology::new();
        let nodes = [net.node("client"), net.node("server")];
        let delay = Duration::from_millis(100);
        net.duplex("link", nodes[0], nodes[1], LinkConfig { delay, ..LinkConfig::default() });
        let mut sim = Simulation::new(&net, 1, Sent::default()).expect("a valid topology");
        for (node, server) in nodes.into_iter().zip([Some(nodes[1]), None]) {
            let application = Asking { server, seen: Vec::new() };
            let host = Node::new(EndpointConfig::default(), CoapDefault::default(), [7; 32], application);
            let closes = server.map(|_| Instant::from_millis(600));
            let host = host.expect("defaults are valid").over(Box::new(Door { closes, ..Door::default() }));
            sim.attach(node, host).expect("a node");
        }
        sim.run();
        let (hosts, sent) = sim.into_parts();
        let seen = &hosts[0].1.application().seen;
        assert_eq!(seen[..], ["200 ms: open true", "400 ms: response", "600 ms: Unreachable"]);
        let kinds: Vec<u8> = sent.0.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, *b"?!>>>>");
        let [_, (_, come_in), (_, request), (_, answer), ..] = sent.0[..] else { panic!("{:?}", sent.0) };
        assert_eq!((come_in.copy, come_in.cause), (None, None), "it is of no message");
        assert_eq!(request.copy.map(|copy| copy.attempt), Some(0));
        assert_eq!(answer.cause, Some(request.as_cause()));
    }
}
