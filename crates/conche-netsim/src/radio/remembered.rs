//! A cache of a reception curve's results.
//!
//! Most frames are alone on the channel, so the same signals, noises and lengths recur, and each
//! result takes one or two exponentials, a logarithm and, on some curves, the error function.
//! Frames that collide recur in the same combinations but overlap for different times, so the part
//! that depends on signal and noise alone is cached separately.

use std::cell::Cell;

use super::power::Power;
use super::reception::{ReceptionCurve, Stretch};

/// A curve with a cache of recent results, identical to the curve's own.
#[derive(Debug)]
pub(super) struct RememberedCurve {
    curve: ReceptionCurve,
    /// Results by signal, noise and part of the frame.
    successes: Answers<4>,
    /// Results by signal and noise.
    qualities: Answers<2>,
}

impl RememberedCurve {
    /// Creates a cache for a medium with this many links, each of which has its own signal.
    pub(super) fn new(curve: ReceptionCurve, links: usize) -> Self {
        let answers =
            links.saturating_mul(ANSWERS_PER_LINK).clamp(ANSWERS_AT_LEAST, ANSWERS_AT_MOST).next_power_of_two();
        Self { curve, successes: Answers::new(answers), qualities: Answers::new(answers) }
    }

    pub(super) fn of_itself(&self) -> ReceptionCurve {
        self.curve
    }

    /// Returns the probability that a part of a frame of this strength is received in this noise.
    pub(super) fn success(&self, signal: Power, noise: Power, stretch: Stretch) -> f64 {
        let strengths = [signal.as_units(), noise.as_units()];
        let question = [strengths[0], strengths[1], stretch.bits.to_bits(), stretch.of.to_bits()];
        self.successes.answer(question, || {
            let quality = self.qualities.answer(strengths, || self.curve.quality(signal.ratio(noise)));
            self.curve.success_of(quality, stretch)
        })
    }
}

/// A direct-mapped cache with keys of `WORDS` words.
#[derive(Debug)]
struct Answers<const WORDS: usize>(Box<[Cell<Answer<WORDS>>]>);

/// A key and its result.
type Answer<const WORDS: usize> = ([u64; WORDS], f64);

/// About the number of different frame lengths.
const ANSWERS_PER_LINK: usize = 4;
const ANSWERS_AT_LEAST: usize = 1 << 8;
/// 1 MiB for both caches: a lookup beyond the L2 cache is no faster than the curve.
const ANSWERS_AT_MOST: usize = 1 << 14;

impl<const WORDS: usize> Answers<WORDS> {
    /// Creates a cache with this many entries, a power of two.
    fn new(answers: usize) -> Self {
        // No signal is this strong, so the initial entries match no key.
        Self(vec![Cell::new(([u64::MAX; WORDS], 0.0)); answers].into())
    }

    fn answer(&self, question: [u64; WORDS], find_out: impl FnOnce() -> f64) -> f64 {
        let place = &self.0[hash(question) & (self.0.len() - 1)];
        let (asked_before, answer) = place.get();
        if asked_before == question {
            return answer;
        }
        let answer = find_out();
        place.set((question, answer));
        answer
    }
}

/// Fibonacci hashing.
fn hash<const WORDS: usize>(question: [u64; WORDS]) -> usize {
    let hash = question
        .into_iter()
        .fold(0_u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_remembered_is_what_the_curve_says(questions in prop::collection::vec((0..9_u64, 0..3_u64, 0..5_u16, 1..3_u16), 1..300)) {
            let curve = ReceptionCurve::Transitional { middle_db: 4.6, width_db: 1.9 };
            let remembered = RememberedCurve::new(curve, 0);
            for (signal, noise, bits, more) in questions {
                let (signal, noise) = (Power::units(50 + 50 * signal), Power::units(50 + noise));
                let stretch = Stretch { bits: f64::from(bits), of: f64::from(bits + more) };
                let said = remembered.success(signal, noise, stretch);
                prop_assert_eq!(said.to_bits(), curve.success(signal.ratio(noise), stretch).to_bits());
            }
        }
    }
}
