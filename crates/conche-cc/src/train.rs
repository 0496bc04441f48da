//! [`Train`]: pacing of messages that share one acknowledgement, such as a MAX_PAYLOADS burst (RFC
//! 9177 §7.2).
//!
//! The acknowledgement measures the train's delivery, and so the bottleneck rate (dispersion of
//! packet trains: Dovrolis, Ramanathan and Moore, INFOCOM 2001):
//!
//! - The first train has ten messages per two measured round trips, or per RTO if faster: half of
//!   RFC 9177's default rate, evenly spaced.
//! - A delivery within 9/8 of the transmission time raises the rate, to twice until the first
//!   queue, then to 9/8.
//! - After a longer delivery, the next train has that delivery's rate.
//! - A loss of more than a sixteenth, and more than one message, reduces the rate by its share.
//! - The minimum is ten messages per RTO, which grows with backoff.

use crate::time::Instant;
use crate::units::{BytesPerSecond, Factor, Micros};
use core::time::Duration;

/// Per RTO at the minimum rate: MAX_PAYLOADS (RFC 9177 §7.2).
const INITIAL_MESSAGES: u32 = 10;

/// In shorter trains, jitter dominates.
const LEAST_MESSAGES: u32 = 4;

/// Increase after a train without a queue, after a queue.
const PROBE: Factor = Factor::from_permille(1_125);

/// Lifetime of the minimum round-trip time.
const RTT_LIFETIME: Duration = Duration::from_secs(30);

/// The rate of trains to one destination.
///
/// ```
/// use conche_cc::Instant;
/// use conche_cc::train::Train;
/// use core::time::Duration;
///
/// let mut train = Train::new(Some(Duration::from_millis(200)));
/// train.begin(Duration::from_secs(2), 1_000);
/// let next = train.sent(Instant::ZERO, 1_000);
/// assert_eq!(next, Instant::from_millis(40), "ten messages in two round trips");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Train {
    round_trip: Option<Micros>,
    rate: BytesPerSecond,
    /// There was a queue, or much loss.
    settled: bool,
    /// Minimum time from a train's end to its acknowledgement, and when measured.
    rtt: Option<(Micros, Instant)>,
    first: Instant,
    last: Instant,
    messages: u32,
    /// Without the first message, which starts the span.
    bytes: u32,
}

/// A train's acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Time of arrival.
    pub now: Instant,
    /// Missing messages, for which the receiver waited.
    pub lost: u32,
    /// Triggered by the last message, not by a timeout, so that its time measures the path.
    pub prompt: bool,
}

impl Train {
    /// Creates the state, with an earlier exchange's round-trip time if any.
    #[must_use]
    pub fn new(round_trip: Option<Duration>) -> Self {
        Self { round_trip: round_trip.map(Micros::from), ..Self::default() }
    }

    /// Starts a train of messages of `bytes`; `base` is the [base](crate::Controller::base) RTO.
    pub fn begin(&mut self, base: Duration, bytes: u32) {
        let (initial, base) = (bytes.saturating_mul(INITIAL_MESSAGES), Micros::from(base).max(Micros::MILLISECOND));
        self.rate = self.rate.max(BytesPerSecond::of(initial, base));
        if let Some(round_trip) = self.round_trip.take() {
            self.rate = self.rate.max(BytesPerSecond::of(initial, round_trip.times(2).max(Micros::MILLISECOND)));
        }
        (self.messages, self.bytes) = (0, 0);
    }

    /// Handles a transmission; returns the next one's earliest time.
    pub fn sent(&mut self, now: Instant, bytes: u32) -> Instant {
        if self.messages == 0 {
            self.first = now;
        } else {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        self.messages = self.messages.saturating_add(1);
        self.last = now;
        now + self.rate.time_for(bytes)
    }

    /// Handles the acknowledgement of the train.
    pub fn answered(&mut self, answered: &Answered) {
        let Answered { now, lost, prompt } = *answered;
        let messages = core::mem::take(&mut self.messages);
        let arrived = Factor::share(lost.min(messages), messages).complement();
        let much_lost = lost > (messages / 16).max(1);
        if prompt && messages > 0 {
            self.measured(now);
        }
        if messages < LEAST_MESSAGES {
            return;
        }
        self.settled |= much_lost;
        let met_no_queue = match self.rtt.filter(|_| prompt) {
            None => false,
            Some((rtt, _)) => {
                let (sent, waited) = (self.span(), if lost > 0 { self.span().times(2).get() / messages } else { 0 });
                let took = Micros::between(self.first, now).minus(rtt).minus(Micros::new(waited));
                if took > sent.plus(sent.shifted(3)) {
                    self.settled = true;
                    self.rate = BytesPerSecond::of(self.bytes, took).scaled(arrived);
                    return;
                }
                true
            }
        };
        if much_lost {
            self.rate = self.rate.scaled(arrived);
        } else if met_no_queue {
            self.rate = self.rate.scaled(if self.settled { PROBE } else { Factor::TWO });
        }
    }

    /// Returns the rate of the next message.
    #[must_use]
    pub fn rate(&self) -> BytesPerSecond {
        self.rate
    }

    /// Returns the time from the first transmission to the last.
    #[must_use]
    pub fn span(&self) -> Micros {
        Micros::between(self.first, self.last)
    }

    fn measured(&mut self, now: Instant) {
        let rtt = Micros::between(self.last, now);
        if self.rtt.is_none_or(|(least, at)| rtt <= least || now >= at + RTT_LIFETIME) {
            self.rtt = Some((rtt, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u32 = 1_000;

    struct Path {
        bottleneck: BytesPerSecond,
        rtt: Duration,
        now: Instant,
        train: Train,
    }

    impl Path {
        fn new(bottleneck: u32) -> Self {
            let rtt = Duration::from_millis(200);
            Self { bottleneck: BytesPerSecond::new(bottleneck), rtt, now: Instant::ZERO, train: Train::new(None) }
        }

        fn pass(&mut self, lost: u32) -> u32 {
            self.train.begin(Duration::from_secs(2), BYTES);
            let mut free = self.now;
            for _ in 0..32 {
                let next = self.train.sent(self.now, BYTES);
                free = free.max(self.now) + self.bottleneck.time_for(BYTES);
                self.now = next;
            }
            self.now = free + self.rtt;
            self.train.answered(&Answered { now: self.now, lost, prompt: true });
            self.train.rate().get()
        }
    }

    #[test]
    fn the_rate_doubles_until_a_queue_shows_and_stays_about_the_bottleneck_from_then_on() {
        let mut path = Path::new(30_000);
        assert_eq!([0; 2].map(|lost| path.pass(lost)), [10_000, 20_000]);
        for _ in 0..4 {
            path.pass(0);
        }
        for _ in 0..40 {
            let rate = path.pass(0);
            assert!((28_000..=35_000).contains(&rate), "{rate} B/s");
        }
    }

    #[test]
    fn loss_of_a_few_is_no_congestion_and_loss_of_many_slows_in_proportion() {
        let mut path = Path::new(1_000_000);
        assert_eq!([path.pass(0), path.pass(2), path.pass(8)], [10_000, 20_000, 15_000]);
        assert_eq!(path.pass(0), 16_875, "an eighth more at a time after loss");
    }

    #[test]
    fn no_loss_makes_a_train_slower_than_ten_messages_in_an_rto() {
        let mut path = Path::new(1_000_000);
        for _ in 0..20 {
            path.pass(30);
        }
        path.train.begin(Duration::from_secs(2), BYTES);
        assert_eq!(path.train.rate().get(), 5_000);
    }

    #[test]
    fn a_late_answer_leaves_the_rate_unchanged() {
        let mut train = Train::new(None);
        train.begin(Duration::from_secs(2), BYTES);
        let last = (0..10).fold(Instant::ZERO, |now, _| train.sent(now, BYTES));
        train.answered(&Answered { now: last + Duration::from_secs(4), lost: 0, prompt: false });
        assert_eq!(train.rate().get(), 5_000);
    }

    #[test]
    fn a_path_that_becomes_longer_passes_for_a_queue_for_30_seconds_and_no_longer() {
        let mut path = Path::new(1_000_000);
        let short = (0..5).map(|_| path.pass(0)).last();
        path.rtt = Duration::from_millis(400);
        let at_first = path.pass(0);
        assert!(Some(at_first) < short);
        for _ in 0..40 {
            path.pass(0);
        }
        assert!(Some(path.train.rate().get()) > short, "{} B/s", path.train.rate().get());
    }
}
