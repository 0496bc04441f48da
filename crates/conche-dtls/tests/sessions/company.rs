//! Several associations per address, and too many.

use std::time::Duration;

use conche_dtls::{ClientCredentials, Config, ConnectError, Ended, SendError};

use crate::wire::{Address, CLIENT, End, Faults, SERVER, Wire, client, known, psk_server};

fn wire(server: Config) -> Wire {
    Wire::new(server, client(1), 1, Faults::default())
}

fn restart(wire: &mut Wire, seed: u64) {
    wire.ends[1] = End::new(CLIENT, client(seed), seed);
}

fn soon(wire: &mut Wire) {
    let until = wire.now + Duration::from_millis(100);
    wire.run(until, |_| false);
}

/// RFC 6347 §4.2.8.
#[test]
fn a_client_that_restarts_gets_a_new_session_and_the_old_one_is_usable_until_then() {
    let mut wire = wire(psk_server(1));
    assert!(wire.handshake(&known()));
    let (old, _) = wire.server().outputs.established[0];
    let before = std::mem::replace(&mut wire.ends[1], End::new(CLIENT, client(99), 99));
    // The new handshake stays half complete.
    wire.tap = Some(Box::new(|from, _, datagram| from == SERVER || datagram[13] == 1));
    wire.connect(&known());
    soon(&mut wire);
    let stats = wire.server().sessions.stats();
    assert_eq!((stats.sessions, stats.handshakes), (1, 1));

    wire.tap = None;
    let after = std::mem::replace(&mut wire.ends[1], before);
    wire.server().sessions.send(old, b"are you there").unwrap();
    soon(&mut wire);
    assert_eq!(wire.client().outputs.received.last().unwrap().1, b"are you there");
    let (mine, _) = wire.client().outputs.established[0];
    wire.client().sessions.send(mine, b"here").unwrap();
    soon(&mut wire);
    assert_eq!(wire.server().outputs.received.last().unwrap(), &(old, b"here".to_vec()));

    wire.ends[1] = after;
    let until = wire.now + Duration::from_secs(30);
    assert!(wire.run(until, |wire| wire.server().outputs.established.len() == 2));
    let (new, _) = wire.server().outputs.established[1];
    assert_ne!(new, old);
    assert_eq!(wire.server().outputs.closed, [(old, Ended::Replaced)]);
    assert_eq!(wire.server().sessions.send(old, b"x"), Err(SendError::NotOpen));
    wire.assert_nothing_is_left();
}

#[test]
fn no_id_is_ever_used_again() {
    let mut wire = wire(psk_server(1));
    let mut seen = Vec::new();
    for seed in 100..120 {
        restart(&mut wire, seed);
        assert!(wire.handshake(&known()));
        soon(&mut wire);
    }
    for (session, _) in &wire.server().outputs.established {
        assert!(!seen.contains(session), "{session} again");
        seen.push(*session);
    }
    assert_eq!(seen.len(), 20);
    for old in &seen[..19] {
        assert_eq!(wire.server().sessions.send(*old, b"x"), Err(SendError::NotOpen));
    }
}

#[test]
fn a_handshake_with_a_wrong_key_does_not_end_an_established_session() {
    let mut wire = wire(psk_server(1));
    assert!(wire.handshake(&known()));
    let (old, _) = wire.server().outputs.established[0];
    restart(&mut wire, 99);
    let wrong = ClientCredentials::psk(*b"lamp", conche_dtls::Secret::new(*b"wrong")).unwrap();
    wire.connect(&wrong);
    wire.settle();
    assert!(wire.server().outputs.closed.is_empty());
    assert!(wire.server().sessions.send(old, b"still here").is_ok());
}

fn crowd(wire: &mut Wire, addresses: impl Iterator<Item = Address>) {
    for address in addresses {
        let mut end = End::new(address, client(u64::from(address)), u64::from(address));
        end.sessions.connect(wire.now, SERVER, &known(), None).unwrap();
        wire.ends.push(end);
    }
}

#[test]
fn the_session_that_was_silent_for_longest_makes_room() {
    let mut wire = wire(Config { max_sessions: 3, ..psk_server(1) });
    for address in 11..14 {
        crowd(&mut wire, address..=address);
        soon(&mut wire);
    }
    let sessions: Vec<_> = wire.server().outputs.established.iter().map(|(session, _)| *session).collect();
    // The second session is the idlest.
    let (mine, _) = wire.ends[2].outputs.established[0];
    wire.ends[2].sessions.send(mine, b"I am here").unwrap();
    soon(&mut wire);
    crowd(&mut wire, 14..=14);
    soon(&mut wire);
    assert_eq!(wire.server().outputs.closed, [(sessions[1], Ended::Evicted)]);
    assert_eq!(wire.ends[3].outputs.closed.len(), 1, "its peer is told");
    assert_eq!(wire.server().sessions.stats().sessions, 3);
}

#[test]
fn handshakes_are_bounded_and_evict_no_session() {
    let mut wire = wire(Config { max_handshakes: 8, max_sessions: 2, ..psk_server(1) });
    assert!(wire.handshake(&known()));
    wire.tap = Some(Box::new(|from, _, datagram| from == SERVER || datagram[13] == 1));
    crowd(&mut wire, 100..200);
    let until = wire.now + Duration::from_secs(5);
    wire.run(until, |wire| {
        assert!(wire.server().sessions.stats().handshakes <= 8);
        false
    });
    let stats = wire.server().sessions.stats();
    assert!(stats.handshakes == 8 && stats.refused > 0 && stats.sessions == 1 && stats.evicted == 0, "{stats:?}");
    wire.settle();
    assert_eq!(wire.server().sessions.stats().handshakes, 0, "handshakes have an end");
    assert_eq!(wire.server().sessions.stats().sessions, 1);
}

#[test]
fn one_network_leaves_room_for_handshakes_of_others() {
    let mut wire = wire(Config { max_handshakes: 16, ..psk_server(1) });
    wire.server().sessions.set_source_groups(Box::new(|address| u64::from(address / 1000)));
    let flooding = |from: Address, datagram: &[u8]| from / 1000 == 5 && datagram[13] != 1;
    wire.tap = Some(Box::new(move |from, _, datagram| !flooding(from, datagram)));
    crowd(&mut wire, 5000..5100);
    let until = wire.now + Duration::from_secs(2);
    wire.run(until, |_| false);
    assert_eq!(wire.server().sessions.stats().handshakes, 8, "half of the places");
    assert!(wire.handshake(&known()), "somebody else finds room at once");
}

fn networks() -> Wire {
    let mut wire = wire(psk_server(1));
    wire.server().sessions.set_source_groups(Box::new(|address| u64::from(address / 1000)));
    wire.server().sessions.set_hosts(Box::new(|address| u64::from(address / 100)));
    wire
}

fn fall_silent(wire: &mut Wire, addresses: std::ops::Range<Address>) {
    wire.tap = Some(Box::new(move |from, _, datagram| !addresses.contains(&from) || datagram[13] == 1));
}

#[test]
fn a_host_that_takes_all_handshakes_of_its_network_gives_them_up_to_its_neighbours() {
    let mut wire = networks();
    fall_silent(&mut wire, 5000..5100);
    // Two hosts with a hundred ports each: the maximum of their network.
    crowd(&mut wire, 5000..5100);
    soon(&mut wire);
    assert_eq!(wire.server().sessions.stats().handshakes, 100);
    fall_silent(&mut wire, 5000..5200);
    crowd(&mut wire, 5100..5200);
    let until = wire.now + Duration::from_millis(500);
    wire.run(until, |_| false);
    let stats = wire.server().sessions.stats();
    assert_eq!((stats.handshakes, stats.displaced), (128, 36), "they share what there is");
    wire.ends.truncate(2);
    crowd(&mut wire, (5200..5900).step_by(100));
    let until = wire.now + Duration::from_millis(500);
    assert!(wire.run(until, |wire| wire.server().outputs.established.len() == 7));
    assert_eq!(wire.server().sessions.stats().handshakes, 121);
    wire.ends.truncate(2);
    wire.assert_nothing_is_left();
}

#[test]
fn many_hosts_of_a_network_that_fall_silent_keep_their_neighbours_out_for_some_seconds_only() {
    let mut wire = wire(psk_server(1));
    wire.server().sessions.set_source_groups(Box::new(|address| u64::from(address / 1000)));
    fall_silent(&mut wire, 5000..5300);
    crowd(&mut wire, 5000..5300);
    soon(&mut wire);
    let stats = wire.server().sessions.stats();
    assert_eq!((stats.handshakes, stats.displaced), (128, 0), "none of them has been silent for long");
    wire.ends.truncate(2);
    // It retransmits its ClientHello after one, three and seven seconds.
    crowd(&mut wire, std::iter::once(5900));
    let until = wire.now + Duration::from_secs(10);
    assert!(wire.run(until, |wire| !wire.server().outputs.established.is_empty()));
    wire.assert_nothing_is_left();
}

#[test]
fn an_active_handshake_is_not_displaced_by_a_host_with_as_many() {
    let mut wire = wire(Config { max_handshakes: 2, ..psk_server(1) });
    wire.server().sessions.set_source_groups(Box::new(|_| 1));
    // The first transmission after its ClientHellos is lost, while others compete.
    fall_silent(&mut wire, 5000..5001);
    crowd(&mut wire, 5000..5001);
    soon(&mut wire);
    crowd(&mut wire, 5001..5011);
    soon(&mut wire);
    let stats = wire.server().sessions.stats();
    assert_eq!((stats.handshakes, stats.displaced, stats.refused), (1, 0, 10));
    wire.tap = None;
    wire.ends.truncate(3);
    let until = wire.now + Duration::from_secs(3);
    assert!(wire.run(until, |wire| wire.server().outputs.established.len() == 1), "it is still there");
}

#[test]
fn there_is_one_handshake_with_a_peer_at_a_time() {
    let mut wire = wire(psk_server(1));
    wire.connect(&known());
    let now = wire.now;
    let again = wire.client().sessions.connect(now, SERVER, &known(), None);
    assert_eq!(again, Err(ConnectError::Busy));
    soon(&mut wire);
    let (first, _) = wire.client().outputs.established[0];
    wire.connect(&known());
    soon(&mut wire);
    assert_eq!(wire.client().outputs.closed, [(first, Ended::Replaced)]);
    assert_eq!(wire.server().outputs.established.len(), 2);
    wire.assert_nothing_is_left();
}

#[test]
fn a_group_with_many_sessions_drives_out_its_own_and_no_others() {
    let mut wire = wire(Config { max_sessions: 20, ..psk_server(1) });
    wire.server().sessions.set_source_groups(Box::new(|address| u64::from(address / 1000)));
    for network in 1..=10 {
        crowd(&mut wire, std::iter::once(network * 1000));
        soon(&mut wire);
    }
    for address in 50_000..50_040 {
        crowd(&mut wire, std::iter::once(address));
        soon(&mut wire);
    }
    let left = |wire: &Wire, network: Address| {
        let ends = wire.ends[2..].iter().filter(|end| end.address / 1000 == network);
        ends.map(|end| end.sessions.stats().sessions).sum::<usize>()
    };
    assert_eq!((1..=10).map(|network| left(&wire, network)).collect::<Vec<_>>(), [1; 10]);
    assert_eq!((left(&wire, 50), wire.server().sessions.stats().sessions), (10, 20));
    for address in 60_000..60_040 {
        crowd(&mut wire, std::iter::once(address));
        soon(&mut wire);
    }
    assert_eq!([1, 10, 50, 60].map(|network| left(&wire, network)), [1, 1, 5, 5]);
    wire.ends.truncate(2);
    wire.assert_nothing_is_left();
}

#[test]
fn a_host_with_many_sessions_evicts_only_its_own() {
    let mut wire = wire(Config { max_sessions: 20, ..psk_server(1) });
    wire.server().sessions.set_source_groups(Box::new(|_| 1));
    wire.server().sessions.set_hosts(Box::new(|address| u64::from(address / 100)));
    let left = |wire: &Wire, hosts: std::ops::Range<Address>| {
        let ends = wire.ends[2..].iter().filter(|end| hosts.contains(&(end.address / 100)));
        ends.map(|end| end.sessions.stats().sessions).sum::<usize>()
    };
    crowd(&mut wire, (5000..6000).step_by(100));
    soon(&mut wire);
    for address in 6000..6040 {
        crowd(&mut wire, std::iter::once(address));
        soon(&mut wire);
    }
    assert_eq!((left(&wire, 50..60), left(&wire, 60..61)), (10, 10));
    crowd(&mut wire, 6100..6103);
    soon(&mut wire);
    assert_eq!((left(&wire, 50..60), left(&wire, 60..61), left(&wire, 61..62)), (10, 7, 3));
    wire.ends.truncate(2);
    wire.assert_nothing_is_left();
}

#[test]
fn an_identity_has_no_more_sessions_than_it_may() {
    let mut wire = wire(Config { max_sessions_per_identity: Some(3), ..psk_server(1) });
    for address in 11..21 {
        crowd(&mut wire, std::iter::once(address));
        soon(&mut wire);
        assert!(wire.server().sessions.stats().sessions <= 3);
    }
    let open: Vec<_> = wire.ends[2..].iter().map(|end| end.sessions.stats().sessions).collect();
    assert_eq!(open, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
    wire.ends.truncate(2);
    wire.assert_nothing_is_left();
}

#[test]
fn unpolled_records_are_dropped_and_the_session_continues() {
    let mut wire = wire(psk_server(1));
    assert!(wire.handshake(&known()));
    soon(&mut wire);
    let session = wire.client().outputs.established[0].0;
    wire.client().outputs.sent.clear();
    wire.tap = Some(Box::new(|_, _, _| false));
    for number in 0..300_u32 {
        wire.client().sessions.send(session, &number.to_be_bytes()).unwrap();
        soon(&mut wire);
    }
    let (now, kept) = (wire.now, wire.client().outputs.sent.clone());
    for datagram in kept.concat().chunks(kept[0].len() * 50) {
        wire.server().sessions.handle(now, CLIENT, datagram);
    }
    wire.tap = None;
    soon(&mut wire);
    assert_eq!(wire.server().outputs.closed, []);
    let received = wire.server().outputs.received.len();
    assert!((100..300).contains(&received), "{received}");
    wire.client().sessions.send(session, b"still here").unwrap();
    soon(&mut wire);
    assert_eq!(wire.server().outputs.received.last().unwrap().1, b"still here");
}

#[test]
fn a_session_that_is_not_open_cannot_be_sent_to() {
    let mut wire = wire(psk_server(1));
    let session = wire.connect(&known());
    assert_eq!(wire.client().sessions.send(session, b"x"), Err(SendError::NotOpen));
    soon(&mut wire);
    assert_eq!(wire.client().sessions.send(session, &[0; 16_385]), Err(SendError::TooLong(16_385)));
    assert_eq!(wire.client().sessions.send(session, &[0; 16_384]), Ok(()));
    soon(&mut wire);
    assert_eq!(wire.server().outputs.received[0].1.len(), 16_384);
}
