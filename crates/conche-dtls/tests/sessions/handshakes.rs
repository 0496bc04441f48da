//! Handshakes over wires that lose, repeat and disorder datagrams.

use std::time::Duration;

use conche_dtls::{Ended, Failure, Identity};

use crate::wire::{CLIENT, Faults, Wire, client, known, psk_server};

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
fn handshakes_are_done_over_links_of_127_bytes_and_of_fewer() {
    for (seed, mtu) in (0..50).flat_map(|seed| [(seed, 127), (seed, 99)]) {
        let small = |config| conche_dtls::Config { mtu, ..config };
        let faults = Faults { loss: 10, ..Faults::default() };
        let mut wire = Wire::new(small(psk_server(seed)), small(client(seed)), seed, faults);
        assert!(wire.handshake(&known()));
        for end in &wire.ends {
            assert!(end.told.sent.iter().all(|datagram| datagram.len() <= mtu));
        }
        wire.assert_nothing_is_left();
    }
}

/// RFC 6347 §4.2.1.
#[test]
fn a_server_answers_a_hello_under_its_number() {
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    let mut lost = 0;
    wire.tap = Some(Box::new(move |from, _, _| {
        lost += u32::from(from == CLIENT);
        from != CLIENT || lost > 3
    }));
    assert!(wire.handshake(&known()));
    let number = |datagram: &Vec<u8>| datagram[5..11].to_vec();
    let with_message = |sent: &[Vec<u8>], message, seq| {
        sent.iter().find(|datagram| datagram[0] == 22 && datagram[13] == message && datagram[18] == seq).map(number)
    };
    let (client, server) = (wire.client().told.sent.clone(), wire.server().told.sent.clone());
    let (hello, answer) = (with_message(&client, 1, 1), with_message(&server, 2, 1));
    assert_eq!(hello, Some(vec![0, 0, 0, 0, 0, 4]), "three hellos were lost, one was asked for a cookie");
    assert_eq!(hello, answer);
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
