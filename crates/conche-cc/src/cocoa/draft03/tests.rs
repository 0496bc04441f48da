//! CoCoA's worked examples, and the contradictions between its sources.

use super::*;
use crate::control::{AckKind, AckedCopy, Admission};
use crate::testing::TestDriver;

#[test]
fn the_first_strong_sample_weighs_a_half() {
    // E = 300 + 4·150 = 900; (900 + 2000)/2.
    assert_eq!(TestDriver::new(&Cocoa::default()).clean(300), 1_450);
}

#[test]
fn a_weak_sample_weighs_a_quarter_and_counts_from_the_original_copy() {
    let cocoa = Cocoa::default();
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!([drive.start(0.0), drive.time_out()], [2_000, 4_000]);
    // R = 2150, E = 2150 + 1075; (3225 + 3·2000)/4.
    assert_eq!(drive.ack_after(150), 2_306);
}

#[test]
fn a_ten_second_round_trip_gives_a_weak_sample_after_two_copies() {
    let cocoa = Cocoa::default();
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!([drive.start(0.5), drive.time_out(), drive.time_out()], [2_500, 5_000, 7_500]);
    assert_eq!(drive.ack_at(10_000), 5_250);
}

#[test]
fn the_backoff_factor_is_that_of_the_current_timer_or_of_the_first() {
    let small = |vbf| Cocoa { ack_timeout: Duration::from_millis(300), vbf, ..Cocoa::default() };
    let timers = |cocoa: Cocoa| {
        let mut drive = TestDriver::new(&cocoa);
        [drive.start(0.0), drive.time_out(), drive.time_out(), drive.time_out()]
    };
    assert_eq!(timers(small(Vbf::Current)), [300, 900, 2_700, 5_400]);
    assert_eq!(timers(small(Vbf::Frozen)), [300, 900, 2_700, 8_100]);
}

#[test]
fn a_frozen_factor_is_chosen_by_the_dithered_timer() {
    let cocoa = Cocoa { ack_timeout: Duration::from_millis(900), ..Cocoa::plus() };
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!([drive.start(0.0), drive.time_out()], [900, 2_700]);
    assert_eq!([drive.start(0.5), drive.time_out()], [1_125, 2_250], "the factor of 1.125 s is 2");
}

#[test]
fn blind_exchanges_beside_two_others_start_from_six_seconds() {
    let cocoa = Cocoa::default();
    let mut drive = TestDriver::new(&cocoa);
    drive.load.exchanges = 2;
    assert_eq!(drive.start(0.0), 6_000);
    assert_eq!(drive.ack_after(500), 1_750, "the estimate starts from 2 s all the same");
    assert_eq!(drive.start(0.0), 1_750);
}

#[test]
fn backoff_stops_at_32_seconds_but_no_timer_shrinks_to_that() {
    let cocoa = Cocoa { ack_timeout: Duration::from_secs(50), ..Cocoa::default() };
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!([drive.start(0.0), drive.time_out()], [32_000, 32_000]);
    assert_eq!(drive.start(1.0), drive.time_out(), "47.99 s, dithered from 32 s");
}

#[test]
fn three_retransmissions_give_no_sample() {
    let cocoa = Cocoa::default();
    let mut drive = TestDriver::new(&cocoa);
    drive.start(0.0);
    for _ in 0..3 {
        drive.time_out();
    }
    assert_eq!(drive.ack_after(500), 2_000);
    assert!(drive.peer.is_unmeasured());
}

#[test]
fn a_separate_response_gives_no_sample() {
    let cocoa = Cocoa::default();
    let mut drive = TestDriver::new(&cocoa);
    drive.start(0.0);
    drive.wait(1_500);
    assert_eq!(drive.acknowledged(AckKind::Separate, AckedCopy::Exact(0)), 2_000);
}

/// Exchanges with three or more retransmissions are acknowledged but give no sample.
fn rto_in_constant_use(aging: Aging) -> u64 {
    let cocoa = Cocoa { aging, ..Cocoa::default() };
    let mut drive = TestDriver::new(&cocoa);
    assert!(drive.clean(5_000) > 3_000);
    for _ in 0..20 {
        drive.start(0.0);
        for _ in 0..3 {
            drive.time_out();
        }
        drive.ack_after(1_000);
    }
    drive.base()
}

#[test]
fn a_congested_rto_ages_down_in_constant_use_only_by_the_letter_of_the_draft() {
    assert!(rto_in_constant_use(Aging::Literal) <= 3_000);
    assert!(rto_in_constant_use(Aging::SinceActivity) > 3_000);
    assert_eq!(rto_in_constant_use(Aging::SinceActivity), rto_in_constant_use(Aging::Off));
}

#[test]
fn months_of_silence_end_at_an_rto_of_one_to_three_seconds() {
    for (rtt_ms, days) in [(20, 25), (20, 50), (20, 400), (30_000, 25), (30_000, 50), (30_000, 400)] {
        let cocoa = Cocoa::default();
        let mut drive = TestDriver::new(&cocoa);
        for _ in 0..10 {
            drive.clean(rtt_ms);
        }
        drive.wait(days * 86_400_000);
        let rto = drive.base();
        assert!((1_000..=3_000).contains(&rto), "{rto} ms after {days} days");
    }
}

#[test]
fn non_confirmable_messages_are_an_rto_apart() {
    let cocoa = Cocoa::default();
    let mut drive = TestDriver::new(&cocoa);
    drive.clean(300);
    drive.load.non.last = Some(drive.now);
    assert_eq!(drive.admit(false), Admission::At(drive.now + Duration::from_millis(1_450)));
    assert_eq!(drive.admit(true), Admission::Send, "Confirmable messages are bounded by NSTART alone");
}
