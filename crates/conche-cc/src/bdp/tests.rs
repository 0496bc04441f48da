//! BDP-CoAP's estimates, and the resolution of each gap of the paper.

use super::*;
use crate::testing::TestDriver;

/// The first estimate depends on the network alone.
fn eager() -> Bdp {
    Bdp { initial_rate: false, ..Bdp::default() }
}

/// A peer after one first exchange, which gives no bandwidth sample, and `clean` more.
fn settled(bdp: &Bdp, clean: usize, rtt_ms: u64) -> TestDriver<'_, Bdp> {
    let mut drive = TestDriver::new(bdp);
    for _ in 0..=clean {
        wait_for_admission(&mut drive);
        drive.clean(rtt_ms);
    }
    drive
}

fn wait_for_admission(drive: &mut TestDriver<'_, Bdp>) {
    if let Admission::At(at) = drive.admit(true) {
        drive.now = at;
    }
    assert_eq!(drive.admit(true), Admission::Send);
}

fn bandwidth(drive: &TestDriver<'_, Bdp>) -> Option<u32> {
    drive.peer.state().bandwidth.map(BytesPerSecond::get)
}

#[test]
fn the_first_message_needs_no_estimate() {
    let bdp = Bdp::default();
    let mut drive = TestDriver::new(&bdp);
    assert_eq!(drive.admit(true), Admission::Send);
    drive.load.bytes = 10_000;
    assert_eq!(drive.admit(true), Admission::Send, "no estimate, no bound");
}

#[test]
fn the_second_message_gives_the_first_bandwidth_sample() {
    let bdp = eager();
    assert_eq!(bandwidth(&settled(&bdp, 0, 200)), None);
    assert_eq!(bandwidth(&settled(&bdp, 1, 200)), Some(500));
}

#[test]
fn all_peers_start_from_a_message_per_initial_rto() {
    let bdp = Bdp::literal();
    let mut drive = TestDriver::new(&bdp);
    let start = drive.now;
    drive.clean(200);
    assert_eq!(bandwidth(&drive), Some(50), "100 B in 2 s");
    assert_eq!(drive.admit(true), Admission::At(start + Duration::from_secs(2)));
    drive.now = start + Duration::from_secs(2);
    drive.clean(200);
    assert_eq!(bandwidth(&drive), Some(50), "the acknowledgements were 2 s apart");
}

#[test]
fn after_a_message_that_was_given_up_the_next_one_is_first() {
    let estimate = |first_after_give_up| {
        let bdp = Bdp { segment_floor: false, first_after_give_up, ..eager() };
        let mut drive = settled(&bdp, 1, 200);
        wait_for_admission(&mut drive);
        drive.start(0.0);
        (0..4).for_each(|_| _ = drive.time_out());
        drive.end(AbandonReason::GaveUp);
        wait_for_admission(&mut drive);
        drive.clean(200);
        bandwidth(&drive)
    };
    assert_eq!(estimate(true), Some(500), "a starvation is no throughput");
    assert!(estimate(false) < Some(200));
}

#[test]
fn messages_are_paced_at_the_bandwidth() {
    let bdp = eager();
    let mut drive = settled(&bdp, 1, 200);
    let start = drive.now;
    drive.start(0.0);
    drive.load.bytes = 0;
    assert_eq!(drive.admit(true), Admission::At(start + Duration::from_millis(200)));
}

#[test]
fn no_more_than_a_bandwidth_delay_product_is_on_its_way() {
    let bdp = eager();
    let mut drive = settled(&bdp, 1, 200);
    assert_eq!(drive.peer.state().bdp, Some(100));
    drive.load.bytes = 100;
    assert_eq!(drive.admit(true), Admission::OnEvent);
    drive.load.bytes = 99;
    assert_eq!(drive.admit(true), Admission::Send);
}

#[test]
fn a_message_larger_than_the_product_leaves_when_nothing_else_is_on_its_way() {
    let bdp = eager();
    let mut drive = settled(&bdp, 1, 200);
    drive.bytes = 1_000;
    assert_eq!(drive.admit(true), Admission::Send);
}

#[test]
fn a_retransmission_waits_for_its_pacing_and_for_nothing_else() {
    let bdp = Bdp { segment_floor: false, ..eager() };
    let mut drive = settled(&bdp, 1, 200);
    drive.load.bytes = 10_000;
    let timer = drive.start(0.0);
    let before = drive.now;
    assert_eq!(drive.time_out(), timer, "and its timer is the same");
    assert_eq!(drive.now, before + Duration::from_millis(timer.max(200)));
}

#[test]
fn one_message_in_ten_probes_and_the_next_drains() {
    let bdp = Bdp::default();
    let mut drive = TestDriver::new(&bdp);
    let gains: std::vec::Vec<u16> = (0..12)
        .map(|_| {
            wait_for_admission(&mut drive);
            drive.clean(200);
            drive.peer.state().pacing_gain.permille()
        })
        .collect();
    assert_eq!(gains, [1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_200, 800, 1_000, 1_000]);
}

#[test]
fn the_least_round_trip_time_is_of_clean_exchanges_and_of_the_last_30_seconds() {
    let bdp = Bdp::default();
    let mut drive = settled(&bdp, 1, 200);
    drive.start(0.0);
    drive.time_out();
    drive.ack_after(5);
    let rtprop = |drive: &TestDriver<'_, Bdp>| drive.peer.state().rtprop.map(|rtt| rtt.as_millis());
    assert_eq!(rtprop(&drive), Some(200), "5 ms after a copy are no round trip");
    drive.wait(30_001);
    drive.clean(400);
    assert_eq!(rtprop(&drive), Some(400));
}

#[test]
fn loss_moves_the_estimate_to_the_smallest_throughput() {
    let bdp = Bdp { segment_floor: false, ..eager() };
    let mut drive = settled(&bdp, 1, 100);
    assert_eq!(bandwidth(&drive), Some(1_000));
    wait_for_admission(&mut drive);
    drive.clean(400);
    assert_eq!(bandwidth(&drive), Some(700), "0.6·1000 + 0.4·250");
    wait_for_admission(&mut drive);
    drive.start(0.0);
    drive.time_out();
    drive.ack_after(100);
    assert_eq!(drive.peer.state().retransmitted, Factor::from_permille(200));
    assert_eq!(bandwidth(&drive), Some(400), "0.2·1000 + 0.8·250");
}

#[test]
fn an_application_limited_message_gives_no_bandwidth_sample() {
    let bdp = eager();
    let mut drive = settled(&bdp, 1, 200);
    drive.load.bytes = 100;
    drive.drained();
    drive.load.bytes = 0;
    wait_for_admission(&mut drive);
    drive.start(0.0);
    drive.ack_after(2_000);
    assert_eq!(bandwidth(&drive), Some(500), "the application was slow, not the network");
}

#[test]
fn after_an_empty_path_the_next_message_is_first_again() {
    let bdp = eager();
    let mut drive = settled(&bdp, 1, 200);
    drive.drained();
    drive.wait(60_000);
    drive.clean(200);
    assert_eq!(bandwidth(&drive), Some(500), "a minute of silence is not throughput");
}

/// 400 sequential exchanges over a path of 200 ms that loses 30 % of all transmissions.
fn bandwidth_under_loss(bdp: &Bdp) -> u32 {
    let mut drive = TestDriver::new(bdp);
    let mut state = 7_u32;
    let mut lost = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16 < 19_661
    };
    for _ in 0..400 {
        wait_for_admission(&mut drive);
        drive.start(0.0);
        while lost() {
            drive.time_out();
        }
        drive.ack_after(200);
    }
    bandwidth(&drive).expect("many clean exchanges")
}

#[test]
fn as_printed_the_rate_spirals_down_under_loss_and_the_floor_stops_it() {
    let (literal, floored) = (bandwidth_under_loss(&Bdp::literal()), bandwidth_under_loss(&Bdp::default()));
    assert!(literal < 60, "{literal} B/s");
    assert!(floored >= 100, "{floored} B/s: a message of 100 B per two SRTT of a few hundred milliseconds");
}

#[test]
fn binary_backoff_doubles_its_timers() {
    let bdp = Bdp { binary_backoff: true, ..Bdp::default() };
    let mut drive = TestDriver::new(&bdp);
    assert_eq!([drive.start(0.0), drive.time_out(), drive.time_out()], [2_000, 4_000, 8_000]);
}
