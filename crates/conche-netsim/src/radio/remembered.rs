//! A reception curve that remembers what it was asked.
//!
//! Most frames are alone on the air, so the same signals, noises and lengths come again and again, and each answer takes an
//! exponential or two, a logarithm and, on some curves, the error function.

use std::cell::Cell;

use super::power::Power;
use super::reception::{ReceptionCurve, Stretch};

/// A curve with its latest answers. They are those that the curve itself gives, to the bit.
#[derive(Debug)]
pub(super) struct RememberedCurve {
    curve: ReceptionCurve,
    answers: Box<[Cell<Answer>]>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    signal: Power,
    noise: Power,
    stretch: Stretch,
    success: f64,
}

/// Answers that are kept, a power of two: some tens of thousands of bytes, as many as the nearest caches hold.
const ANSWERS: usize = 1 << 10;

/// No stretch is that long, so this answers nothing.
const NO_ANSWER: Answer =
    Answer { signal: Power::ZERO, noise: Power::ZERO, stretch: Stretch { bits: f64::NAN, of: f64::NAN }, success: 0.0 };

impl RememberedCurve {
    pub(super) fn new(curve: ReceptionCurve) -> Self {
        Self { curve, answers: vec![Cell::new(NO_ANSWER); ANSWERS].into() }
    }

    pub(super) fn of_itself(&self) -> ReceptionCurve {
        self.curve
    }

    /// The probability that a stretch of a frame of this strength is received in this much noise.
    pub(super) fn success(&self, signal: Power, noise: Power, stretch: Stretch) -> f64 {
        let place = &self.answers[place_of(signal, noise, stretch)];
        let known = place.get();
        let Stretch { bits, of } = known.stretch;
        let asked_before = (known.signal, known.noise) == (signal, noise)
            && bits.to_bits() == stretch.bits.to_bits()
            && of.to_bits() == stretch.of.to_bits();
        if asked_before {
            return known.success;
        }
        let success = self.curve.success(signal.ratio(noise), stretch);
        place.set(Answer { signal, noise, stretch, success });
        success
    }
}

/// Where the answer to this question is, if it is kept (Fibonacci hashing).
fn place_of(signal: Power, noise: Power, stretch: Stretch) -> usize {
    let words = [signal.as_units(), noise.as_units(), stretch.bits.to_bits(), stretch.of.to_bits()];
    let hash =
        words.into_iter().fold(0_u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (hash >> 32) as usize % ANSWERS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_remembered_is_what_the_curve_says(questions in prop::collection::vec((0..9_u64, 0..3_u64, 0..5_u16, 1..3_u16), 1..300)) {
            let curve = ReceptionCurve::Transitional { middle_db: 4.6, width_db: 1.9 };
            let remembered = RememberedCurve::new(curve);
            for (signal, noise, bits, more) in questions {
                let (signal, noise) = (Power::units(50 + 50 * signal), Power::units(50 + noise));
                let stretch = Stretch { bits: f64::from(bits), of: f64::from(bits + more) };
                let said = remembered.success(signal, noise, stretch);
                prop_assert_eq!(said.to_bits(), curve.success(signal.ratio(noise), stretch).to_bits());
            }
        }
    }
}
