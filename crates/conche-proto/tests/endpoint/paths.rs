//! Peers that share the state and the window of their path.

use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::cc::path_history::PathHistory;
use conche_proto::codec::{Body, Code, OptionNumber, Token, Type};
use conche_proto::{
    Endpoint, EndpointConfig, Event, Input, Instant, Limits, Output, PathKey, Reliability, Request, Response,
    SourceValidation, TransmissionParameters,
};

use crate::support::{ms, s, wire};

type Client = Endpoint<u32, AnyController>;

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

fn timeout(client: &mut Client, now: Instant) -> Duration {
    match client.poll(now, &mut [0; 1280]) {
        Output::Wait(Some(until)) => until - now,
        other => panic!("{other:?}"),
    }
}

fn leaving(client: &mut Client, now: Instant) -> Vec<(u32, Vec<u8>)> {
    let (mut buf, mut left) = ([0; 1280], Vec::new());
    loop {
        match client.poll(now, &mut buf) {
            Output::Transmit(transmit) => left.push((transmit.to, buf[..transmit.len].to_vec())),
            Output::Event(_) => {}
            Output::Wait(_) => return left,
        }
    }
}

fn ask_all(client: &mut Client, now: Instant, peers: impl Iterator<Item = u32>) -> Vec<(u32, Vec<u8>)> {
    for peer in peers {
        client.request(now, peer, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
    }
    leaving(client, now)
}

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
fn a_new_peer_starts_from_its_path_rtt_but_not_below_one_second() {
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
fn a_forgotten_path_loses_its_state_and_can_return() {
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
    client.remember_path(PathKey::new(0, 64), PathHistory::remembered(now, s(1), s(1)));
    assert_eq!(client.paths().count(), 0);
}

#[test]
fn the_least_recently_used_path_makes_room() {
    let (mut client, mut now) = (client(2), Instant::ZERO + s(1));
    for peer in [1, 101, 1, 201] {
        exchange(&mut client, &mut now, peer, ms(200));
    }
    let mut known: Vec<_> = client.paths().map(|(key, _)| key.prefix() >> 64).collect();
    known.sort_unstable();
    assert_eq!(known, [0, 2]);
}

#[test]
fn stored_path_state_is_restored_unless_newer_state_exists() {
    let mut now = Instant::ZERO + s(100_000);
    let mut client = client(10);
    let kept = |heard: Instant| PathHistory::remembered(heard, ms(1_500), ms(300));
    let srtt = |client: &Client| client.paths().next().and_then(|(_, group)| group.learnt()).map(|(srtt, ..)| srtt);
    client.remember_path(PathKey::new(0, 64), kept(now - s(3_600)));
    assert_eq!(srtt(&client), Some(ms(1_500)));
    exchange(&mut client, &mut now, 1, ms(2_500));
    exchange(&mut client, &mut now, 1, ms(500));
    let newer = srtt(&client);
    client.remember_path(PathKey::new(0, 64), kept(now - s(3_600)));
    assert_eq!(srtt(&client), newer);
}

#[test]
fn the_only_peer_of_a_path_returns_with_the_rto_that_its_failure_doubled() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    exchange(&mut client, &mut now, 1, ms(200));
    let rto_from_path = |client: &mut Client, now| {
        client.reset_path(now, &1);
        client.snapshot(&1).map(|peer| peer.congestion.rto)
    };
    // 200 ms and four times 100 ms.
    assert_eq!(rto_from_path(&mut client, now), Some(ms(600)));
    ask(&mut client, now, 1);
    while client.occupancy().exchanges > 0 {
        match client.poll(now, &mut [0; 1280]) {
            Output::Wait(until) => now = until.expect("it is not over"),
            Output::Transmit(_) | Output::Event(_) => {}
        }
    }
    assert_eq!(rto_from_path(&mut client, now), Some(ms(1_200)));
}

#[test]
fn another_choice_of_paths_leaves_those_that_are_there() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    let asked = ask_all(&mut client, now, 0..8);
    client.share_paths(Box::new(prefix));
    now += ms(500);
    let next: Vec<_> = asked.iter().flat_map(|one| answer(&mut client, now, one)).collect();
    assert_eq!(next.len(), 4, "those who waited");
    now += ms(500);
    next.iter().for_each(|one| assert!(answer(&mut client, now, one).is_empty()));
    assert_eq!(client.occupancy().over_paths, 0);
}

#[test]
fn peers_that_are_gone_do_not_hold_up_their_neighbours_again() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    ask_all(&mut client, now, 0..10);
    while client.occupancy().exchanges > 0 {
        match client.poll(now, &mut [0; 1280]) {
            Output::Wait(until) => now = until.expect("they are not over"),
            Output::Transmit(_) | Output::Event(_) => {}
        }
    }
    assert_eq!(ask_all(&mut client, now, 0..10).len(), 10, "they do not count");
    assert_eq!(ask_all(&mut client, now, 20..30).len(), 4, "others have the window for themselves");
}

#[test]
fn acknowledgements_and_responses_bypass_the_path_window() {
    let (mut server, now) = (client(10), Instant::ZERO + s(1));
    assert_eq!(ask_all(&mut server, now, 0..10).len(), 4);
    server
        .handle(now, Input::datagram(50, &wire::request(Type::Confirmable, Code::GET, 1, b"t", "/test")))
        .expect("drained");
    let Output::Event(Event::Request { id, .. }) = server.poll(now, &mut [0; 1280]) else { panic!("a request came") };
    server.acknowledge(now, id).expect("it waits");
    server.respond(now, id, Response::new(Code::CONTENT, Body::EMPTY)).expect("it waits");
    let left = leaving(&mut server, now);
    assert_eq!(left.iter().filter(|(peer, _)| *peer == 50).count(), 2, "an ACK and a response");
}

#[test]
fn a_window_that_was_not_used_for_long_begins_anew() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    let mut asked = ask_all(&mut client, now, 0..30);
    while !asked.is_empty() {
        now += ms(500);
        asked = asked.iter().flat_map(|one| answer(&mut client, now, one)).collect();
    }
    let at_once = ask_all(&mut client, now, 0..30);
    assert!(at_once.len() > 8, "{}", at_once.len());
    let mut asked = at_once;
    while !asked.is_empty() {
        now += ms(500);
        asked = asked.iter().flat_map(|one| answer(&mut client, now, one)).collect();
    }
    assert_eq!(ask_all(&mut client, now + s(300), 0..30).len(), 4);
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

#[test]
fn peers_of_a_path_begin_a_few_at_a_time_and_in_order() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    let mut asked = ask_all(&mut client, now, 0..60);
    let mut order: Vec<_> = asked.iter().map(|(peer, _)| *peer).collect();
    assert_eq!(order, [0, 1, 2, 3], "the first window");
    let mut windows = Vec::new();
    while !asked.is_empty() {
        now += ms(500);
        // One at a time, so that each transmission takes the place of an answered one.
        let mut next = Vec::new();
        for one in &asked {
            next.extend(answer(&mut client, now, one));
        }
        windows.push(next.len());
        order.extend(next.iter().map(|(peer, _)| *peer));
        asked = next;
    }
    assert_eq!(order, (0..60).collect::<Vec<_>>(), "first come, first served");
    assert_eq!(windows[..3], [8, 16, 32], "an empty path: the window doubles each round trip");
    assert_eq!(client.occupancy().over_paths, 0);
}

fn answer(client: &mut Client, now: Instant, (peer, datagram): &(u32, Vec<u8>)) -> Vec<(u32, Vec<u8>)> {
    client.handle(now, Input::datagram(*peer, &wire::piggybacked(datagram, Code::CONTENT))).expect("drained");
    leaving(client, now)
}

#[test]
fn another_path_is_not_held_up() {
    let (mut client, now) = (client(10), Instant::ZERO + s(1));
    let left = ask_all(&mut client, now, (0..10).chain(100..110));
    let peers: Vec<_> = left.iter().map(|(peer, _)| *peer).collect();
    assert_eq!(peers, [0, 1, 2, 3, 100, 101, 102, 103]);
}

#[test]
fn peers_that_do_not_answer_hold_others_up_for_one_timer_only() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    ask_all(&mut client, now, 0..20);
    let begun = now;
    let mut first: std::collections::HashMap<u32, Duration> = (0..4).map(|peer| (peer, Duration::ZERO)).collect();
    while first.len() < 20 {
        match client.poll(now, &mut [0; 1280]) {
            Output::Wait(until) => now = until.expect("something is left to do"),
            Output::Transmit(transmit) => {
                first.entry(transmit.to).or_insert(now - begun);
            }
            Output::Event(event) => panic!("{event:?}"),
        }
    }
    // Four at a time, each for an initial timeout of 2 to 3 s.
    assert!(first[&19] <= s(12), "{first:?}");
}

#[test]
fn a_message_that_is_cancelled_while_it_waits_gives_its_turn_to_the_next() {
    let (mut client, mut now) = (client(10), Instant::ZERO + s(1));
    let asked = ask_all(&mut client, now, 0..4);
    let waiting: Vec<_> = (4..8)
        .map(|peer| client.request(now, peer, Request::new(Code::GET, Body::EMPTY)).expect("there is room"))
        .collect();
    assert!(leaving(&mut client, now).is_empty());
    for exchange in &waiting[..3] {
        assert!(client.cancel(now, *exchange));
    }
    now += ms(500);
    let left = answer(&mut client, now, &asked[0]);
    assert_eq!(left.iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), [7]);
}

#[test]
fn a_cancelled_exchange_makes_room_on_its_path() {
    let (mut client, now) = (client(10), Instant::ZERO + s(1));
    let under_way: Vec<_> = (0..4)
        .map(|peer| client.request(now, peer, Request::new(Code::GET, Body::EMPTY)).expect("there is room"))
        .collect();
    leaving(&mut client, now);
    assert!(ask_all(&mut client, now, 4..5).is_empty());
    assert!(client.cancel(now, under_way[2]));
    assert_eq!(leaving(&mut client, now).len(), 1);
}

fn address(_: &u32) -> Option<PathKey> {
    Some(PathKey::new(1, 128))
}

fn behind_one_address(nstart: u16) -> Client {
    let transmission = TransmissionParameters { nstart, ..TransmissionParameters::default() };
    let config = EndpointConfig { transmission, source_validation: SourceValidation::Off, ..EndpointConfig::default() };
    let mut client = Endpoint::new(config, AnyController::by_name("temper").expect("known"), [7; 32]).expect("legal");
    client.share_paths(Box::new(address));
    client
}

#[test]
fn ports_of_one_address_have_the_window_of_their_path() {
    let mut client = behind_one_address(1);
    assert_eq!(ask_all(&mut client, Instant::ZERO, 0..50).len(), 4);
}

#[test]
fn the_only_port_of_an_address_has_its_own_nstart() {
    let mut client = behind_one_address(16);
    assert_eq!(ask_all(&mut client, Instant::ZERO, std::iter::repeat_n(3, 20)).len(), 16);
}

const ATTACKER: u32 = 1;
const VICTIM: u32 = 2;

/// The attacker acknowledges each of 14 messages after 97 % of its RTO. Returns the time of the
/// last acknowledgement.
fn poison(client: &mut Client) -> Instant {
    let mut now = Instant::ZERO + s(1);
    for _ in 0..14 {
        client.request(now, ATTACKER, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
        let mut sent = leaving(client, now);
        while sent.is_empty() {
            now += ms(500);
            sent = leaving(client, now);
        }
        let rto = client.snapshot(&ATTACKER).expect("it is known").congestion.rto;
        now += rto.mul_f64(0.97).min(s(55));
        leaving(client, now);
        client.handle(now, Input::datagram(ATTACKER, &wire::piggybacked(&sent[0].1, Code::CONTENT))).expect("drained");
        leaving(client, now);
    }
    assert!(client.snapshot(&ATTACKER).expect("it is known").congestion.rto > s(50), "its own RTO is its own");
    now
}

/// Relative to the submission of an unanswered message.
fn copies(client: &mut Client, mut now: Instant, peer: u32) -> Vec<Duration> {
    let begun = now;
    client.request(now, peer, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
    let mut copies = Vec::new();
    while now - begun < s(400) {
        match client.poll(now, &mut [0; 1280]) {
            Output::Wait(until) => now = until.unwrap_or(begun + s(400)),
            Output::Transmit(transmit) => copies.extend((transmit.to == peer).then_some(now - begun)),
            Output::Event(_) => {}
        }
    }
    copies
}

#[test]
fn a_peer_that_delays_its_acknowledgements_costs_no_other_port_of_its_address_a_retransmission() {
    for (later, paths) in [0, 10, 300, 3_600, 12 * 3_600].into_iter().flat_map(|later| [(later, true), (later, false)])
    {
        let mut client = behind_one_address(1);
        if !paths {
            client.share_paths(Box::new(prefix));
        }
        let now = poison(&mut client) + s(later);
        let copies = copies(&mut client, now, VICTIM);
        assert_eq!(copies.len(), 5, "{later} s later: {copies:?}");
        assert!(copies[1] <= s(6) && copies[4] <= s(45), "{later} s later: {copies:?}");
    }
}

#[test]
fn a_peer_that_delays_its_acknowledgements_delays_no_message_to_another_port_of_its_address() {
    let mut client = behind_one_address(1);
    let mut now = poison(&mut client);
    for peer in VICTIM..VICTIM + 3 {
        for exchange in 0..8 {
            // `ask` requires it to leave at once.
            let first = self::exchange(&mut client, &mut now, peer, ms(20));
            let most = if exchange == 0 { s(6) } else { s(1) };
            assert!(first <= most, "port {peer}, exchange {exchange}: {first:?}");
        }
    }
    let healed = self::exchange(&mut client, &mut now, VICTIM + 3, ms(20));
    assert_eq!(healed, s(1), "as short as may be of a peer that is not measured");
}

#[test]
fn a_slow_device_among_fast_ones_of_its_address_gets_a_timer_of_its_own() {
    let (mut client, mut now) = (behind_one_address(1), Instant::ZERO + s(1));
    for _ in 0..10 {
        exchange(&mut client, &mut now, 1, ms(50));
    }
    let round_trip = s(20);
    let mut needed = Vec::new();
    for _ in 0..6 {
        client.request(now, 2, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
        let (begun, mut sent) = (now, leaving(&mut client, now));
        let first = sent.first().cloned();
        while now - begun < round_trip {
            now += ms(100);
            let more = leaving(&mut client, now);
            sent.extend(more);
        }
        let (peer, datagram) = first.expect("it leaves at once");
        client.handle(now, Input::datagram(peer, &wire::piggybacked(&datagram, Code::CONTENT))).expect("drained");
        leaving(&mut client, now);
        needed.push(sent.len());
        now += s(100);
    }
    assert_eq!(needed[2..], [1; 4], "no copy is spurious any more: {needed:?}");
}

#[test]
fn peers_with_long_timers_hold_another_port_of_their_address_up_for_6_s_at_most() {
    let (mut client, mut now) = (behind_one_address(1), Instant::ZERO + s(1));
    let slow = 10..14;
    for peer in slow.clone() {
        client.request(now, peer, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
    }
    let asked = leaving(&mut client, now);
    now += s(20);
    leaving(&mut client, now);
    for (peer, datagram) in &asked {
        client.handle(now, Input::datagram(*peer, &wire::piggybacked(datagram, Code::CONTENT))).expect("drained");
        leaving(&mut client, now);
    }
    assert!(slow.clone().all(|peer| client.snapshot(&peer).expect("it is known").congestion.rto > s(10)));
    assert_eq!(ask_all(&mut client, now, slow).len(), 4);
    let copies = copies(&mut client, now, 1_000);
    assert_eq!(copies.first(), Some(&s(6)), "{copies:?}");
}

fn observed_by(server: &mut Client, now: Instant, peers: u32) {
    for peer in 0..peers {
        let register = [(OptionNumber::OBSERVE.0, &[][..])];
        let datagram = wire::with_options(Type::Confirmable, Code::GET, 1, b"t", &register, b"");
        server.handle(now, Input::datagram(peer, &datagram)).expect("drained");
        let Output::Event(Event::Request { id, .. }) = server.poll(now, &mut [0; 1280]) else {
            panic!("a request came")
        };
        server.observe(now, id, 1).expect("there is room");
        server.respond(now, id, state(0)).expect("it waits");
        leaving(server, now);
    }
}

fn state(number: u8) -> Response {
    Response::new(Code::CONTENT, Body::builder().payload(vec![number; 1_000]).build().expect("no options"))
}

/// All devices acknowledge after 200 ms; returns the datagrams of each state per 100 ms.
fn notified(choose: fn(&u32) -> Option<PathKey>, states: u8) -> Vec<Vec<usize>> {
    const OBSERVERS: u32 = 500;
    let mut server = behind_one_address(1);
    server.share_paths(Box::new(choose));
    let mut now = Instant::ZERO + s(1);
    observed_by(&mut server, now, OBSERVERS);
    let mut of_states = Vec::new();
    for number in 1..=states {
        now += s(20);
        server.notify(now, 1, state(number)).expect("it fits");
        let mut bursts = Vec::new();
        let mut reached = std::collections::HashSet::new();
        let mut under_way: Vec<(Instant, u32, Vec<u8>)> = Vec::new();
        for _ in 0..200 {
            let mut left = leaving(&mut server, now);
            let (due, rest) = under_way.into_iter().partition(|(at, ..)| *at <= now);
            under_way = rest;
            for (_, peer, datagram) in due {
                if wire::decode(&datagram).ty() == Type::Confirmable {
                    let ack = wire::empty_ack(wire::decode(&datagram).id());
                    server.handle(now, Input::datagram(peer, &ack)).expect("drained");
                    left.extend(leaving(&mut server, now));
                }
            }
            bursts.push(left.len());
            reached.extend(left.iter().map(|(peer, _)| *peer));
            under_way.extend(left.into_iter().map(|(peer, datagram)| (now + ms(200), peer, datagram)));
            now += ms(100);
        }
        assert_eq!(reached.len(), OBSERVERS as usize, "state {number}");
        of_states.push(bursts);
    }
    of_states
}

#[test]
fn a_state_for_many_ports_of_one_address_leaves_in_windows_as_for_many_hosts_of_a_prefix() {
    let one_address = notified(address, 3);
    assert_eq!(one_address, notified(|_| Some(PathKey::new(1, 64)), 3));
    for (number, bursts) in one_address.iter().enumerate() {
        // A window at most doubles per round trip.
        let mut window = if number == 0 { 4 } else { 512 };
        for pair in bursts.chunks(2) {
            let left: usize = pair.iter().sum();
            assert!(left <= 2 * window, "state {number}: {bursts:?}");
            window = window.max(left);
        }
    }
}

#[test]
fn devices_that_do_not_answer_hold_one_that_does_up_for_two_of_their_timers_at_most() {
    let (mut client, mut now) = (behind_one_address(1), Instant::ZERO + s(1));
    for _ in 0..3 {
        exchange(&mut client, &mut now, 1_000, ms(200));
    }
    ask_all(&mut client, now, 0..100);
    let begun = now;
    client.request(now, 1_000, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
    loop {
        match client.poll(now, &mut [0; 1280]) {
            Output::Transmit(transmit) if transmit.to == 1_000 => break,
            Output::Wait(until) => now = until.expect("something is left to do"),
            Output::Transmit(_) | Output::Event(_) => {}
        }
    }
    assert!(now - begun <= s(6), "{:?}", now - begun);
}

#[test]
fn an_active_path_is_not_evicted_and_excess_paths_have_no_window() {
    let (mut client, now) = (client(1), Instant::ZERO + s(1));
    assert_eq!(ask_all(&mut client, now, 0..10).len(), 4);
    assert_eq!(ask_all(&mut client, now, 100..110).len(), 10, "there is no room for what its path would be known by");
}

#[test]
fn non_confirmable_requests_count_on_their_path_until_they_are_answered() {
    let (mut client, now) = (client(10), Instant::ZERO + s(1));
    for peer in 0..20 {
        let request = Request::new(Code::GET, Body::EMPTY).with_reliability(Reliability::NonConfirmable);
        client.request(now, peer, request).expect("there is room");
    }
    let mut asked = leaving(&mut client, now);
    let (mut windows, mut now) = (Vec::new(), now);
    while !asked.is_empty() {
        windows.push(asked.len());
        now += ms(200);
        let answers = asked
            .iter()
            .map(|(peer, datagram)| (*peer, wire::separate(datagram, Type::NonConfirmable, Code::CONTENT, 9)));
        let mut next = Vec::new();
        for (peer, answer) in answers.collect::<Vec<_>>() {
            client.handle(now, Input::datagram(peer, &answer)).expect("drained");
            next.extend(leaving(&mut client, now));
        }
        asked = next;
    }
    assert_eq!(windows, [4, 8, 8], "20 in all, and the window doubles");
    assert_eq!(client.occupancy().over_paths, 0);
}
