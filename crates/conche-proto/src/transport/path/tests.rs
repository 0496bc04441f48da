//! Growth, reduction and sharing of a path's window.

use alloc::vec::Vec;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(number: u32) -> PeerIndex {
    PeerIndex::of(number)
}

/// Runs a round with a fully used window; `outcome` is the RTT for each peer, `None` for a loss.
fn round(gate: &mut Gate, outcome: impl Fn(u32) -> Option<Duration>) {
    gate.wait(at(0), true);
    for peer in 0..gate.window {
        match outcome(peer) {
            Some(round_trip) => gate.answered(at(peer), Some(round_trip)),
            None => gate.lost(),
        }
    }
}

/// A round over a link with capacity for 20 exchanges per base RTT of 500 ms.
fn over_a_link(gate: &mut Gate) {
    let rtt = (u64::from(gate.window) * 25).max(500);
    round(gate, |_| Some(ms(rtt)));
}

#[test]
fn the_window_doubles_on_an_empty_path_and_settles_at_twice_its_capacity() {
    let mut gate = Gate::new();
    let windows: Vec<_> = (0..12)
        .map(|_| {
            over_a_link(&mut gate);
            gate.window
        })
        .collect();
    assert_eq!(windows[..3], [8, 16, 32]);
    assert_eq!(windows[4..], [40; 8]);
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut gate = Gate::new();
    for exchange in 0..100 {
        gate.answered(at(exchange), Some(ms(500)));
    }
    assert_eq!(gate.window, LEAST);
}

#[test]
fn a_minority_of_delayed_responses_does_not_shrink_the_window() {
    let mut gate = Gate::new();
    (0..3).for_each(|_| over_a_link(&mut gate));
    let before = gate.window;
    round(&mut gate, |peer| Some(if peer % 4 == 0 { ms(100_000) } else { ms(500) }));
    assert!(gate.window >= before, "{} after {before}", gate.window);
    // A single peer changes the window once, regardless of its number of consecutive samples.
    for _ in 0..1_000 {
        gate.answered(at(7), Some(ms(100_000)));
    }
    assert!(gate.window >= before, "{} after {before}", gate.window);
}

#[test]
fn peers_that_do_not_share_a_bottleneck_keep_the_gate_open() {
    let mut gate = Gate::new();
    (0..5).for_each(|_| over_a_link(&mut gate));
    for _ in 0..5 {
        round(&mut gate, |peer| Some(if peer % 2 == 0 { ms(5_000) } else { ms(500) }));
    }
    assert!(gate.window >= 40 << 4, "{}", gate.window);
}

#[test]
fn a_few_that_are_much_nearer_do_not_shut_the_gate() {
    for nearer in [2, 5, 10, 400] {
        let mut gate = Gate::new();
        for _ in 0..40 {
            let rtt = (u64::from(gate.window) * 25).max(500);
            round(&mut gate, |peer| Some(ms(if peer % nearer == 0 { 5 } else { rtt })));
        }
        assert!(gate.window >= 20, "one in {nearer}: {}", gate.window);
    }
}

#[test]
fn one_flight_halves_the_window_once() {
    let mut gate = Gate::new();
    (0..6).for_each(|_| over_a_link(&mut gate));
    // Another forty leave before the first forty are detected as lost.
    (0..80).for_each(|peer| gate.enter(at(peer)));
    gate.wait(at(0), true);
    for _ in 0..80 {
        gate.leave();
        gate.lost();
    }
    assert_eq!(gate.window, 20);
}

#[test]
fn a_response_without_a_round_trip_sample_is_no_loss() {
    let mut gate = Gate::new();
    (0..6).for_each(|_| over_a_link(&mut gate));
    for _ in 0..10 {
        gate.wait(at(0), true);
        (0..38).for_each(|peer| gate.answered(at(peer), None));
        (0..2).for_each(|_| gate.lost());
    }
    assert_eq!(gate.window, 40);
}

#[test]
fn a_path_that_loses_most_gets_the_least_window_and_one_that_loses_some_keeps_its_own() {
    let mut gate = Gate::new();
    (0..6).for_each(|_| over_a_link(&mut gate));
    round(&mut gate, |peer| (peer % 3 != 0).then_some(ms(1_000)));
    assert_eq!(gate.window, 40);
    (0..6).for_each(|_| round(&mut gate, |peer| (peer % 3 == 0).then_some(ms(1_000))));
    assert_eq!(gate.window, LEAST);
}

#[test]
fn a_longer_route_is_found_out_at_the_least_window() {
    let mut gate = Gate::new();
    (0..6).for_each(|_| over_a_link(&mut gate));
    let longer = |gate: &mut Gate| {
        let rtt = (u64::from(gate.window) * 25).max(5_000);
        round(gate, |_| Some(ms(rtt)));
    };
    (0..20).for_each(|_| longer(&mut gate));
    assert!(gate.window >= 200, "as much as fits: {}", gate.window);
}

#[test]
fn queued_peers_enter_in_order_of_arrival() {
    let mut gate = Gate::new();
    (0..LEAST).for_each(|peer| gate.enter(at(peer)));
    [3, 1, 2].into_iter().for_each(|peer| gate.wait(at(peer), true));
    assert_eq!(gate.next(), None, "no room");
    gate.leave();
    assert_eq!(gate.next(), Some(at(3)));
}

#[test]
fn peers_that_never_answered_take_every_other_turn_from_those_that_did() {
    let mut gate = Gate::new();
    (0..LEAST).for_each(|peer| gate.enter(at(peer)));
    (10..20).for_each(|peer| gate.wait(at(peer), false));
    (20..23).for_each(|peer| gate.wait(at(peer), true));
    let turns: Vec<_> = (0..8)
        .map(|_| {
            gate.leave();
            gate.next().expect("somebody waits")
        })
        .collect();
    assert_eq!(turns, [20, 10, 21, 11, 22, 12, 13, 14].map(at));
}

#[test]
fn the_only_peer_of_a_path_is_held_by_its_own_nstart_alone() {
    let mut gate = Gate::new();
    (0..2 * LEAST).for_each(|_| gate.enter(at(7)));
    assert!(gate.is_open_for(at(7)) && !gate.is_open_for(at(8)));
    (0..LEAST + 1).for_each(|_| gate.leave());
    gate.enter(at(8));
    assert!(!gate.is_open_for(at(7)), "now there are two");
}

#[test]
fn two_peers_that_take_turns_in_bursts_open_the_gate() {
    let mut gate = Gate::new();
    for burst in 0..40 {
        gate.wait(at(0), true);
        (0..LEAST).for_each(|_| gate.answered(at(burst % 2), Some(ms(500))));
    }
    assert!(gate.window > LEAST, "{}", gate.window);
}

#[test]
fn round_trips_of_a_local_network_are_no_queue() {
    let mut gate = Gate::new();
    for _ in 0..10 {
        let rtt = Duration::from_micros(100 + u64::from(gate.window));
        round(&mut gate, |_| Some(rtt));
    }
    assert_eq!(gate.window, LEAST << 10);
}
