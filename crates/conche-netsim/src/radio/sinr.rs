//! Signal, interference and noise.
//!
//! Path loss is log-distance with log-normal shadowing (Rappaport: Wireless Communications, 2002,
//! §4.9), drawn once per pair of stations, plus a smaller part per direction. A receiver
//! synchronises with the first frame above a threshold; a later one captures it if it exceeds the
//! sum of all else by another. Success is computed per part of a frame with constant interference.

use super::fading::{Fading, Gilbert};
use super::medium::{Arrival, Medium, RadioError, ReceiverState, check};
use super::neighbours::{Neighbours, RadioLink};
use super::power::{Power, from_db, to_db};
use super::reception::CachedCurve;
use super::reception::{FramePart, ReceptionCurve};
use super::stations::Position;
use crate::ids::Station;
use crate::rng::{Entity, Purpose, Stream, Streams};
use crate::{Instant, NodeId};

/// A medium with signal strengths, interference and noise.
///
/// ```toml
/// tx_power_dbm = 0
/// path_loss = { log-distance = { exponent = 3.5, shadowing_sigma_db = 4 } }
/// capture_threshold_db = 3
/// curve = "cc2420"
/// fading = { mean_good = "9s", mean_bad = "1s", loss_bad = "90%" }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sinr {
    /// Transmission power in dBm.
    pub tx_power_dbm: f64,
    /// Path loss.
    pub path_loss: PathLoss,
    /// Noise in the channel in dBm. Default: −98.
    pub noise_dbm: f64,
    /// Sensitivity: the weakest signal for synchronisation, in dBm. Default: −95, the CC2420's.
    pub sensitivity_dbm: f64,
    /// Minimum power of interference in dBm. Default: −115.
    pub interference_floor_dbm: f64,
    /// Clear channel assessment threshold in dBm. Default: −77, the CC2420's after reset.
    pub cca_threshold_dbm: f64,
    /// Minimum signal-to-interference-and-noise ratio for synchronisation in dB. Default: −5, where
    /// O-QPSK's bit error rate is 0.1 (IEEE Std 802.15.4-2006, figure E.2).
    pub synchronisation_db: f64,
    /// Capture threshold: excess of a later frame over the sum of all else, in dB. `None`: no
    /// capture.
    pub capture_threshold_db: Option<f64>,
    /// Reception by signal-to-noise ratio.
    pub curve: ReceptionCurve,
    /// Slow changes of links.
    pub fading: Option<Gilbert>,
}

/// Path loss between two stations.
///
/// ```toml
/// path_loss = { log-distance = { reference_loss_db = 40, exponent = 3 } }
/// path_loss = { matrix = [[inf, 70], [72.5, inf]] }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum PathLoss {
    /// `reference + 10·exponent·log10(d/1 m)`, plus shadowing.
    LogDistance {
        /// Loss at 1 m, in dB.
        reference_loss_db: f64,
        /// Path loss exponent; 2 in free space.
        exponent: f64,
        /// Standard deviation of the shadowing common to a pair's directions, in dB.
        shadowing_sigma_db: f64,
        /// Standard deviation of the additional shadowing per direction, in dB.
        asymmetry_sigma_db: f64,
    },
    /// Measured losses in dB: a row per sender, a column per receiver, infinite without a link.
    Matrix(Vec<Vec<f64>>),
}

impl Default for Sinr {
    fn default() -> Self {
        Self {
            tx_power_dbm: 0.0,
            path_loss: PathLoss::default(),
            noise_dbm: -98.0,
            sensitivity_dbm: -95.0,
            interference_floor_dbm: -115.0,
            cca_threshold_dbm: -77.0,
            synchronisation_db: -5.0,
            capture_threshold_db: None,
            curve: ReceptionCurve::default(),
            fading: None,
        }
    }
}

impl Default for PathLoss {
    /// Exponent 3 and 40 dB at 1 m, without shadowing.
    fn default() -> Self {
        Self::LogDistance { reference_loss_db: 40.0, exponent: 3.0, shadowing_sigma_db: 0.0, asymmetry_sigma_db: 0.0 }
    }
}

#[derive(Debug)]
pub(crate) struct SinrMedium {
    neighbours: Neighbours,
    noise: Power,
    cca: Power,
    synchronisation: f64,
    capture: Option<f64>,
    curve: CachedCurve,
    fading: Option<Fading>,
}

impl SinrMedium {
    pub(super) fn new(config: &Sinr, positions: &[Position], streams: &Streams) -> Result<Self, RadioError> {
        config.check(positions.len())?;
        let (floor, sensitivity) =
            (Power::from_dbm(config.interference_floor_dbm), Power::from_dbm(config.sensitivity_dbm));
        // With a floor of zero every signal counts. Otherwise signals 10 dB below it are skipped
        // without computing their power.
        let faint_dbm = if floor > Power::ZERO { config.interference_floor_dbm - 10.0 } else { f64::NEG_INFINITY };
        let mut heard = vec![Vec::new(); positions.len()];
        // Receivers come in order.
        config.path_loss.for_each_pair(positions, streams, |from, to, loss_db| {
            let level_dbm = config.tx_power_dbm - loss_db;
            if level_dbm < faint_dbm {
                return;
            }
            let power = Power::from_dbm(level_dbm);
            if power >= floor {
                let to = Station::try_from(to).expect("the layout is checked");
                heard[from].push(RadioLink { to, decodable: power >= sensitivity, power });
            }
        });
        let neighbours = Neighbours::of_stations(heard);
        let fading = config.fading.map(|gilbert| Fading::new(gilbert, neighbours.len()));
        Ok(Self {
            curve: CachedCurve::new(config.curve, neighbours.len()),
            neighbours,
            noise: Power::from_dbm(config.noise_dbm),
            cca: Power::from_dbm(config.cca_threshold_dbm),
            synchronisation: from_db(config.synchronisation_db),
            capture: config.capture_threshold_db.map(from_db),
            fading,
        })
    }
}

impl SinrMedium {
    pub(super) fn snr_db(&self) -> Vec<f64> {
        self.neighbours.all().map(|link| to_db(link.power.ratio(self.noise))).collect()
    }
}

impl Medium for SinrMedium {
    fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    fn reach(&self, from: Station, _: &mut [Stream], reached: &mut Vec<u32>) {
        reached.extend(self.neighbours.decodable(from));
    }

    fn arrive(&self, link: RadioLink, receiver: ReceiverState) -> Arrival {
        if !receiver.listening {
            return Arrival::Noise;
        }
        let threshold = match receiver.receiving {
            None => Some(self.synchronisation),
            Some(_) => self.capture,
        };
        let ratio = link.power.ratio(receiver.level.plus(self.noise));
        if threshold.is_some_and(|threshold| ratio > threshold) { Arrival::Receive } else { Arrival::Noise }
    }

    fn survives(&self, signal: Power, interference: Power, part: FramePart) -> f64 {
        self.curve.success(signal, interference.plus(self.noise), part)
    }

    fn passes(&mut self, number: u32, now: Instant, stream: &mut Stream) -> f64 {
        self.fading.as_mut().map_or(1.0, |fading| fading.passes(number as usize, now, stream))
    }

    fn reception_ratio(&self, _: u32, link: RadioLink, octets: u32) -> f64 {
        let snr = link.power.ratio(self.noise);
        if !link.decodable || snr <= self.synchronisation {
            return 0.0;
        }
        let passes = self.fading.as_ref().map_or(1.0, Fading::mean_pass);
        self.curve.of_itself().packet_reception_ratio(snr, octets) * passes
    }

    fn is_busy(&self, level: Power) -> bool {
        level >= self.cca
    }
}

impl Sinr {
    fn check(&self, stations: usize) -> Result<(), RadioError> {
        let level = "between -150 and 20 dBm";
        for (parameter, value) in [
            ("tx_power_dbm", self.tx_power_dbm),
            ("noise_dbm", self.noise_dbm),
            ("sensitivity_dbm", self.sensitivity_dbm),
            ("interference_floor_dbm", self.interference_floor_dbm),
            ("cca_threshold_dbm", self.cca_threshold_dbm),
        ] {
            check(parameter, value, -150.0, 20.0, level)?;
        }
        check("synchronisation_db", self.synchronisation_db, -100.0, 100.0, "between -100 and 100 dB")?;
        if let Some(capture) = self.capture_threshold_db {
            check("capture_threshold_db", capture, -100.0, 100.0, "between -100 and 100 dB")?;
        }
        if let Some(gilbert) = self.fading {
            check("loss_bad", gilbert.loss_bad, 0.0, 1.0, "a probability")?;
            for (parameter, mean) in [("mean_good", gilbert.mean_good), ("mean_bad", gilbert.mean_bad)] {
                check(parameter, mean.as_secs_f64(), f64::MIN_POSITIVE, f64::MAX, "longer than 0 s")?;
            }
        }
        match &self.path_loss {
            PathLoss::LogDistance { reference_loss_db, exponent, shadowing_sigma_db, asymmetry_sigma_db } => {
                check("reference_loss_db", *reference_loss_db, 0.0, 300.0, "between 0 and 300 dB")?;
                check("exponent", *exponent, 0.0, 20.0, "between 0 and 20")?;
                check("shadowing_sigma_db", *shadowing_sigma_db, 0.0, 100.0, "between 0 and 100 dB")?;
                check("asymmetry_sigma_db", *asymmetry_sigma_db, 0.0, 100.0, "between 0 and 100 dB")
            }
            PathLoss::Matrix(rows) if rows.len() == stations && rows.iter().all(|row| row.len() == stations) => rows
                .iter()
                .flatten()
                .try_for_each(|loss| check("path loss", *loss, 0.0, f64::INFINITY, "at least 0 dB")),
            PathLoss::Matrix(_) => Err(RadioError::Matrix(stations)),
        }
    }
}

impl PathLoss {
    /// Returns the losses in dB between all stations in the run with these streams, for a
    /// [`Matrix`](Self::Matrix).
    #[must_use]
    pub fn between_all(&self, positions: &[Position], streams: &Streams) -> Vec<Vec<f64>> {
        if let Self::Matrix(rows) = self {
            return rows.clone();
        }
        let mut losses = vec![vec![0.0; positions.len()]; positions.len()];
        self.for_each_pair(positions, streams, |from, to, loss_db| losses[from][to] = loss_db);
        losses
    }

    /// Calls `with` for each ordered pair, by its larger number.
    fn for_each_pair(&self, positions: &[Position], streams: &Streams, mut with: impl FnMut(usize, usize, f64)) {
        let pairs = |station| (0..station).map(move |other| (station, other));
        let (reference, exponent, shadowing, asymmetry) = match self {
            Self::Matrix(rows) => {
                for (station, other) in (0..positions.len()).flat_map(pairs) {
                    with(station, other, rows[station][other]);
                    with(other, station, rows[other][station]);
                }
                return;
            }
            Self::LogDistance { reference_loss_db, exponent, shadowing_sigma_db, asymmetry_sigma_db } => {
                (*reference_loss_db, *exponent, *shadowing_sigma_db, *asymmetry_sigma_db)
            }
        };
        let is_random = shadowing > 0.0 || asymmetry > 0.0;
        for (station, node) in (0..positions.len()).zip((0..).map(NodeId)) {
            // Only pairs with earlier stations: a new one changes no other loss.
            let mut stream = streams.stream(Entity::Node(node), Purpose::named("shadowing"));
            let mut normal = || if is_random { stream.normal() } else { 0.0 };
            for (station, other) in pairs(station) {
                // Below 1 m the model does not apply.
                let distance = positions[station].distance_m(positions[other]).max(1.0);
                let common = reference + 10.0 * exponent * libm::log10(distance) + shadowing * normal();
                with(station, other, common + asymmetry * normal());
                with(other, station, common + asymmetry * normal());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(count: u32, seed: u64) -> Vec<Vec<f64>> {
        let positions: Vec<Position> = (0..count).map(|i| Position::metres(f64::from(i) * 10.0, 0.0)).collect();
        let model = PathLoss::LogDistance {
            reference_loss_db: 40.0,
            exponent: 3.0,
            shadowing_sigma_db: 5.0,
            asymmetry_sigma_db: 1.0,
        };
        model.between_all(&positions, &Streams::new(seed))
    }

    #[test]
    fn a_further_station_moves_no_shadow() {
        let (few, many) = (losses(5, 1), losses(6, 1));
        assert!((0..5).all(|from| few[from][..] == many[from][..5]));
    }

    #[test]
    fn shadows_have_the_spread_of_their_pair_and_of_their_direction() {
        let losses = losses(200, 2);
        let pairs: Vec<(usize, usize)> = (0..200).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
        let n = pairs.len() as f64;
        let deviation = |a: usize, b: usize| losses[a][b] - 40.0 - 30.0 * libm::log10((a - b) as f64 * 10.0);
        let spread = (pairs.iter().map(|&(a, b)| deviation(a, b).powi(2)).sum::<f64>() / n).sqrt();
        let difference = (pairs.iter().map(|&(a, b)| (losses[a][b] - losses[b][a]).powi(2)).sum::<f64>() / n).sqrt();
        // √(25 + 1) and √2, with standard errors of σ/√(2n).
        assert!((spread - 5.099).abs() < 4.0 * 5.1 / (2.0 * n).sqrt(), "{spread}");
        assert!((difference - 1.414).abs() < 4.0 * 1.42 / (2.0 * n).sqrt(), "{difference}");
    }

    #[test]
    fn a_matrix_of_another_size_is_refused() {
        let config = Sinr { path_loss: PathLoss::Matrix(vec![vec![0.0; 2]; 2]), ..Sinr::default() };
        assert_eq!(config.check(3), Err(RadioError::Matrix(3)));
        assert_eq!(config.check(2), Ok(()));
    }
}
