//! [`Train`]: how far apart messages leave that are acknowledged together, such as the payloads of a MAX_PAYLOADS_SET
//! (RFC 9177 §7.2).
//!
//! A controller is asked about each set, and told how it went. What it cannot know is what happens inside: one answer is all
//! that comes back. But when the answer comes tells how long the path took for the whole train, and that is its bottleneck's
//! rate (the dispersion of packet trains: Dovrolis, Ramanathan and Moore, INFOCOM 2001). So
//!
//! - the first train leaves at ten messages in two of the round trips that have been seen, or in the controller's RTO if that is
//!   shorter: half of what RFC 9177 allows with its defaults, and spread out;
//! - one that took no longer than it was sent for asks for more: twice the rate until the first queue showed, 9/8 after that;
//! - one that took longer was sent too fast: the next leaves at the rate at which this one was delivered;
//! - one that lost more than a sixteenth, and more than one, leaves room in the proportion of what was lost;
//! - no train is slower than ten messages in the RTO, which grows when the controller backs off.

use crate::time::Instant;
use crate::units::{BytesPerSecond, Factor, Micros};
use core::time::Duration;

/// As many messages may leave in one RTO whatever is known: MAX_PAYLOADS of RFC 9177 §7.2.
const INITIAL_MESSAGES: u32 = 10;

/// A train of fewer says nothing of the rate: the last ones' jitter is too large a part of it.
const LEAST_MESSAGES: u32 = 4;

/// After the first queue showed, a train that met none makes the next so much faster.
const PROBE: Factor = Factor::from_permille(1_125);

/// The least round-trip time is forgotten after this, for the path may have changed.
const RTT_LIFETIME: Duration = Duration::from_secs(30);

/// The pace of trains to one destination, one after the other.
///
/// ```
/// use conche_cc::Instant;
/// use conche_cc::train::Train;
/// use core::time::Duration;
///
/// let mut train = Train::new(Some(Duration::from_millis(200)));
/// train.begin(Duration::from_secs(2), 1_000);
/// let next = train.left(Instant::ZERO, 1_000);
/// assert_eq!(next, Instant::from_millis(40), "ten messages in two round trips");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Train {
    /// Of the exchange before the first train.
    round_trip: Option<Micros>,
    /// Zero before the first train.
    rate: BytesPerSecond,
    /// A queue has shown, or loss.
    settled: bool,
    /// The least time from a train's last message to its answer, and when that was.
    rtt: Option<(Micros, Instant)>,
    first: Instant,
    last: Instant,
    messages: u32,
    /// Of all but the first, which took no time of their own.
    bytes: u32,
}

/// What the answer to a train says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// When it came.
    pub now: Instant,
    /// How many of the train's messages are missing. Who misses some has waited for about two more before it said so.
    pub lost: u32,
    /// The last message made the receiver answer, so that the time tells something; it had not run out of patience.
    pub prompt: bool,
}

impl Train {
    /// Nothing is known yet but how long an exchange took, if there was one.
    #[must_use]
    pub fn new(round_trip: Option<Duration>) -> Self {
        Self { round_trip: round_trip.map(Micros::from), ..Self::default() }
    }

    /// Another train begins, of messages of so many `bytes`, with the [base](crate::Controller::base) RTO of its destination.
    pub fn begin(&mut self, base: Duration, bytes: u32) {
        let (initial, base) = (bytes.saturating_mul(INITIAL_MESSAGES), Micros::from(base).max(Micros::MILLISECOND));
        self.rate = self.rate.max(BytesPerSecond::of(initial, base));
        if let Some(round_trip) = self.round_trip.take() {
            self.rate = self.rate.max(BytesPerSecond::of(initial, round_trip.times(2).max(Micros::MILLISECOND)));
        }
        (self.messages, self.bytes) = (0, 0);
    }

    /// A message of the train left; the answer is when the next may.
    pub fn left(&mut self, now: Instant, bytes: u32) -> Instant {
        if self.messages == 0 {
            self.first = now;
        } else {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        self.messages = self.messages.saturating_add(1);
        self.last = now;
        now + self.rate.time_for(bytes)
    }

    /// The receiver told what it has of the train.
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

    /// The pace of the next message.
    #[must_use]
    pub fn rate(&self) -> BytesPerSecond {
        self.rate
    }

    /// From the departure of the train's first message to that of its last so far.
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

    /// Trains of 32 messages over a bottleneck of so many bytes a second, with room for all of them.
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

        /// One train, of which so many are lost behind the bottleneck; the rate that follows.
        fn pass(&mut self, lost: u32) -> u32 {
            self.train.begin(Duration::from_secs(2), BYTES);
            let mut free = self.now;
            for _ in 0..32 {
                let next = self.train.left(self.now, BYTES);
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
    fn an_answer_that_patience_ran_out_for_says_nothing_of_the_path() {
        let mut train = Train::new(None);
        train.begin(Duration::from_secs(2), BYTES);
        let last = (0..10).fold(Instant::ZERO, |now, _| train.left(now, BYTES));
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
