//! Attacks by unauthenticated senders and eavesdroppers.

use conche_dtls::{BUFFER, Ended, Output};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::wire::{Address, CLIENT, End, Faults, SERVER, Wire, at, client, known, psk_server};

fn hello(random: u64, cookie: &[u8]) -> Vec<u8> {
    let mut body = vec![254, 253];
    body.extend([random; 4].map(u64::to_be_bytes).concat());
    body.extend([0, u8::try_from(cookie.len()).unwrap()]);
    body.extend(cookie);
    body.extend([0, 2, 0xc0, 0xa8, 1, 0]);
    let length = u8::try_from(body.len()).unwrap();
    let number = u8::from(!cookie.is_empty());
    let mut hello = vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, number, 0, length + 12];
    hello.extend([1, 0, 0, length, 0, number, 0, 0, 0, 0, 0, length]);
    hello.extend(body);
    hello
}

/// Sends ClientHellos from `count` forged addresses, some with forged cookies, beside `honest`
/// handshakes. Returns bytes allocated for the forged ones.
fn flood(count: u64, honest: u64) -> u64 {
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut buffer = vec![0; BUFFER];
    let mut allocated = 0;
    let mut done = 0;
    for turn in 0..honest {
        for _ in 0..count / honest {
            let from = 1_000 + random.next_u32() % 1_000_000_000;
            let cookie = [random.next_u32() as u8; 32];
            let cookie = if random.next_u32() % 2 == 0 { &cookie[..] } else { &[] };
            let hello = hello(random.next_u64(), cookie);
            let now = wire.now;
            let server = wire.server();
            let info = allocation_counter::measure(|| {
                server.sessions.handle(now, from, &hello);
                loop {
                    match server.sessions.poll(now, &mut buffer) {
                        Output::Transmit { to, len } => {
                            assert_eq!(to, from);
                            assert!(len <= hello.len(), "an answer of {len} bytes to {}", hello.len());
                        }
                        Output::Wait(_) => break,
                        other => panic!("{other:?}"),
                    }
                }
            });
            allocated += info.bytes_total;
        }
        assert_eq!(wire.server().sessions.stats().handshakes, 0);
        if turn > 0 {
            let address = CLIENT + 100 + u32::try_from(turn).unwrap();
            wire.ends[1] = End::new(address, client(turn), turn);
        }
        done += u64::from(wire.handshake(&known()));
        wire.assert_nothing_is_left();
    }
    assert!(done * 100 >= honest * 99, "{done} of {honest} honest handshakes");
    let stats = wire.server().sessions.stats();
    assert_eq!((stats.established, stats.failed), (done, 0));
    allocated
}

#[test]
fn client_hellos_from_spoofed_addresses_allocate_no_memory() {
    assert_eq!(flood(20_000, 20), 0);
}

#[test]
#[ignore = "a million: cargo test --release -- --ignored"]
fn a_million_client_hellos_from_spoofed_addresses_allocate_no_memory() {
    let started = std::time::Instant::now();
    assert_eq!(flood(1_000_000, 1000), 0);
    println!("10^6 hellos and 10^3 honest handshakes among them: {:.1} s", started.elapsed().as_secs_f64());
}

/// Returns a session's protected records to the server and to the client.
fn open() -> (Wire, Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    assert!(wire.handshake(&known()));
    wire.run(at(50), |_| false);
    for end in &mut wire.ends {
        end.outputs.sent.clear();
    }
    for number in 0..100_u8 {
        for end in 0..2 {
            let session = wire.ends[end].outputs.established[0].0;
            wire.ends[end].sessions.send(session, &[number; 20]).unwrap();
        }
        let until = wire.now + std::time::Duration::from_millis(20);
        wire.run(until, |_| false);
    }
    assert_eq!((wire.server().outputs.received.len(), wire.client().outputs.received.len()), (100, 100));
    let [to_client, to_server] = [0, 1].map(|end: usize| wire.ends[end].outputs.sent.clone());
    (wire, to_server, to_client)
}

fn forge(count: u64) {
    let (mut wire, to_server, to_client) = open();
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut buffer = vec![0; BUFFER];
    for _ in 0..count {
        let (end, from, records) =
            if random.next_u32() % 2 == 0 { (0, CLIENT, &to_server) } else { (1, SERVER, &to_client) };
        let mut record = records[random.next_u32() as usize % records.len()].clone();
        match random.next_u32() % 4 {
            0 => {}
            1 => flip(&mut record, &mut random),
            2 => (0..8).for_each(|_| flip(&mut record, &mut random)),
            _ => {
                // A sequence number that no replay window has seen.
                record[9] = record[9].wrapping_add(1);
                record[10] = random.next_u32() as u8;
            }
        }
        let now = wire.now;
        let sessions = &mut wire.ends[end].sessions;
        sessions.handle(now, from, &record);
        loop {
            match sessions.poll(now, &mut buffer) {
                Output::Wait(_) => break,
                Output::Transmit { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    let session = wire.client().outputs.established[0].0;
    wire.client().sessions.send(session, b"still here").unwrap();
    let until = wire.now + std::time::Duration::from_secs(1);
    wire.run(until, |_| false);
    assert_eq!(wire.server().outputs.received.last().unwrap().1, b"still here");
}

fn flip(record: &mut [u8], random: &mut ChaCha8Rng) {
    let bit = random.next_u32() as usize % (record.len() * 8);
    record[bit / 8] ^= 1 << (bit % 8);
}

#[test]
fn records_again_or_changed_are_not_accepted() {
    forge(10_000);
}

#[test]
#[ignore = "a million: cargo test --release -- --ignored"]
fn a_million_records_again_or_changed_are_not_accepted() {
    forge(1_000_000);
}

#[test]
fn unprotected_application_data_is_never_delivered() {
    let (mut wire, _, _) = open();
    let plain = [&[23, 254, 253, 0, 0, 0, 0, 0, 0, 0, 200, 0, 5][..], b"false"].concat();
    for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        wire.send(from, to, plain.clone());
    }
    wire.run(at(90), |_| false);
    assert_eq!((wire.server().outputs.received.len(), wire.client().outputs.received.len()), (100, 100));
}

#[test]
fn alerts_without_protection_end_no_session() {
    let (mut wire, _, _) = open();
    for alert in [[2, 40], [1, 0]] {
        let plain = [&[21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 200, 0, 2][..], &alert].concat();
        for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
            wire.send(from, to, plain.clone());
        }
    }
    wire.run(at(90), |_| false);
    assert_eq!((wire.server().sessions.stats().sessions, wire.client().sessions.stats().sessions), (1, 1));
}

#[test]
fn a_close_notify_is_reported_once_at_each_end() {
    let (mut wire, _, _) = open();
    let session = wire.client().outputs.established[0].0;
    wire.client().sessions.close(session);
    wire.client().sessions.close(session);
    wire.settle();
    assert_eq!(wire.client().outputs.closed, [(session, Ended::Closed)]);
    assert!(matches!(wire.server().outputs.closed[..], [(_, Ended::ByPeer)]));
    assert!(wire.ends.iter().all(|end| end.sessions.is_empty()));
}

#[test]
fn a_cookie_is_invalid_from_another_address() {
    let mut wire = Wire::new(psk_server(1), client(1), 1, Faults::default());
    assert!(wire.handshake(&known()));
    let hello = wire.client().outputs.sent[1].clone();
    let elsewhere: Address = 77;
    wire.send(elsewhere, SERVER, hello);
    wire.settle();
    let stats = wire.server().sessions.stats();
    assert_eq!((stats.established, stats.handshakes, stats.failed), (1, 0, 0));
}
