//! The documented properties of temper's parts: gate, floor, likely window, blind rule, doubt.

use std::vec::Vec;

use super::*;
use crate::control::AckKind;
use crate::control::{AbandonReason, AckedCopy, NonHistory};
use crate::testing::TestDriver;

fn settled(temper: &Temper, rtt_ms: u64, exchanges: usize) -> TestDriver<'_, Temper> {
    let mut drive = TestDriver::new(temper);
    for _ in 0..exchanges {
        drive.clean(rtt_ms);
        drive.wait(1_000);
    }
    drive
}

/// Loses the original; the retransmission is answered after `rtt_ms`. Returns the next RTO.
fn lossy(drive: &mut TestDriver<'_, Temper>, rtt_ms: u64) -> u64 {
    drive.start(0.0);
    drive.time_out();
    drive.ack_after(rtt_ms)
}

fn gate_ms(drive: &mut TestDriver<'_, Temper>) -> u64 {
    match drive.admit(true) {
        Admission::Send => 0,
        Admission::At(earliest) => u64::try_from((earliest - drive.now).as_millis()).expect("a short wait"),
        other => panic!("{other:?} is not a result of the gate"),
    }
}

#[test]
fn a_peer_takes_36_bytes_and_an_exchange_8() {
    assert_eq!((size_of::<TemperPeer>(), size_of::<TemperFlight>()), (36, 8));
}

mod gate {
    use super::*;

    #[test]
    fn a_path_without_a_queue_has_an_open_gate() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 20);
        drive.clean(100);
        assert_eq!(drive.admit(true), Admission::Send);
    }

    #[test]
    fn starts_are_four_queueing_delays_apart() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 1);
        for _ in 0..6 {
            drive.clean(300);
        }
        // 4 · (300 - 100) ms after the last start, of which 300 ms have passed.
        assert_eq!(gate_ms(&mut drive), 500);
        drive.wait(500);
        assert_eq!(drive.admit(true), Admission::Send);
    }

    #[test]
    fn a_gap_of_less_than_a_millisecond_is_none() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        for rtt_us in [100, 300, 300, 300, 300, 300] {
            drive.start(0.0);
            drive.now += Duration::from_micros(rtt_us);
            drive.acknowledged(AckKind::Piggybacked, AckedCopy::Unknown);
        }
        assert_eq!(drive.admit(true), Admission::Send);
    }

    #[test]
    fn one_fast_answer_of_four_opens_it_for_jitter() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 1);
        for rtt in [300, 300, 300, 100] {
            drive.clean(rtt);
        }
        assert_eq!(gate_ms(&mut drive), 0);
    }

    #[test]
    fn parallel_exchanges_share_it_by_the_square_of_their_number() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 1);
        for _ in 0..6 {
            drive.clean(500);
        }
        // 1600 ms for one exchange, 400 ms for each of two, minus 500 ms.
        assert_eq!(gate_ms(&mut drive), 1_100);
        drive.load.exchanges = 1;
        assert_eq!(gate_ms(&mut drive), 0);
    }

    #[test]
    fn copies_do_not_wait_for_it() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 1);
        for _ in 0..6 {
            drive.clean(5_000);
        }
        let (now, load) = (drive.now, drive.load);
        let copy = temper.expired(&mut drive.peer, &mut TemperFlight::default(), &Expired { now, attempt: 0, load });
        assert_eq!(copy, now);
    }

    #[test]
    fn a_forged_early_answer_shuts_it_for_four_rtos_at_most() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        drive.start(0.0);
        drive.acknowledged(AckKind::Piggybacked, AckedCopy::Exact(0));
        for _ in 0..20 {
            drive.clean(1_000);
            assert!(gate_ms(&mut drive) <= 4 * drive.base());
        }
        assert!(gate_ms(&mut drive) > 0, "a queue of a second, as far as it can know");
    }

    #[test]
    fn the_least_round_trip_is_forgotten_after_two_windows() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 3);
        // A longer route for 13 minutes: the third window drops the minimum of the first.
        for _ in 0..100 {
            drive.clean(400);
            drive.wait(7_600);
        }
        drive.clean(400);
        assert_eq!(gate_ms(&mut drive), 0);
    }

    #[test]
    fn weeks_of_silence_shut_it_no_longer_than_its_limit() {
        let temper = Temper::default();
        for days in [25, 49, 50, 60] {
            let mut drive = settled(&temper, 100, 1);
            for _ in 0..6 {
                drive.clean(300);
            }
            drive.wait(days * 86_400_000);
            assert!(gate_ms(&mut drive) <= 800, "{} ms after {days} days", gate_ms(&mut drive));
        }
    }
}

mod floor {
    use super::*;

    fn after_losses(least_ms: u64, rtt_ms: u64) -> u64 {
        let temper = Temper { max_doubt: 0, ..Temper::first_specified() };
        let mut drive = settled(&temper, least_ms, 1);
        for _ in 0..40 {
            drive.clean(rtt_ms);
        }
        for _ in 0..40 {
            lossy(&mut drive, rtt_ms);
        }
        drive.base()
    }

    #[test]
    fn loss_without_inflation_is_repaired_fast() {
        let rto = after_losses(100, 100);
        assert!(rto < 150, "{rto} ms");
    }

    #[test]
    fn without_a_queue_floor_inflation_alone_raises_the_rto_no_more_than_its_variation() {
        let temper = Temper::first_specified();
        let mut drive = settled(&temper, 100, 1);
        for _ in 0..60 {
            drive.clean(300);
        }
        assert!((300..=330).contains(&drive.base()), "{} ms", drive.base());
    }

    #[test]
    fn loss_with_inflation_waits_for_seconds() {
        // One retransmission per exchange, and a round trip of twice the minimum: the full 4 s.
        assert!((3_900..=4_000).contains(&after_losses(100, 200)), "{} ms", after_losses(100, 200));
        // Half as much inflation, half the floor.
        assert!((1_900..=2_000).contains(&after_losses(100, 150)), "{} ms", after_losses(100, 150));
    }

    /// A temper that takes a steady round trip for a queue as well.
    fn queue() -> Temper {
        Temper { route_change_rttvars: 0, ..Temper::default() }
    }

    fn inflated(temper: &Temper, rtt_ms: u64) -> TestDriver<'_, Temper> {
        let mut drive = settled(temper, 100, 1);
        for _ in 0..60 {
            drive.clean(rtt_ms);
        }
        drive
    }

    #[test]
    fn a_queue_floor_waits_for_seconds_without_any_loss() {
        let temper = queue();
        let after = |rtt_ms| inflated(&temper, rtt_ms).base();
        assert_eq!(after(210), 2_000);
        assert!(after(100) < 120 && (900..=1_010).contains(&after(150)), "{}, {} ms", after(100), after(150));
    }

    #[test]
    fn round_trips_of_a_local_network_that_vary_by_milliseconds_are_no_queue() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 1, 20);
        for rtt_ms in [2, 9, 4, 8, 3, 9, 9, 9] {
            drive.clean(rtt_ms);
        }
        assert!(drive.base() < 50, "{} ms", drive.base());
    }

    #[test]
    fn exchanges_outstanding_lengthen_each_others_round_trips_and_share_it_by_the_square_of_their_number() {
        let temper = queue();
        let first = |exchanges| {
            let mut drive = inflated(&temper, 210);
            drive.load.exchanges = exchanges;
            drive.start(0.0)
        };
        assert_eq!([first(0), first(1)], [2_000, 500]);
        assert_eq!(first(3), 272, "of four it is the round trip's own");
    }

    #[test]
    fn a_timer_that_is_held_is_that_of_a_sender_that_measures_nothing() {
        let temper = queue();
        let timers = |u| {
            let mut drive = inflated(&temper, 210);
            [drive.start(u), drive.time_out(), drive.time_out(), drive.time_out()]
        };
        assert_eq!(
            (timers(0.0), timers(1.0).map(|timer| timer + 1)),
            ([2_000, 4_000, 8_000, 16_000], [3_000, 6_000, 12_000, 24_000])
        );
    }

    #[test]
    fn clean_exchanges_bring_it_down_again() {
        let temper = Temper::first_specified();
        let mut drive = settled(&temper, 100, 1);
        for _ in 0..40 {
            drive.clean(200);
            lossy(&mut drive, 200);
        }
        let raised = drive.base();
        for _ in 0..60 {
            drive.clean(200);
        }
        assert!(raised > 1_000 && drive.base() < 250, "{raised} ms, then {} ms", drive.base());
    }
}

mod route {
    use super::*;

    #[test]
    fn a_longer_one_is_got_used_to_in_tens_of_exchanges() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 20);
        for _ in 0..10 {
            drive.clean(400);
        }
        let at_first = gate_ms(&mut drive);
        for _ in 0..60 {
            drive.wait(1_000);
            drive.clean(400);
        }
        assert!(at_first > 500 && gate_ms(&mut drive) == 0, "{at_first} ms, then {} ms", gate_ms(&mut drive));
        assert!(drive.base() < 500, "{} ms", drive.base());
    }

    #[test]
    fn a_queue_that_varies_by_a_tenth_is_not_taken_for_a_route() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 20);
        for nth in 0..200 {
            drive.clean(if nth % 8 < 4 { 360 } else { 440 });
            drive.wait(500);
        }
        drive.clean(360);
        // 4 · 260 ms, minus 360 ms.
        assert_eq!(gate_ms(&mut drive), 680);
    }

    #[test]
    fn without_the_route_change_rule_the_minimum_adapts_only_over_time() {
        let temper = Temper { route_change_rttvars: 0, ..Temper::default() };
        let mut drive = settled(&temper, 100, 20);
        for _ in 0..70 {
            drive.clean(400);
        }
        assert_eq!(gate_ms(&mut drive), 800);
    }
}

mod blind {
    use super::*;

    #[test]
    fn the_first_timer_is_that_of_rfc_7252() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        assert_eq!([drive.start(0.0), drive.start(0.5), drive.start(1.0)], [2_000, 2_500, 2_999]);
    }

    #[test]
    fn unmeasured_backoff_triples_while_four_retransmissions_fit() {
        let series = |temper: &Temper| {
            let mut drive = TestDriver::new(temper);
            [drive.start(0.5), drive.time_out(), drive.time_out(), drive.time_out()]
        };
        assert_eq!(series(&Temper::default()), [2_500, 7_500, 16_500, 16_500]);
        assert_eq!(series(&Temper::first_specified()), [2_500, 7_500, 22_500, 60_000]);
        let binary = Temper { unmeasured_backoff: Factor::TWO, unmeasured_limit: None, ..Temper::default() };
        assert_eq!(series(&binary), [2_500, 5_000, 10_000, 20_000]);
    }

    #[test]
    fn later_copies_than_rfc_7252_has_back_off_by_three_again() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        drive.start(0.5);
        let copies: Vec<u64> = (0..5).map(|_| drive.time_out()).collect();
        assert_eq!(copies[2..], [16_500, 49_500, 60_000]);
    }

    #[test]
    fn an_exchange_that_begins_with_a_provisional_timer_has_no_bound_but_the_cap() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        drive.start(0.0);
        drive.time_out();
        assert_eq!(drive.ack_after(4_000), 6_000);
        let timers = [drive.start(0.0), drive.time_out(), drive.time_out(), drive.time_out()];
        assert_eq!(timers, [6_000, 18_000, 54_000, 60_000]);
    }

    #[test]
    fn an_ambiguous_response_sets_a_provisional_rto_and_gives_no_sample() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        drive.start(0.0);
        drive.time_out();
        // Shortly after the retransmission; with a queue of 2.5 s it answers the original.
        assert_eq!(drive.ack_after(500), 2_500);
        assert_eq!(temper.snapshot(&drive.peer).srtt, None);
        assert_eq!(drive.clean(2_500), 7_500, "the first sample, as for any blind peer");
    }

    #[test]
    fn a_sender_under_a_queue_longer_than_its_first_timer_stops_sending_copies() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        let copies: Vec<usize> = (0..4).map(|_| answered_after(&mut drive, 3_500, 0.0)).collect();
        assert_eq!(copies, [1, 0, 0, 0]);
    }
}

fn answered_after(drive: &mut TestDriver<'_, Temper>, rtt_ms: u64, u: f64) -> usize {
    let (mut timer, mut waited, mut copies) = (drive.start(u), 0, 0);
    while waited + timer < rtt_ms {
        waited += timer;
        timer = drive.time_out();
        copies += 1;
    }
    drive.ack_at(rtt_ms);
    copies
}

mod likely_window {
    use super::*;

    #[test]
    fn an_answer_a_round_trip_after_the_copy_is_for_the_copy_and_no_sample() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 30);
        let before = temper.snapshot(&drive.peer).srtt;
        lossy(&mut drive, 100);
        assert_eq!((temper.snapshot(&drive.peer).srtt, drive.peer.doubt), (before, 1));
    }

    #[test]
    fn an_answer_right_after_the_copy_is_a_late_one_and_a_sample_from_the_original() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 30);
        let timer = drive.start(0.0);
        drive.time_out();
        drive.ack_after(49);
        let expected = (100 * 7 + timer + 49) / 8;
        let srtt = temper.snapshot(&drive.peer).srtt.expect("sampled").as_millis();
        assert!(srtt.abs_diff(u128::from(expected)) <= 1 && drive.peer.doubt == 0, "{srtt} ms, not {expected} ms");
    }

    #[test]
    fn an_answer_long_after_the_copy_is_a_late_one_too() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 30);
        drive.start(0.0);
        drive.time_out();
        drive.ack_after(400);
        assert!(temper.snapshot(&drive.peer).srtt > Some(Duration::from_millis(130)));
        assert_eq!(drive.peer.doubt, 0);
    }

    #[test]
    fn an_identified_retransmission_is_sampled_from_its_own_send_time() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 30);
        drive.start(0.0);
        drive.time_out();
        drive.wait(100);
        drive.acknowledged(AckKind::Piggybacked, AckedCopy::Exact(1));
        let srtt = temper.snapshot(&drive.peer).srtt.expect("sampled");
        assert_eq!((srtt.as_millis(), drive.peer.doubt), (100, 0));
    }

    #[test]
    fn either_reading_of_an_ambiguous_answer_can_be_had_alone() {
        for (ambiguity, doubt) in [(Ambiguity::Loss, 1), (Ambiguity::Late, 0)] {
            let temper = Temper { ambiguity, ..Temper::default() };
            let mut drive = settled(&temper, 100, 30);
            lossy(&mut drive, 100);
            assert_eq!(drive.peer.doubt, doubt);
        }
    }
}

mod doubt {
    use super::*;

    #[test]
    fn one_ambiguous_exchange_is_forgiven_and_each_further_one_doubles_the_rto() {
        let temper = Temper { floor: Duration::ZERO, ..Temper::default() };
        let mut drive = settled(&temper, 100, 30);
        let rto = drive.base();
        let rtos: Vec<u64> = (0..7).map(|_| lossy(&mut drive, 100)).collect();
        let times = [1, 2, 4, 8, 16, 16, 16];
        assert!(rtos.iter().zip(times).all(|(got, times)| got.abs_diff(rto * times) <= times), "{rto} ms: {rtos:?}");
        assert_eq!(drive.clean(100), rto, "one exchange without a copy ends it");
    }

    #[test]
    fn without_grace_the_first_ambiguous_exchange_doubles_the_rto() {
        let temper = Temper { floor: Duration::ZERO, grace: 0, ..Temper::default() };
        let mut drive = settled(&temper, 100, 30);
        let rto = drive.base();
        assert_eq!(lossy(&mut drive, 100).div_ceil(2), rto);
    }

    #[test]
    fn failure_counts_twice_and_a_reset_not_at_all() {
        let temper = Temper { floor: Duration::ZERO, ..Temper::default() };
        let doubt_after = |why, copies| {
            let mut drive = settled(&temper, 100, 30);
            drive.start(0.0);
            for _ in 0..copies {
                drive.time_out();
            }
            drive.end(why);
            drive.peer.doubt
        };
        assert_eq!(
            [
                doubt_after(AbandonReason::GaveUp, 4),
                doubt_after(AbandonReason::Cancelled, 1),
                doubt_after(AbandonReason::Cancelled, 0)
            ],
            [2, 2, 0]
        );
        assert_eq!([doubt_after(AbandonReason::Reset, 2), doubt_after(AbandonReason::Unreachable, 2)], [0, 0]);
    }

    /// After a step, late answers may arrive when a retransmission's would, but not forever.
    #[test]
    fn after_a_step_of_the_round_trip_time_spurious_copies_vanish() {
        for after_ms in [130, 150, 200, 250, 400, 700, 1_000, 2_000, 4_000] {
            for seed in 0..20_u32 {
                let temper = Temper::default();
                let mut drive = settled(&temper, 100, 30);
                let mut draws = seed;
                let mut spurious = [0; 250];
                for copies in &mut spurious {
                    draws = draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    *copies = answered_after(&mut drive, after_ms, f64::from(draws) / f64::from(u32::MAX));
                    drive.wait(50);
                }
                let all: usize = spurious.iter().sum();
                assert!(all <= 12, "{after_ms} ms: {all} spurious, seed {seed}");
                assert_eq!(spurious[200..], [0; 50], "{after_ms} ms, seed {seed}");
            }
        }
    }
}

mod copies {
    use super::*;
    use crate::path::MeanRetransmissions;

    #[test]
    fn the_least_timers_of_copies_are_750_ms_and_3_s_doubling() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 20, 60);
        let first = drive.start(0.0);
        let copies = [drive.time_out(), drive.time_out(), drive.time_out(), drive.time_out()];
        assert!(first < 50, "{first} ms");
        assert_eq!(copies, [750, 3_000, 6_000, 12_000]);
    }

    #[test]
    fn without_them_backoff_is_binary() {
        let temper =
            Temper { first_retransmission: Duration::ZERO, later_retransmissions: Duration::ZERO, ..Temper::default() };
        let mut drive = settled(&temper, 20, 60);
        let first = drive.start(0.0);
        let copies = [drive.time_out(), drive.time_out(), drive.time_out()];
        assert!(copies.iter().zip([2, 4, 8]).all(|(got, times)| got.abs_diff(first * times) <= times), "{copies:?}");
    }

    #[test]
    fn an_exchange_that_began_blind_keeps_its_backoff() {
        let temper = Temper { unmeasured_backoff: Factor::THREE, ..Temper::default() };
        let mut first = TestDriver::new(&temper);
        first.start(0.0);
        let flight = first.flight;
        first.ack_after(100);
        first.flight = flight;
        assert_eq!(first.time_out(), 6_000, "a round-trip time that came meanwhile is the next exchange's");
    }

    #[test]
    fn the_mean_converges_to_its_input() {
        let mut copies = MeanRetransmissions::default();
        let mut counted = |retransmissions, times: usize| {
            (0..times).for_each(|_| copies.count(retransmissions));
            copies.times(Micros::new(32))
        };
        assert_eq!(counted(1, 1), Micros::new(4), "an eighth of the way");
        assert_eq!([counted(1, 40), counted(9, 60), counted(0, 60)], [32, 160, 0].map(Micros::new));
    }
}

mod non_confirmable {
    use super::*;

    #[test]
    fn they_are_an_rto_apart_and_their_answers_time_is_not_an_exchanges() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 30);
        let start = drive.peer.last_start;
        drive.send_non();
        assert_eq!(drive.flight, TemperFlight::default());
        assert_eq!(drive.peer.last_start, start, "the gate is for exchanges");
        drive.load.non = NonHistory { last: Some(drive.now), since_confirmable: 1, ..NonHistory::default() };
        let rto = Duration::from_millis(drive.base());
        assert!(matches!(drive.admit(false), Admission::At(at) if at - drive.now >= rto));
    }

    #[test]
    fn an_abandoned_non_confirmable_message_leaves_the_doubt_unchanged() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 30);
        drive.send_non();
        drive.end(AbandonReason::GaveUp);
        assert_eq!(drive.peer.doubt, 0);
    }
}

#[test]
fn a_separate_response_does_not_change_the_state() {
    let temper = Temper::default();
    let mut drive = settled(&temper, 100, 5);
    let before = drive.peer;
    drive.start(0.0);
    let started = drive.peer;
    drive.time_out();
    drive.acknowledged(AckKind::Separate, AckedCopy::Unknown);
    assert_eq!(drive.peer, started);
    assert_ne!(started, before, "but that an exchange started");
}
