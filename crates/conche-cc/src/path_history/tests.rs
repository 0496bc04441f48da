//! The state that a history returns to its source and to other peers.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::any::{ALL, AnyFlight};
use crate::control::{AbandonReason, AckKind, AckedCopy, Controller, Load, Sent};
use crate::default::CoapDefault;
use crate::path::Share;
use crate::rule::RuleFlight;
use crate::temper::Temper;
use crate::units::Factor;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const PEER: u64 = 17;
const OTHER: u64 = 18;

/// Acknowledges an exchange whose transmissions have these ages, in milliseconds.
fn acknowledged(history: &mut PathHistory, now: u64, ages: &[u64]) {
    acknowledged_by(PEER, history, now, ages);
}

fn acknowledged_by(peer: u64, history: &mut PathHistory, now: u64, ages: &[u64]) {
    let sent: Vec<_> = ages.iter().map(|age| at(now - age)).collect();
    let copy = if sent.len() == 1 { AckedCopy::Exact(0) } else { AckedCopy::Unknown };
    let kind = AckKind::Piggybacked;
    history.acknowledged(peer, &Acknowledged { now: at(now), sent: &sent, copy, kind, load: Load::default() });
}

/// A path with round trips of 400 ms over a queue of 200 ms, one second apart.
fn known() -> PathHistory {
    let mut history = PathHistory::new(at(0));
    for exchange in 1..=40 {
        acknowledged(&mut history, exchange * 1_000, &[if exchange < 10 { 200 } else { 400 }]);
    }
    history
}

const LAST: u64 = 40_000;

#[test]
fn the_only_peer_of_a_path_gets_all_of_its_state_back() {
    let path = known().path(at(LAST + 1_000));
    assert_eq!(path.queueing_delay(), Micros::from_millis(200));
    let (srtt, _) = known().path(at(LAST)).learnt().expect("known");
    assert!(srtt > ms(390) && srtt <= ms(400), "{srtt:?}");
}

#[test]
fn a_neighbour_inherits_the_srtt_but_not_the_minimum_rtt() {
    let mut path = known().seen_by(OTHER).path(at(LAST));
    for sample in 1..=4 {
        // 400 ms is its minimum: farther away than the one with 200 ms, without a queue.
        path.sample(Micros::from_millis(600), at(LAST + sample * 1_000));
    }
    assert_eq!(path.queueing_delay(), Micros::ZERO);
}

#[test]
fn whatever_neighbours_found_out_gives_way_to_a_peers_own_first_sample() {
    let mut history = PathHistory::new(at(0));
    acknowledged(&mut history, 60_000, &[30_000]);
    for failure in 1..=9 {
        let (now, sent) = (at(60_000 + failure * 50_000), [at(60_000 + failure * 50_000 - 45_000)]);
        history.abandoned(PEER, &Abandoned { now, reason: AbandonReason::GaveUp, sent: &sent, load: Load::default() });
    }
    let (temper, now) = (Temper::default(), at(510_000));
    let mut peer = temper.seed(now, &history.seen_by(OTHER));
    let mut new = temper.peer(now);
    for state in [&mut peer, &mut new] {
        let (copy, kind, sent) = (AckedCopy::Exact(0), AckKind::Piggybacked, [now]);
        let event = Acknowledged { now: now + ms(50), sent: &sent, copy, kind, load: Load::default() };
        temper.acknowledged(state, &Default::default(), &event);
    }
    assert_eq!(temper.base(&mut peer, now), temper.base(&mut new, now));
}

#[test]
fn old_path_state_counts_as_one_sample_and_expires_after_a_day() {
    let history = known();
    let variation = |age: u64| history.path(at(LAST) + Duration::from_secs(age)).learnt().map(|(_, rttvar)| rttvar);
    let (srtt, fresh) = history.path(at(LAST)).learnt().expect("known");
    assert_eq!(variation(255), Some(fresh));
    assert_eq!(variation(256), Some(srtt / 2));
    assert_eq!(variation(86_401), None);
    assert_eq!(history.path(at(LAST) + Duration::from_secs(256)).queueing_delay(), Micros::ZERO);
}

/// The factor of the span with 3/16 of exchanges with losses as usual.
fn rarity_of_losses(path: &PathState) -> Share {
    path.rarity_of_losses(Factor::from_permille(188))
}

#[test]
fn path_history_includes_losses_and_keeps_them_as_it_ages() {
    let mut history = known();
    let now = LAST + 120_000;
    for exchange in 1..=40 {
        acknowledged(&mut history, LAST + exchange * 3_000, &[2_400, 400]);
    }
    let path = history.path(at(now));
    assert!(path.learnt().expect("known").0 <= ms(400), "an answer to a retransmission is no sample");
    assert_eq!(rarity_of_losses(&path), Share::NONE);
    let old = history.path(at(now) + PathHistory::FRESH * 2);
    assert_eq!(rarity_of_losses(&old), Share::NONE);
}

#[test]
fn a_neighbour_does_not_inherit_losses_and_doubt() {
    let mut history = known();
    for exchange in 1..=40 {
        acknowledged(&mut history, LAST + exchange * 3_000, &[2_400, 400]);
    }
    let path = history.seen_by(OTHER).path(at(LAST + 120_000));
    assert_eq!((rarity_of_losses(&path), path.doubt), (Share::ALL, 0));
}

#[test]
fn of_an_unknown_path_no_controller_learns_anything() {
    for named in ALL {
        let controller = named.controller();
        let seeded = controller.seed(at(1_000), &PathHistory::new(at(0)).seen_by(PEER));
        let new = controller.peer(at(1_000));
        assert_eq!(controller.snapshot(&seeded), controller.snapshot(&new), "{}", named.name());
    }
}

#[test]
fn stored_state_comes_back_as_one_sample() {
    let (srtt, rttvar) = known().to_store().expect("known");
    let kept = PathHistory::remembered(at(LAST), srtt, rttvar);
    assert_eq!(kept.learnt(), Some((srtt, srtt / 2)));
}

/// A path after 20 exchanges with an attacker that acknowledges after `round_trip` ms.
fn poisoned(round_trip: u64) -> (PathHistory, u64) {
    let (mut history, mut now) = (known(), LAST);
    for _ in 0..20 {
        now += round_trip;
        acknowledged_by(OTHER, &mut history, now, &[round_trip]);
    }
    (history, now)
}

const FROM_OTHERS: Duration = Duration::from_millis(3_500);

#[test]
fn a_peer_that_delays_its_acknowledgements_makes_no_other_peer_begin_with_an_rto_of_more_than_4_s() {
    let (history, now) = poisoned(50_000);
    for age in [0, 10, 300, 3_600, 12 * 3_600, 86_400] {
        let now = at(now) + Duration::from_secs(age);
        for named in ALL {
            let controller = named.controller();
            let rto = controller.snapshot(&controller.seed(now, &history.seen_by(PEER))).rto;
            assert!(rto <= ms(4_000), "{} after {age} s: {rto:?}", named.name());
        }
        let temper = Temper::default();
        assert!(temper.base(&mut temper.seed(now, &history.seen_by(PEER + 9)), now) <= FROM_OTHERS);
    }
}

#[test]
fn a_peer_that_delays_its_acknowledgements_keeps_no_other_peer_behind_a_gate() {
    let (history, now) = poisoned(50_000);
    assert_eq!(history.seen_by(PEER).path(at(now)).queueing_delay(), Micros::ZERO);
}

#[test]
fn a_poisoned_path_is_healed_by_four_good_samples() {
    let (mut history, mut now) = poisoned(50_000);
    for _ in 0..8 {
        now += 1_000;
        acknowledged_by(PEER, &mut history, now, &[20]);
    }
    let temper = Temper::default();
    let rto = temper.base(&mut temper.seed(at(now), &history.seen_by(PEER + 9)), at(now));
    assert!(rto < ms(100), "{rto:?}");
}

#[test]
fn a_slow_peer_alone_on_its_path_gets_its_own_state_back_in_full() {
    let mut history = PathHistory::new(at(0));
    for exchange in 1..=10 {
        acknowledged(&mut history, exchange * 30_000, &[20_000]);
    }
    let srtt = |peer: u64, age: u64| {
        let learnt = history.seen_by(peer).path(at(300_000) + Duration::from_secs(age)).learnt();
        learnt.expect("known").0
    };
    assert_eq!([srtt(PEER, 0), srtt(PEER, 3_600)], [ms(20_000); 2]);
    assert_eq!([srtt(OTHER, 0), srtt(OTHER, 3_600)], [ms(2_000); 2]);
}

#[test]
fn a_peers_first_measurement_takes_the_place_of_old_state_of_others() {
    let (mut history, now) = poisoned(50_000);
    let later = now + 300_000;
    acknowledged_by(PEER, &mut history, later, &[200]);
    assert_eq!(history.seen_by(PEER).path(at(later)).learnt(), Some((ms(200), ms(100))));
}

#[test]
fn stored_state_is_within_the_bounds_for_other_peers() {
    let (history, now) = poisoned(50_000);
    let (srtt, rttvar) = history.to_store().expect("known");
    assert!(srtt + rttvar * 4 <= FROM_OTHERS, "{srtt:?}, {rttvar:?}");
    let (srtt, rttvar) = PathHistory::remembered(at(now), ms(60_000), ms(60_000)).learnt().expect("known");
    assert!(srtt <= ms(2_000) && rttvar <= ms(1_000), "{srtt:?}, {rttvar:?}");
    let temper = Temper::default();
    for peer in [PEER, OTHER] {
        let recalled = PathHistory::remembered(at(now), ms(60_000), ms(60_000)).seen_by(peer);
        assert!(temper.base(&mut temper.seed(at(now), &recalled), at(now)) <= FROM_OTHERS);
    }
}

proptest! {
    /// The endpoint enforces the minimum, 1 s.
    #[test]
    fn whatever_neighbours_do_a_peers_first_timer_is_no_longer_than_twice_the_default(
        random: u32,
        exchanges in prop::collection::vec((0u64..400_000, prop::collection::vec(0u64..300_000, 1..5), any::<bool>(), PEER..PEER + 4), 0..60),
    ) {
        let mut history = PathHistory::new(at(0));
        let mut now = 300_000;
        for (pause, mut ages, given_up, peer) in exchanges {
            now += pause;
            ages.sort_unstable_by(|one, other| other.cmp(one));
            if given_up {
                let sent: Vec<_> = ages.iter().map(|age| at(now - age)).collect();
                history.abandoned(PEER, &Abandoned { now: at(now), reason: AbandonReason::GaveUp, sent: &sent, load: Load::default() });
            } else {
                acknowledged_by(peer, &mut history, now, &ages);
            }
        }
        for named in ALL {
            let controller = named.controller();
            let event = Sent { now: at(now), attempt: 0, confirmable: true, bytes: 100, random, load: Load::default() };
            let seeded = controller.sent(&mut controller.seed(at(now), &history.seen_by(PEER + 9)), &mut AnyFlight::default(), &event);
            let default = CoapDefault::default().sent(&mut (), &mut RuleFlight::default(), &event);
            prop_assert!(seeded <= default * 2, "{}: {seeded:?} and {default:?}", named.name());
        }
    }
}

#[test]
fn temper_takes_the_doubt_of_its_only_peer_with_it() {
    let mut history = known();
    for failure in 1..=3 {
        let now = at(LAST + failure * 50_000);
        let sent = [at(LAST + failure * 50_000 - 45_000)];
        history.abandoned(PEER, &Abandoned { now, reason: AbandonReason::GaveUp, sent: &sent, load: Load::default() });
    }
    let (temper, now) = (Temper::default(), at(LAST + 150_000));
    let doubtful = temper.base(&mut temper.seed(now, &history), now);
    let sure = temper.base(&mut temper.seed(at(LAST), &known()), at(LAST));
    // Doubt of 4, 6 and 8, of which 3 are grace.
    assert_eq!(doubtful, sure * 32);
}
