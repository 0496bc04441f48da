//! The media on which everything is run, with their parameters.

use conche_netsim::radio::{MediumConfig, Mrm31, PathLoss, ReceptionCurve, Sinr, Udgm};
use serde::Deserialize;

/// The media of which each is run.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Media {
    pub(super) mrm31: Option<Mrm31Medium>,
    pub(super) udgm: Option<UdgmMedium>,
    pub(super) sinr: Option<SinrMedium>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mrm31Medium {
    tx_power_dbm: f64,
    frequency_mhz: f64,
    sensitivity_dbm: f64,
    gain_sigma_db: f64,
    noise_sigma_db: f64,
    capture_threshold_db: f64,
    cca_threshold_dbm: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UdgmMedium {
    transmission_range_m: f64,
    interference_range_m: f64,
    carrier_range_m: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SinrMedium {
    tx_power_dbm: f64,
    reference_loss_db: f64,
    exponent: f64,
    shadowing_sigma_db: f64,
    asymmetry_sigma_db: f64,
    noise_dbm: f64,
    sensitivity_dbm: f64,
    cca_threshold_dbm: f64,
    capture_threshold_db: f64,
}

impl Media {
    /// Each medium with its name.
    pub(super) fn all(&self) -> Vec<(&'static str, MediumConfig)> {
        let mrm31 = self.mrm31.map(|medium| ("mrm31", MediumConfig::Mrm31(medium.config())));
        let udgm = self.udgm.map(|medium| ("udgm", MediumConfig::Udgm(medium.config())));
        let sinr = self.sinr.map(|medium| ("sinr", MediumConfig::Sinr(medium.config())));
        [mrm31, udgm, sinr].into_iter().flatten().collect()
    }
}

impl Mrm31Medium {
    fn config(self) -> Mrm31 {
        Mrm31 {
            tx_power_dbm: self.tx_power_dbm,
            frequency_mhz: self.frequency_mhz,
            sensitivity_dbm: self.sensitivity_dbm,
            gain_sigma_db: self.gain_sigma_db,
            noise_sigma_db: self.noise_sigma_db,
            capture_threshold_db: self.capture_threshold_db,
            cca_threshold_dbm: self.cca_threshold_dbm,
        }
    }
}

impl UdgmMedium {
    fn config(self) -> Udgm {
        Udgm {
            transmission_range_m: self.transmission_range_m,
            interference_range_m: self.interference_range_m,
            carrier_range_m: self.carrier_range_m,
            success_ratio: 1.0,
        }
    }
}

impl SinrMedium {
    fn config(self) -> Sinr {
        Sinr {
            tx_power_dbm: self.tx_power_dbm,
            path_loss: PathLoss::LogDistance {
                reference_loss_db: self.reference_loss_db,
                exponent: self.exponent,
                shadowing_sigma_db: self.shadowing_sigma_db,
                asymmetry_sigma_db: self.asymmetry_sigma_db,
            },
            noise_dbm: self.noise_dbm,
            sensitivity_dbm: self.sensitivity_dbm,
            cca_threshold_dbm: self.cca_threshold_dbm,
            capture_threshold_db: Some(self.capture_threshold_db),
            curve: ReceptionCurve::Cc2420,
            ..Sinr::default()
        }
    }
}
