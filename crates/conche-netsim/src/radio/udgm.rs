//! Unit disks: one distance of reception, a larger one of interference.
//!
//! Source: Cooja's UDGM (Österlind et al.: Cross-level sensor network simulation with COOJA, LCN
//! 2006; Contiki's `UDGM.java`). Overlapping frames are lost where both are heard. Divergence:
//! clear channel assessment has its own distance; Cooja's signal strength falls linearly to −95 dBm
//! at the transmission range.

use super::medium::{Arrival, Medium, RadioError, ReceiverState, check};
use super::neighbours::{Neighbours, RadioLink};
use super::power::Power;
use super::reception::FramePart;
use super::stations::Position;
use crate::Instant;
use crate::ids::Station;
use crate::rng::Stream;

/// Unit disks.
///
/// ```toml
/// transmission_range_m = 10
/// interference_range_m = 20
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Udgm {
    /// Reception range in metres. Cooja's default: 50.
    pub transmission_range_m: f64,
    /// Interference range in metres. Cooja's default: 100.
    pub interference_range_m: f64,
    /// Range of clear channel assessment in metres.
    pub carrier_range_m: f64,
    /// Probability of reception at the transmission range without interference, falling from 1 with
    /// the square of the distance. Cooja's default: 1.
    pub success_ratio: f64,
}

impl Default for Udgm {
    fn default() -> Self {
        Self { transmission_range_m: 50.0, interference_range_m: 100.0, carrier_range_m: 100.0, success_ratio: 1.0 }
    }
}

/// The medium's state. A signal's power only encodes its class.
#[derive(Debug)]
pub(crate) struct UdgmMedium {
    neighbours: Neighbours,
    success: Vec<f64>,
}

/// A detectable signal. 2³² undetectable ones would equal it, but each station adds at most one.
const CARRIER: Power = Power::units(1 << 32);
const INTERFERENCE: Power = Power::units(1);

impl UdgmMedium {
    pub(super) fn new(config: &Udgm, positions: &[Position]) -> Result<Self, RadioError> {
        let distance = "a distance of at least 0 m";
        check("transmission_range_m", config.transmission_range_m, 0.0, f64::MAX, distance)?;
        let wider = "at least the transmission range";
        check("interference_range_m", config.interference_range_m, config.transmission_range_m, f64::MAX, wider)?;
        check("carrier_range_m", config.carrier_range_m, 0.0, f64::MAX, distance)?;
        check("success_ratio", config.success_ratio, 0.0, 1.0, "a probability")?;
        let distance_m = |from, to| positions[usize::from(from)].distance_m(positions[usize::from(to)]);
        let neighbours = Neighbours::new(positions.len(), |from: Station, to: Station| {
            let distance = distance_m(from, to);
            let carrier = distance <= config.carrier_range_m;
            if distance > config.interference_range_m && !carrier {
                return None;
            }
            let power = if carrier { CARRIER } else { INTERFERENCE };
            Some(RadioLink { to, decodable: distance <= config.transmission_range_m, power })
        });
        let stations = (0..).take(positions.len());
        let links = stations.flat_map(|from| neighbours.from(from).map(move |(_, link)| distance_m(from, link.to)));
        let success = links.map(|distance| {
            let relative = distance / config.transmission_range_m;
            1.0 - relative * relative * (1.0 - config.success_ratio)
        });
        Ok(Self { success: success.collect(), neighbours })
    }
}

impl Medium for UdgmMedium {
    fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    fn reach(&self, from: Station, _: &mut [Stream], reached: &mut Vec<u32>) {
        reached.extend(self.neighbours.decodable(from));
    }

    fn arrive(&self, _: RadioLink, receiver: ReceiverState) -> Arrival {
        if receiver.listening && receiver.level == Power::ZERO { Arrival::Receive } else { Arrival::Noise }
    }

    fn survives(&self, _: Power, interference: Power, _: FramePart) -> f64 {
        if interference == Power::ZERO { 1.0 } else { 0.0 }
    }

    fn passes(&mut self, number: u32, _: Instant, _: &mut Stream) -> f64 {
        self.success[number as usize]
    }

    fn reception_ratio(&self, number: u32, link: RadioLink, _: u32) -> f64 {
        if link.decodable { self.success[number as usize] } else { 0.0 }
    }

    fn is_busy(&self, level: Power) -> bool {
        level >= CARRIER
    }
}
