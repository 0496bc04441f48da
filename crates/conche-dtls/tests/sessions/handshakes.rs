//! Handshakes over lossy, duplicating and reordering wires.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use conche_dtls::{Config, Ended, Failure, Identity, KeyLog};

use crate::failures::{presenting, that_asks, trusting, with_certificate};
use crate::wire::{CLIENT, Faults, SERVER, Wire, at, client, known, psk_server};

fn completed(seeds: u64, faults: Faults) -> u64 {
    (0..seeds).filter(|seed| survives(*seed, faults)).count() as u64
}

fn survives(seed: u64, faults: Faults) -> bool {
    let mut wire = Wire::new(psk_server(seed), client(seed), seed, faults);
    let done = wire.handshake(&known());
    if done {
        assert_eq!(wire.server().outputs.established[0].1, Identity::Psk(b"lamp".to_vec()));
        wire.faults = Faults::default();
        let (session, _) = wire.client().outputs.established[0];
        wire.client().sessions.send(session, b"on").unwrap();
        let until = wire.now + Duration::from_secs(1);
        wire.run(until, |wire| !wire.server().outputs.received.is_empty());
        assert_eq!(wire.server().outputs.received[0].1, b"on");
    } else {
        wire.settle();
        for (_, why) in &wire.client().outputs.closed {
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
        let small = |config| Config { mtu, ..config };
        let faults = Faults { loss: 10, ..Faults::default() };
        let mut wire = Wire::new(small(psk_server(seed)), small(client(seed)), seed, faults);
        assert!(wire.handshake(&known()));
        for end in &wire.ends {
            assert!(end.outputs.sent.iter().all(|datagram| datagram.len() <= mtu));
        }
        wire.assert_nothing_is_left();
    }
}

fn halved(datagram: &[u8], middle: usize) -> Vec<u8> {
    let body = &datagram[25..];
    let half = |number: u8, from: usize, to: usize| {
        let mut record = datagram[..25].to_vec();
        record[9] = number;
        let uint = |value: usize| u16::try_from(value).unwrap().to_be_bytes();
        record[11..13].copy_from_slice(&uint(12 + to - from));
        record[20..22].copy_from_slice(&uint(from));
        record[23..25].copy_from_slice(&uint(to - from));
        record.extend(&body[from..to]);
        record
    };
    [half(1, 0, middle), half(2, middle, body.len())].concat()
}

#[test]
fn fragments_of_a_hello_may_share_a_datagram_if_the_first_has_the_cookie() {
    // Version, random, session ID, cookie, one cipher suite, one compression method.
    let enough = 2 + 32 + 1 + 33 + 4 + 2;
    for (middle, done) in [(enough, true), (enough - 1, false)] {
        let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
        wire.tap = Some(Box::new(move |_, _, datagram| {
            if datagram[0] == 22 && datagram[13] == 1 && datagram[18] == 1 {
                *datagram = halved(datagram, middle);
            }
            true
        }));
        assert_eq!(wire.handshake(&known()), done);
        wire.tap = None;
        wire.settle();
        wire.assert_nothing_is_left();
    }
}

fn turned_round(mut datagram: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    while let Some(length) = datagram.get(11..13) {
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let (record, rest) = datagram.split_at(13 + length);
        records.insert(0, record);
        datagram = rest;
    }
    records.concat()
}

#[test]
fn a_reordered_finished_message_is_buffered() {
    for turned in [CLIENT, SERVER] {
        let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
        wire.tap = Some(Box::new(move |from, _, datagram| {
            // Flights that begin with ClientKeyExchange or ChangeCipherSpec.
            if from == turned && (datagram[0] == 20 || datagram[13] == 16) {
                *datagram = turned_round(datagram);
            }
            true
        }));
        assert!(wire.handshake(&known()));
        assert!(wire.now < at(1), "without a repetition");
        wire.tap = None;
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
    let (client, server) = (wire.client().outputs.sent.clone(), wire.server().outputs.sent.clone());
    let (hello, answer) = (with_message(&client, 1, 1), with_message(&server, 2, 1));
    assert_eq!(hello, Some(vec![0, 0, 0, 0, 0, 4]), "three hellos were lost, one was asked for a cookie");
    assert_eq!(hello, answer);
}

// RFC 7252 §9.1.3.1 (Q227)
#[test]
fn keys_go_with_the_suite_that_all_have() {
    const TLS_PSK_WITH_AES_128_CCM_8: [u8; 2] = [0xc0, 0xa8];
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    assert!(wire.handshake(&known()));
    // After headers, version, random and session ID; a ClientHello has its cookie first, at first
    // empty.
    let after_session = |hello: &[u8]| 13 + 12 + 2 + 32 + 1 + usize::from(hello[59]);
    let hello = &wire.ends[1].outputs.sent[0];
    let at = after_session(hello) + 1;
    assert_eq!(hello[at..at + 2], [0, 2], "one suite");
    assert_eq!(hello[at + 2..at + 4], TLS_PSK_WITH_AES_128_CCM_8);
    let is_server_hello = |datagram: &&Vec<u8>| datagram[0] == 22 && datagram[13] == 2;
    let answer = wire.ends[0].outputs.sent.iter().find(is_server_hello).expect("it answered");
    assert_eq!(answer[after_session(answer)..][..2], TLS_PSK_WITH_AES_128_CCM_8);
}

fn extensions(hello: &[u8]) -> Vec<u16> {
    let long = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    let mut at = 13 + 12 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    at += 1 + usize::from(hello[at]);
    at += 2 + long(at);
    at += 1 + usize::from(hello[at]);
    assert_eq!(at + 2 + long(at), hello.len());
    at += 2;
    let mut types = Vec::new();
    while at < hello.len() {
        types.push(long(at) as u16);
        at += 4 + long(at + 2);
    }
    types
}

/// pion, and thus every go-coap server, aborts a handshake that offers SRTP.
#[test]
fn a_client_offers_no_srtp_with_any_credentials() {
    const USE_SRTP: u16 = 14;
    const EXTENDED_MASTER_SECRET: u16 = 23;
    for (server, credentials) in
        [(psk_server(1), known()), (with_certificate(), trusting()), (that_asks(), presenting())]
    {
        let mut wire = Wire::new(server.clone(), client(1), 3, Faults::default());
        assert!(wire.handshake(&credentials));
        let is_hello = |datagram: &&Vec<u8>| datagram[0] == 22 && datagram[13] == 1;
        let hellos: Vec<_> =
            wire.client().outputs.sent.iter().filter(is_hello).map(|hello| extensions(hello)).collect();
        assert_eq!(hellos.len(), 2);
        for types in hellos {
            assert!(!types.contains(&USE_SRTP) && types.contains(&EXTENDED_MASTER_SECRET), "{types:?}");
        }
        wire.assert_nothing_is_left();

        let small = |config| Config { mtu: 127, ..config };
        let mut wire = Wire::new(small(server), small(client(1)), 3, Faults { loss: 5, ..Faults::default() });
        assert!(wire.handshake(&credentials));
        wire.assert_nothing_is_left();
    }
}

#[test]
fn a_psk_server_is_reported_as_anonymous() {
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    assert!(wire.handshake(&known()));
    assert_eq!(wire.client().outputs.established[0].1, Identity::Anonymous);
    assert_eq!(wire.server().outputs.established[0].1, Identity::Psk(b"lamp".to_vec()));
}

#[test]
fn both_ends_log_the_same_secret_and_each_session_has_its_own() {
    let lines: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
    let logging = |config, lines: &Arc<Mutex<Vec<String>>>| {
        let lines = Arc::clone(lines);
        let key_log = KeyLog::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        Config { key_log: Some(key_log), ..config }
    };
    let mut wire = Wire::new(logging(psk_server(1), &lines[0]), logging(client(1), &lines[1]), 1, Faults::default());
    assert!(wire.handshake(&known()));
    assert!(wire.handshake(&known()));
    wire.settle();
    let [server, client] = lines.map(|lines| lines.lock().unwrap().clone());
    assert_eq!(server, client);
    assert!(server.len() == 2 && server[0] != server[1], "{server:?}");
    let words: Vec<usize> = server[0].split(' ').map(str::len).collect();
    assert_eq!(words, [13, 64, 96]);
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
