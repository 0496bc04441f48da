//! Requesters and responders over 100 ms each way.

use std::rc::Rc;
use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::wired::{LinkConfig, Loss, Topology};
use conche_netsim::{Instant, NodeId, Simulation};
use conche_proto::cc::AnyController;
use conche_proto::codec::Code;

use conche_lab::scenario::Endpoint;
use conche_lab::workload::*;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Returns requester, responder and timeouts of one flow.
fn run(
    controller: &str,
    flow: impl FnOnce(NodeId) -> Flow,
    loss: Loss,
    until: Instant,
) -> (Requester, Responder, Vec<Timeout>) {
    let mut net = Topology::new();
    let (client, server) = (net.node("client"), net.node("server"));
    let link = LinkConfig { delay: Duration::from_millis(100), ..LinkConfig::default() };
    net.link("there", client, server, LinkConfig { loss, ..link });
    net.link("back", server, client, link);
    let mut sim = Simulation::<Node<Application>>::new(&net, 1, ()).expect("a valid network");
    let streams = sim.streams();
    let nstart = if controller == "default" { 1 } else { 4 };
    let named = |name| AnyController::by_name(name).expect("a controller");
    let timeouts = Timeouts::default();
    let controller = timeouts.of(named(controller));
    let requester = Some(Requester::new(vec![Rc::new(flow(server))], None));
    let asking = Application { requester, timeouts: Some(timeouts), ..Application::default() };
    let responder = Responder::new(Code::CHANGED, body_of(20, 2)).with_arrivals();
    let answering = Application { responder: Some(Box::new(responder)), ..Application::default() };
    for (node, nstart, controller, application) in
        [(client, nstart, controller.clone(), asking), (server, 1, named("default"), answering)]
    {
        let config = config(&Endpoint { token_length: 2, ..Endpoint::default() }, nstart);
        let seed = endpoint_seed(&streams, node, 0);
        let host = Node::new(config, controller, seed, application).expect("a valid configuration");
        sim.attach(node, host).expect("a node");
    }
    sim.run_until(until);
    let (hosts, ()) = sim.into_parts();
    let (mut requester, mut responder, mut timeouts) = (None, None, None);
    for (_, host) in hosts {
        let application = host.into_application();
        requester = requester.or(application.requester);
        responder = responder.or(application.responder);
        timeouts = timeouts.or(application.timeouts);
    }
    let timeouts = timeouts.expect("attached").into_log();
    (requester.expect("attached"), *responder.expect("attached"), timeouts)
}

fn flow(peer: NodeId, pace: Pace) -> Flow {
    Flow { pace, method: Code::POST, body: body_of(40, 2), ..Flow::to(peer) }
}

#[test]
fn a_closed_loop_keeps_its_exchanges_outstanding_until_it_has_opened_all() {
    let two = |peer| Flow { outstanding: 2, limit: Limit::Opened(7), ..flow(peer, Pace::Closed) };
    let (requester, responder, timeouts) = run("cocoa-plus", two, Loss::None, at(60_000));
    let tally = requester.flows()[0].tally;
    assert_eq!((tally.generated, tally.opened, tally.answered, tally.failed), (7, 7, 7, 0));
    let ends: Vec<_> = requester.flows()[0].exchanges.iter().map(|exchange| exchange.ended).collect();
    assert_eq!(ends, [200, 200, 400, 400, 600, 600, 800].map(at), "two at a time, 200 ms each");
    assert!(
        requester.flows()[0].exchanges.iter().all(|exchange| exchange.round_trip == Some(Duration::from_millis(200)))
    );
    assert_eq!((responder.arrivals().len(), timeouts.len()), (7, 7));
    assert!(timeouts.iter().all(|timeout| timeout.attempt == 0));
}

#[test]
fn messages_generated_at_a_rate_wait_for_their_turn_and_stop_with_the_flow() {
    let segments = vec![Segment { from: at(1000), interval: Duration::from_millis(50), messages: 1 }];
    let pace = Pace::Clock(segments);
    let (requester, _, _) =
        run("cocoa-plus", |peer| Flow { stop: Some(at(2000)), ..flow(peer, pace) }, Loss::None, at(60_000));
    let tally = requester.flows()[0].tally;
    assert_eq!((tally.generated, tally.opened, tally.answered), (20, 5, 5), "one exchange every 200 ms for a second");
    assert_eq!(requester.flows()[0].exchanges[0].began, at(1000));
}

#[test]
fn non_confirmable_messages_to_a_peer_that_answers_keep_their_rate() {
    let segments = vec![Segment { from: at(0), interval: Duration::from_millis(500), messages: 1 }];
    let pace = Pace::Clock(segments);
    let (requester, responder, timeouts) = run(
        "default",
        |peer| Flow { confirmable: false, outstanding: 9, stop: Some(at(1400)), ..flow(peer, pace) },
        Loss::None,
        at(1400),
    );
    assert_eq!(requester.flows()[0].tally.opened, 3);
    let arrivals: Vec<_> = responder.arrivals().iter().map(|arrival| arrival.at).collect();
    assert_eq!(arrivals, [100, 600, 1100].map(at));
    assert!(timeouts.is_empty(), "a NON message has no retransmission timer");
}

#[test]
fn exchanges_that_fail_are_recorded_with_all_their_copies() {
    let one = |peer| Flow { limit: Limit::Opened(1), ..flow(peer, Pace::Closed) };
    let (requester, responder, timeouts) = run("cocoa-plus", one, Loss::Bernoulli(1.0), at(300_000));
    let [exchange] = requester.flows()[0].exchanges[..] else { panic!("{requester:?}") };
    assert!(!exchange.answered && exchange.round_trip.is_none());
    assert_eq!((exchange.transmissions, requester.flows()[0].tally.failed), (5, 1));
    let attempts: Vec<_> = timeouts.iter().map(|timeout| timeout.attempt).collect();
    assert_eq!((attempts, responder.arrivals().len()), (vec![0, 1, 2, 3, 4], 0));
}
