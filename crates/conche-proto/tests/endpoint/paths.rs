//! Peers that share what they find out of their path.

use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::cc::group::{Group, Members};
use conche_proto::codec::{Body, Code, Token, Type};
use conche_proto::{Endpoint, EndpointConfig, Input, Instant, Limits, Output, PathKey, Request};

use crate::support::{ms, s, wire};

type Client = Endpoint<u32, AnyController>;

/// Peers of the same hundred are behind one router.
fn prefix(peer: &u32) -> Option<PathKey> {
    Some(PathKey::new(u128::from(peer / 100) << 64, 64))
}

fn client(paths: usize) -> Client {
    let config = EndpointConfig { limits: Limits { paths, ..Limits::default() }, ..EndpointConfig::default() };
    let mut client = Endpoint::new(config, AnyController::by_name("temper").expect("known"), [7; 32]).expect("legal");
    client.share_paths(Box::new(prefix));
    client
}

fn ask(client: &mut Client, now: Instant, peer: u32) -> Vec<u8> {
    client.request(now, peer, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
    let mut buf = [0; 1280];
    let Output::Transmit(transmit) = client.poll(now, &mut buf) else { panic!("nothing stands in the way") };
    buf[..transmit.len].to_vec()
}

/// The first timeout of what has just left.
fn timeout(client: &mut Client, now: Instant) -> Duration {
    match client.poll(now, &mut [0; 1280]) {
        Output::Wait(Some(until)) => until - now,
        other => panic!("{other:?}"),
    }
}

/// An exchange with a peer that answers after so long; its first timeout.
fn exchange(client: &mut Client, now: &mut Instant, peer: u32, round_trip: Duration) -> Duration {
    let datagram = ask(client, *now, peer);
    let first = timeout(client, *now);
    *now += round_trip;
    client.handle(*now, Input::datagram(peer, &wire::piggybacked(&datagram, Code::CONTENT))).expect("drained");
    while !matches!(client.poll(*now, &mut [0; 1280]), Output::Wait(_)) {}
    *now += ms(100);
    first
}

#[test]
fn a_new_peer_starts_from_what_its_neighbours_found_out_but_not_under_a_second() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    let blind = exchange(&mut client, &mut now, 1, ms(200));
    assert!(blind >= s(2) && blind <= s(3), "{blind:?}");
    for _ in 0..20 {
        exchange(&mut client, &mut now, 1, ms(200));
    }
    let own = exchange(&mut client, &mut now, 1, ms(200));
    assert!(own < s(1), "it was measured: {own:?}");
    assert_eq!(exchange(&mut client, &mut now, 2, ms(200)), s(1), "its neighbour was not (RFC 8085 §3.1.1)");
    assert!(exchange(&mut client, &mut now, 2, ms(200)) < s(1), "now it was");
    let elsewhere = exchange(&mut client, &mut now, 101, ms(200));
    assert!(elsewhere >= s(2), "another path: {elsewhere:?}");
}

#[test]
fn a_peer_that_is_reset_keeps_its_path() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    for _ in 0..5 {
        exchange(&mut client, &mut now, 1, ms(1_500));
    }
    client.reset_path(now, &1);
    let srtt = client.snapshot(&1).and_then(|peer| peer.congestion.srtt);
    assert_eq!(srtt, Some(ms(1_500)));
}

#[test]
fn a_path_that_is_forgotten_is_that_of_nobody_and_may_come_again() {
    let (mut client, mut now) = (client(2), Instant::ZERO + s(1));
    exchange(&mut client, &mut now, 1, ms(200));
    exchange(&mut client, &mut now, 101, ms(200));
    client.forget_path(&2);
    assert_eq!((client.path(&1), client.paths().count()), (None, 1));
    assert!(exchange(&mut client, &mut now, 3, ms(200)) >= s(2), "it is blind");
    assert!(client.path(&1).is_some());
    client.forget_path(&201);
    assert_eq!(client.paths().count(), 2);
}

#[test]
fn without_shared_paths_each_peer_is_alone() {
    let controller = AnyController::by_name("temper").expect("known");
    let mut client = Endpoint::new(EndpointConfig::default(), controller, [7; 32]).expect("legal");
    let mut now = Instant::ZERO + s(1);
    for _ in 0..5 {
        exchange(&mut client, &mut now, 1, ms(200));
    }
    assert!(exchange(&mut client, &mut now, 2, ms(200)) >= s(2));
    assert_eq!(client.paths().count(), 0);
    client.remember_path(PathKey::new(0, 64), Group::remembered(Members::Many, now, (s(1), s(1)), 0));
    assert_eq!(client.paths().count(), 0);
}

#[test]
fn the_path_not_heard_of_for_longest_makes_room() {
    let (mut client, mut now) = (client(2), Instant::ZERO + s(1));
    for peer in [1, 101, 1, 201] {
        exchange(&mut client, &mut now, peer, ms(200));
    }
    let mut known: Vec<_> = client.paths().map(|(key, _)| key.prefix() >> 64).collect();
    known.sort_unstable();
    assert_eq!(known, [0, 2]);
}

#[test]
fn what_was_kept_is_remembered_unless_something_newer_is_known() {
    let mut now = Instant::ZERO + s(100_000);
    let mut client = client(10);
    let kept = |heard: Instant| Group::remembered(Members::Many, heard, (ms(2_500), ms(300)), 0);
    let srtt = |client: &Client| client.paths().next().and_then(|(_, group)| group.learnt()).map(|(srtt, ..)| srtt);
    client.remember_path(PathKey::new(0, 64), kept(now - s(3_600)));
    assert_eq!(srtt(&client), Some(ms(2_500)));
    exchange(&mut client, &mut now, 1, ms(2_500));
    exchange(&mut client, &mut now, 1, ms(500));
    let newer = srtt(&client);
    client.remember_path(PathKey::new(0, 64), kept(now - s(3_600)));
    assert_eq!(srtt(&client), newer);
}

#[test]
fn a_path_that_is_given_up_is_known_to_lose() {
    let (mut client, now) = (client(10), Instant::ZERO + s(1));
    ask(&mut client, now, 1);
    let mut at = now;
    while let Output::Wait(Some(until)) = client.poll(at, &mut [0; 1280]) {
        at = until;
        while !matches!(client.poll(at, &mut [0; 1280]), Output::Wait(_)) {}
        if client.paths().count() > 0 {
            return;
        }
    }
    panic!("nothing was learnt of the failure");
}

#[test]
fn a_datagram_that_answers_nothing_makes_no_path() {
    let mut client = client(10);
    let now = Instant::ZERO + s(1);
    let stray = wire::bare(Type::Acknowledgement, Code::EMPTY, 77, Token::EMPTY.as_slice());
    client.handle(now, Input::datagram(5, &stray)).expect("drained");
    while !matches!(client.poll(now, &mut [0; 1280]), Output::Wait(_)) {}
    assert_eq!(client.paths().count(), 0);
}
