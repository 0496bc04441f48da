//! Cooja's multi-path ray-tracer medium of Contiki 3.1, without obstacles.
//!
//! Source: `MRM.java` and `ChannelModel.java`, with their default capture effect and their quirks.
//!
//! - Reception is drawn when a frame begins. If it fails, the frame neither interferes nor makes
//!   the channel busy there.
//! - A new frame not weaker than the received power by the capture threshold always captures the
//!   receiver: the test whether the first frame's preamble has passed compares the new frame with
//!   itself. The first frame is lost, and its power removed.
//! - A weaker frame is harmless.
//!
//! Divergence: a new signal is compared with the sum of received signals, not the strongest. They
//! differ only after a transmission during which several frames began.

use std::f64::consts::FRAC_1_SQRT_2;

use super::medium::{Arrival, Medium, RadioError, ReceiverState, check};
use super::neighbours::{Neighbours, RadioLink};
use super::power::{Power, from_db};
use super::reception::FramePart;
use super::stations::Position;
use crate::Instant;
use crate::ids::Station;
use crate::rng::{Chance, Stream};

/// Free space with random gain, and the capture effect of Contiki 3.1.
///
/// ```toml
/// tx_power_dbm = 1.5
/// sensitivity_dbm = -64
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mrm31 {
    /// Transmission power in dBm.
    pub tx_power_dbm: f64,
    /// Carrier frequency in MHz.
    pub frequency_mhz: f64,
    /// Signal strength with a reception ratio of 0.5, in dBm: the larger of sensitivity and 6 dB
    /// above noise.
    pub sensitivity_dbm: f64,
    /// Standard deviation of the gain in dB. Default: 2.
    pub gain_sigma_db: f64,
    /// Standard deviation of the background noise in dB. Default: 1.
    pub noise_sigma_db: f64,
    /// Capture threshold in dB: frames weaker by more are harmless. Default: 3.
    pub capture_threshold_db: f64,
    /// Clear channel assessment threshold in dBm. Default: −95.
    pub cca_threshold_dbm: f64,
}

impl Default for Mrm31 {
    fn default() -> Self {
        Self {
            tx_power_dbm: 1.5,
            frequency_mhz: 2400.0,
            sensitivity_dbm: -94.0,
            gain_sigma_db: 2.0,
            noise_sigma_db: 1.0,
            capture_threshold_db: 3.0,
            cca_threshold_dbm: -95.0,
        }
    }
}

impl Mrm31 {
    /// Returns the signal strength at this distance in dBm: free space (Friis 1946), loss at least
    /// 0 dB.
    #[must_use]
    pub fn signal_dbm(&self, distance_m: f64) -> f64 {
        let spread = 20.0 * libm::log10(self.frequency_mhz) + 20.0 * libm::log10(distance_m / 1000.0);
        self.tx_power_dbm - (32.44 + spread).max(0.0)
    }

    /// Returns the probability of reception at this distance.
    #[must_use]
    pub fn reception_probability(&self, distance_m: f64) -> f64 {
        let sigma = libm::hypot(self.gain_sigma_db, self.noise_sigma_db);
        let margin = self.signal_dbm(distance_m) - self.sensitivity_dbm;
        0.5 * libm::erfc(-margin / sigma * FRAC_1_SQRT_2)
    }
}

#[derive(Debug)]
pub(crate) struct Mrm31Medium {
    neighbours: Neighbours,
    probability: Vec<f64>,
    chance: Vec<Chance>,
    capture: f64,
    cca: Power,
}

/// Minimum reception probability of a neighbour.
const NEVER: f64 = 1e-6;

impl Mrm31Medium {
    pub(super) fn new(config: &Mrm31, positions: &[Position]) -> Result<Self, RadioError> {
        check("frequency_mhz", config.frequency_mhz, f64::MIN_POSITIVE, f64::MAX, "above 0 MHz")?;
        let level = "between -150 and 20 dBm";
        check("tx_power_dbm", config.tx_power_dbm, -150.0, 20.0, level)?;
        check("sensitivity_dbm", config.sensitivity_dbm, -150.0, 20.0, level)?;
        check("cca_threshold_dbm", config.cca_threshold_dbm, -150.0, 20.0, level)?;
        check("gain_sigma_db", config.gain_sigma_db, f64::MIN_POSITIVE, 100.0, "above 0 dB")?;
        check("noise_sigma_db", config.noise_sigma_db, 0.0, 100.0, "at least 0 dB")?;
        check("capture_threshold_db", config.capture_threshold_db, 0.0, 100.0, "at least 0 dB")?;
        let mut probabilities = Vec::new();
        let neighbours = Neighbours::new(positions.len(), |from, to| {
            let distance = positions[usize::from(from)].distance_m(positions[usize::from(to)]);
            let probability = config.reception_probability(distance);
            (probability > NEVER).then(|| {
                probabilities.push(probability);
                RadioLink { to, decodable: true, power: Power::from_dbm(config.signal_dbm(distance)) }
            })
        });
        Ok(Self {
            neighbours,
            chance: probabilities.iter().map(|probability| Chance::of(*probability)).collect(),
            probability: probabilities,
            capture: from_db(config.capture_threshold_db),
            cca: Power::from_dbm(config.cca_threshold_dbm),
        })
    }
}

impl Medium for Mrm31Medium {
    fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    fn reach(&self, from: Station, streams: &mut [Stream], reached: &mut Vec<u32>) {
        // Branchless: a failed draw is overwritten.
        let mut end = reached.len();
        reached.resize(end + self.neighbours.decodable(from).len(), 0);
        for (number, link) in self.neighbours.from(from) {
            reached[end] = number;
            end += usize::from(streams[usize::from(link.to)].happens(self.chance[number as usize]));
        }
        reached.truncate(end);
    }

    fn arrive(&self, link: RadioLink, receiver: ReceiverState) -> Arrival {
        if !receiver.listening {
            Arrival::Noise
        } else if receiver.level == Power::ZERO {
            Arrival::Receive
        } else if link.power.ratio(receiver.level) * self.capture < 1.0 {
            Arrival::Unheard
        } else {
            Arrival::Replace
        }
    }

    fn survives(&self, _: Power, _: Power, _: FramePart) -> f64 {
        1.0
    }

    fn passes(&mut self, _: u32, _: Instant, _: &mut Stream) -> f64 {
        1.0
    }

    fn reception_ratio(&self, number: u32, _: RadioLink, _: u32) -> f64 {
        self.probability[number as usize]
    }

    fn is_busy(&self, level: Power) -> bool {
        level > self.cca
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reception_falls_over_three_times_the_distance() {
        let config = Mrm31 { sensitivity_dbm: -64.0, ..Mrm31::default() };
        for (distance_m, expected) in [(10.0, 0.993), (12.4, 0.946), (15.0, 0.81), (20.0, 0.40), (30.0, 0.03)] {
            let probability = config.reception_probability(distance_m);
            assert!((probability - expected).abs() < 0.0051, "{distance_m} m: {probability:.4}");
        }
        assert!((config.signal_dbm(10.0) - config.signal_dbm(20.0) - 6.0206).abs() < 1e-3);
        assert!((config.signal_dbm(0.0) - 1.5).abs() < 1e-9, "no more than was sent");
    }
}
