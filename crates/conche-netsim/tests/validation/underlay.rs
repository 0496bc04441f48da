//! A layer below an endpoint that must be opened first, like a DTLS session.

use std::collections::VecDeque;
use std::time::Duration;

use conche_netsim::node::{Application, Context, Node, Step, Underlay};
use conche_netsim::packet::{Packet, PacketMeta};
use conche_netsim::trace::Observer;
use conche_netsim::wired::{LinkConfig, Topology};
use conche_netsim::{Instant, NodeId, Simulation};
use conche_proto::cc::default::CoapDefault;
use conche_proto::codec::{Body, Code};
use conche_proto::{EndpointConfig, Event, Flight, Request, Response};

const KNOCK: u8 = b'?';
const COME_IN: u8 = b'!';
const MESSAGE: u8 = b'>';

/// Passes prefixed messages once the peer has answered a knock. The first message after `closes`
/// closes it.
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

    fn send_flight(&mut self, _: Instant, to: NodeId) {
        self.transmit(to, vec![KNOCK]);
        let flight = Flight { bytes: 1, repeated: self.knocked, least_timeout: Duration::from_secs(1) };
        self.knocked = true;
        self.steps.push_back((Step::Left(to, flight), Vec::new()));
    }

    fn give_up(&mut self, to: NodeId) {
        self.steps.push_back((Step::Refused(to), Vec::new()));
    }

    fn mark_doubtful(&mut self, _: NodeId) {}

    fn poll(&mut self, _: Instant, buffer: &mut [u8]) -> Step {
        let Some((step, bytes)) = self.steps.pop_front() else { return Step::Wait(None) };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        step
    }
}

/// A client that sends a request once connected to its server and after each response; or a server.
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
    assert_eq!((come_in.transmission, come_in.cause), (None, None), "it is of no message");
    assert_eq!(request.transmission.map(|copy| copy.attempt), Some(0));
    assert_eq!(answer.cause, Some(request.as_cause()));
}
