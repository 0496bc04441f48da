//! Jitter: the random part of a link's delay.

use std::time::Duration;

use crate::Instant;
use crate::rng::Stream;
use crate::units::nanos;

/// Random part of a link's delay, drawn per frame.
///
/// ```toml
/// jitter = { uniform = ["10ms", "20ms"], order = "free" }
/// jitter = { exponential = "20ms" }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Its distribution.
    pub distribution: Distribution,
    /// Whether a frame may overtake an earlier one.
    pub order: Order,
}

/// Distribution of a time span.
///
/// ```toml
/// wait = "none"
/// wait = { uniform = ["10ms", "20ms"] }
/// wait = { exponential = "20ms" }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Always zero.
    #[default]
    Zero,
    /// Uniform over `low..=high`, in nanoseconds.
    Uniform {
        /// The shortest span.
        low: Duration,
        /// The longest span; topologies reject one below `low`.
        high: Duration,
    },
    /// Exponentially distributed.
    Exponential {
        /// The mean.
        mean: Duration,
    },
}

/// Whether frames stay in order despite jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Delays a frame until the previous one arrives.
    #[default]
    Kept,
    /// Frames may overtake each other, as with netem's jitter.
    Free,
}

impl Jitter {
    /// Creates uniform jitter over `low..=high`, with reordering.
    #[must_use]
    pub const fn uniform_reordering(low: Duration, high: Duration) -> Self {
        Self { distribution: Distribution::Uniform { low, high }, order: Order::Free }
    }
}

impl Distribution {
    /// Draws a time span.
    pub fn sample(&self, stream: &mut Stream) -> Duration {
        match *self {
            Self::Zero => Duration::ZERO,
            Self::Uniform { low, high } => Duration::from_nanos(stream.between(nanos(low), nanos(high))),
            Self::Exponential { mean } => {
                let seconds = stream.exponential() * mean.as_secs_f64();
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
        }
    }
}

/// A link's delay state.
#[derive(Clone, Debug)]
pub(super) struct DelayState {
    stream: Stream,
    last_arrival: Instant,
}

impl DelayState {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, last_arrival: Instant::ZERO }
    }

    pub(super) fn arrival(&mut self, departure: Instant, constant: Duration, jitter: &Jitter) -> Instant {
        let arrival = departure + constant + jitter.distribution.sample(&mut self.stream);
        match jitter.order {
            Order::Free => arrival,
            Order::Kept => {
                self.last_arrival = self.last_arrival.max(arrival);
                self.last_arrival
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    fn arrivals(order: Order) -> Vec<Instant> {
        let ms = Duration::from_millis;
        let jitter = Jitter { distribution: Distribution::Uniform { low: ms(10), high: ms(20) }, order };
        let stream = Streams::new(1).stream(Entity::Run, Purpose::named("test"));
        let mut delay = DelayState::new(stream);
        (0..1000).map(|i| delay.arrival(Instant::from_millis(i), ms(100), &jitter)).collect()
    }

    #[test]
    fn kept_order_stretches_delays_and_free_order_lets_frames_overtake() {
        let (kept, free) = (arrivals(Order::Kept), arrivals(Order::Free));
        assert!(kept.is_sorted());
        assert!(!free.is_sorted());
        assert!(kept.iter().zip(&free).all(|(kept, free)| kept >= free), "only ever stretched");
    }

    #[test]
    fn uniform_jitter_stays_within_its_bounds() {
        for (sent, arrival) in (0..).map(Instant::from_millis).zip(arrivals(Order::Free)) {
            assert!((110..=120).contains(&(arrival - sent).as_millis()));
        }
    }
}
