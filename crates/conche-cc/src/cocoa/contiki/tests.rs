//! Worked examples of Contiki's CoCoA+.

use super::*;
use crate::control::Controller;
use crate::testing::TestDriver;

#[test]
fn a_weak_estimate_weighs_three_quarters() {
    let cocoa = CocoaContiki::default();
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!([drive.start(0.0), drive.time_out()], [2_000, 4_000]);
    // E = 2150 + 1075; 3/4 · 3225 + 1/4 · 2000.
    assert_eq!(drive.ack_after(150), 2_918);
    assert_eq!(TestDriver::new(&cocoa).clean(300), 1_450, "a strong one half");
}

#[test]
fn any_number_of_retransmissions_gives_a_sample() {
    let cocoa = CocoaContiki::default();
    let mut drive = TestDriver::new(&cocoa);
    drive.start(0.0);
    for _ in 0..4 {
        drive.time_out();
    }
    // R = 30.1 s, E = 45.15 s.
    assert_eq!(drive.ack_after(100), 34_362);
}

#[test]
fn a_failed_exchange_gives_a_sample_but_a_reset_or_cancelled_one_does_not() {
    let cocoa = CocoaContiki::default();
    let after = |reason| {
        let mut drive = TestDriver::new(&cocoa);
        drive.start(0.0);
        drive.time_out();
        drive.end(reason)
    };
    // R = 6 s, E = 9 s.
    assert_eq!(after(AbandonReason::GaveUp), 7_250);
    assert_eq!([AbandonReason::Reset, AbandonReason::Cancelled, AbandonReason::Unreachable].map(after), [2_000; 3]);
}

#[test]
fn more_than_three_retransmissions_without_a_strong_sample_reset_the_strong_estimator() {
    let cocoa = CocoaContiki::default();
    let srtt_after = |retransmissions: usize| {
        let mut drive = TestDriver::new(&cocoa);
        drive.clean(800);
        for _ in 0..retransmissions {
            drive.start(0.0);
            drive.time_out();
            drive.ack_after(100);
        }
        drive.clean(400);
        cocoa.snapshot(&drive.peer).srtt.map(|srtt| srtt.as_millis())
    };
    assert_eq!(srtt_after(3), Some(750), "800 - 400/8");
    assert_eq!(srtt_after(4), Some(400), "the first sample again");
}

#[test]
fn a_strong_sample_forgets_earlier_retransmissions() {
    let cocoa = CocoaContiki::default();
    let mut drive = TestDriver::new(&cocoa);
    drive.clean(800);
    for _ in 0..4 {
        drive.start(0.0);
        drive.time_out();
        drive.ack_after(100);
        drive.clean(800);
    }
    drive.clean(400);
    assert_eq!(cocoa.snapshot(&drive.peer).srtt, Some(Duration::from_millis(750)));
}

#[test]
fn the_backoff_factor_follows_the_rto_before_randomisation() {
    let timers = |rto_ms, u| {
        let cocoa = CocoaContiki::default();
        let mut drive = TestDriver::new(&cocoa);
        drive.clean(100);
        drive.peer.rto = Micros::from_millis(rto_ms);
        [drive.start(u), drive.time_out()]
    };
    assert_eq!([timers(996, 0.5), timers(1_000, 0.0)], [[1_245, 3_112], [1_000, 2_000]]);
    assert_eq!([timers(3_000, 0.5), timers(3_002, 0.0)], [[3_750, 7_500], [3_002, 4_503]]);
}

#[test]
fn ageing_takes_a_small_rto_to_a_second_at_once() {
    let cocoa = CocoaContiki::default();
    let mut drive = TestDriver::new(&cocoa);
    for _ in 0..30 {
        drive.clean(100);
    }
    let settled = drive.base();
    drive.wait(settled * 16);
    assert_eq!(drive.base(), settled);
    drive.wait(20);
    assert_eq!(drive.base(), 1_000);
    drive.wait(1_000_000);
    assert_eq!(drive.base(), 1_000);
}

#[test]
fn a_large_rto_ages_once_at_the_start_of_each_exchange() {
    let cocoa = CocoaContiki::default();
    let mut drive = TestDriver::new(&cocoa);
    // E = 12 s.
    assert_eq!(drive.clean(4_000), 7_000);
    drive.wait(28_001);
    assert_eq!([drive.base(), drive.base()], [4_500, 4_500], "asking changes nothing");
    drive.wait(1_000_000);
    assert_eq!(drive.base(), 4_500);
    assert_eq!(drive.start(0.0), 4_500);
    assert_eq!(drive.start(0.0), 3_250, "a second exchange without a sample in between");
}

#[test]
fn ageing_counts_only_from_samples_and_a_running_exchange_does_not_age() {
    let cocoa = CocoaContiki::default();
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!(drive.clean(4_000), 7_000);
    drive.start(0.0);
    drive.time_out();
    drive.time_out();
    // R = 40 s after timers of 7, 10.5 and 15.75 s; E = 60 s.
    assert_eq!(drive.ack_at(40_000), 46_750, "3/4 · 60 + 1/4 · 7");
}

#[test]
fn blind_exchanges_double_with_each_that_is_running_and_are_randomised_twice() {
    let cocoa = CocoaContiki::default();
    let mut drive = TestDriver::new(&cocoa);
    let mut first_beside = |running, u| {
        drive.load.exchanges = running;
        drive.start(u)
    };
    assert_eq!([0, 1, 2, 3].map(|running| first_beside(running, 0.0)), [2_000, 4_000, 8_000, 16_000]);
    assert_eq!(first_beside(u16::MAX, 0.0), 32_000);
    let top = first_beside(0, 1.0);
    assert!((4_499..=4_500).contains(&top), "{top}");
}

#[test]
fn estimates_stop_at_the_maximum_rto() {
    let cocoa = CocoaContiki::default();
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!(drive.clean(1_000_000), 31_000);
}
