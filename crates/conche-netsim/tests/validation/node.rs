//! A client and a server over a link: operations of their applications.

use std::time::Duration;

use conche_netsim::node::{Application, Context, Node};
use conche_netsim::packet::{Cause, Packet, PacketMeta};
use conche_netsim::rng::{Entity, Purpose};
use conche_netsim::trace::Observer;
use conche_netsim::wired::{LinkConfig, Topology};
use conche_netsim::{Instant, NodeId, RunEnd, Simulation};
use conche_proto::cc::default::CoapDefault;
use conche_proto::codec::{Body, Code};
use conche_proto::{
    EndpointConfig, Event, ExchangeId, Failure, Reliability, Request, RequestId, Response, SourceValidation,
};

const LATENCY: Duration = Duration::from_millis(100);

/// Returns the configuration of a closed network, where sources need not prove their addresses.
fn closed() -> EndpointConfig {
    EndpointConfig { source_validation: SourceValidation::Off, ..EndpointConfig::default() }
}

enum Script {
    Get(NodeId, Reliability),
    Ping(NodeId),
    Impatient(NodeId, Duration),
    Timers,
    Separate(Duration),
    Silent,
}

enum Due {
    Begin,
    Cancel(ExchangeId),
    Answer(RequestId, Option<Cause>),
    Never,
}

struct Scripted {
    script: Script,
    seen: Vec<String>,
}

impl Application for Scripted {
    type Timer = Due;

    fn start(&mut self, context: &mut Context<'_, Self>) {
        context.set_timer(Duration::from_millis(1), Due::Begin);
        if let Script::Timers = self.script {
            let timer = context.set_timer(Duration::from_millis(2), Due::Never);
            assert!(context.cancel_timer(timer));
            assert!(!context.cancel_timer(timer));
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        let at = context.now().as_millis();
        self.seen.push(match &event {
            Event::Request { .. } => format!("{at} ms: request"),
            Event::Response { course, .. } => format!("{at} ms: response, {} sent", course.transmissions),
            Event::Acknowledged { .. } => format!("{at} ms: acknowledged"),
            Event::Failed { reason, .. } => format!("{at} ms: {reason:?}"),
            event => format!("{at} ms: {event:?}"),
        });
        if let (Script::Separate(delay), Event::Request { id, .. }) = (&self.script, event) {
            let cause = context.cause();
            assert!(cause.is_some());
            let _ = context.acknowledge(id);
            context.set_timer(*delay, Due::Answer(id, cause));
        }
    }

    fn timer(&mut self, context: &mut Context<'_, Self>, due: Due) {
        let get = Request::new(Code::GET, Body::default());
        match (due, &self.script) {
            (Due::Begin, Script::Get(server, reliability)) => {
                context.request(*server, get.with_reliability(*reliability)).expect("idle");
            }
            (Due::Begin, Script::Ping(server)) => {
                context.ping(*server).expect("idle");
            }
            (Due::Begin, Script::Impatient(server, patience)) => {
                let exchange = context.request(*server, get).expect("idle");
                context.set_timer(*patience, Due::Cancel(exchange));
            }
            (Due::Begin, Script::Timers) => {
                context.set_timer(Duration::from_secs(1), Due::Never);
                context.stop();
            }
            (Due::Begin, _) => {}
            (Due::Cancel(exchange), _) => assert!(context.cancel(exchange)),
            (Due::Answer(request, cause), _) => {
                assert_eq!(context.cause(), None, "a timer has no cause of its own");
                context.respond_to(cause, request, Response::new(Code::CONTENT, Body::default())).expect("waiting");
            }
            (Due::Never, _) => self.seen.push("a timer that should not fire".to_owned()),
        }
    }
}

#[derive(Default)]
struct Sent(Vec<PacketMeta>);

impl Observer for Sent {
    fn on_sent(&mut self, _: Instant, packet: &Packet) {
        self.0.push(packet.meta);
    }
}

fn run(client: impl FnOnce(NodeId) -> Script, server: Script) -> (Vec<String>, Vec<String>, Vec<PacketMeta>, RunEnd) {
    run_over(LATENCY, client, server)
}

fn run_over(
    delay: Duration,
    client: impl FnOnce(NodeId) -> Script,
    server: Script,
) -> (Vec<String>, Vec<String>, Vec<PacketMeta>, RunEnd) {
    let mut net = Topology::new();
    let nodes = [net.node("client"), net.node("server")];
    net.duplex("link", nodes[0], nodes[1], LinkConfig { delay, ..LinkConfig::default() });
    let mut sim = Simulation::new(&net, 1, Sent::default()).expect("a valid topology");
    for (node, script) in nodes.into_iter().zip([client(nodes[1]), server]) {
        let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
        let application = Scripted { script, seen: Vec::new() };
        let host = Node::new(closed(), CoapDefault::default(), seed, application);
        sim.attach(node, host.expect("defaults are valid")).expect("a node");
    }
    let ended = sim.run();
    let (hosts, sent) = sim.into_parts();
    let mut seen = hosts.into_iter().map(|(_, host)| host.into_application().seen);
    (seen.next().expect("a client"), seen.next().expect("a server"), sent.0, ended)
}

#[test]
fn a_separate_response_answers_the_request_that_was_stated() {
    let (client, server, sent, ended) =
        run(|server| Script::Get(server, Reliability::Confirmable), Script::Separate(Duration::from_secs(1)));
    assert_eq!(client, ["201 ms: acknowledged", "1201 ms: response, 1 sent"]);
    assert_eq!(server, ["101 ms: request", "1301 ms: acknowledged"]);
    assert_eq!(ended, RunEnd::Idle);

    let [request, ack, response, final_ack] = sent[..] else { panic!("{sent:?}") };
    assert_eq!((request.cause, request.transmission.map(|transmission| transmission.attempt)), (None, Some(0)));
    assert_eq!((ack.cause, ack.transmission), (Some(request.as_cause()), None));
    assert_eq!(response.cause, Some(request.as_cause()));
    assert_eq!(
        response.transmission.map(|transmission| transmission.node),
        Some(response.from),
        "it is an exchange of the server"
    );
    assert_eq!(final_ack.cause.map(|cause| cause.packet), Some(response.id));
}

#[test]
fn all_copies_of_a_separate_response_answer_the_same_request() {
    // A round trip of 4 s exceeds the first timeout: everything is sent twice.
    let (_, _, sent, _) = run_over(
        Duration::from_secs(2),
        |server| Script::Get(server, Reliability::Confirmable),
        Script::Separate(Duration::from_secs(1)),
    );
    let (request, server) = (sent[0], sent[0].to);
    let responses: Vec<_> =
        sent.iter().filter(|meta| meta.transmission.is_some_and(|transmission| transmission.node == server)).collect();
    assert_eq!(responses.iter().map(|meta| meta.transmission.expect("filtered").attempt).collect::<Vec<_>>(), [0, 1]);
    assert!(responses.iter().all(|meta| meta.cause == Some(request.as_cause())), "{responses:?}");
}

#[test]
fn a_response_after_the_request_ended_is_answered_by_a_reset() {
    let patience = Duration::from_millis(500);
    let (_, server, sent, _) =
        run(|server| Script::Impatient(server, patience), Script::Separate(Duration::from_secs(1)));
    assert_eq!(server, ["101 ms: request", "1301 ms: Reset"]);
    assert_eq!(sent[3].cause.map(|cause| cause.packet), Some(sent[2].id));
}

#[test]
fn a_ping_is_an_exchange_and_its_reset_the_answer() {
    let (client, server, sent, _) = run(Script::Ping, Script::Silent);
    assert_eq!(client, ["201 ms: acknowledged"]);
    assert!(server.is_empty());
    let [ping, pong] = sent[..] else { panic!("{sent:?}") };
    assert!(ping.transmission.is_some());
    assert_eq!((pong.transmission, pong.cause), (None, Some(ping.as_cause())));
}

#[test]
fn retransmissions_are_numbered_copies_of_one_exchange() {
    let mut net = Topology::new();
    let (client, nobody) = (net.node("client"), net.node("nobody"));
    net.duplex("link", client, nobody, LinkConfig::default());
    let mut sim = Simulation::new(&net, 1, Sent::default()).expect("a valid topology");
    let application = Scripted { script: Script::Get(nobody, Reliability::Confirmable), seen: Vec::new() };
    let host = Node::new(closed(), CoapDefault::default(), [7; 32], application);
    sim.attach(client, host.expect("defaults are valid")).expect("a node");
    sim.run();
    let (hosts, sent) = sim.into_parts();
    let copies: Vec<_> = sent.0.iter().filter_map(|meta| meta.transmission).collect();
    assert_eq!(copies.iter().map(|transmission| transmission.attempt).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(
        copies.iter().all(|transmission| transmission.exchange == copies[0].exchange && transmission.node == client)
    );
    let seen = &hosts[0].1.application().seen;
    assert!(seen.len() == 1 && seen[0].ends_with(&format!("{:?}", Failure::TimedOut)), "{seen:?}");
}

#[test]
fn a_cancelled_timer_is_silent_and_a_stop_ends_the_run() {
    let (client, _, _, ended) = run(|_| Script::Timers, Script::Silent);
    assert!(client.is_empty());
    assert_eq!(ended, RunEnd::Stopped);
}
