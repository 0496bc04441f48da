//! Probability of receiving a part of a frame, by signal-to-noise ratio.

use std::cell::Cell;

use super::power::{Power, to_db};

/// Packet reception ratio by signal-to-noise ratio.
///
/// ```toml
/// curve = "oqpsk"
/// curve = "cc2420"
/// curve = { transitional = { middle_db = 4.6, width_db = 1.9 } }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReceptionCurve {
    /// Upper bound: bit error rate of O-QPSK with direct sequence spreading in white noise (IEEE
    /// Std 802.15.4-2006, annex E.4.1.8), independent bits.
    #[default]
    Oqpsk,
    /// The CC2420 in TOSSIM (Lee, Cerpa, Levis: Improving wireless simulation through noise
    /// modeling, IPSN 2007): a fit to whole frames, about 1 dB wide, for any length.
    Cc2420,
    /// Noise and fading between frames widen the threshold into a transitional region (Zuniga,
    /// Krishnamachari: Analyzing the transitional region in low power wireless links, SECON 2004):
    /// whole frames are received with probability Φ((SNR − middle)/width).
    Transitional {
        /// Signal-to-noise ratio with a reception ratio of 0.5, in dB.
        middle_db: f64,
        /// Standard deviation between frames in dB, above 0.
        width_db: f64,
    },
}

/// A part of a frame, in bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FramePart {
    pub(crate) bits: f64,
    /// Bits in the whole frame, with SHR and PHR.
    pub(crate) of: f64,
}

/// 23 octets, the measured frames.
const CC2420_SYMBOLS: f64 = 46.0;

impl ReceptionCurve {
    /// Returns the probability of receiving a frame of this many octets at this linear ratio.
    #[must_use]
    pub fn packet_reception_ratio(self, snr: f64, octets: u32) -> f64 {
        let bits = f64::from(8 * octets);
        self.success(snr, FramePart { bits, of: bits })
    }

    pub(crate) fn success(self, snr: f64, part: FramePart) -> f64 {
        self.success_of(self.quality(snr), part)
    }

    /// Returns the factor of the ratio alone: the log probability of receiving a bit or symbol, or
    /// the probability for a whole frame.
    pub(super) fn quality(self, snr: f64) -> f64 {
        match self {
            Self::Oqpsk if snr > OQPSK_CERTAIN => 0.0,
            Self::Cc2420 if snr > CC2420_CERTAIN => 0.0,
            Self::Oqpsk => libm::log1p(-oqpsk_bit_error_rate(snr)),
            Self::Cc2420 => libm::log1p(-cc2420_symbol_error_rate(snr)),
            Self::Transitional { middle_db, width_db } => {
                let deviations = (to_db(snr) - middle_db) / width_db;
                if deviations > TRANSITIONAL_CERTAIN {
                    return 1.0;
                }
                0.5 * libm::erfc(-deviations * std::f64::consts::FRAC_1_SQRT_2)
            }
        }
    }

    pub(super) fn success_of(self, quality: f64, part: FramePart) -> f64 {
        match self {
            Self::Oqpsk => libm::exp(part.bits * quality),
            Self::Cc2420 => libm::exp(CC2420_SYMBOLS * (part.bits / part.of) * quality),
            Self::Transitional { .. } => libm::pow(quality, part.bits / part.of),
        }
    }
}

/// Above 6 dB the bit error rate, below 10⁻¹⁶, is negligible.
const OQPSK_CERTAIN: f64 = 4.0;
/// Likewise above 12 dB.
const CC2420_CERTAIN: f64 = 16.0;

/// Likewise this many widths above the middle.
const TRANSITIONAL_CERTAIN: f64 = 8.5;

/// Returns O-QPSK's bit error rate at a linear ratio: (8/15)(1/16) Σ_{k=2}^{16} (−1)^k C(16,k)
/// exp(20·SNR·(1/k − 1)) (IEEE Std 802.15.4-2006, annex E.4.1.8).
#[must_use]
pub fn oqpsk_bit_error_rate(snr: f64) -> f64 {
    let (mut sum, mut binomial) = (0.0, 16.0);
    for k in 2_u32..=16 {
        binomial = binomial * f64::from(17 - k) / f64::from(k);
        let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
        sum += sign * binomial * libm::exp(20.0 * snr * (1.0 / f64::from(k) - 1.0));
    }
    // Rounding may leave the sum below zero; without a signal half of the bits are correct.
    (8.0 / 15.0 / 16.0 * sum).clamp(0.0, 0.5)
}

/// Returns the CC2420's symbol error rate at a linear ratio: ½ erfc(0.9794 (SNR/dB − 2.3851)/√2)
/// (TOSSIM, CpmModelC).
#[must_use]
pub fn cc2420_symbol_error_rate(snr: f64) -> f64 {
    0.5 * libm::erfc(0.9794 * (to_db(snr) - 2.3851) * std::f64::consts::FRAC_1_SQRT_2)
}

/// A cache of a reception curve's exact results.
///
/// Signals, noises and lengths of frames alone on the channel recur, and a result takes up to two
/// exponentials, a logarithm and the error function. The overlaps of collisions vary: the part that
/// depends only on signal and noise has its own cache.
#[derive(Debug)]
pub(super) struct CachedCurve {
    curve: ReceptionCurve,
    successes: ResultCache<4>,
    qualities: ResultCache<2>,
}

impl CachedCurve {
    pub(super) fn new(curve: ReceptionCurve, links: usize) -> Self {
        let entries = links.saturating_mul(ENTRIES_PER_LINK).clamp(MIN_ENTRIES, MAX_ENTRIES).next_power_of_two();
        Self { curve, successes: ResultCache::new(entries), qualities: ResultCache::new(entries) }
    }

    pub(super) fn of_itself(&self) -> ReceptionCurve {
        self.curve
    }

    pub(super) fn success(&self, signal: Power, noise: Power, part: FramePart) -> f64 {
        let strengths = [signal.as_units(), noise.as_units()];
        let key = [strengths[0], strengths[1], part.bits.to_bits(), part.of.to_bits()];
        self.successes.get_or_compute(key, || {
            let quality = self.qualities.get_or_compute(strengths, || self.curve.quality(signal.ratio(noise)));
            self.curve.success_of(quality, part)
        })
    }
}

#[derive(Debug)]
struct ResultCache<const WORDS: usize>(Box<[Cell<Entry<WORDS>>]>);

type Entry<const WORDS: usize> = ([u64; WORDS], f64);

/// About the number of different frame lengths.
const ENTRIES_PER_LINK: usize = 4;
const MIN_ENTRIES: usize = 1 << 8;
/// 1 MiB for both caches: beyond the L2 cache, the curve is as fast.
const MAX_ENTRIES: usize = 1 << 14;

impl<const WORDS: usize> ResultCache<WORDS> {
    fn new(entries: usize) -> Self {
        // No signal is this strong: initial entries match no key.
        Self(vec![Cell::new(([u64::MAX; WORDS], 0.0)); entries].into())
    }

    fn get_or_compute(&self, key: [u64; WORDS], compute: impl FnOnce() -> f64) -> f64 {
        let slot = &self.0[hash(key) & (self.0.len() - 1)];
        let (cached_key, result) = slot.get();
        if cached_key == key {
            return result;
        }
        let result = compute();
        slot.set((key, result));
        result
    }
}

fn hash<const WORDS: usize>(key: [u64; WORDS]) -> usize {
    let hash =
        key.into_iter().fold(0_u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::radio::power::from_db;

    #[test]
    fn the_parts_of_a_frame_make_up_the_whole() {
        let transitional = ReceptionCurve::Transitional { middle_db: 4.6, width_db: 1.9 };
        for curve in [ReceptionCurve::Oqpsk, ReceptionCurve::Cc2420, transitional] {
            for db in [-3.0, 0.0, 2.0, 5.0, 30.0] {
                let whole = curve.packet_reception_ratio(from_db(db), 100);
                let part = |bits| curve.success(from_db(db), FramePart { bits, of: 800.0 });
                assert!((part(100.0) * part(700.0) - whole).abs() < 1e-12, "{curve:?} at {db} dB");
            }
        }
    }

    #[test]
    fn shortcuts_join_the_curves() {
        assert!(oqpsk_bit_error_rate(OQPSK_CERTAIN) < 1e-16);
        assert!(cc2420_symbol_error_rate(CC2420_CERTAIN) < 1e-16);
    }

    #[test]
    fn half_of_the_frames_pass_the_middle_of_a_transitional_region_and_84_per_cent_a_width_above() {
        let curve = ReceptionCurve::Transitional { middle_db: 4.6, width_db: 1.9 };
        for (db, expected) in [(2.7, 0.158_655), (4.6, 0.5), (6.5, 0.841_345), (8.4, 0.977_250)] {
            let ratio = curve.packet_reception_ratio(from_db(db), 133);
            assert!((ratio - expected).abs() < 1e-6, "{ratio} at {db} dB");
        }
    }

    #[test]
    fn nothing_is_received_without_a_signal() {
        assert!(ReceptionCurve::Oqpsk.packet_reception_ratio(0.0, 20) < 1e-40);
        assert!(ReceptionCurve::Cc2420.packet_reception_ratio(0.0, 20) < 1e-40);
    }

    proptest! {
        #[test]
        fn cached_results_equal_those_of_the_curve(queries in prop::collection::vec((0..9_u64, 0..3_u64, 0..5_u16, 1..3_u16), 1..300)) {
            let curve = ReceptionCurve::Transitional { middle_db: 4.6, width_db: 1.9 };
            let cached = CachedCurve::new(curve, 0);
            for (signal, noise, bits, more) in queries {
                let (signal, noise) = (Power::units(50 + 50 * signal), Power::units(50 + noise));
                let part = FramePart { bits: f64::from(bits), of: f64::from(bits + more) };
                let result = cached.success(signal, noise, part);
                prop_assert_eq!(result.to_bits(), curve.success(signal.ratio(noise), part).to_bits());
            }
        }
    }
}
