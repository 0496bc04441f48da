//! Worked examples of ANRW'18's variants.

use super::*;
use crate::control::{AbandonReason, AckKind, AckedCopy};
use crate::testing::TestDriver;

#[test]
fn a_backed_off_timer_is_kept_exactly_and_undithered() {
    let controller = DefaultFullBackoff::variant_1();
    let mut drive = TestDriver::new(&controller);
    assert_eq!(drive.clean(300), 2_000);
    assert_eq!([drive.start(0.5), drive.time_out(), drive.time_out()], [2_500, 5_000, 10_000]);
    assert_eq!(drive.ack_at(10_000), 10_000);
    assert_eq!(drive.start(1.0), 10_000);
}

#[test]
fn variant_1_forgets_after_one_clean_exchange() {
    let controller = DefaultFullBackoff::variant_1();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.0);
    drive.time_out();
    assert_eq!(drive.ack_after(150), 4_000);
    assert_eq!(drive.clean(150), 2_000);
}

#[test]
fn variant_2_halves_until_a_first_timer_could_be_as_long() {
    let controller = DefaultFullBackoff::variant_2();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.2);
    for _ in 0..4 {
        drive.time_out();
    }
    let kept = drive.ack_after(100);
    assert!((35_199..=35_200).contains(&kept), "{kept}");
    let bases = [drive.clean(100), drive.clean(100), drive.clean(100), drive.clean(100)];
    assert_eq!(bases, [kept / 2, kept / 4, kept / 8, 2_000]);
}

#[test]
fn variant_3_divides_by_a_power_of_two_that_grows_with_each_success() {
    let controller = DefaultFullBackoff::variant_3();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.0);
    for _ in 0..4 {
        drive.time_out();
    }
    assert_eq!(drive.ack_after(100), 32_000);
    assert_eq!([drive.clean(100), drive.clean(100), drive.clean(100)], [16_000, 4_000, 2_000]);
}

#[test]
fn a_retransmission_starts_variant_3_anew() {
    let controller = DefaultFullBackoff::variant_3();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.0);
    for _ in 0..4 {
        drive.time_out();
    }
    drive.ack_after(100);
    drive.clean(100);
    assert_eq!([drive.start(0.0), drive.time_out()], [16_000, 32_000]);
    assert_eq!([drive.ack_after(100), drive.clean(100), drive.clean(100)], [32_000, 16_000, 4_000]);
}

#[test]
fn variant_3_adds_up_to_a_second_to_the_kept_timer() {
    let controller = DefaultFullBackoff::variant_3();
    let mut drive = TestDriver::new(&controller);
    assert_eq!([drive.start(0.0), drive.time_out()], [2_000, 4_000]);
    drive.ack_after(100);
    assert_eq!(drive.start(0.5), 4_500);
    drive.ack_after(100);
    assert_eq!(drive.start(0.5), 2_500, "half of 4 s is the default's");
}

#[test]
fn failure_keeps_the_last_timer() {
    let controller = DefaultFullBackoff::variant_1();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.0);
    for _ in 0..4 {
        drive.time_out();
    }
    assert_eq!(drive.end(AbandonReason::GaveUp), 32_000);
}

#[test]
fn an_impatient_application_backs_off_too_but_a_reset_means_nothing() {
    let controller = DefaultFullBackoff::variant_1();
    let after = |copies: usize, why| {
        let mut drive = TestDriver::new(&controller);
        drive.start(0.0);
        for _ in 0..copies {
            drive.time_out();
        }
        drive.end(why)
    };
    assert_eq!(after(1, AbandonReason::Cancelled), 4_000);
    assert_eq!(after(0, AbandonReason::Cancelled), 2_000);
    assert_eq!(after(1, AbandonReason::Reset), 2_000);
    assert_eq!(after(1, AbandonReason::Unreachable), 2_000);
}

#[test]
fn the_response_to_a_non_confirmable_message_does_not_end_backoff() {
    let controller = DefaultFullBackoff::variant_1();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.0);
    drive.time_out();
    drive.ack_after(150);
    drive.send_non();
    assert_eq!(drive.acknowledged(AckKind::Separate, AckedCopy::Exact(0)), 4_000);
}

#[test]
fn cocoas_variants_keep_the_timer_or_the_next_one() {
    let kept = |controller: CocoaFullBackoff| {
        let mut drive = TestDriver::new(&controller);
        drive.start(0.0);
        drive.time_out();
        drive.ack_after(150)
    };
    assert_eq!(kept(CocoaFullBackoff::variant_1()), 4_000);
    assert_eq!(kept(CocoaFullBackoff::variant_2()), 6_000, "4 s, grown by 1.5 once more");
}

#[test]
fn cocoas_variant_2_grows_the_armed_timer_after_a_ten_second_round_trip() {
    let controller = CocoaFullBackoff::variant_2();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.5);
    drive.time_out();
    drive.time_out();
    assert_eq!(drive.ack_at(10_000), 11_250);
}

#[test]
fn a_kept_timer_of_variant_2_is_no_longer_than_32_seconds() {
    let controller = CocoaFullBackoff::variant_2();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.0);
    for _ in 0..8 {
        drive.time_out();
    }
    assert_eq!(drive.ack_after(100), 32_000);
}

#[test]
fn estimators_take_samples_while_a_timer_is_kept() {
    let controller = CocoaFullBackoff::variant_1();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.0);
    drive.time_out();
    assert_eq!(drive.ack_after(150), 4_000);
    // As CoCoA alone, after the weak sample of 2150 ms and this strong one.
    assert_eq!(drive.clean(400), 1_753);
}

#[test]
fn a_kept_timer_does_not_age() {
    let controller = CocoaFullBackoff::variant_1();
    let mut drive = TestDriver::new(&controller);
    drive.start(0.0);
    drive.time_out();
    drive.ack_after(150);
    drive.wait(10_000_000);
    assert_eq!(drive.base(), 4_000);
}
