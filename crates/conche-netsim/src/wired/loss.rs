//! Loss on the wire: none, independent, or in bursts.

use std::fmt;
use std::time::Duration;

use super::delay::Distribution;
use crate::Instant;
use crate::rng::Stream;
use crate::units::{Probability, Span};

/// Losses after the queue.
///
/// ```toml
/// loss = "none"
/// loss = "1%"
/// loss = { gilbert-elliott = { to_bad = "2%", to_good = "25%", loss_good = "0%", loss_bad = "100%" } }
/// loss = { gilbert-elliott = { mean_good = "10s", mean_bad = "500ms", loss_good = "0.1%", loss_bad = "50%" } }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Each frame is lost with this probability, independently.
    Bernoulli(f64),
    /// Gilbert (1960) and Elliott (1963): a two-state chain with a transition after each frame.
    /// netem's `gemodel p r 1-h 1-k` is `to_bad = p, to_good = r, loss_bad = 1-h, loss_good = 1-k`.
    ///
    /// Lost share: `(to_bad·loss_bad + to_good·loss_good)/(to_bad + to_good)`. With `loss_bad = 1`
    /// and `loss_good = 0` the mean burst is `1/to_good` frames. The link starts in the good state.
    GilbertElliott {
        /// Probability of good to bad, per frame.
        to_bad: f64,
        /// Probability of bad to good, per frame.
        to_good: f64,
        /// Loss probability in the good state.
        loss_good: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
    },
    /// The chain in continuous time: the states have exponentially distributed durations, whatever
    /// the traffic, so that a retransmission can meet the burst that lost the first transmission.
    ///
    /// Lost share of frames at random times:
    /// `(mean_bad·loss_bad + mean_good·loss_good)/(mean_bad + mean_good)`, which is also the
    /// distribution of the state at the start.
    TimedGilbertElliott {
        /// Mean duration of the good state.
        mean_good: Duration,
        /// Mean duration of the bad state.
        mean_bad: Duration,
        /// Loss probability in the good state.
        loss_good: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
    },
}

/// Writes the text of scenarios.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loss = |loss_good: f64, loss_bad: f64| {
            format!("loss_good = \"{}\", loss_bad = \"{}\" }} }}", Probability(loss_good), Probability(loss_bad))
        };
        match *self {
            Self::None => f.write_str("0%"),
            Self::Bernoulli(probability) => Probability(probability).fmt(f),
            Self::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let (to_bad, to_good) = (Probability(to_bad), Probability(to_good));
                let loss = loss(loss_good, loss_bad);
                write!(f, "{{ gilbert-elliott = {{ to_bad = \"{to_bad}\", to_good = \"{to_good}\", {loss}")
            }
            Self::TimedGilbertElliott { mean_good, mean_bad, loss_good, loss_bad } => {
                let (mean_good, mean_bad) = (Span(mean_good), Span(mean_bad));
                let loss = loss(loss_good, loss_bad);
                write!(f, "{{ gilbert-elliott = {{ mean_good = \"{mean_good}\", mean_bad = \"{mean_bad}\", {loss}")
            }
        }
    }
}

impl Loss {
    pub(super) fn probabilities(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::None => vec![],
            Self::Bernoulli(probability) => vec![("loss", probability)],
            Self::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                vec![("to_bad", to_bad), ("to_good", to_good), ("loss_good", loss_good), ("loss_bad", loss_bad)]
            }
            Self::TimedGilbertElliott { loss_good, loss_bad, .. } => {
                vec![("loss_good", loss_good), ("loss_bad", loss_bad)]
            }
        }
    }

    /// Returns the first parameter that is a state without duration.
    pub(super) fn empty_state(&self) -> Option<&'static str> {
        match self {
            Self::TimedGilbertElliott { mean_good, .. } if mean_good.is_zero() => Some("mean_good"),
            Self::TimedGilbertElliott { mean_bad, .. } if mean_bad.is_zero() => Some("mean_bad"),
            _ => None,
        }
    }
}

/// A loss model and its state, for real datagrams.
#[derive(Clone, Debug)]
pub struct LossProcess {
    model: Loss,
    state: LossState,
}

/// A link's loss state.
#[derive(Clone, Debug)]
pub(super) struct LossState {
    bad: bool,
    stream: Stream,
    /// States in time have their own stream, and are the same under any traffic.
    sojourns: Stream,
    /// End of the present state in time.
    until: Option<Instant>,
}

/// After this many cycles without a frame, the state no longer depends on the last known one.
const FORGOTTEN_CYCLES: u32 = 1000;

impl LossProcess {
    /// Creates the state of a link at its start: `stream` draws losses, `sojourns` the durations of
    /// states in time.
    #[must_use]
    pub fn new(model: Loss, stream: Stream, sojourns: Stream) -> Self {
        Self { model, state: LossState::new(stream, sojourns) }
    }

    /// Returns `true` if the next frame, which is on the wire at `at`, is lost. Times do not fall.
    pub fn next_is_lost(&mut self, at: Instant) -> bool {
        self.state.next_is_lost(&self.model, at)
    }
}

impl LossState {
    pub(super) fn new(stream: Stream, sojourns: Stream) -> Self {
        Self { bad: false, stream, sojourns, until: None }
    }

    pub(super) fn next_is_lost(&mut self, model: &Loss, at: Instant) -> bool {
        match *model {
            Loss::None => false,
            Loss::Bernoulli(probability) => self.stream.chance(probability),
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let (loss, change) = if self.bad { (loss_bad, to_good) } else { (loss_good, to_bad) };
                let lost = self.stream.chance(loss);
                self.bad ^= self.stream.chance(change);
                lost
            }
            Loss::TimedGilbertElliott { mean_good, mean_bad, loss_good, loss_bad } => {
                self.advance(at, mean_good, mean_bad);
                self.stream.chance(if self.bad { loss_bad } else { loss_good })
            }
        }
    }

    fn advance(&mut self, at: Instant, mean_good: Duration, mean_bad: Duration) {
        let cycle = mean_good.saturating_add(mean_bad);
        let known = self.until.filter(|until| at.since(*until) <= cycle.saturating_mul(FORGOTTEN_CYCLES));
        let mut until = known.unwrap_or_else(|| {
            self.bad = self.sojourns.chance(mean_bad.as_secs_f64() / cycle.as_secs_f64());
            let start = if self.until.is_none() { Instant::ZERO } else { at };
            start + self.sojourn(mean_good, mean_bad)
        });
        while until <= at {
            self.bad = !self.bad;
            until += self.sojourn(mean_good, mean_bad);
        }
        self.until = Some(until);
    }

    fn sojourn(&mut self, mean_good: Duration, mean_bad: Duration) -> Duration {
        let mean = if self.bad { mean_bad } else { mean_good };
        Distribution::Exponential { mean }.sample(&mut self.sojourns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    const FRAMES: usize = 400_000;

    fn run(model: Loss) -> Vec<bool> {
        let stream = |name| Streams::new(4).stream(Entity::Run, Purpose::named(name));
        let mut process = LossProcess::new(model, stream("test"), stream("sojourns"));
        (0..FRAMES as u64).map(|frame| process.next_is_lost(Instant::from_millis(10 * frame))).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    #[test]
    fn gilbert_elliott_has_the_mean_loss_and_burst_length_of_its_chain() {
        let lost = run(Loss::GilbertElliott { to_bad: 0.02, to_good: 0.25, loss_good: 0.0, loss_bad: 1.0 });
        let bursts = lost.chunk_by(|a, b| a == b).filter(|burst| burst[0]).count();
        let mean_burst = share(&lost) * FRAMES as f64 / bursts as f64;
        // About 7400 bursts of length σ = 3.5: 4 standard errors are 0.16, and 0.0029 for the
        // share.
        assert!((mean_burst - 4.0).abs() < 0.16, "{mean_burst}");
        assert!((share(&lost) - 0.02 / 0.27).abs() < 0.0035, "{}", share(&lost));
    }

    #[test]
    fn both_states_lose_with_their_own_probability() {
        let lost = run(Loss::GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_good: 0.05, loss_bad: 0.6 });
        let expected = (0.1 * 0.6 + 0.3 * 0.05) / 0.4;
        assert!((share(&lost) - expected).abs() < 0.004, "{} of {expected}", share(&lost));
    }

    #[test]
    fn bernoulli_losses_are_independent() {
        let lost = run(Loss::Bernoulli(0.2));
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / (FRAMES - 1) as f64;
        assert!((share(&lost) - 0.2).abs() < 0.0026, "{}", share(&lost));
        assert!((pairs - 0.04).abs() < 0.0016, "{pairs}");
    }
}
