//! The documented properties of temper's parts: gate, floor, span, likely window, blind rule,
//! doubt.

use std::vec::Vec;

use super::*;
use crate::control::{AbandonReason, AckKind, AckedCopy, NonHistory};
use crate::estimator::Estimator;
use crate::testing::TestDriver;

fn settled(temper: &Temper, rtt_ms: u64, exchanges: usize) -> TestDriver<'_, Temper> {
    let mut drive = TestDriver::new(temper);
    for _ in 0..exchanges {
        drive.clean(rtt_ms);
        drive.wait(10 * rtt_ms);
    }
    drive
}

/// Sets SRTT and RTTVAR, in microseconds.
fn set_estimate(drive: &mut TestDriver<'_, Temper>, srtt_us: u32, rttvar_us: u32) {
    drive.peer.estimator = Estimator::starting(Micros::new(srtt_us), Micros::new(rttvar_us));
}

/// Loses the original; the retransmission is answered after `rtt_ms`. Returns the next RTO.
fn lossy(drive: &mut TestDriver<'_, Temper>, rtt_ms: u64) -> u64 {
    drive.start(0.0);
    drive.time_out();
    drive.ack_after(rtt_ms)
}

/// Returns the first four timeouts of an exchange, randomised by `u`.
fn timeouts(drive: &mut TestDriver<'_, Temper>, u: f64) -> [u64; 4] {
    [drive.start(u), drive.time_out(), drive.time_out(), drive.time_out()]
}

fn gate_ms(drive: &mut TestDriver<'_, Temper>) -> u64 {
    match drive.admit(true) {
        Admission::Send => 0,
        Admission::At(earliest) => u64::try_from((earliest - drive.now).as_millis()).expect("a short wait"),
        other => panic!("{other:?} is not a result of the gate"),
    }
}

#[test]
fn a_peer_takes_36_bytes_and_an_exchange_12() {
    assert_eq!((size_of::<TemperPeer>(), size_of::<TemperFlight>()), (36, 12));
}

mod gate {
    use super::*;

    /// A queue of 200 ms under an SRTT of 300 ms, directly after a response.
    fn queue(temper: &Temper, rttvar_ms: u32) -> TestDriver<'_, Temper> {
        let mut drive = settled(temper, 100, 1);
        for _ in 0..6 {
            drive.clean(300);
        }
        set_estimate(&mut drive, 300_000, rttvar_ms * 1_000);
        drive
    }

    /// 6 · (200 - 2 · 20) - 300 ms.
    const PAUSE_MS: u64 = 660;

    #[test]
    fn a_path_without_a_queue_has_an_open_gate() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 20);
        drive.clean(100);
        assert_eq!(drive.admit(true), Admission::Send);
    }

    #[test]
    fn a_closed_loop_pauses_for_six_queueing_delays_less_a_round_trip() {
        let temper = Temper::default();
        let mut drive = queue(&temper, 20);
        assert_eq!(gate_ms(&mut drive), PAUSE_MS);
        drive.wait(PAUSE_MS - 1);
        assert_eq!(gate_ms(&mut drive), 1);
        drive.wait(1);
        assert_eq!(drive.admit(true), Admission::Send);
    }

    #[test]
    fn the_pause_counts_from_the_last_start_or_end() {
        let temper = Temper::default();
        let mut drive = queue(&temper, 20);
        drive.wait(500);
        drive.start(0.0);
        assert_eq!(gate_ms(&mut drive), PAUSE_MS);
        drive.end(AbandonReason::Cancelled);
        assert_eq!(gate_ms(&mut drive), PAUSE_MS);
    }

    #[test]
    fn a_retransmission_does_not_prolong_the_pause() {
        let temper = Temper::default();
        let mut drive = queue(&temper, 20);
        // 300 + 4 · 20 ms.
        assert_eq!(drive.start(0.0), 380);
        drive.time_out();
        assert_eq!(gate_ms(&mut drive), PAUSE_MS - 380);
    }

    #[test]
    fn the_pause_is_at_most_two_rtos() {
        let temper = Temper::default();
        // 6 · (200 - 2 · 5) - 300 = 840 ms, and twice 300 · 9/8 ms.
        assert_eq!(gate_ms(&mut queue(&temper, 5)), 675);
    }

    #[test]
    fn two_rttvars_are_jitter() {
        let temper = Temper::default();
        // 6 · (200 - 2 · 74) - 300 = 12 ms, and 6 · (200 - 2 · 75) - 300 = 0 ms.
        assert_eq!([74, 75, 100].map(|rttvar_ms| gate_ms(&mut queue(&temper, rttvar_ms))), [12, 0, 0]);
    }

    #[test]
    fn one_fast_answer_of_four_opens_it_for_jitter() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 1);
        for rtt in [300, 300, 300, 100] {
            drive.clean(rtt);
        }
        set_estimate(&mut drive, 300_000, 20_000);
        assert_eq!(gate_ms(&mut drive), 0);
    }

    #[test]
    fn parallel_exchanges_share_it_by_the_square_of_their_number() {
        let temper = Temper::default();
        let mut drive = queue(&temper, 20);
        let pauses = [0, 1, 3, u16::MAX].map(|others| {
            drive.load.exchanges = others;
            gate_ms(&mut drive)
        });
        assert_eq!(pauses, [660, 165, 41, 0]);
    }

    #[test]
    fn a_pause_of_less_than_a_millisecond_is_none() {
        let temper = Temper::default();
        // 6 · (300 - 2 · 10) - 700 = 980 µs, and 1040 µs.
        for (rttvar_us, expected) in [(10, true), (5, false)] {
            let mut drive = TestDriver::new(&temper);
            for rtt_us in [400, 700, 700, 700, 700, 700] {
                drive.start(0.0);
                drive.now += Duration::from_micros(rtt_us);
                drive.acknowledged(AckKind::Piggybacked, AckedCopy::Unknown);
            }
            set_estimate(&mut drive, 700, rttvar_us);
            // The last activity is known to a millisecond.
            drive.now = drive.peer.last_activity(drive.now);
            assert_eq!(drive.admit(true) == Admission::Send, expected, "{rttvar_us} µs");
        }
    }

    #[test]
    fn copies_do_not_wait_for_it() {
        let temper = Temper::default();
        let mut drive = queue(&temper, 20);
        let (now, load) = (drive.now, drive.load);
        let copy = temper.expired(&mut drive.peer, &mut TemperFlight::default(), &Expired { now, attempt: 0, load });
        assert_eq!(copy, now);
    }

    #[test]
    fn a_forged_early_answer_shuts_it_for_two_rtos_at_most() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        drive.start(0.0);
        drive.acknowledged(AckKind::Piggybacked, AckedCopy::Exact(0));
        for _ in 0..20 {
            drive.clean(1_000);
            let longest = Duration::from(temper.timer(&drive.peer).times(2));
            assert!(u128::from(gate_ms(&mut drive)) <= longest.as_millis());
        }
        assert!(gate_ms(&mut drive) > 0, "a queue of a second, as far as it can know");
    }

    /// 4 exchanges of 360 ms, then 4 of 440 ms, as a queue of 260 to 340 ms.
    fn varying(drive: &mut TestDriver<'_, Temper>, exchanges: usize, interval_ms: u64) {
        for nth in 0..exchanges {
            drive.clean(if nth % 8 < 4 { 360 } else { 440 });
            drive.wait(interval_ms);
        }
        drive.clean(360);
    }

    /// |SRTT - 400| ends at 10 ms in each half of a period, and RTTVAR is 33 to 51 ms: the pause is
    /// 6 · (260 - 2 · RTTVAR) - SRTT.
    const VARYING_PAUSE_MS: core::ops::RangeInclusive<u64> = 537..=775;

    #[test]
    fn a_queue_that_varies_by_a_tenth_is_not_taken_for_a_route() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 20);
        varying(&mut drive, 200, 500);
        assert!(VARYING_PAUSE_MS.contains(&gate_ms(&mut drive)), "{} ms", gate_ms(&mut drive));
    }

    #[test]
    fn the_least_round_trip_is_forgotten_after_two_windows() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 3);
        // Within 10 minutes of the first window, then 5 minutes more: the third window drops its
        // minimum.
        varying(&mut drive, 64, 8_000);
        let before = gate_ms(&mut drive);
        varying(&mut drive, 40, 8_000);
        assert!(VARYING_PAUSE_MS.contains(&before), "{before} ms");
        assert_eq!(gate_ms(&mut drive), 0);
    }

    #[test]
    fn weeks_of_silence_shut_it_no_longer_than_its_limit() {
        let temper = Temper::default();
        let day_ms = 86_400_000;
        // At 2^32 ms the last activity reads as now.
        for silence_ms in [25 * day_ms, 49 * day_ms, 1 << 32, 50 * day_ms, 60 * day_ms] {
            let mut drive = queue(&temper, 20);
            drive.wait(silence_ms);
            assert!(gate_ms(&mut drive) <= PAUSE_MS, "{} ms after {silence_ms} ms", gate_ms(&mut drive));
        }
    }

    #[test]
    fn a_sender_that_was_idle_is_not_held_back_for_64_exchanges() {
        let temper = Temper::default();
        let mut drive = queue(&temper, 20);
        // More than a quarter of 300 ms.
        drive.wait(76);
        drive.drained();
        for exchange in 0..64 {
            assert_eq!(drive.admit(true), Admission::Send, "exchange {exchange}");
            drive.start(0.0);
            drive.end(AbandonReason::Cancelled);
        }
        assert_eq!(gate_ms(&mut drive), PAUSE_MS);
    }

    #[test]
    fn a_sender_that_is_idle_for_a_quarter_of_a_round_trip_is_a_closed_loop() {
        let temper = Temper::default();
        let mut drive = queue(&temper, 20);
        drive.wait(75);
        drive.drained();
        assert_eq!(gate_ms(&mut drive), PAUSE_MS - 75);
    }

    #[test]
    fn a_sender_with_an_exchange_outstanding_is_not_idle() {
        let temper = Temper::default();
        let mut drive = queue(&temper, 20);
        drive.load.exchanges = 1;
        drive.wait(100);
        drive.drained();
        assert_eq!(gate_ms(&mut drive), PAUSE_MS / 4 - 100);
    }

    #[test]
    fn the_idle_time_of_a_peer_without_a_sample_changes_nothing() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        drive.wait(10_000);
        drive.drained();
        assert_eq!(drive.peer, TemperPeer::default());
    }
}

mod floor {
    use super::*;

    /// A path with a least round trip of `least_ms`.
    fn path(temper: &Temper, least_ms: u64, srtt_us: u32, rttvar_us: u32) -> TestDriver<'_, Temper> {
        let mut drive = settled(temper, least_ms, 1);
        set_estimate(&mut drive, srtt_us, rttvar_us);
        drive
    }

    fn base(least_ms: u64, srtt_us: u32, rttvar_us: u32) -> u64 {
        path(&Temper::default(), least_ms, srtt_us, rttvar_us).base()
    }

    #[test]
    fn loss_without_inflation_is_repaired_fast() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 80, 40);
        for _ in 0..40 {
            lossy(&mut drive, 80);
            drive.clean(80);
        }
        assert_eq!(drive.base(), 90);
    }

    #[test]
    fn inflation_without_collisions_does_not_raise_the_rto() {
        // Beside 100 ms of excess, 56 ms are less than 13/16 of 69 ms.
        assert_eq!(base(100, 200_000, 56_000), 200 + 4 * 56);
    }

    #[test]
    fn among_collisions_it_follows_inflation_up_to_two_seconds() {
        // The ratio is 0.7. The round trip is 1.5, 2 and 4 times the least.
        assert_eq!(base(100, 150_000, 35_000), 1_000);
        assert_eq!(base(100, 200_000, 70_000), 2_000);
        assert_eq!(base(100, 400_000, 210_000), 2_000);
    }

    #[test]
    fn it_grows_from_13_sixteenths_of_the_ratio_to_the_ratio() {
        // 62.6 of 69 ms is 129/256 of the way from 56.0625 ms.
        assert_eq!(base(100, 200_000, 62_600), 2_000 * 129 / 256);
    }

    #[test]
    fn even_jitter_is_no_collision_and_a_few_very_long_delays_are() {
        let temper = Temper::default();
        // Even from 100 to 300 ms: the mean is 200 ms, and its mean absolute deviation 50 ms.
        let even = path(&temper, 100, 200_000, 50_000);
        assert_eq!(temper.collisions(&even.peer), Share::NONE);
        let mut long = settled(&temper, 100, 1);
        for nth in 0..80 {
            long.clean(if nth % 8 == 0 { 900 } else { 100 });
            assert_eq!(temper.collisions(&long.peer), Share::ALL, "exchange {nth}");
        }
    }

    #[test]
    fn a_steady_round_trip_is_no_collision() {
        let temper = Temper::default();
        let drive = settled(&temper, 100, 40);
        assert_eq!(temper.collisions(&drive.peer), Share::NONE);
        let unmeasured = TestDriver::new(&temper);
        assert_eq!(temper.collisions(&unmeasured.peer), Share::NONE);
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
        let temper = Temper::default();
        let first = [0, 1, 3, u16::MAX].map(|others| {
            let mut drive = path(&temper, 100, 200_000, 70_000);
            drive.load.exchanges = others;
            drive.start(0.0)
        });
        // 2 s, 2 s / 4, and the RTO of 200 + 4 · 70 ms.
        assert_eq!(first, [2_000, 500, 480, 480]);
    }

    #[test]
    fn a_timer_that_is_held_is_that_of_a_sender_that_measures_nothing() {
        let temper = Temper::default();
        let timers = |u| timeouts(&mut path(&temper, 100, 200_000, 70_000), u);
        // The last is what is left of 44 s, or twice the one before.
        assert_eq!(timers(0.0), [2_000, 4_000, 8_000, 30_000]);
        assert_eq!(timers(1.0).map(|timer| timer + 1), [3_000, 6_000, 12_000, 24_000]);
    }

    #[test]
    fn clean_exchanges_bring_it_down_again() {
        let temper = Temper::default();
        let mut drive = path(&temper, 100, 200_000, 70_000);
        for _ in 0..60 {
            drive.clean(200);
        }
        assert!((220..=230).contains(&drive.base()), "{} ms", drive.base());
    }

    #[test]
    fn zero_disables_it() {
        for temper in [
            Temper { floor: Duration::ZERO, ..Temper::default() },
            Temper { collisions: Factor::from_permille(0), ..Temper::default() },
        ] {
            assert_eq!(path(&temper, 100, 200_000, 70_000).base(), 480);
        }
    }
}

mod route {
    use super::*;

    #[test]
    fn a_longer_one_is_got_used_to_in_tens_of_exchanges() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 20);
        for _ in 0..15 {
            drive.clean(400);
        }
        // SRTT is 400 - 300·(7/8)^15 = 359 ms, and RTTVAR 600·((7/8)^15 - (3/4)^15) = 73 ms.
        let at_first = gate_ms(&mut drive);
        for _ in 0..60 {
            drive.wait(1_000);
            drive.clean(400);
        }
        assert!((560..=570).contains(&at_first), "{at_first} ms");
        assert_eq!(gate_ms(&mut drive), 0);
        // 9/8 of a round-trip time that approaches 400 ms from below.
        assert_eq!(drive.base(), 449);
    }
}

mod old {
    use super::*;

    /// The first timeout `idle_ms` after the last of many exchanges of `rtt_ms`.
    fn first(rtt_ms: u64, idle_ms: u64, exchanges: u16, u: f64) -> u64 {
        let temper = Temper::default();
        let mut drive = settled(&temper, rtt_ms, 30);
        drive.clean(rtt_ms);
        drive.wait(idle_ms);
        drive.load.exchanges = exchanges;
        drive.start(u)
    }

    #[test]
    fn after_sixteen_round_trips_the_first_timer_is_four_or_more() {
        assert_eq!([first(50, 800, 0, 0.0), first(50, 802, 0, 0.0), first(50, 802, 0, 1.0)], [60, 200, 299]);
    }

    #[test]
    fn it_need_not_be_longer_than_a_second() {
        assert_eq!([first(249, 3_986, 0, 0.0), first(400, 6_402, 0, 0.0)], [996, 1_000]);
    }

    #[test]
    fn another_exchange_shows_that_the_path_is_in_use() {
        assert_eq!(first(50, 802, 1, 0.0), 60);
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
    fn backoff_is_binary_up_to_the_cap() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        assert_eq!(timeouts(&mut drive, 0.5), [2_500, 5_000, 10_000, 20_000]);
        assert_eq!([drive.time_out(), drive.time_out(), drive.time_out()], [40_000, 60_000, 60_000]);
    }

    #[test]
    fn an_exchange_that_began_blind_keeps_its_backoff() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        drive.start(0.0);
        let flight = drive.flight;
        drive.ack_after(100);
        drive.flight = flight;
        // With a round-trip time, the last would be what is left of 44 s.
        assert_eq!([drive.time_out(), drive.time_out(), drive.time_out()], [4_000, 8_000, 16_000]);
    }

    #[test]
    fn an_exchange_with_a_provisional_timer_backs_off_likewise() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        drive.start(0.0);
        drive.time_out();
        assert_eq!(drive.ack_after(4_000), 6_000);
        assert_eq!(timeouts(&mut drive, 0.0), [6_000, 12_000, 24_000, 48_000]);
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
    fn hosts_delay_is_part_of_it() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 1, 60);
        lossy(&mut drive, 10);
        assert_eq!(drive.peer.doubt, 1);
    }

    #[test]
    fn an_answer_a_round_trip_after_the_copy_is_for_the_copy_and_no_sample() {
        let temper = Temper::default();
        // Half of the least round trip to 1.25·SRTT.
        for rtt_ms in [50, 100, 125] {
            let mut drive = settled(&temper, 100, 30);
            let before = temper.snapshot(&drive.peer).srtt;
            lossy(&mut drive, rtt_ms);
            assert_eq!((temper.snapshot(&drive.peer).srtt, drive.peer.doubt), (before, 1), "{rtt_ms} ms");
        }
    }

    #[test]
    fn where_round_trips_vary_it_extends_to_the_rto() {
        let temper = Temper::default();
        for (rtt_ms, doubt) in [(300, 1), (301, 0)] {
            let mut drive = settled(&temper, 100, 1);
            drive.start(0.0);
            drive.time_out();
            set_estimate(&mut drive, 100_000, 50_000);
            drive.ack_after(rtt_ms);
            assert_eq!(drive.peer.doubt, doubt, "{rtt_ms} ms");
        }
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
        for rtt_ms in [101, 400] {
            let mut drive = settled(&temper, 80, 30);
            let timer = drive.start(0.0);
            drive.time_out();
            drive.ack_after(rtt_ms);
            let expected = Duration::from_micros((80 * 7 + timer + rtt_ms) * 125);
            assert_eq!((temper.snapshot(&drive.peer).srtt, drive.peer.doubt), (Some(expected), 0));
        }
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
}

mod doubt {
    use super::*;

    #[test]
    fn three_ambiguous_exchanges_in_a_row_are_forgiven_and_further_ones_double_the_rto() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 80, 30);
        assert_eq!(drive.base(), 90);
        let rtos: Vec<u64> = (0..9).map(|_| lossy(&mut drive, 80)).collect();
        assert_eq!(rtos, [1, 1, 1, 2, 4, 8, 16, 32, 64].map(|times| 90 * times));
        assert_eq!(drive.clean(80), 90, "one exchange without a copy ends it");
    }

    #[test]
    fn without_grace_the_first_ambiguous_exchange_doubles_the_rto() {
        let temper = Temper { grace: 0, ..Temper::default() };
        let mut drive = settled(&temper, 80, 30);
        let rtos: Vec<u64> = (0..5).map(|_| lossy(&mut drive, 80)).collect();
        assert_eq!(rtos, [2, 4, 8, 16, 32].map(|times| 90 * times));
    }

    #[test]
    fn the_longest_grace_has_doublings_as_well() {
        let temper = Temper { grace: 31, ..Temper::default() };
        let mut drive = settled(&temper, 80, 30);
        let rtos: Vec<u64> = (0..40).map(|_| lossy(&mut drive, 80)).collect();
        assert_eq!((rtos[30], rtos[31], rtos[39]), (90, 180, 90 * 512));
    }

    #[test]
    fn a_failure_doubles_the_rto_at_once_and_a_reset_does_not() {
        let temper = Temper::default();
        let rto_after = |why, copies| {
            let mut drive = settled(&temper, 80, 30);
            drive.start(0.0);
            for _ in 0..copies {
                drive.time_out();
            }
            drive.end(why)
        };
        assert_eq!(
            [
                rto_after(AbandonReason::GaveUp, 4),
                rto_after(AbandonReason::Cancelled, 1),
                rto_after(AbandonReason::Cancelled, 0)
            ],
            [180, 180, 90]
        );
        assert_eq!([rto_after(AbandonReason::Reset, 2), rto_after(AbandonReason::Unreachable, 2)], [90, 90]);
    }

    #[test]
    fn each_further_failure_doubles_it_twice() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 80, 30);
        let rtos = [(); 4].map(|()| {
            timeouts(&mut drive, 0.0);
            drive.end(AbandonReason::GaveUp)
        });
        assert_eq!(rtos, [2, 8, 32, 128].map(|times| 90 * times));
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

mod span {
    use super::*;

    #[test]
    fn where_losses_are_rare_the_fourth_retransmission_leaves_44_s_after_the_original() {
        let temper = Temper::default();
        // An RTO of 30 ms.
        assert_eq!(timeouts(&mut settled(&temper, 20, 60), 0.0), [30, 4_000, 8_000, 31_970]);
        for (rtt_ms, u) in [20, 100, 1_000, 2_000].into_iter().flat_map(|rtt_ms| [(rtt_ms, 0.0), (rtt_ms, 1.0)]) {
            let mut drive = settled(&temper, rtt_ms, 60);
            let begun = drive.now;
            timeouts(&mut drive, u);
            drive.time_out();
            assert_eq!(drive.now - begun, Duration::from_secs(44), "{rtt_ms} ms, u = {u}");
        }
    }

    #[test]
    fn an_exchange_with_a_span_fails_within_max_transmit_wait() {
        let temper = Temper::default();
        for rtt_ms in [20, 100, 1_000, 2_000] {
            let mut drive = settled(&temper, rtt_ms, 60);
            let begun = drive.now;
            timeouts(&mut drive, 1.0);
            let last = drive.time_out();
            assert_eq!(drive.now - begun + Duration::from_millis(last), Duration::from_secs(93), "{rtt_ms} ms");
        }
    }

    #[test]
    fn beside_long_round_trips_backoff_is_binary() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 5_000, 60);
        assert_eq!(timeouts(&mut drive, 0.0), [5_625, 11_250, 22_500, 45_000]);
    }

    #[test]
    fn without_it_backoff_is_binary() {
        let temper = Temper { span: Duration::ZERO, ..Temper::default() };
        assert_eq!(timeouts(&mut settled(&temper, 20, 60), 0.0), [30, 60, 120, 240]);
    }

    #[test]
    fn a_short_span_bounds_all_minimum_timers() {
        let temper = Temper { span: Duration::from_secs(5), ..Temper::default() };
        // 4 s, then the 970 ms that are left, which doubled timers exceed.
        assert_eq!(timeouts(&mut settled(&temper, 20, 60), 0.0), [30, 4_000, 8_000, 16_000]);
    }

    #[test]
    fn a_loss_shortens_it_until_fifteen_exchanges_have_none() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 20, 60);
        lossy(&mut drive, 20);
        // 15/256 of exchanges have a loss, and 24/256 is usual: w = 1 - 160/256.
        let left = 44_000.0 - 30.0 - 4_000.0 * (1.0 + 2.0) * 96.0 / 256.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
        let last = (left * 96.0 / 256.0) as u64;
        assert_eq!(timeouts(&mut drive, 0.0), [30, 4_000 * 96 / 256, 8_000 * 96 / 256, last]);
        for _ in 0..14 {
            drive.clean(20);
        }
        assert!(timeouts(&mut drive, 0.0)[1] < 4_000);
        drive.clean(20);
        assert_eq!(timeouts(&mut drive, 0.0)[1], 4_000);
    }

    fn with_losses(temper: &Temper, every: usize) -> TestDriver<'_, Temper> {
        let mut drive = settled(temper, 20, 60);
        for _ in 0..40 {
            lossy(&mut drive, 20);
            for _ in 1..every {
                drive.clean(20);
            }
        }
        drive
    }

    #[test]
    fn several_losses_in_a_row_are_not_the_usual_ones() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 20, 60);
        drive.start(0.0);
        drive.time_out();
        drive.time_out();
        drive.ack_after(20);
        assert_eq!(drive.peer.rarity_of_losses(temper.usual_losses), Share::ALL);
    }

    #[test]
    fn frequent_losses_leave_binary_backoff() {
        let temper = Temper::default();
        assert_eq!(timeouts(&mut with_losses(&temper, 4), 0.0), [30, 60, 120, 240]);
        let mut drive = with_losses(&temper, 5);
        lossy(&mut drive, 20);
        assert_eq!(timeouts(&mut drive, 0.0), [30, 60, 120, 240]);
    }

    #[test]
    fn among_collisions_frequent_losses_do_not_shorten_it() {
        let temper = Temper::default();
        let mut drive = with_losses(&temper, 2);
        assert_eq!(temper.min_timeout(&drive.peer, &drive.flight, 1), Micros::ZERO);
        // A ratio of 0.7, without much inflation.
        set_estimate(&mut drive, 21_000, 700);
        let [_, repeated @ ..] = timeouts(&mut drive, 0.0);
        assert_eq!(repeated[..2], [4_000, 8_000]);
    }

    #[test]
    fn late_answers_and_failures_are_no_losses() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 60);
        for _ in 0..10 {
            drive.start(0.0);
            drive.time_out();
            // Less than half of the least round trip.
            drive.ack_after(40);
        }
        drive.start(0.0);
        drive.end(AbandonReason::GaveUp);
        assert_eq!(drive.peer.rarity_of_losses(temper.usual_losses), Share::ALL);
    }

    #[test]
    fn a_retransmission_without_a_round_trip_time_is_a_loss() {
        let temper = Temper::default();
        let mut drive = TestDriver::new(&temper);
        lossy(&mut drive, 20);
        drive.clean(20);
        // 15/256, then 14/256 of 24/256.
        assert_eq!(timeouts(&mut drive, 0.0)[1], 4_000 * 107 / 256);
    }

    #[test]
    fn the_share_of_losses_stays_in_its_range() {
        let usual = |permille| Factor::from_permille(permille);
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 1);
        for _ in 0..1_000 {
            lossy(&mut drive, 100);
        }
        let rarities = [0, 188, 1_000].map(|permille| drive.peer.rarity_of_losses(usual(permille)));
        // 255 of 256 at most.
        assert_eq!((rarities[0], rarities[1]), (Share::NONE, Share::NONE));
        assert_eq!(rarities[2].of(Micros::new(256)), Micros::MIN);
        for _ in 0..1_000 {
            drive.clean(100);
        }
        assert_eq!([188, 1_000].map(|permille| drive.peer.rarity_of_losses(usual(permille))), [Share::ALL; 2]);
    }
}

mod non_confirmable {
    use super::*;

    #[test]
    fn they_are_an_rto_apart_and_their_answers_time_is_not_an_exchanges() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 30);
        let before = drive.peer;
        drive.send_non();
        assert_eq!(drive.flight, TemperFlight::default());
        assert_eq!(drive.peer, before, "the gate is for exchanges");
        drive.load.non = NonHistory { last: Some(drive.now), since_confirmable: 1, ..NonHistory::default() };
        let rto = Duration::from_millis(drive.base());
        assert!(matches!(drive.admit(false), Admission::At(at) if at - drive.now >= rto));
    }

    #[test]
    fn an_abandoned_non_confirmable_message_leaves_the_state_unchanged() {
        let temper = Temper::default();
        let mut drive = settled(&temper, 100, 30);
        let before = drive.peer;
        drive.send_non();
        drive.end(AbandonReason::GaveUp);
        assert_eq!(drive.peer, before);
    }
}

#[test]
fn a_separate_response_is_no_sample_and_after_a_retransmission_ambiguous() {
    let temper = Temper::default();
    for copies in [0, 1] {
        let mut drive = settled(&temper, 100, 5);
        drive.start(0.0);
        let mut expected = drive.peer;
        for _ in 0..copies {
            drive.time_out();
        }
        drive.acknowledged(AckKind::Separate, AckedCopy::Unknown);
        expected.ended(drive.now);
        expected.doubt = copies;
        assert_eq!(drive.peer, expected);
    }
}
