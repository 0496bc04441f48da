//! Slow fading: links alternate between good and bad periods (Gilbert 1960, in continuous time).

use std::time::Duration;

use crate::Instant;
use crate::rng::Stream;

/// A two-state chain per directed link, which loses frames with `loss_bad` in the bad state.
///
/// The share of lost frames is `loss_bad · mean_bad/(mean_good + mean_bad)`.
///
/// ```toml
/// mean_good = "9s"
/// mean_bad = "1s"
/// loss_bad = "90%"
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gilbert {
    /// Mean duration of the good state, exponential.
    pub mean_good: Duration,
    /// Mean duration of the bad state, exponential.
    pub mean_bad: Duration,
    /// Loss probability in the bad state.
    pub loss_bad: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Fading {
    gilbert: Gilbert,
    /// Share of time in the bad state.
    bad_share: f64,
    /// 1/mean_good + 1/mean_bad in 1/s.
    relaxation_rate: f64,
    links: Vec<Option<(Instant, bool)>>,
}

impl Fading {
    pub(crate) fn new(gilbert: Gilbert, links: usize) -> Self {
        let (good, bad) = (gilbert.mean_good.as_secs_f64(), gilbert.mean_bad.as_secs_f64());
        Self {
            gilbert,
            bad_share: bad / (good + bad),
            relaxation_rate: 1.0 / good + 1.0 / bad,
            links: vec![None; links],
        }
    }

    pub(crate) fn mean_pass(&self) -> f64 {
        1.0 - self.bad_share * self.gilbert.loss_bad
    }

    pub(crate) fn passes(&mut self, link: usize, now: Instant, stream: &mut Stream) -> f64 {
        // Closed form.
        let bad_now = match self.links[link] {
            None => self.bad_share,
            Some((then, was_bad)) => {
                let memory = libm::exp(-self.relaxation_rate * (now - then).as_secs_f64());
                self.bad_share + (f64::from(u8::from(was_bad)) - self.bad_share) * memory
            }
        };
        let bad = stream.chance(bad_now);
        self.links[link] = Some((now, bad));
        if bad { 1.0 - self.gilbert.loss_bad } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Entity, Purpose, Streams};

    #[test]
    fn a_link_is_bad_for_its_share_of_the_time_and_as_long_as_its_mean() {
        let gilbert = Gilbert { mean_good: Duration::from_secs(9), mean_bad: Duration::from_secs(1), loss_bad: 1.0 };
        let mut fading = Fading::new(gilbert, 1);
        let mut stream = Streams::new(8).stream(Entity::Run, Purpose::named("test"));
        let n = 400_000_u64;
        let bad: Vec<bool> =
            (0..n).map(|i| fading.passes(0, Instant::from_millis(i * 50), &mut stream) < 0.5).collect();
        let share = bad.iter().filter(|bad| **bad).count() as f64 / n as f64;
        // 20 000 s hold 2000 bad states: the standard error of the share is about 0.1·√(1.8/2000).
        assert!((share - 0.1).abs() < 0.011, "{share}");
        // Given a bad state, the state 50 ms later is bad with probability 0.1 + 0.9·exp(−0.0556).
        let stays = bad.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / (share * n as f64);
        assert!((stays - 0.9513).abs() < 0.005, "{stays}");
    }
}
