//! What the paper says in words, put to the test with the measured values.
//!
//! Orderings are those of means, as the paper's are. The runs of two schemes under one replication share their random
//! numbers, so throughputs are compared run by run, and the interval of the mean difference is shown beside the verdict.

use super::measure::Series;
use super::scenario::Scenario;
use crate::papers::Claim;
use crate::results::{Figure, Unit};
use crate::stats::mean_interval;

/// The paper's schemes that measure round-trip times, without B-RTO.
const SENSITIVE: [&str; 4] = ["cocoa", "cocoa-s", "linux", "ph"];
/// In FlockLab the paper's first three schemes are much fairer than the others.
const FAIR: [&str; 3] = ["default", "cocoa", "cocoa-s"];
const UNFAIR: [&str; 3] = ["b-rto", "linux", "ph"];
/// "Much": Jain's index of the least fair of the first is at least so many times that of the other.
const MUCH: std::ops::RangeInclusive<f64> = 1.25..=f64::INFINITY;
/// "By far": at least so many times as much as the next.
const BY_FAR: std::ops::RangeInclusive<f64> = 2.0..=f64::INFINITY;

/// All claims whose schemes were run.
pub(super) fn figures(scenario: &Scenario, series: &[Series]) -> Vec<Figure> {
    let all = All(series);
    let clients: Vec<u32> =
        scenario.gprs.iter().flat_map(|gprs| gprs.clients.iter()).map(|clients| clients.get()).collect();
    let mut figures = Vec::new();
    for (scheme, sign) in SENSITIVE.map(|scheme| (scheme, 1.0)).into_iter().chain([("b-rto", -1.0)]) {
        let beats = |clients: &u32| all.beside_the_default(scheme, sign, &format!("gprs/{clients}"), &scenario.name);
        figures.extend(clients.iter().filter_map(beats).flatten());
    }
    let most = clients.iter().flat_map(|clients| {
        let cell = format!("gprs/{clients}");
        [
            all.b_rto_retransmits_most("the_other_rtt_sensitive", &SENSITIVE, &cell),
            all.b_rto_retransmits_most("the_default", &["default"], &cell),
        ]
    });
    let fastest = clients.iter().filter_map(|clients| all.cocoa_settles_fastest(&format!("gprs-burst/{clients}")));
    let fairer = UNFAIR.iter().filter_map(|scheme| all.much_fairer_than(scheme));
    figures.extend(most.flatten().chain(fastest).chain(fairer).flat_map(|claim| claim.figures(&scenario.name)));
    figures
}

struct All<'a>(&'a [Series]);

impl All<'_> {
    fn values(&self, scheme: &str, cell: &str, column: &str) -> Option<&[f64]> {
        let row = format!("{scheme}/{cell}");
        Some(&self.0.iter().find(|series| series.row == row && series.column == column)?.values)
    }

    fn mean(&self, scheme: &str, cell: &str, column: &str) -> Option<(f64, u32)> {
        let values = self.values(scheme, cell, column)?;
        Some((mean_interval(values).0, u32::try_from(values.len()).unwrap_or(u32::MAX)))
    }

    /// More throughput than the default has, or with a negative sign less.
    fn beside_the_default(&self, scheme: &str, sign: f64, cell: &str, paper: &str) -> Option<[Figure; 2]> {
        let column = "throughput_per_s";
        let (own, default) = self.values(scheme, cell, column).zip(self.values("default", cell, column))?;
        let differences: Vec<f64> = own.iter().zip(default).map(|(own, default)| own - default).collect();
        let (difference, interval) = mean_interval(&differences);
        let claim = Claim {
            row: format!("{}_throughput_than_default/{scheme}/{cell}", if sign > 0.0 { "more" } else { "less" }),
            column: "difference_per_s".to_owned(),
            unit: Unit::PerSecond,
            measured: difference,
            runs: u32::try_from(differences.len()).unwrap_or(u32::MAX),
            holds: sign * difference > 0.0,
        };
        let [value, verdict] = claim.figures(paper);
        Some([Figure { ci95: interval, ..value }, verdict])
    }

    fn b_rto_retransmits_most(&self, than: &str, others: &[&str], cell: &str) -> Option<Claim> {
        let column = "retransmissions_percent";
        let (b_rto, runs) = self.mean("b-rto", cell, column)?;
        let others: Option<Vec<_>> = others.iter().map(|scheme| self.mean(scheme, cell, column)).collect();
        let most = others?.into_iter().map(|(mean, _)| mean).fold(0.0, f64::max);
        let ratio = (b_rto / most, runs);
        let row = format!("b_rto_retransmits_by_far_more_than_{than}/{cell}");
        (most > 0.0).then(|| Claim::in_range(row, "ratio", Unit::Ratio, ratio, &BY_FAR))
    }

    fn cocoa_settles_fastest(&self, cell: &str) -> Option<Claim> {
        let column = "settling_time_s";
        let (cocoa, runs) = self.mean("cocoa", cell, column)?;
        let others = ["default", "cocoa-s", "b-rto", "linux", "ph"].iter();
        let others: Option<Vec<_>> = others.map(|scheme| self.mean(scheme, cell, column)).collect();
        let next = others?.into_iter().map(|(mean, _)| mean).fold(f64::INFINITY, f64::min);
        let row = format!("cocoa_settles_fastest/{cell}");
        Some(Claim::in_range(row, "ratio_of_next", Unit::Ratio, (next / cocoa, runs), &(1.0..=f64::INFINITY)))
    }

    fn much_fairer_than(&self, scheme: &str) -> Option<Claim> {
        let (cell, column) = ("flocklab", "jain_index");
        let (unfair, runs) = self.mean(scheme, cell, column)?;
        let fair: Option<Vec<_>> = FAIR.iter().map(|scheme| self.mean(scheme, cell, column)).collect();
        let least = fair?.into_iter().map(|(mean, _)| mean).fold(f64::INFINITY, f64::min);
        let row = format!("default_cocoa_and_cocoa_s_much_fairer/{scheme}/{cell}");
        let ratio = (least / unfair, runs);
        (unfair > 0.0).then(|| Claim::in_range(row, "jain_index_ratio", Unit::Ratio, ratio, &MUCH))
    }
}
