//! A sender alone: the tests answer its segments.

use conche_proto::cc::AnyController;

use super::*;
use crate::rng::{Entity, Purpose, Streams};
use crate::transport::tcp::Receiver;

const SEGMENTS: u32 = 20;

struct Bench {
    sender: Sender<AnyController>,
    stream: Stream,
    now: Instant,
}

impl Bench {
    fn new(controller: &str, window_limit: u16, acknowledgments: Acknowledgments) -> Self {
        let config = SenderConfig {
            segments: SEGMENTS,
            segment_bytes: 96,
            window_limit,
            min_rto: Duration::from_millis(500),
            max_timeouts: 8,
            acknowledgments,
        };
        let controller = AnyController::by_name(controller).expect("a controller");
        let sender = Sender::new(config, controller, Instant::ZERO);
        let stream = Streams::new(1).stream(Entity::Run, Purpose::named("bench"));
        Self { sender, stream, now: Instant::ZERO }
    }

    fn open(controller: &str, window_limit: u16, acknowledgments: Acknowledgments, rtt_ms: u64) -> Self {
        let mut bench = Self::new(controller, window_limit, acknowledgments);
        assert_eq!(bench.drain().0, [Segment::Syn]);
        bench.after(rtt_ms, Segment::SynAck);
        bench
    }

    /// Returns the segments sent now, and the wait after them in milliseconds.
    fn drain(&mut self) -> (Vec<Segment>, Option<u64>) {
        let mut sent = Vec::new();
        loop {
            match self.sender.poll(self.now, &mut self.stream) {
                Output::Transmit(segment) => sent.push(segment),
                Output::Wait(until) => {
                    let wait = until.map(|until| u64::try_from((until - self.now).as_millis()).expect("short"));
                    return (sent, wait);
                }
            }
        }
    }

    fn numbers(&mut self) -> Vec<u32> {
        let number = |segment: &Segment| if let Segment::Data { number } = segment { Some(*number) } else { None };
        self.drain().0.iter().filter_map(number).collect()
    }

    fn after(&mut self, ms: u64, segment: Segment) {
        self.now += Duration::from_millis(ms);
        self.sender.receive(self.now, segment);
    }

    fn ack(&mut self, number: u32) {
        self.after(10, Segment::Ack { number });
    }
}

#[test]
fn the_window_grows_by_one_with_each_acknowledgment_up_to_its_limit() {
    let mut bench = Bench::open("rfc6298", 3, Acknowledgments::Cumulative, 50);
    assert_eq!(bench.numbers(), [0]);
    bench.ack(1);
    assert_eq!(bench.numbers(), [1, 2]);
    bench.ack(2);
    assert_eq!(bench.numbers(), [3, 4]);
    bench.ack(3);
    assert_eq!(bench.numbers(), [5], "three are on their way");
    bench.ack(3);
    assert_eq!(bench.numbers(), [0; 0], "a repeated acknowledgment is no news");
}

#[test]
fn timers_are_the_controllers_but_not_below_the_floor() {
    let wait = |controller| Bench::open(controller, 1, Acknowledgments::Cumulative, 200).drain().1;
    assert_eq!(wait("semi-dynamic"), Some(800), "four times the handshake");
    assert_eq!(wait("rfc6298"), Some(600), "SRTT + 4·RTTVAR");
    assert!(wait("static").is_some_and(|ms| (2000..=3000).contains(&ms)));
    assert_eq!(Bench::open("semi-dynamic", 1, Acknowledgments::Cumulative, 20).drain().1, Some(500), "not 80");
    assert_eq!(Bench::new("rfc6298", 1, Acknowledgments::Cumulative).drain().1, Some(1000), "before the first sample");
}

#[test]
fn a_timeout_shrinks_the_window_and_an_acknowledgment_skips_the_arrived() {
    let mut bench = Bench::open("rfc6298", 4, Acknowledgments::Cumulative, 50);
    bench.drain();
    bench.ack(1);
    bench.drain();
    bench.ack(2);
    bench.drain();
    bench.ack(3);
    assert_eq!(bench.numbers(), [5, 6]);
    // Segment 3 is lost; 4, 5 and 6 arrive.
    bench.now += Duration::from_secs(1);
    assert_eq!(bench.numbers(), [3]);
    assert_eq!(bench.sender.stats().timeouts, 1, "the others' timers ran out with it");
    bench.ack(7);
    assert_eq!(bench.numbers(), [7, 8]);
    assert_eq!(bench.sender.stats().retransmissions, 1);
}

#[test]
fn segments_lost_after_the_oldest_are_retransmitted_in_order() {
    let mut bench = Bench::open("rfc6298", 4, Acknowledgments::Cumulative, 50);
    bench.drain();
    bench.ack(1);
    assert_eq!(bench.numbers(), [1, 2]);
    bench.now += Duration::from_secs(1);
    assert_eq!(bench.numbers(), [1]);
    bench.ack(2);
    assert_eq!(bench.numbers(), [2, 3]);
}

#[test]
fn a_positive_acknowledgment_is_for_one_segment_only() {
    let mut bench = Bench::open("rfc6298", 2, Acknowledgments::Positive, 50);
    bench.drain();
    bench.ack(0);
    assert_eq!(bench.numbers(), [1, 2]);
    bench.ack(2);
    assert_eq!(bench.numbers(), [0; 0], "the window begins at segment 1");
    bench.now += Duration::from_secs(1);
    assert_eq!(bench.numbers(), [1]);
    bench.ack(1);
    assert_eq!(bench.numbers(), [3, 4]);
}

#[test]
fn a_segment_whose_answer_waited_for_another_gives_no_round_trip_time() {
    let mut bench = Bench::open("rfc6298", 3, Acknowledgments::Cumulative, 50);
    bench.drain();
    bench.ack(1);
    bench.drain();
    bench.now += Duration::from_millis(700);
    assert_eq!(bench.numbers(), [1]);
    bench.ack(3);
    assert_eq!(bench.sender.stats().samples, 1, "of segment 0; 1 is ambiguous and 2 was late");
    assert_eq!(bench.sender.stats().round_trips, Duration::from_millis(10));
}

#[test]
fn a_transfer_is_aborted_when_one_segments_timer_has_run_out_eight_times() {
    let mut bench = Bench::open("rfc6298", 4, Acknowledgments::Cumulative, 50);
    let mut copies = 0;
    while let (sent, Some(wait)) = bench.drain() {
        copies += sent.len();
        bench.now += Duration::from_millis(wait);
    }
    assert_eq!((copies, bench.sender.state()), (8, State::Aborted(bench.now)));
}

#[test]
fn every_controller_completes_a_transfer_in_which_every_fifth_segment_is_lost() {
    for named in conche_proto::cc::any::ALL {
        for acknowledgments in [Acknowledgments::Cumulative, Acknowledgments::Positive] {
            let mut bench = Bench::new(named.name(), 4, acknowledgments);
            let mut receiver = Receiver::new(SEGMENTS, acknowledgments);
            for round in 0.. {
                assert!(round < 1000, "{} never ends", named.name());
                let (sent, wait) = bench.drain();
                if bench.sender.state() != State::Open {
                    break;
                }
                let arrives = |(i, _): &(u64, Segment)| (round + i) % 5 != 4;
                let answers: Vec<_> = (0..)
                    .zip(sent)
                    .filter(arrives)
                    .filter_map(|(_, segment)| receiver.receive(bench.now, segment))
                    .collect();
                if answers.is_empty() {
                    let wait = wait.unwrap_or_else(|| panic!("{} waits for nothing", named.name()));
                    bench.now += Duration::from_millis(wait.max(1));
                }
                answers.into_iter().for_each(|answer| bench.after(5, answer));
            }
            assert_eq!(bench.sender.state(), State::Completed(bench.now), "{}", named.name());
            assert_eq!(receiver.received(), SEGMENTS);
        }
    }
}

#[test]
fn with_reno_three_duplicates_send_the_missing_segment_at_once_and_its_timer_is_not_backed_off() {
    let mut bench = Bench::open("linux", 16, Acknowledgments::Cumulative, 100);
    bench.sender = bench.sender.with_reno();
    let mut next = 0;
    for _ in 0..3 {
        let sent = bench.numbers();
        next = sent.last().expect("there is more") + 1;
        for number in sent {
            bench.ack(number + 1);
        }
    }
    let sent = bench.numbers();
    assert_eq!(sent, (next..next + 8).collect::<Vec<_>>(), "slow start");
    for _ in 0..2 {
        bench.ack(next);
        assert_eq!(bench.numbers(), [0; 0]);
    }
    bench.ack(next);
    assert_eq!(bench.numbers().first(), Some(&next), "the first of them is missing");
    assert_eq!((bench.sender.stats().retransmissions, bench.sender.stats().timeouts), (1, 0));
    bench.ack(next + 8);
    assert_eq!(bench.numbers().len(), 4, "half of what was on its way");
}

fn reno() -> Bench {
    let mut bench = Bench::new("linux", 32, Acknowledgments::Cumulative);
    bench.sender.config.segments = 500;
    bench.sender = bench.sender.with_reno();
    bench
}

fn bursts(bench: &mut Bench, round_trips: usize) -> Vec<usize> {
    let burst = |_| {
        let sent = bench.numbers();
        sent.iter().for_each(|number| bench.ack(number + 1));
        sent.len()
    };
    (0..round_trips).map(burst).collect()
}

#[test]
fn with_reno_the_threshold_is_held_when_the_timer_of_one_segment_runs_out_again() {
    let mut bench = reno();
    bench.drain();
    bench.after(100, Segment::SynAck);
    assert_eq!(bursts(&mut bench, 6), [1, 2, 4, 8, 16, 32]);
    let lost = bench.numbers();
    assert_eq!(lost.len(), 32);
    for _ in 0..2 {
        bench.now += Duration::from_secs(60);
        assert_eq!(bench.numbers(), lost[..1]);
    }
    bench.ack(lost[31] + 1);
    assert_eq!(bursts(&mut bench, 6), [2, 4, 8, 16, 17, 18]);
}

#[test]
fn with_reno_a_repeated_handshake_does_not_bound_slow_start() {
    let mut bench = reno();
    bench.drain();
    bench.now += Duration::from_secs(60);
    assert_eq!(bench.drain().0, [Segment::Syn]);
    bench.after(100, Segment::SynAck);
    assert_eq!(bursts(&mut bench, 6), [1, 2, 4, 8, 16, 32]);
}
