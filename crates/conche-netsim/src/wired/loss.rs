//! Loss on the wire: none, independent, or in bursts.

use crate::rng::Stream;

/// Losses after the queue.
///
/// ```toml
/// loss = "none"
/// loss = "1%"
/// loss = { gilbert-elliott = { to_bad = "2%", to_good = "25%", loss_good = "0%", loss_bad = "100%" } }
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
}

impl Loss {
    pub(super) fn probabilities(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::None => vec![],
            Self::Bernoulli(probability) => vec![("loss", probability)],
            Self::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                vec![("to_bad", to_bad), ("to_good", to_good), ("loss_good", loss_good), ("loss_bad", loss_bad)]
            }
        }
    }
}

/// A link's loss state, also usable for real datagrams.
#[derive(Clone, Debug)]
pub struct LossProcess {
    model: Loss,
    bad: bool,
    stream: Stream,
}

impl LossProcess {
    /// Creates the state of a good link.
    #[must_use]
    pub fn new(model: Loss, stream: Stream) -> Self {
        Self { model, bad: false, stream }
    }

    /// Changes the model; the chain keeps its state.
    pub(super) fn change(&mut self, model: Loss) {
        self.model = model;
    }

    /// Returns `true` if the next frame is lost.
    pub fn next_is_lost(&mut self) -> bool {
        match self.model {
            Loss::None => false,
            Loss::Bernoulli(probability) => self.stream.chance(probability),
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let (loss, change) = if self.bad { (loss_bad, to_good) } else { (loss_good, to_bad) };
                let lost = self.stream.chance(loss);
                self.bad ^= self.stream.chance(change);
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    const FRAMES: usize = 400_000;

    fn run(model: Loss) -> Vec<bool> {
        let mut process = LossProcess::new(model, Streams::new(4).stream(Entity::Run, Purpose::named("test")));
        (0..FRAMES).map(|_| process.next_is_lost()).collect()
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
