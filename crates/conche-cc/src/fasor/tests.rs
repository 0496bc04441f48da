//! FASOR's worked examples and state machine.

use super::*;
use crate::control::{AbandonReason, AckKind, AckedCopy};
use crate::testing::TestDriver;

fn close(got: u64, expected: u64) {
    assert!(got.abs_diff(expected) <= 1, "{got}, not {expected}");
}

#[test]
fn the_first_sample_gives_one_and_a_half_of_itself() {
    assert_eq!(TestDriver::new(&Fasor::default()).clean(300), 450);
    assert_eq!(TestDriver::new(&Fasor::pseudocode()).clean(300), 450);
}

#[test]
fn the_second_rto_is_435_by_the_text_and_772_by_the_pseudocode() {
    let second = |fasor: Fasor| {
        let mut drive = TestDriver::new(&fasor);
        drive.clean(300);
        drive.clean(320)
    };
    close(second(Fasor::default()), 435);
    close(second(Fasor::pseudocode()), 772);
}

#[test]
fn dithering_adds_a_quarter_to_all_of_the_smoothed_round_trip() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    close(drive.start(0.0), 2_167);
    close(drive.start(1.0), 2_667);
    drive.ack_after(300);
    close(drive.start(0.0), 525);
    close(drive.start(1.0), 750);
}

#[test]
fn ambiguous_exchanges_move_from_fast_over_fast_slow_fast_to_slow_fast() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    for expected in [FasorPhase::FastSlowFast, FasorPhase::SlowFast, FasorPhase::SlowFast] {
        drive.start(0.0);
        drive.time_out();
        drive.ack_after(100);
        assert_eq!(drive.peer.phase(), expected);
    }
    drive.clean(100);
    assert_eq!(drive.peer.phase(), FasorPhase::Fast);
}

#[test]
fn fast_slow_fast_inserts_the_slow_timer_second() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    drive.start(0.5);
    drive.time_out();
    drive.time_out();
    assert_eq!(drive.ack_at(10_000), 2_000, "the fast timer is what the next exchange starts from");
    let timers = [drive.start(0.5), drive.time_out(), drive.time_out(), drive.time_out()];
    for (got, expected) in timers.into_iter().zip([2_417, 15_000, 4_833, 9_667]) {
        close(got, expected);
    }
}

#[test]
fn slow_fast_begins_with_the_slow_timer_undithered() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    for rtt in [10_000, 20_000] {
        drive.start(0.0);
        while drive.time_out() < rtt {}
        drive.ack_at(rtt);
    }
    assert_eq!(drive.base(), 30_000);
    let timers = [drive.start(1.0), drive.time_out(), drive.time_out()];
    for (got, expected) in timers.into_iter().zip([30_000, 2_667, 5_333]) {
        close(got, expected);
    }
}

#[test]
fn an_unambiguous_acknowledgement_gives_a_sample_and_enters_fast() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    drive.start(0.0);
    drive.time_out();
    drive.wait(300);
    assert_eq!(drive.acknowledged(AckKind::Piggybacked, AckedCopy::Exact(1)), 450);
    assert_eq!(drive.peer.phase(), FasorPhase::Fast);
}

#[test]
fn after_a_sample_the_rto_is_never_less() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    for rtt in [100, 100, 100, 900, 5_000, 20, 20, 20, 20, 700, 30_000] {
        assert!(drive.clean(rtt) >= rtt);
    }
}

#[test]
fn failure_counts_as_an_ambiguous_exchange_of_its_whole_length() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    for _ in 0..2 {
        drive.start(0.0);
        for _ in 0..4 {
            drive.time_out();
        }
        drive.end(AbandonReason::GaveUp);
    }
    assert_eq!((drive.peer.phase(), drive.base()), (FasorPhase::SlowFast, 60_000));
}

#[test]
fn a_reset_moves_nothing() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    drive.start(0.0);
    drive.time_out();
    drive.end(AbandonReason::Reset);
    assert_eq!(drive.peer.phase(), FasorPhase::Fast);
}

#[test]
fn a_separate_response_after_one_copy_moves_nothing_and_after_two_it_is_ambiguous() {
    let fasor = Fasor::default();
    let mut drive = TestDriver::new(&fasor);
    drive.start(0.0);
    drive.acknowledged(AckKind::Separate, AckedCopy::Exact(0));
    assert_eq!((drive.peer.phase(), drive.base()), (FasorPhase::Fast, 2_000));
    drive.start(0.0);
    drive.time_out();
    drive.acknowledged(AckKind::Separate, AckedCopy::Unknown);
    assert_eq!(drive.peer.phase(), FasorPhase::FastSlowFast);
}
