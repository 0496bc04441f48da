//! Replays of recorded ClientHellos with valid cookies.

use std::time::Duration;

use conche_dtls::{BUFFER, ClientCredentials, Config, Output, Sessions};
use conche_proto::Instant;
use conche_proto::config::ResponseLimit;

use crate::failures::{trusting, with_certificate, with_large_certificate};
use crate::wire::{Address, CLIENT, End, Faults, SERVER, Wire, at, client, known, psk_server};

fn drain(sessions: &mut Sessions<Address>, now: Instant) -> Vec<Vec<u8>> {
    let (mut buffer, mut sent) = (vec![0; BUFFER], Vec::new());
    loop {
        match sessions.poll(now, &mut buffer) {
            Output::Transmit { len, .. } => sent.push(buffer[..len].to_vec()),
            Output::Wait(_) => return sent,
            _ => {}
        }
    }
}

fn hello(
    server: &mut Sessions<Address>,
    now: Instant,
    from: Address,
    credentials: &ClientCredentials,
    seed: u64,
) -> Vec<u8> {
    let mut client = End::new(from, client(seed), seed).sessions;
    client.connect(now, SERVER, credentials, None).unwrap();
    server.handle(now, from, &drain(&mut client, now)[0]);
    client.handle(now, SERVER, &drain(server, now)[0]);
    drain(&mut client, now).remove(0)
}

/// Replays two ClientHellos alternately for 100 s, every 50 ms. Returns the server's bytes in and
/// out.
fn replayed(config: Config, credentials: &ClientCredentials, apart: Duration) -> (usize, usize) {
    let mut server = End::new(SERVER, config, 1).sessions;
    let start = at(1);
    let first = hello(&mut server, start, CLIENT, credentials, 1);
    let hellos = [first, hello(&mut server, start + apart, CLIENT, credentials, 2)];
    let (mut bytes_in, mut bytes_out) = (0, 0);
    for turn in 0..2000 {
        let now = start + apart + Duration::from_millis(50) * turn;
        let hello = &hellos[turn as usize % 2];
        bytes_in += hello.len();
        server.handle(now, CLIENT, hello);
        bytes_out += drain(&mut server, now).iter().map(Vec::len).sum::<usize>();
    }
    let stats = server.stats();
    assert!(stats.failed + stats.handshakes as u64 <= 3, "each hello begins one handshake: {stats:?}");
    (bytes_in, bytes_out)
}

#[test]
fn two_recorded_hellos_by_turns_are_answered_by_fewer_bytes_than_they_have() {
    let [none, little, long] = [0, 1, 9000].map(Duration::from_millis);
    let kinds = [
        ("key, made at once", psk_server(1), known(), none),
        ("key", psk_server(1), known(), little),
        ("key, made far apart", psk_server(1), known(), long),
        ("certificate", with_certificate(), trusting(), little),
        ("large certificate", with_large_certificate(), trusting(), little),
    ];
    for (name, server, credentials, apart) in kinds {
        let (bytes_in, bytes_out) = replayed(server, &credentials, apart);
        assert!(bytes_out < bytes_in, "{name}: {bytes_in} in, {bytes_out} out");
    }
}

#[test]
fn an_older_hello_of_a_client_does_not_end_its_running_handshake() {
    let mut wire = Wire::new(psk_server(1), client(8), 1, Faults::default());
    let now = wire.now;
    let old = hello(&mut wire.server().sessions, now, CLIENT, &known(), 7);
    wire.run(at(9), |_| false);
    // The client's second flight is lost at first.
    let until = wire.now + Duration::from_secs(5);
    wire.tap = Some(Box::new(|from, _, datagram| from == SERVER || datagram[13] == 1));
    wire.connect(&known());
    wire.run(until, |wire| wire.server().sessions.stats().handshakes == 1);
    for _ in 0..20 {
        let now = wire.now + Duration::from_millis(50);
        wire.server().sessions.handle(now, CLIENT, &old);
        wire.run(now, |_| false);
    }
    wire.tap = None;
    assert!(wire.run(until, |wire| wire.ends.iter().all(|end| !end.outputs.established.is_empty())));
    let stats = wire.server().sessions.stats();
    assert_eq!((stats.established, stats.failed), (1, 0));
    wire.assert_nothing_is_left();
}

#[test]
fn a_hello_that_has_begun_a_session_disturbs_no_later_handshake_of_the_client() {
    for pause in [9, 100] {
        let mut wire = Wire::new(psk_server(1), client(8), 1, Faults::default());
        assert!(wire.handshake(&known()));
        let is_second = |datagram: &&Vec<u8>| datagram[13] == 1 && datagram[18] == 1;
        let old = wire.client().outputs.sent.iter().find(is_second).unwrap().clone();
        wire.run(at(pause), |_| false);
        // A restarted client, with its old ClientHello after each datagram.
        wire.ends[1] = End::new(CLIENT, client(9), 9);
        wire.connect(&known());
        let (mut sent, until) = (0, wire.now + Duration::from_secs(1));
        let done = wire.run(until, |wire| {
            if wire.client().outputs.sent.len() > sent {
                sent = wire.client().outputs.sent.len();
                wire.send(CLIENT, SERVER, old.clone());
            }
            wire.server().outputs.established.len() == 2 && !wire.client().outputs.established.is_empty()
        });
        assert!(done, "after {pause} s");
        assert_eq!(wire.server().sessions.stats().failed, 0);
        wire.assert_nothing_is_left();
    }
}

#[test]
fn a_hello_whose_handshake_has_failed_is_asked_for_a_new_cookie() {
    let mut server = End::new(SERVER, psk_server(1), 1).sessions;
    let hello = hello(&mut server, at(1), CLIENT, &known(), 1);
    // With a Finished made without a key.
    let exchange =
        [&[22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 18], &[16, 0, 0, 6, 0, 2, 0, 0, 0, 0, 0, 6][..], b"\0\x04lamp"];
    let change = [20, 254, 253, 0, 0, 0, 0, 0, 0, 0, 10, 0, 1, 1];
    let finished = [&[22, 254, 253, 0, 1, 0, 0, 0, 0, 0, 0, 0, 40][..], &[7; 40]];
    let broken = [exchange.concat(), change.to_vec(), finished.concat()];
    let mut asked = 0;
    for turn in 0..100 {
        let now = at(2) + Duration::from_millis(10) * turn;
        server.handle(now, CLIENT, &hello);
        let answers = drain(&mut server, now);
        asked += answers.iter().filter(|answer| answer[0] == 22 && answer[13] == 3).count();
        assert!(turn == 0 || answers.iter().map(Vec::len).sum::<usize>() <= hello.len());
        server.handle(now, CLIENT, &broken.concat());
        drain(&mut server, now);
        assert_eq!(server.stats().handshakes, 0);
    }
    assert_eq!((server.stats().failed, asked), (1, 99));
}

#[test]
fn a_host_begins_no_more_handshakes_that_it_does_not_finish_than_it_may() {
    let limit = |per_second, burst| ResponseLimit { per_second, burst };
    let config = Config { unfinished_per_host: limit(2, 10), unfinished_per_group: limit(4, 20), ..psk_server(1) };
    let mut server = End::new(SERVER, config, 1).sessions;
    server.set_source_groups(Box::new(|_| 1));
    server.set_hosts(Box::new(|address| u64::from(address / 1000)));
    let mut begun = |hosts: std::ops::Range<Address>, now: Instant| {
        let before = server.stats().handshakes + server.stats().failed as usize;
        for (host, port) in hosts.flat_map(|host| (0..30).map(move |port| (host, port))) {
            let from = host * 1000 + port;
            let hello = hello(&mut server, now, from, &known(), u64::from(from));
            server.handle(now, from, &hello);
            drain(&mut server, now);
        }
        server.stats().handshakes + server.stats().failed as usize - before
    };
    assert_eq!(begun(1..2, at(1)), 10);
    assert_eq!(begun(2..9, at(1)), 10, "the group's share");
    assert_eq!(begun(1..2, at(3)), 4, "two a second");
}

#[test]
fn handshakes_that_are_finished_do_not_count() {
    let config = Config { unfinished_per_host: ResponseLimit { per_second: 1, burst: 1 }, ..psk_server(1) };
    let mut wire = Wire::new(config, client(1), 1, Faults::default());
    for seed in 10..30 {
        wire.ends[1] = End::new(CLIENT, client(seed), seed);
        assert!(wire.handshake(&known()));
        let until = wire.now + Duration::from_millis(1);
        wire.run(until, |_| false);
    }
    assert!(wire.now < at(20));
    assert_eq!(wire.server().sessions.stats().refused, 0);
}
