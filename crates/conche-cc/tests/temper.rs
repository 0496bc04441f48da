//! Requirements of RFC 7252, RFC 8085 and RFC 8961 on a sender, tested on temper.
//! docs/controllers/temper.md maps sentences to tests.

use core::time::Duration;

use conche_cc::control::{
    AbandonReason, Abandoned, AckKind, AckedCopy, Acknowledged, Admission, Expired, Load, Sent, Snapshot, Submission,
};
use conche_cc::non::PROBING_RATE;
use conche_cc::temper::{Temper, TemperFlight, TemperPeer};
use conche_cc::{Controller, Instant};
use proptest::prelude::*;

const MAX_RETRANSMIT: u8 = 4;
/// RFC 7252 §4.8.2.
const MAX_TRANSMIT_SPAN: Duration = Duration::from_secs(45);
const HIGHEST: u32 = u32::MAX;

struct Sender {
    temper: Temper,
    peer: TemperPeer,
    now: Instant,
}

impl Sender {
    fn new(temper: Temper) -> Self {
        let now = Instant::from_millis(1_000);
        Self { peer: temper.peer(now), temper, now }
    }

    fn settled(temper: Temper, rtt: Duration, exchanges: usize) -> Self {
        let mut sender = Self::new(temper);
        for _ in 0..exchanges {
            sender.exchange(rtt, 0, HIGHEST);
            sender.now += Duration::from_secs(1);
        }
        sender
    }

    fn transmit(&mut self, flight: &mut TemperFlight, attempt: u8, random: u32) -> Duration {
        let event = Sent { now: self.now, attempt, confirmable: true, bytes: 60, random, load: Load::default() };
        self.temper.sent(&mut self.peer, flight, &event)
    }

    fn departures(&mut self, random: u32) -> Vec<Duration> {
        let (mut sent, mut flight) = (Vec::new(), TemperFlight::default());
        for attempt in 0..=MAX_RETRANSMIT {
            sent.push(self.now);
            let timer = self.transmit(&mut flight, attempt, random);
            self.now += timer;
        }
        let event = Abandoned { now: self.now, reason: AbandonReason::GaveUp, sent: &sent, load: Load::default() };
        self.temper.abandoned(&mut self.peer, &flight, &event);
        sent.iter().map(|departure| *departure - sent[0]).collect()
    }

    fn exchange(&mut self, rtt: Duration, answered: usize, random: u32) {
        let (mut sent, mut flight, load) = (Vec::new(), TemperFlight::default(), Load::default());
        for attempt in 0..=MAX_RETRANSMIT {
            let timer = self.transmit(&mut flight, attempt, random);
            sent.push(self.now);
            match sent.get(answered).map(|sent| *sent + rtt) {
                Some(arrival) if arrival <= self.now + timer || attempt == MAX_RETRANSMIT => {
                    self.now = arrival.max(self.now);
                    break;
                }
                _ => self.now += timer,
            }
            let expired = Expired { now: self.now, attempt, load };
            assert_eq!(self.temper.expired(&mut self.peer, &mut flight, &expired), self.now, "copies wait for nothing");
        }
        let (copy, kind) = (AckedCopy::Unknown, AckKind::Empty);
        let event = Acknowledged { now: self.now, sent: &sent, copy, kind, load };
        self.temper.acknowledged(&mut self.peer, &flight, &event);
    }

    fn rto(&mut self) -> Duration {
        self.temper.base(&mut self.peer, self.now)
    }

    fn shown(&self) -> Snapshot {
        self.temper.snapshot(&self.peer)
    }

    fn srtt(&self) -> Duration {
        self.shown().srtt.expect("a sample was taken")
    }

    fn admit(&mut self, confirmable: bool, load: &Load) -> Admission {
        let message = Submission { confirmable, may_confirm: false, bytes: 60, probing_rate: PROBING_RATE };
        self.temper.admit(&mut self.peer, self.now, &message, load)
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

mod rfc8085 {
    use super::*;

    /// §3.1.1: an average of several recent samples.
    #[test]
    fn one_sample_moves_the_estimate_by_an_eighth() {
        let mut sender = Sender::settled(Temper::default(), ms(100), 20);
        sender.exchange(ms(108), 0, HIGHEST);
        assert_eq!(sender.srtt(), ms(101));
    }

    /// §3.1.1: an estimate for each destination.
    #[test]
    fn destinations_have_separate_estimates() {
        let one = Sender::settled(Temper::default(), ms(100), 20);
        let mut other = Sender::new(one.temper);
        assert_eq!((other.shown().srtt, other.rto()), (None, ms(2_000)));
    }

    /// §3.1.1: a conservative timeout before the first sample.
    #[test]
    fn without_a_sample_the_first_timer_is_two_seconds_or_more() {
        for random in [0, 1 << 31, HIGHEST] {
            let departures = Sender::new(Temper::default()).departures(random);
            assert!(departures[1] >= ms(2_000) && departures[1] <= ms(3_000), "{departures:?}");
        }
    }

    /// §3.1.1: an expired timer indicates congestion and reduces the rate.
    #[test]
    fn when_nothing_is_answered_each_exchange_begins_slower() {
        let mut sender = Sender::settled(Temper::default(), ms(100), 20);
        let first_timers: Vec<Duration> = (0..4).map(|_| sender.departures(0)[1]).collect();
        assert!(first_timers.windows(2).all(|pair| pair[1] > pair[0] * 3 / 2), "{first_timers:?}");
    }

    /// §3.1.2: the rate of several outstanding exchanges follows the queue.
    #[test]
    fn with_four_exchanges_outstanding_starts_are_held_apart_while_there_is_a_queue() {
        let mut sender = Sender::settled(Temper::default(), ms(100), 2);
        for _ in 0..20 {
            sender.exchange(ms(5_000), 0, HIGHEST);
        }
        sender.transmit(&mut TemperFlight::default(), 0, 0);
        // Two RTOs for one exchange, 1/16 of that with four outstanding.
        let load = Load { exchanges: 3, ..Load::default() };
        let Admission::At(earliest) = sender.admit(true, &load) else { panic!("a queue, but no gate") };
        let difference = (earliest - sender.now).abs_diff(sender.rto() * 2 / 16);
        assert!(difference <= ms(1), "{difference:?}");
    }

    /// §3.1.3: at most one datagram per round trip on average.
    #[test]
    fn copies_are_further_apart_than_a_round_trip() {
        for rtt in [1, 20, 100, 700, 5_000].map(ms) {
            let mut sender = Sender::settled(Temper::default(), rtt, 200);
            let departures = sender.departures(0);
            assert!(departures.windows(2).all(|pair| pair[1] - pair[0] > rtt), "{rtt:?}: {departures:?}");
        }
    }

    /// §3.1.3, for unacknowledged messages.
    #[test]
    fn non_confirmable_messages_are_an_rto_apart() {
        let mut sender = Sender::settled(Temper::default(), ms(1_000), 20);
        let mut load = Load::default();
        load.non.last = Some(sender.now);
        let expected = sender.now + sender.rto();
        assert_eq!(sender.admit(false, &load), Admission::At(expected));
    }
}

mod rfc8961 {
    use super::*;

    /// §4 (2b): every unambiguous exchange gives a sample.
    #[test]
    fn every_exchange_without_a_copy_updates_the_estimate() {
        let mut sender = Sender::settled(Temper::default(), ms(100), 20);
        for _ in 0..5 {
            let before = sender.shown();
            sender.exchange(ms(120), 0, HIGHEST);
            assert_ne!(sender.shown(), before);
        }
    }

    /// §4 (2d).
    #[test]
    fn an_ambiguous_response_one_round_trip_after_the_last_transmission_gives_no_sample() {
        for answered in 1..=4 {
            let mut sender = Sender::settled(Temper::default(), ms(100), 20);
            let before = sender.shown().srtt;
            sender.exchange(ms(100), answered, 0);
            assert_eq!(sender.shown().srtt, before, "copy {answered}");
        }
    }

    /// §4 (2d): any other is no shorter than the round trip of the transmission that it answers.
    #[test]
    fn a_late_response_raises_the_estimate() {
        for rtt in [ms(150), ms(700), ms(3_000)] {
            let mut sender = Sender::settled(Temper::default(), ms(100), 20);
            sender.exchange(rtt, 0, 0);
            assert_eq!(sender.srtt(), (ms(700) + rtt) / 8);
        }
    }

    /// §4 (4): exponential backoff at every use.
    #[test]
    fn with_a_round_trip_time_every_timer_of_an_exchange_is_twice_the_one_before_or_the_cap() {
        for rtt in [20, 1_000, 9_000].map(ms) {
            let mut sender = Sender::settled(Temper::default(), rtt, 30);
            let departures = sender.departures(HIGHEST);
            let timers: Vec<Duration> = departures.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let doubled = |pair: &[Duration]| pair[1] >= pair[0] * 2 || pair[1] == Duration::from_secs(60);
            assert!(timers.windows(2).all(doubled), "{timers:?}");
        }
    }

    /// §4 (4): without a sample, no transmission is earlier than with doubling.
    #[test]
    fn without_one_timers_double() {
        for random in (0..=32).map(|step| HIGHEST / 32 * step) {
            let departures = Sender::new(Temper::default()).departures(random);
            let expected: Vec<Duration> = [0, 1, 3, 7, 15].map(|times| departures[1] * times).to_vec();
            assert_eq!(departures, expected);
        }
    }

    /// §4 (4), with its divergence: three ambiguous exchanges in a row do not back off.
    #[test]
    fn the_fourth_ambiguous_exchange_in_a_row_doubles_the_rto() {
        let mut sender = Sender::settled(Temper::default(), ms(100), 30);
        let clean = sender.rto();
        let rtos: Vec<Duration> = (0..4)
            .map(|_| {
                sender.exchange(ms(100), 1, 0);
                sender.rto()
            })
            .collect();
        assert_eq!(rtos, [clean, clean, clean, clean * 2]);
    }

    /// §4 (4): an exchange without a response backs off at once.
    #[test]
    fn a_failure_doubles_the_rto_at_once() {
        let mut sender = Sender::settled(Temper::default(), ms(100), 30);
        let clean = sender.rto();
        sender.departures(0);
        assert_eq!(sender.rto(), clean * 2);
    }

    /// §4 (4), without grace: backoff lasts until an exchange without a retransmission.
    #[test]
    fn without_grace_backoff_lasts_until_an_exchange_without_a_copy() {
        let temper = Temper { grace: 0, floor: Duration::ZERO, ..Temper::default() };
        let mut sender = Sender::settled(temper, ms(100), 30);
        let clean = sender.rto();
        sender.exchange(ms(100), 1, 0);
        assert!(sender.rto() >= clean * 2 - ms(1), "{:?} after {clean:?}", sender.rto());
        sender.exchange(ms(100), 0, 0);
        assert!(sender.rto() <= clean + ms(1), "{:?} after {clean:?}", sender.rto());
    }

    /// §4 (4): a bound on the RTO is 60 s or more.
    #[test]
    fn no_timer_is_bounded_below_60_seconds() {
        let mut sender = Sender::new(Temper::default());
        let all: Vec<Duration> = (0..6).flat_map(|_| sender.departures(HIGHEST)).collect();
        assert_eq!(sender.rto(), Duration::from_secs(60), "doubled up to the cap");
        assert!(all.windows(2).any(|pair| pair[1].saturating_sub(pair[0]) == Duration::from_secs(60)));
    }
}

mod rfc7252 {
    use super::*;

    /// §4.2, §4.8.2.
    #[test]
    fn an_unanswered_request_is_sent_five_times_within_the_span() {
        for random in [0, 1 << 31, HIGHEST] {
            let departures = Sender::new(Temper::default()).departures(random);
            assert!(departures[4] <= MAX_TRANSMIT_SPAN, "{departures:?}");
        }
    }

    /// §4.2, §4.8.2: where losses are rare, the transmissions use MAX_TRANSMIT_SPAN but for a second.
    #[test]
    fn with_a_round_trip_time_below_two_seconds_the_last_copy_leaves_after_44_seconds() {
        for rtt in [1, 100, 900, 1_900].map(ms) {
            for random in [0, 1 << 31, HIGHEST] {
                let mut sender = Sender::settled(Temper::default(), rtt, 30);
                assert_eq!(sender.departures(random)[4], MAX_TRANSMIT_SPAN - ms(1_000), "{rtt:?}");
            }
        }
    }

    /// §4.2, §4.8.2.
    #[test]
    fn with_frequent_losses_all_copies_leave_in_time() {
        for rtt in [1, 100, 900, 1_900].map(ms) {
            let mut sender = Sender::settled(Temper::default(), rtt, 30);
            for exchange in 0..60 {
                sender.exchange(rtt, usize::from(exchange % 3 == 0), HIGHEST);
                sender.now += ms(1_000);
            }
            let departures = sender.departures(HIGHEST);
            assert!(departures[4] <= MAX_TRANSMIT_SPAN, "{rtt:?}: {departures:?}");
        }
    }

    /// §4.8.1: ACK_TIMEOUT below a second only with measurements of the path.
    #[test]
    fn the_rto_is_below_a_second_only_after_a_sample() {
        let mut sender = Sender::new(Temper::default());
        assert!(sender.temper.measures_rtt() && sender.rto() >= ms(1_000));
        sender.exchange(ms(100), 1, 0);
        assert!(sender.shown().srtt.is_none() && sender.rto() >= ms(1_000), "{:?}", sender.rto());
        sender.exchange(ms(100), 0, 0);
        assert!(sender.rto() < ms(1_000));
    }

    /// §4.7: the gate returns a time, after which the exchange is admitted.
    #[test]
    fn the_gate_only_delays() {
        let mut sender = Sender::settled(Temper::default(), ms(100), 2);
        for _ in 0..20 {
            sender.exchange(ms(2_000), 0, HIGHEST);
        }
        let Admission::At(earliest) = sender.admit(true, &Load::default()) else { panic!("a queue, but no gate") };
        assert!(earliest - sender.now <= sender.rto() * 2);
        sender.now = earliest;
        assert_eq!(sender.admit(true, &Load::default()), Admission::Send);
    }
}

proptest! {
    /// RFC 8085 §3.1.1, RFC 8961 §4 (2d): an ambiguous answer gives no too short sample.
    #[test]
    fn an_ambiguous_answer_never_draws_the_estimate_below_the_true_round_trip(
        settled_ms in 1..5_000_u64,
        exchanges in proptest::collection::vec((1..20_000_u64, 0..4_usize, any::<u32>()), 1..40),
    ) {
        let mut sender = Sender::settled(Temper::default(), ms(settled_ms), 10);
        for (rtt_ms, answered, random) in exchanges {
            let (before, rtt) = (sender.srtt(), ms(rtt_ms));
            sender.exchange(rtt, answered, random);
            prop_assert!(sender.srtt() + Duration::from_micros(1) >= before.min(rtt), "{:?}", sender.srtt());
        }
    }

    /// RFC 7252 §4.8.2: the span moves no retransmission beyond MAX_TRANSMIT_SPAN that binary backoff
    /// would send within it.
    #[test]
    fn minimum_timers_end_44_seconds_after_the_original(
        settled_ms in 1..5_000_u64,
        exchanges in proptest::collection::vec((1..20_000_u64, 0..4_usize, any::<u32>()), 0..40),
        random: u32,
    ) {
        let mut sender = Sender::settled(Temper::default(), ms(settled_ms), 10);
        for (rtt_ms, answered, random) in exchanges {
            sender.exchange(ms(rtt_ms), answered, random);
        }
        let departures = sender.departures(random);
        let binary = departures[1] * 15;
        prop_assert!(departures[4] <= binary.max(Duration::from_secs(44)), "{departures:?}");
    }
}
