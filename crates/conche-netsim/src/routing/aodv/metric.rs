//! Route metrics: hop count and PATH-DR.
//!
//! PATH-DR maximises the product of link delivery ratios, each estimated from one received frame's
//! LQI (Gomez, Boix, Paradells: Impact of LQI-based routing metrics on the performance of a
//! one-to-one routing protocol for IEEE 802.15.4 multihop networks, EURASIP JWCN 2010).

use std::cmp::Ordering;

/// A route metric.
///
/// ```toml
/// metric = "hop-count"
/// metric = { path-dr = { snr_db = [0, 20], lqi = [50, 110], delivery_ratio = [[50, 0.0], [110, 1]] } }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// Fewer hops.
    HopCount,
    /// A higher product of delivery ratios, then fewer hops.
    PathDr(LqiMap),
}

/// Estimated delivery ratio of a link by a received frame's signal-to-noise ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct LqiMap {
    /// Signal-to-noise ratios in dB at the two values of `lqi`; linear in between.
    pub snr_db: (f64, f64),
    /// Minimum and maximum LQI.
    pub lqi: (f64, f64),
    /// Delivery ratios by ascending LQI; linear in between, constant beyond.
    pub delivery_ratio: Vec<(f64, f64)>,
}

/// The cost of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Number of links.
    pub hops: u8,
    /// Product of delivery ratios, in units of 1/65535.
    pub delivery: u16,
}

impl Cost {
    /// The cost from a node to itself.
    pub const ZERO: Self = Self { hops: 0, delivery: u16::MAX };
}

impl Metric {
    /// Returns the cost extended by a link whose frame arrived at this signal-to-noise ratio.
    #[must_use]
    pub fn extend(&self, cost: Cost, snr_db: f64) -> Cost {
        let delivery = match self {
            Self::HopCount => cost.delivery,
            Self::PathDr(quality) => scaled(cost.delivery, quality.delivery_ratio(snr_db)),
        };
        Cost { hops: cost.hops.saturating_add(1), delivery }
    }

    /// Returns `true` if `one` is better than `other`.
    #[must_use]
    pub fn prefers(&self, one: Cost, other: Cost) -> bool {
        let by_hops = other.hops.cmp(&one.hops);
        let order = match self {
            Self::HopCount => by_hops,
            Self::PathDr(_) => one.delivery.cmp(&other.delivery).then(by_hops),
        };
        order == Ordering::Greater
    }

    /// Whether a request is forwarded again when it arrives over a better route. RFC 3561 (§6.5)
    /// discards it, but the first copy rarely used the best links.
    #[must_use]
    pub fn forwards_better_copies(&self) -> bool {
        matches!(self, Self::PathDr(_))
    }
}

impl LqiMap {
    /// Returns the LQI of a frame.
    #[must_use]
    pub fn lqi(&self, snr_db: f64) -> f64 {
        let from = Point { x: self.snr_db.0, y: self.lqi.0 };
        interpolate(from, Point { x: self.snr_db.1, y: self.lqi.1 }, snr_db)
    }

    /// Returns a link's estimated delivery ratio.
    #[must_use]
    pub fn delivery_ratio(&self, snr_db: f64) -> f64 {
        let lqi = self.lqi(snr_db);
        let points = &self.delivery_ratio;
        match points.iter().position(|(at, _)| *at >= lqi) {
            Some(0) => points[0].1,
            Some(above) => {
                let at = |index: usize| Point { x: points[index].0, y: points[index].1 };
                interpolate(at(above - 1), at(above), lqi)
            }
            None => points.last().map_or(1.0, |(_, ratio)| *ratio),
        }
    }
}

/// Interpolates at x, clamped to the ends.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

fn interpolate(from: Point, to: Point, x: f64) -> f64 {
    let (Point { x: x0, y: y0 }, Point { x: x1, y: y1 }) = (from, to);
    if x1 <= x0 { y1 } else { y0 + (y1 - y0) * ((x - x0) / (x1 - x0)).clamp(0.0, 1.0) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 16 bits has 16 bits")]
fn scaled(delivery: u16, ratio: f64) -> u16 {
    (f64::from(delivery) * ratio.clamp(0.0, 1.0)) as u16
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn path_dr() -> Metric {
        let delivery_ratio = vec![(50.0, 0.0), (70.0, 0.25), (80.0, 0.6), (90.0, 0.9), (100.0, 0.985), (106.0, 1.0)];
        Metric::PathDr(LqiMap { snr_db: (0.0, 10.0), lqi: (50.0, 110.0), delivery_ratio })
    }

    #[test]
    fn link_quality_follows_the_table_and_stays_within_its_ends() {
        let Metric::PathDr(quality) = path_dr() else { panic!("it is PATH-DR") };
        for (snr_db, lqi, ratio) in
            [(-5.0, 50.0, 0.0), (5.0, 80.0, 0.6), (7.5, 95.0, 0.9425), (9.9, 109.4, 1.0), (40.0, 110.0, 1.0)]
        {
            assert!((quality.lqi(snr_db) - lqi).abs() < 1e-9, "{snr_db} dB");
            assert!((quality.delivery_ratio(snr_db) - ratio).abs() < 1e-9, "{snr_db} dB");
        }
    }

    #[test]
    fn path_dr_prefers_two_good_links_to_a_poor_one_and_hop_count_does_not() {
        let path_dr = path_dr();
        let two = path_dr.extend(path_dr.extend(Cost::ZERO, 12.0), 9.0);
        let one = path_dr.extend(Cost::ZERO, 5.0);
        assert_eq!((two.hops, one.hops), (2, 1));
        assert!(path_dr.prefers(two, one) && !path_dr.prefers(one, two));
        assert!(Metric::HopCount.prefers(one, two));
        let again = path_dr.extend(path_dr.extend(Cost::ZERO, 12.0), 12.0);
        assert!(path_dr.prefers(path_dr.extend(Cost::ZERO, 12.0), again), "among equals, fewer hops");
    }
}
