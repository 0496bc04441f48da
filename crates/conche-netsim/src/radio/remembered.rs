//! A reception curve that remembers what it was asked.
//!
//! Most frames are alone on the air, so the same signals, noises and lengths come again and again, and each answer takes an
//! exponential or two, a logarithm and, on some curves, the error function. Of those that are not alone the same few meet,
//! each time for another while: what their strengths alone decide is remembered apart.

use std::cell::Cell;

use super::power::Power;
use super::reception::{ReceptionCurve, Stretch};

/// A curve with its latest answers. They are those that the curve itself gives, to the bit.
#[derive(Debug)]
pub(super) struct RememberedCurve {
    curve: ReceptionCurve,
    /// By signal, noise and stretch.
    successes: Answers<4>,
    /// By signal and noise.
    qualities: Answers<2>,
}

impl RememberedCurve {
    /// Of a medium with so many links: each has a signal of its own.
    pub(super) fn new(curve: ReceptionCurve, links: usize) -> Self {
        let answers =
            links.saturating_mul(ANSWERS_PER_LINK).clamp(ANSWERS_AT_LEAST, ANSWERS_AT_MOST).next_power_of_two();
        Self { curve, successes: Answers::new(answers), qualities: Answers::new(answers) }
    }

    pub(super) fn of_itself(&self) -> ReceptionCurve {
        self.curve
    }

    /// The probability that a stretch of a frame of this strength is received in this much noise.
    pub(super) fn success(&self, signal: Power, noise: Power, stretch: Stretch) -> f64 {
        let strengths = [signal.as_units(), noise.as_units()];
        let question = [strengths[0], strengths[1], stretch.bits.to_bits(), stretch.of.to_bits()];
        self.successes.answer(question, || {
            let quality = self.qualities.answer(strengths, || self.curve.quality(signal.ratio(noise)));
            self.curve.success_of(quality, stretch)
        })
    }
}

/// The latest answers to questions of so many words.
#[derive(Debug)]
struct Answers<const WORDS: usize>(Box<[Cell<Answer<WORDS>>]>);

/// A question and what was answered.
type Answer<const WORDS: usize> = ([u64; WORDS], f64);

/// About as many as there are lengths of frames.
const ANSWERS_PER_LINK: usize = 4;
const ANSWERS_AT_LEAST: usize = 1 << 8;
/// A mebibyte of both kinds: what is further away than the second cache is no nearer than the curve itself.
const ANSWERS_AT_MOST: usize = 1 << 14;

impl<const WORDS: usize> Answers<WORDS> {
    /// Room for so many, a power of two.
    fn new(answers: usize) -> Self {
        // No signal is that strong, so this answers nothing.
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
