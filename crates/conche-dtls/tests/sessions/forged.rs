//! Datagrams forged by an off-path attacker that knows addresses and state.

use std::time::Duration;

use conche_dtls::{Ended, Failure};

use crate::wire::{CLIENT, Faults, SERVER, Wire, at, client, known, psk_server};

fn record(content: u8, fragment: &[u8]) -> Vec<u8> {
    let length = u8::try_from(fragment.len()).unwrap();
    [&[content, 254, 253, 0, 0, 0, 0, 0, 0, 0, 99, 0, length], fragment].concat()
}

fn message(kind: u8, number: u8, body: &[u8]) -> Vec<u8> {
    let length = u8::try_from(body.len()).unwrap();
    record(22, &[&[kind, 0, 0, length, 0, number, 0, 0, 0, 0, 0, length], body].concat())
}

fn protected() -> Vec<u8> {
    let mut record = record(22, &[7; 40]);
    record[4] = 1;
    record
}

fn alert(description: u8) -> Vec<u8> {
    record(21, &[2, description])
}

fn with_forged(end: usize, nth: usize, forged: &[u8]) -> Wire {
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    wire.connect(&known());
    wire.run(at(1), |wire| wire.ends[end].outputs.sent.len() >= nth);
    let (now, from) = (wire.now, [CLIENT, SERVER][end]);
    wire.ends[end].sessions.handle(now, from, forged);
    wire
}

fn goes_on(end: usize, nth: usize, forged: &[u8]) {
    let mut wire = with_forged(end, nth, forged);
    let until = wire.now + Duration::from_secs(5);
    let done = wire.run(until, |wire| wire.ends.iter().all(|end| end.sessions.stats().sessions > 0));
    assert!(done, "end {end} after {nth} datagrams: {forged:?}");
    wire.assert_nothing_is_left();
}

#[test]
fn one_forged_datagram_does_not_end_a_clients_handshake() {
    let forged = [
        alert(40),
        record(21, &[1, 0]),
        record(20, &[1]),
        protected(),
        message(0, 0, &[]),
        message(2, 0, &[7; 20]),
        message(2, 9, &[7; 50]),
        message(11, 1, &[7; 50]),
        message(14, 0, &[]),
        message(20, 5, &[7; 12]),
        message(99, 1, &[7; 12]),
    ];
    for (nth, forged) in (1..=2).flat_map(|nth| forged.iter().map(move |forged| (nth, forged))) {
        goes_on(1, nth, forged);
    }
}

#[test]
fn one_forged_datagram_does_not_end_a_servers_handshake() {
    let forged = [
        alert(40),
        record(21, &[1, 0]),
        record(20, &[1]),
        protected(),
        message(0, 2, &[]),
        message(11, 2, &[7; 50]),
        message(15, 4, &[7; 50]),
        message(20, 2, &[7; 12]),
        message(16, 9, &[0, 1, 7]),
    ];
    for forged in &forged {
        goes_on(0, 2, forged);
    }
}

#[test]
fn alerts_all_along_do_not_end_a_handshake() {
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults { loss: 0, twice: 100, jitter: Duration::ZERO });
    wire.tap = Some(Box::new(|from, _, datagram| {
        if from == SERVER && datagram[0] == 22 && datagram[4] == 0 {
            *datagram = [alert(40), datagram.clone(), alert(51)].concat();
        }
        true
    }));
    assert!(wire.handshake(&known()));
    assert!(wire.now < at(1), "without a repetition");
}

#[test]
fn an_alert_is_the_peers_if_nothing_else_comes_within_a_flight_timeout() {
    for (end, nth) in [(1, 1), (1, 2), (0, 2)] {
        let mut wire = with_forged(end, nth, &alert(80));
        let began = wire.now;
        wire.tap = Some(Box::new(|_, _, _| false));
        wire.run(began + Duration::from_millis(500), |_| false);
        let now = wire.now;
        wire.ends[end].sessions.handle(now, [CLIENT, SERVER][end], &alert(81));
        wire.run(began + Duration::from_millis(990), |_| false);
        assert_eq!(wire.ends[end].sessions.stats().handshakes, 1);
        wire.run(began + Duration::from_millis(1010), |_| false);
        assert_eq!(wire.ends[end].sessions.stats().handshakes, 0);
        if end == 1 {
            assert!(matches!(wire.client().outputs.closed[..], [(_, Ended::Failed(Failure::Alert(80)))]));
        }
    }
}

#[test]
fn an_alert_that_was_followed_by_more_is_the_reason_at_the_end() {
    let mut wire = with_forged(1, 1, &alert(80));
    let mut heard = 0;
    wire.tap = Some(Box::new(move |from, _, _| {
        heard += u32::from(from == SERVER);
        from == CLIENT || heard <= 2
    }));
    let until = wire.now + Duration::from_secs(60);
    wire.run(until, |_| false);
    assert_eq!(wire.client().outputs.closed, []);
    wire.settle();
    assert!(matches!(wire.client().outputs.closed[..], [(_, Ended::Failed(Failure::Alert(80)))]));
}
