//! What the paper says in words, put to the test with the measured values.
//!
//! Each claim is a row of item `claims`: what was compared, and in the column `holds` 1 or 0. Where the words leave open
//! how much is meant, the bounds here are our reading of them.

use super::NAME;
use crate::metrics::Measurements;
use crate::results::{Figure, Unit};

/// "Nearly twice".
const NEARLY_TWICE: std::ops::RangeInclusive<f64> = 1.7..=2.1;
/// "Up to a few hundred milliseconds", in seconds.
const FEW_HUNDRED_MS: std::ops::RangeInclusive<f64> = 0.0..=0.5;
/// A collapse is removed if the median client sends less than this share of the unnecessary copies that it sent before:
/// by this median the paper judges its variants.
const REMOVED: std::ops::RangeInclusive<f64> = 0.0..=0.5;

/// One comparison of two measured values.
struct Comparison {
    row: String,
    column: &'static str,
    unit: Unit,
    measured: f64,
    runs: u32,
    holds: bool,
}

/// All claims whose schemes were run.
pub(super) fn figures(measured: &[Measurements]) -> Vec<Figure> {
    let cells = Cells(measured);
    let comparisons = [
        ten_clients_are_hardly_slower_than_one(&cells),
        default_takes_nearly_twice_as_long_as_cocoa(&cells),
        cocoa_is_worse_than_the_default_for_random_clients(&cells),
        full_backoff_removes_the_collapse(&cells),
    ];
    comparisons.into_iter().flatten().flat_map(Comparison::figures).collect()
}

fn ten_clients_are_hardly_slower_than_one(cells: &Cells<'_>) -> Vec<Comparison> {
    let slowest = |clients: u32| cells.value(&format!("default/continuous/{clients}/inf"), "fct_max_s");
    let difference = slowest(10).zip(slowest(1)).map(|((ten, runs), (one, _))| (ten - one, runs));
    let row = "ten_clients_up_to_a_few_hundred_ms_slower/default/continuous/inf";
    difference
        .map(|found| Comparison::new(row, "difference_s", Unit::Seconds, found, &FEW_HUNDRED_MS))
        .into_iter()
        .collect()
}

fn default_takes_nearly_twice_as_long_as_cocoa(cells: &Cells<'_>) -> Vec<Comparison> {
    let compare = |buffer: &&str| {
        let cell = format!("continuous/100/{buffer}");
        let ratio = cells.ratio(&format!("default/{cell}"), &format!("cocoa/{cell}"), "fct_median_s")?;
        let row = format!("default_nearly_twice_cocoa/{cell}");
        Some(Comparison::new(&row, "fct_median_ratio", Unit::Ratio, ratio, &NEARLY_TWICE))
    };
    ["14100", "28200", "inf"].iter().filter_map(compare).collect()
}

fn cocoa_is_worse_than_the_default_for_random_clients(cells: &Cells<'_>) -> Vec<Comparison> {
    let cell = "random/400/inf";
    let ratio = cells.ratio(&format!("cocoa/{cell}"), &format!("default/{cell}"), "fct_median_s");
    let row = format!("cocoa_worse_than_default/{cell}");
    ratio
        .map(|ratio| Comparison::new(&row, "fct_median_ratio", Unit::Ratio, ratio, &(1.0..=f64::INFINITY)))
        .into_iter()
        .collect()
}

/// For continuous clients CoCoA does not collapse, so there is nothing to remove.
fn full_backoff_removes_the_collapse(cells: &Cells<'_>) -> Vec<Comparison> {
    const COLLAPSED: [(&str, &str); 3] = [("default", "continuous"), ("default", "random"), ("cocoa", "random")];
    let mut comparisons = Vec::new();
    for (base, workload) in COLLAPSED {
        for variant in ["fb1", "fb2"] {
            let cell = format!("{workload}/400/inf");
            let (with, without) = (format!("{base}-{variant}/{cell}"), format!("{base}/{cell}"));
            let row = format!("full_backoff_removes_collapse/{with}");
            let ratio = cells.ratio(&with, &without, "unnecessary_median");
            comparisons
                .extend(ratio.map(|ratio| Comparison::new(&row, "unnecessary_ratio", Unit::Ratio, ratio, &REMOVED)));
        }
    }
    comparisons
}

impl Comparison {
    fn new(
        row: &str,
        column: &'static str,
        unit: Unit,
        (measured, runs): (f64, u32),
        holds: &std::ops::RangeInclusive<f64>,
    ) -> Self {
        Self { row: row.to_owned(), column, unit, measured, runs, holds: holds.contains(&measured) }
    }

    /// The compared value and the verdict.
    fn figures(self) -> [Figure; 2] {
        let value = Figure {
            paper: NAME.to_owned(),
            item: "claims".to_owned(),
            row: self.row,
            column: self.column.to_owned(),
            unit: self.unit,
            published: None,
            measured: self.measured,
            ci95: None,
            runs: self.runs,
        };
        let verdict = Figure {
            column: format!("{}_holds", self.column),
            unit: Unit::Verdict,
            published: Some(1.0),
            measured: if self.holds { 1.0 } else { 0.0 },
            ..value.clone()
        };
        [value, verdict]
    }
}

struct Cells<'a>(&'a [Measurements]);

impl Cells<'_> {
    /// A measured value and its number of replications.
    fn value(&self, row: &str, column: &str) -> Option<(f64, u32)> {
        let cell = self.0.iter().find(|cell| cell.key.to_string() == row)?;
        Some((cell.get(column)?.value, cell.runs))
    }

    fn ratio(&self, above: &str, below: &str, column: &str) -> Option<(f64, u32)> {
        let ((above, runs), (below, _)) = self.value(above, column).zip(self.value(below, column))?;
        (below > 0.0).then_some((above / below, runs))
    }
}
