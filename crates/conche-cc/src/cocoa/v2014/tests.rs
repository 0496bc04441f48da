//! Worked examples of ETFA'14's CoCoA and its optimisations.

use super::*;
use crate::control::Controller;
use crate::testing::TestDriver;

#[test]
fn weak_and_strong_samples_weigh_the_same() {
    let cocoa = Cocoa2014::default();
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!(drive.clean(300), 1_450);
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!([drive.start(0.0), drive.time_out()], [2_000, 4_000]);
    // E = 2150 + 1075; (3225 + 2000)/2.
    assert_eq!(drive.ack_after(150), 2_612);
}

#[test]
fn gains_are_the_reverse_of_rfc_6298() {
    let cocoa = Cocoa2014::default();
    let mut drive = TestDriver::new(&cocoa);
    drive.clean(400);
    drive.clean(800);
    let snapshot = cocoa.snapshot(&drive.peer);
    // s = 400 + 400/4; v = 200 + (400 - 200)/8.
    assert_eq!(snapshot.srtt, Some(Duration::from_millis(500)));
    assert_eq!(snapshot.rttvar, Some(Duration::from_millis(225)));
}

#[test]
fn a_ten_second_round_trip_gives_a_weak_sample_after_any_number_of_copies() {
    let cocoa = Cocoa2014::default();
    let mut drive = TestDriver::new(&cocoa);
    assert_eq!([drive.start(0.5), drive.time_out(), drive.time_out()], [2_500, 5_000, 10_000]);
    assert_eq!(drive.ack_at(10_000), 8_500);
    assert_eq!([drive.start(0.5), drive.time_out()], [10_625, 13_812], "large timers grow by 1.3");
}

#[test]
fn blind_exchanges_double_with_each_that_is_running() {
    let cocoa = Cocoa2014::default();
    let mut drive = TestDriver::new(&cocoa);
    let mut first_timer_beside = |running| {
        drive.load.exchanges = running;
        drive.start(0.0)
    };
    assert_eq!([0, 1, 2, 3].map(&mut first_timer_beside), [2_000, 4_000, 8_000, 16_000]);
    assert_eq!(first_timer_beside(u16::MAX), 60_000);
}

#[test]
fn optimised_weak_samples_need_exactly_one_retransmission_and_weigh_a_quarter() {
    let cocoa = Cocoa2014::optimized();
    let mut drive = TestDriver::new(&cocoa);
    drive.start(0.0);
    drive.time_out();
    assert_eq!(drive.ack_after(150), 2_306);
    drive.start(0.0);
    drive.time_out();
    drive.time_out();
    assert_eq!(drive.ack_after(150), 2_306);
}

#[test]
fn an_idle_small_rto_becomes_sixteen_times_itself_or_doubles() {
    let idle = |small_aging| {
        let cocoa = Cocoa2014 { small_aging, ..Cocoa2014::default() };
        let mut drive = TestDriver::new(&cocoa);
        for _ in 0..30 {
            drive.clean(100);
        }
        let settled = drive.base();
        drive.wait(settled * 16 + 20);
        drive.base() / settled
    };
    assert_eq!(idle(SmallAging::Mul16), 16);
    assert_eq!(idle(SmallAging::Double), 2);
}

#[test]
fn an_idle_estimator_moves_half_way_to_two_seconds_each_minute() {
    let cocoa = Cocoa2014::optimized();
    let mut drive = TestDriver::new(&cocoa);
    drive.clean(4_000);
    let srtt = |drive: &TestDriver<Cocoa2014>| cocoa.snapshot(&drive.peer).srtt.map(|srtt| srtt.as_millis());
    assert_eq!(srtt(&drive), Some(4_000));
    drive.wait(60_000);
    drive.base();
    assert_eq!(srtt(&drive), Some(3_000));
    drive.wait(60_000);
    drive.base();
    assert_eq!(srtt(&drive), Some(2_500));
}

#[test]
fn the_published_form_leaves_an_idle_large_rto_alone() {
    let cocoa = Cocoa2014::default();
    let mut drive = TestDriver::new(&cocoa);
    let rto = drive.clean(4_000);
    drive.wait(3_600_000);
    assert_eq!(drive.base(), rto);
}

#[test]
fn an_estimator_ages_over_idle_times_beyond_the_range_of_ticks() {
    for hours in [1, 3, 4, 5, 9, 10, 100] {
        let cocoa = Cocoa2014::optimized();
        let mut drive = TestDriver::new(&cocoa);
        drive.clean(4_000);
        drive.wait(hours * 3_600_000);
        assert!(drive.base() < 3_000, "{} ms after {hours} h", drive.base());
    }
}
