//! Radio media and positions.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Name, OnlyKey, PatchSeed, all_of, as_whole, fields, kinds, required};
use crate::mac::RadioConfig;
use crate::radio::{Gilbert, MediumConfig, Mrm31, PathLoss, Position, ReceptionCurve, Sinr, Udgm};
use crate::units::{Probability, Span};

required!(RadioConfig { medium, mac });
kinds!(MediumConfig: "a medium" { "udgm" => Udgm(Udgm), "mrm31" => Mrm31(Mrm31), "sinr" => Sinr(Sinr) });
fields!(Udgm over Udgm::default();
    first { success_ratio: Probability => |udgm, ratio| udgm.success_ratio = ratio(None).0 }
    then { transmission_range_m, interference_range_m, carrier_range_m }
    hidden { success_ratio }
);
fields!(Mrm31 {
    tx_power_dbm,
    frequency_mhz,
    sensitivity_dbm,
    gain_sigma_db,
    noise_sigma_db,
    capture_threshold_db,
    cca_threshold_dbm,
});
fields!(Sinr {
    tx_power_dbm,
    path_loss,
    noise_dbm,
    sensitivity_dbm,
    interference_floor_dbm,
    cca_threshold_dbm,
    synchronisation_db,
    capture_threshold_db,
    curve,
    fading,
});
impl<'de> Deserialize<'de> for Gilbert {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fading {
            mean_good: Span,
            mean_bad: Span,
            loss_bad: Probability,
        }
        let fading = all_of!(Fading as Fading { mean_good, mean_bad, loss_bad } from deserializer)?;
        Ok(Self { mean_good: fading.mean_good.0, mean_bad: fading.mean_bad.0, loss_bad: fading.loss_bad.0 })
    }
}

as_whole!(Gilbert);

/// Parameters and defaults of [`PathLoss::LogDistance`].
#[derive(Clone)]
struct LogDistance {
    reference_loss_db: f64,
    exponent: f64,
    shadowing_sigma_db: f64,
    asymmetry_sigma_db: f64,
}

fields!(LogDistance { reference_loss_db, exponent, shadowing_sigma_db, asymmetry_sigma_db });

impl Default for LogDistance {
    fn default() -> Self {
        match PathLoss::default() {
            PathLoss::LogDistance { reference_loss_db, exponent, shadowing_sigma_db, asymmetry_sigma_db } => {
                Self { reference_loss_db, exponent, shadowing_sigma_db, asymmetry_sigma_db }
            }
            PathLoss::Matrix(_) => unreachable!("no matrix is the default"),
        }
    }
}

impl<'de> Deserialize<'de> for PathLoss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathLossVisitor)
    }
}

struct PathLossVisitor;

impl<'de> Visitor<'de> for PathLossVisitor {
    type Value = PathLoss;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ log-distance = { exponent = 3 } } or { matrix = [[..], ..] }")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PathLoss, A::Error> {
        let mut map = OnlyKey::of(map, &self, &["log-distance", "matrix"])?;
        if map.key == "matrix" {
            return map.value(PatchSeed::seed()).map(|patch| PathLoss::Matrix(patch(None)));
        }
        let LogDistance { reference_loss_db, exponent, shadowing_sigma_db, asymmetry_sigma_db } =
            map.value(PatchSeed::seed())?(None);
        Ok(PathLoss::LogDistance { reference_loss_db, exponent, shadowing_sigma_db, asymmetry_sigma_db })
    }
}

impl<'de> Deserialize<'de> for ReceptionCurve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Curve)
    }
}

struct Curve;

impl<'de> Visitor<'de> for Curve {
    type Value = ReceptionCurve;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"oqpsk\", \"cc2420\", or { transitional = { middle_db = 4.6, width_db = 1.9 } }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ReceptionCurve, E> {
        match Name(&["oqpsk", "cc2420", "transitional"]).visit_str(text)? {
            "oqpsk" => Ok(ReceptionCurve::Oqpsk),
            "cc2420" => Ok(ReceptionCurve::Cc2420),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ReceptionCurve, A::Error> {
        struct Transitional(ReceptionCurve);
        impl<'de> Deserialize<'de> for Transitional {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                all_of!(ReceptionCurve::Transitional as ReceptionCurve { middle_db, width_db } from deserializer)
                    .map(Self)
            }
        }
        as_whole!(Transitional);
        let mut map = OnlyKey::of(map, &self, &["transitional"])?;
        map.value(PatchSeed::<Transitional>::seed()).map(|patch| patch(None).0)
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PositionVisitor)
    }
}

struct PositionVisitor;

impl<'de> Visitor<'de> for PositionVisitor {
    type Value = Position;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place in metres as in [3, 4.5]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Position, A::Error> {
        let mut coordinate = |place| sequence.next_element()?.ok_or_else(|| de::Error::invalid_length(place, &self));
        let (x_m, y_m) = (coordinate(0)?, coordinate(1)?);
        match sequence.next_element::<f64>()? {
            None => Ok(Position { x_m, y_m }),
            Some(_) => Err(de::Error::invalid_length(3, &self)),
        }
    }
}

as_whole!(PathLoss, ReceptionCurve, Position);
