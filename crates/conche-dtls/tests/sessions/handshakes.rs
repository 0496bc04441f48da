//! Handshakes over wires that lose, repeat and disorder datagrams.

use std::time::Duration;

use conche_dtls::{Ended, Failure, Identity};

use crate::wire::{Faults, Wire, client, known, psk_server};

/// Handshakes and an exchange of data under these faults, one for each seed. How many were completed.
fn completed(seeds: u64, faults: Faults) -> u64 {
    (0..seeds).filter(|seed| survives(*seed, faults)).count() as u64
}

fn survives(seed: u64, faults: Faults) -> bool {
    let mut wire = Wire::new(psk_server(seed), client(seed), seed, faults);
    let done = wire.handshake(&known());
    if done {
        assert_eq!(wire.server().told.established[0].1, Identity::Psk(b"lamp".to_vec()));
        wire.faults = Faults::default();
        let (session, _) = wire.client().told.established[0];
        wire.client().sessions.send(session, b"on").unwrap();
        let until = wire.now + Duration::from_secs(1);
        wire.run(until, |wire| !wire.server().told.received.is_empty());
        assert_eq!(wire.server().told.received[0].1, b"on");
    } else {
        // Whoever did not get there was told why, in time.
        wire.settle();
        for (_, why) in &wire.client().told.closed {
            assert_eq!(*why, Ended::Failed(Failure::Silence));
        }
    }
    wire.assert_nothing_is_left();
    done
}

#[test]
fn all_handshakes_are_done_on_a_perfect_wire() {
    assert_eq!(completed(100, Faults::default()), 100);
}

#[test]
fn all_handshakes_are_done_where_a_tenth_is_lost() {
    assert_eq!(completed(300, Faults { loss: 10, ..Faults::default() }), 300);
}

#[test]
fn handshakes_are_done_or_end_in_time_where_three_tenths_are_lost() {
    assert!(completed(300, Faults { loss: 30, ..Faults::default() }) >= 285);
}

#[test]
fn all_handshakes_are_done_where_datagrams_come_twice_and_in_disorder() {
    let jitter = Duration::from_millis(500);
    assert_eq!(completed(300, Faults { loss: 0, twice: 50, jitter }), 300);
}

#[test]
fn handshakes_are_done_or_end_in_time_where_all_of_that_happens() {
    let jitter = Duration::from_millis(500);
    assert!(completed(300, Faults { loss: 30, twice: 30, jitter }) >= 285);
}

#[test]
fn handshakes_are_done_over_links_of_127_bytes() {
    for seed in 0..50 {
        let small = |config| conche_dtls::Config { mtu: 127, ..config };
        let faults = Faults { loss: 10, ..Faults::default() };
        let mut wire = Wire::new(small(psk_server(seed)), small(client(seed)), seed, faults);
        assert!(wire.handshake(&known()));
        for end in &wire.ends {
            assert!(end.told.sent.iter().all(|datagram| datagram.len() <= 127));
        }
        wire.assert_nothing_is_left();
    }
}

#[test]
#[ignore = "a thousand seeds for each of five wires: cargo test --release -- --ignored"]
fn a_thousand_handshakes_each_are_done_or_end_in_time() {
    let jitter = Duration::from_millis(500);
    let wires = [(0, 0, 0), (10, 0, 0), (30, 0, 0), (0, 50, 500), (30, 30, 500)];
    for (loss, twice, milliseconds) in wires {
        let faults = Faults { loss, twice, jitter: if milliseconds == 0 { Duration::ZERO } else { jitter } };
        let done = completed(1000, faults);
        println!("{loss} % lost, {twice} % twice, {milliseconds} ms of disorder: {done} of 1000");
        assert!(done >= if loss < 30 { 1000 } else { 950 });
    }
}
