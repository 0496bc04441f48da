//! Reliable transmission (RFC 7252 §4.2) and unreliable transmission (§4.3).

use conche_proto::codec::{Code, Type};
use conche_proto::{Endpoint, EndpointConfig, Failure, Instant, Output, Reliability, TransmissionParameters};

use crate::model::Address;
use crate::support::statistics::uniform_ks_p;
use crate::support::world::{by_name, seed_of};
use crate::support::{CLIENT, SERVER, World, acknowledged_at, end_of, ms, request, s, wire, with_transmission};

/// Returns the intervals from the first departure to all others.
fn schedule(departures: &[Instant]) -> Vec<u64> {
    departures.iter().skip(1).map(|&at| nanos(at - departures[0])).collect()
}

fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("a test takes less than centuries")
}

// RFC 7252 §4.2 (Q08)
#[test]
fn each_outstanding_message_has_its_own_timeout_and_counter() {
    let transmission = TransmissionParameters { nstart: 3, ..TransmissionParameters::default() };
    let mut world = World::client_of(&with_transmission(transmission), by_name("basic"));
    let exchanges = [0, 1, 2].map(|_| {
        world.run(ms(700));
        world.request(request(Code::GET, "/test"))
    });
    world.run(s(1));
    let acknowledged = world.first_copy(exchanges[1]);
    world.inject(SERVER, CLIENT, &wire::empty_ack(acknowledged.message().header().id));
    world.run(s(100));
    let departures = exchanges.map(|exchange| world.departures(exchange));
    assert_eq!(departures[1].len(), 1, "the one that was acknowledged is not repeated");
    for departures in [&departures[0], &departures[2]] {
        let first = schedule(departures)[0];
        assert_eq!(schedule(departures), [1, 3, 7, 15].map(|n| n * first));
    }
    assert_ne!(schedule(&departures[0]), schedule(&departures[2]), "each draws its own timeout");
}

// RFC 7252 §4.2 (Q09)
#[test]
fn the_first_timeout_is_uniform_between_ack_timeout_and_its_random_multiple() {
    const DRAWS: u32 = 100_000;
    let mut endpoint: Endpoint<Address, _> =
        Endpoint::new(EndpointConfig::default(), by_name("default"), seed_of(3)).expect("legal parameters");
    let (now, mut buffer) = (Instant::ZERO, [0; 1152]);
    let mut draws = Vec::new();
    for n in 0..DRAWS {
        // 50 000 message IDs per peer, available at once.
        let peer = (n / 50_000) as Address;
        let exchange = endpoint.request(now, peer, request(Code::GET, "/test")).expect("room");
        let Output::Transmit(transmit) = endpoint.poll(now, &mut buffer) else { panic!("the request leaves") };
        assert_eq!(transmit.attempt, 0, "the counter starts at 0");
        let Output::Wait(Some(wake)) = endpoint.poll(now, &mut buffer) else { panic!("a timeout is armed") };
        draws.push((wake - now).as_secs_f64());
        assert!(endpoint.cancel(now, exchange));
    }
    assert!(draws.iter().all(|draw| (2.0..=3.0).contains(draw)));
    let p = uniform_ks_p(draws.iter().map(|draw| draw - 2.0).collect());
    assert!(p > 0.01, "p = {p}");
}

// RFC 7252 §4.2 (Q10, Q11)
#[test]
fn copies_leave_after_t_3t_7t_15t_and_the_failure_comes_after_31t() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    world.run_to_end();
    let departures = world.departures(asked);
    let t = schedule(&departures)[0];
    assert_eq!(schedule(&departures), [t, 3 * t, 7 * t, 15 * t]);
    let (at, end) = end_of(world.events(CLIENT), asked).expect("the application is told");
    assert_eq!((end.map(|_| ()), nanos(at - departures[0])), (Err(Failure::TimedOut), 31 * t));
}

// RFC 7252 §4.2 (Q11)
#[test]
fn a_reset_ends_retransmission_and_is_reported_to_the_application() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    world.run(s(4));
    assert_eq!(world.departures(asked).len(), 2);
    let id = world.first_copy(asked).message().header().id;
    world.inject(SERVER, CLIENT, &wire::reset(id));
    let told_at = world.now;
    world.run_to_end();
    assert_eq!(world.departures(asked).len(), 2);
    assert_eq!(end_of(world.events(CLIENT), asked), Some((told_at, Err(Failure::Reset))));
}

// RFC 7252 §4.2 (Q12)
#[test]
fn an_acknowledgement_in_time_ends_retransmission() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    world.run(ms(1_999));
    let id = world.first_copy(asked).message().header().id;
    world.inject(SERVER, CLIENT, &wire::empty_ack(id));
    assert_eq!(acknowledged_at(world.events(CLIENT), asked), Some(world.now));
    world.run_to_end();
    assert_eq!(world.departures(asked).len(), 1);
}

// RFC 7252 §4.2 (Q13)
#[test]
fn a_copy_that_leaves_late_still_gets_its_whole_timeout() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    world.sleep(s(20));
    world.run(s(25));
    let departures = world.departures(asked);
    assert_eq!(departures[1], Instant::ZERO + s(20), "one copy leaves, not all that were missed");
    let gap = departures[2] - departures[1];
    assert!(gap >= s(4), "after {gap:?}: twice the first timeout, which is at least ACK_TIMEOUT");
}

// RFC 7252 §4.2 (Q14)
#[test]
fn no_copy_leaves_after_max_transmit_span() {
    for (asleep, copies) in [(44, 2), (46, 1), (60, 1)] {
        let mut world = World::client();
        let asked = world.request(request(Code::GET, "/test"));
        world.sleep(s(asleep));
        world.run(s(200));
        assert_eq!(world.departures(asked).len(), copies, "asleep for {asleep} s");
        assert!(world.departures(asked).iter().all(|&at| at <= Instant::ZERO + s(45)));
        let (_, end) = end_of(world.events(CLIENT), asked).expect("the application is told");
        assert_eq!(end.map(|_| ()), Err(Failure::TimedOut));
    }
}

#[test]
fn with_a_longer_span_a_late_copy_leaves() {
    let longer = Some(s(600));
    let transmission = TransmissionParameters { transmit_span: longer, ..TransmissionParameters::default() };
    let mut world = World::client_of(&with_transmission(transmission), by_name("default"));
    let asked = world.request(request(Code::GET, "/test"));
    world.sleep(s(60));
    world.run(s(1));
    assert_eq!(world.departures(asked), [Instant::ZERO, Instant::ZERO + s(60)]);
}

// RFC 7252 §4.2 (Q15)
#[test]
fn cancelling_and_a_separate_response_end_retransmission_early() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    world.run(s(4));
    assert!(world.cancel(asked));
    world.run_to_end();
    assert_eq!((world.departures(asked).len(), end_of(world.events(CLIENT), asked)), (2, None));

    for ty in [Type::Confirmable, Type::NonConfirmable] {
        let asked = world.request(request(Code::GET, "/test"));
        world.run(s(4));
        let response = wire::separate(&world.first_copy(asked).bytes, ty, Code::CONTENT, 5);
        world.inject(SERVER, CLIENT, &response);
        world.run_to_end();
        assert_eq!(world.departures(asked).len(), 2);
    }
}

// RFC 7252 §4.3 (Q23)
#[test]
fn a_non_confirmable_request_is_sent_once() {
    for reliability in [Reliability::NonConfirmable, Reliability::NeverConfirmable] {
        let mut world = World::client();
        let asked = world.request(request(Code::GET, "/test").with_reliability(reliability));
        world.run_to_end();
        assert_eq!(world.departures(asked).len(), 1);
        let (_, end) = end_of(world.events(CLIENT), asked).expect("the application is told");
        assert_eq!(end.map(|_| ()), Err(Failure::TimedOut));
    }
}
