//! What a group passes on to the next peer, and what it keeps from it.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::any::{ALL, AnyFlight};
use crate::backoff::Timer;
use crate::control::{Sent, Why};
use crate::default::CoapDefault;
use crate::temper::Temper;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An exchange that began at `began` and was acknowledged so long after each of its copies left.
fn acknowledged(group: &mut Group, now: u64, ages: &[u64]) {
    let sent: Vec<_> = ages.iter().map(|age| at(now - age)).collect();
    let copy = if sent.len() == 1 { AckedCopy::Exact(0) } else { AckedCopy::Unknown };
    let kind = AckKind::Piggybacked;
    group.acknowledged(&Acknowledged { now: at(now), sent: &sent, copy, kind, load: Load::default() });
}

/// A path with round trips of 400 ms over a queue of 200 ms, one second apart.
fn known(members: Members) -> Group {
    let mut group = Group::of(members, at(0));
    for exchange in 1..=40 {
        acknowledged(&mut group, exchange * 1_000, &[if exchange < 10 { 200 } else { 400 }]);
    }
    group
}

const LAST: u64 = 40_000;

#[test]
fn a_host_that_returns_starts_from_all_that_was_known_of_it() {
    let path = known(Members::OneHost).path(at(LAST + 1_000));
    assert_eq!(path.queueing_delay(), Micros::from_millis(200));
    let (srtt, _, copies) = known(Members::OneHost).path(at(LAST)).learnt().expect("known");
    assert!(srtt > ms(390) && srtt <= ms(400), "{srtt:?}");
    assert_eq!(copies, 0);
}

#[test]
fn a_neighbour_learns_how_long_a_round_trip_takes_but_not_what_is_its_least() {
    let mut path = known(Members::Many).path(at(LAST));
    for sample in 1..=4 {
        // It is farther away than the one whose least is 200 ms, behind no queue.
        path.sample(Micros::from_millis(600), at(LAST + sample * 1_000));
    }
    assert_eq!(path.queueing_delay(), Micros::ZERO);
}

#[test]
fn whatever_neighbours_found_out_gives_way_to_a_peers_own_first_sample() {
    let mut group = Group::of(Members::Many, at(0));
    acknowledged(&mut group, 60_000, &[30_000]);
    for failure in 1..=9 {
        let (now, sent) = (at(60_000 + failure * 50_000), [at(60_000 + failure * 50_000 - 45_000)]);
        group.abandoned(&Abandoned { now, why: Why::GaveUp, sent: &sent, load: Load::default() });
    }
    let (temper, now) = (Temper::default(), at(510_000));
    let mut peer = temper.seed(now, &group);
    let mut new = temper.peer(now);
    for state in [&mut peer, &mut new] {
        let (copy, kind, sent) = (AckedCopy::Exact(0), AckKind::Piggybacked, [now]);
        let event = Acknowledged { now: now + ms(50), sent: &sent, copy, kind, load: Load::default() };
        temper.acknowledged(state, &Default::default(), &event);
    }
    assert_eq!(temper.base(&mut peer, now), temper.base(&mut new, now));
}

#[test]
fn what_is_old_counts_as_one_sample_and_what_is_a_day_old_as_nothing() {
    let group = known(Members::OneHost);
    let variation = |age: u64| group.path(at(LAST) + Duration::from_secs(age)).learnt().map(|(_, rttvar, _)| rttvar);
    let (srtt, fresh, _) = group.path(at(LAST)).learnt().expect("known");
    assert_eq!(variation(255), Some(fresh));
    assert_eq!(variation(256), Some(srtt / 2));
    assert_eq!(variation(86_401), None);
    assert_eq!(group.path(at(LAST) + Duration::from_secs(256)).queueing_delay(), Micros::ZERO);
}

#[test]
fn losses_are_part_of_what_is_known() {
    let mut group = known(Members::OneHost);
    for exchange in 1..=40 {
        acknowledged(&mut group, LAST + exchange * 3_000, &[2_400, 400]);
    }
    let (srtt, _, copies) = group.path(at(LAST + 120_000)).learnt().expect("known");
    assert_eq!(copies, 32, "one beyond the first");
    assert!(srtt <= ms(400), "an answer to a copy is no sample: {srtt:?}");
    let sent = [at(LAST + 121_000)];
    group.abandoned(&Abandoned { now: at(LAST + 170_000), why: Why::GaveUp, sent: &sent, load: Load::default() });
    assert!(group.path(at(LAST + 170_000)).learnt().expect("known").2 > 32);
}

#[test]
fn of_an_unknown_path_no_controller_learns_anything() {
    for named in ALL {
        let controller = named.controller();
        let seeded = controller.seed(at(1_000), &Group::of(Members::Many, at(0)));
        let new = controller.peer(at(1_000));
        assert_eq!(controller.snapshot(&seeded), controller.snapshot(&new), "{}", named.name);
    }
}

#[test]
fn what_was_kept_comes_back_as_one_sample() {
    let (srtt, rttvar, copies) = known(Members::OneHost).path(at(LAST)).learnt().expect("known");
    let kept = Group::remembered(Members::OneHost, at(LAST), (srtt, rttvar), copies);
    assert_eq!(kept.path(at(LAST)).learnt(), Some((srtt, srtt / 2, copies)));
}

proptest! {
    /// The least, 1 s, is the endpoint's matter.
    #[test]
    fn whatever_neighbours_do_a_peers_first_timer_is_no_longer_than_twice_the_default(
        random: u32,
        exchanges in prop::collection::vec((0u64..400_000, prop::collection::vec(0u64..300_000, 1..5), any::<bool>()), 0..60),
    ) {
        let mut group = Group::of(Members::Many, at(0));
        let mut now = 300_000;
        for (pause, mut ages, given_up) in exchanges {
            now += pause;
            ages.sort_unstable_by(|one, other| other.cmp(one));
            if given_up {
                let sent: Vec<_> = ages.iter().map(|age| at(now - age)).collect();
                group.abandoned(&Abandoned { now: at(now), why: Why::GaveUp, sent: &sent, load: Load::default() });
            } else {
                acknowledged(&mut group, now, &ages);
            }
        }
        for named in ALL {
            let controller = named.controller();
            let event = Sent { now: at(now), attempt: 0, confirmable: true, bytes: 100, random, load: Load::default() };
            let seeded = controller.sent(&mut controller.seed(at(now), &group), &mut AnyFlight::default(), &event);
            let default = CoapDefault::default().sent(&mut (), &mut Timer::default(), &event);
            prop_assert!(seeded <= default * 2, "{}: {seeded:?} and {default:?}", named.name);
        }
    }
}

#[test]
fn temper_takes_the_doubt_of_a_host_with_it() {
    let mut group = known(Members::OneHost);
    for failure in 1..=3 {
        let now = at(LAST + failure * 50_000);
        let sent = [at(LAST + failure * 50_000 - 45_000)];
        group.abandoned(&Abandoned { now, why: Why::GaveUp, sent: &sent, load: Load::default() });
    }
    let (temper, now) = (Temper::default(), at(LAST + 150_000));
    let doubtful = temper.base(&mut temper.seed(now, &group), now);
    let sure = temper.base(&mut temper.seed(at(LAST), &known(Members::OneHost)), at(LAST));
    assert!(doubtful > sure * 8, "{doubtful:?} after {sure:?}");
}
