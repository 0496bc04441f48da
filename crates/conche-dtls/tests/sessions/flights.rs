//! Retransmission of flights under either clock, and its reports.

use std::time::Duration;

use conche_dtls::{ClientCredentials, Config, Ended, Failure, Progress, SessionId};
use conche_proto::{Flight, Instant};

use crate::failures::{trusting, with_certificate};
use crate::wire::{CLIENT, Faults, SERVER, Wire, at, client, known, psk_server};

fn wire() -> Wire {
    Wire::new(psk_server(1), client(1), 1, Faults::default())
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn departures(wire: &mut Wire, of: usize, until: Instant) -> Vec<Instant> {
    let mut departures = Vec::new();
    while wire.now < until {
        let before = wire.ends[of].outputs.sent.len();
        let step = wire.now + ms(10);
        wire.run(step, |_| false);
        departures.extend((before..wire.ends[of].outputs.sent.len()).map(|_| wire.now));
    }
    departures
}

fn gaps(departures: &[Instant]) -> Vec<Duration> {
    departures.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn assert_doubles(gaps: &[Duration], first: Duration) {
    let mut least = first;
    for gap in gaps {
        assert!(*gap + ms(20) >= least && *gap <= least.mul_f64(1.5) + ms(20), "{gaps:?}");
        least = (least * 2).min(Duration::from_secs(60));
    }
}

/// RFC 6347 §4.2.4.1.
#[test]
fn an_unanswered_flight_is_retransmitted_with_exponential_backoff() {
    let long = Config { handshake_timeout: Duration::from_secs(600), ..client(1) };
    let mut wire = Wire::new(psk_server(1), long, 1, Faults::default());
    wire.tap = Some(Box::new(|_, _, _| false));
    wire.connect(&known());
    let gaps = gaps(&departures(&mut wire, 1, at(500)));
    assert!(gaps.len() >= 9, "{gaps:?}");
    assert_doubles(&gaps, ms(1000));
}

#[test]
fn handshakes_that_begin_together_retransmit_at_different_times() {
    let second = |seed| {
        let mut wire = Wire::new(psk_server(1), client(seed), seed, Faults::default());
        wire.tap = Some(Box::new(|_, _, _| false));
        wire.connect(&known());
        departures(&mut wire, 1, at(2))[1]
    };
    let seconds: std::collections::BTreeSet<_> = (0..50).map(second).collect();
    assert!(seconds.len() >= 25, "{seconds:?}");
}

/// RFC 6347 §4.2.4.1.
#[test]
fn a_fast_path_neither_shortens_timeouts_nor_ends_a_handshake_early() {
    for milliseconds in [1, 100, 1000] {
        let mut wire = wire();
        wire.tap = Some(Box::new(|_, _, _| false));
        let now = wire.now;
        wire.client().sessions.connect(now, SERVER, &known(), Some(Duration::from_millis(milliseconds))).unwrap();
        wire.run(now + Duration::from_millis(700), |_| false);
        assert_eq!(wire.client().outputs.sent.len(), 1);
        wire.run(now + Duration::from_millis(92_900), |_| false);
        assert_eq!(wire.client().outputs.closed, [], "{milliseconds} ms");
        wire.run(now + Duration::from_secs(94), |_| false);
        assert!(matches!(wire.client().outputs.closed[..], [(_, Ended::Failed(Failure::Silence))]));
    }
}

fn server_waits(round_trip: Duration) -> Vec<Duration> {
    let mut wire = wire();
    wire.delay = round_trip.saturating_sub(ms(20)) / 2;
    wire.tap = Some(Box::new(|from, _, datagram| from == SERVER || datagram[0] == 22 && datagram[13] == 1));
    wire.client().sessions.connect(at(0), SERVER, &known(), Some(Duration::from_secs(20))).unwrap();
    gaps(&departures(&mut wire, 0, at(60))).split_off(1)
}

#[test]
fn a_servers_flight_waits_as_long_as_its_cookie_took_to_come_back_and_longer() {
    let near = server_waits(ms(20));
    assert_doubles(&near, ms(1000));
    assert!(near.len() >= 4, "{near:?}");
    let far = server_waits(ms(4000));
    assert_doubles(&far, ms(12_000));
    assert!(!far.is_empty() && far.len() <= 2, "{far:?}");
}

/// RFC 6347 §4.2.4.
#[test]
fn a_last_flight_answers_copies_at_once_and_then_ever_more_seldom() {
    let mut wire = wire();
    wire.tap = Some(Box::new(|from, _, datagram| from == CLIENT || datagram[0] == 22));
    let session = controlled(&mut wire, &known());
    wire.run(at(0) + ms(100), |_| false);
    assert_eq!(wire.server().sessions.stats().sessions, 1, "its last flight has left, and is lost");
    wire.server().outputs.sent.clear();
    for _ in 0..50 {
        wire.client().sessions.repeat(session);
        let until = wire.now + ms(200);
        wire.run(until, |_| false);
    }
    // Gaps of one, two and four seconds.
    assert_eq!(wire.server().outputs.sent.len(), 4);
}

#[test]
fn a_servers_flight_leaves_eight_times_at_most_however_often_it_is_asked_for() {
    let mut wire = wire();
    wire.tap = Some(Box::new(|from, _, datagram| from == CLIENT || datagram[13] == 3));
    let session = controlled(&mut wire, &known());
    for _ in 0..50 {
        wire.client().sessions.repeat(session);
        let until = wire.now + ms(2000);
        wire.run(until, |_| false);
    }
    let flights = wire.server().outputs.sent.iter().filter(|datagram| datagram[0] == 22 && datagram[13] == 2).count();
    assert!((6..=8).contains(&flights), "{flights}");
}

fn controlled(wire: &mut Wire, credentials: &ClientCredentials) -> SessionId {
    let now = wire.now;
    wire.client().sessions.connect_controlled(now, SERVER, credentials).unwrap()
}

fn outputs(wire: &mut Wire) -> Vec<Progress> {
    std::mem::take(&mut wire.client().outputs.flights).into_iter().map(|(_, progress)| progress).collect()
}

fn left(progress: &Progress) -> Option<Flight> {
    match progress {
        Progress::Left(flight) => Some(*flight),
        Progress::Answered(_) => None,
    }
}

#[test]
fn the_controller_receives_each_flight_and_its_answer() {
    let mut wire = wire();
    let session = controlled(&mut wire, &known());
    let until = wire.now + ms(200);
    assert!(wire.run(until, |wire| !wire.client().outputs.established.is_empty()));
    assert_eq!(wire.client().outputs.established[0].0, session);
    let sizes: Vec<usize> = wire.client().outputs.sent.iter().map(Vec::len).collect();
    let outputs = outputs(&mut wire);
    let flights: Vec<Flight> = outputs.iter().filter_map(left).collect();
    assert_eq!(flights.iter().map(|flight| flight.bytes).collect::<Vec<_>>(), sizes);
    assert!(flights.iter().all(|flight| !flight.repeated && flight.least_timeout == Duration::from_secs(1)));
    assert_eq!(
        outputs.iter().map(|progress| left(progress).is_none()).collect::<Vec<_>>(),
        [false, true, false, true, false, true]
    );
    let answers: Vec<_> = outputs.iter().filter(|progress| left(progress).is_none()).collect();
    assert_eq!(answers, [&Progress::Answered(Some(0)); 3]);
}

fn wire_that_loses(lost: u32) -> Wire {
    let (mut wire, mut sent) = (wire(), 0);
    wire.tap = Some(Box::new(move |from, _, _| {
        sent += u32::from(from == CLIENT);
        from == SERVER || sent != lost
    }));
    wire
}

#[test]
fn a_controlled_flight_is_retransmitted_only_on_command() {
    for lost in 1..=3 {
        let mut wire = wire_that_loses(lost);
        let session = controlled(&mut wire, &known());
        wire.run(at(0) + ms(900), |_| false);
        assert_eq!(wire.client().outputs.sent.len(), lost as usize);
        let before = outputs(&mut wire);
        assert_eq!(before.iter().filter_map(left).count(), lost as usize);
        wire.client().sessions.repeat(session);
        wire.run(at(0) + ms(990), |_| false);
        let after = outputs(&mut wire);
        let flight = after.first().and_then(left).expect("a copy has left");
        assert!(flight.repeated);
        assert_eq!(wire.client().outputs.established.len(), 1, "{after:?}");
    }
}

#[test]
fn only_answers_to_client_hellos_identify_the_answered_transmission() {
    for (lost, answers) in
        [(1, [Some(1), Some(0), Some(0)]), (2, [Some(0), Some(1), Some(0)]), (3, [Some(0), Some(0), None])]
    {
        let mut wire = wire_that_loses(lost);
        let session = controlled(&mut wire, &known());
        wire.run(at(0) + ms(500), |_| false);
        wire.client().sessions.repeat(session);
        wire.run(at(0) + ms(900), |_| false);
        let outputs: Vec<_> = outputs(&mut wire).into_iter().filter(|progress| left(progress).is_none()).collect();
        assert_eq!(outputs, answers.map(Progress::Answered), "the copy that is lost is {lost}");
    }
}

/// The server's timer retransmits its lost answer.
#[test]
fn a_flight_retransmitted_by_the_server_gives_no_sample() {
    let mut wire = wire();
    let mut sent = 0;
    wire.tap = Some(Box::new(move |from, _, _| {
        sent += u32::from(from == SERVER);
        from == CLIENT || sent != 2
    }));
    controlled(&mut wire, &known());
    wire.run(at(3), |_| false);
    assert_eq!(wire.client().outputs.established.len(), 1);
    let outputs: Vec<_> = outputs(&mut wire).into_iter().filter(|progress| left(progress).is_none()).collect();
    assert_eq!(outputs, [Some(0), None, Some(0)].map(Progress::Answered));
}

#[test]
fn where_certificates_are_signed_and_verified_only_the_request_for_a_cookie_is_a_sample() {
    let mut wire = Wire::new(with_certificate(), client(1), 1, Faults::default());
    controlled(&mut wire, &trusting());
    wire.run(at(0) + ms(500), |_| false);
    assert_eq!(wire.client().outputs.established.len(), 1, "{:?}", wire.client().outputs.closed);
    let outputs: Vec<_> = outputs(&mut wire).into_iter().filter(|progress| left(progress).is_none()).collect();
    assert_eq!(outputs, [Some(0), None, None].map(Progress::Answered));
}

#[test]
fn a_controlled_handshake_ends_at_its_deadline() {
    let mut wire = wire();
    wire.tap = Some(Box::new(|_, _, _| false));
    let session = controlled(&mut wire, &known());
    wire.run(at(92), |_| false);
    wire.client().sessions.repeat(session);
    wire.run(at(94), |_| false);
    assert_eq!(wire.client().outputs.closed, [(session, Ended::Failed(Failure::Silence))]);
    wire.client().sessions.repeat(session);
    wire.tap = None;
    wire.assert_nothing_is_left();
}
