//! What the paper says in words, put to the test with the measured values.
//!
//! Where the words leave open how much is meant, the bounds here are our reading of them.

use super::NAME;
use crate::metrics::Measurements;
use crate::papers::Claim;
use crate::results::{Figure, Unit};

/// "Nearly twice".
const NEARLY_TWICE: std::ops::RangeInclusive<f64> = 1.7..=2.1;
/// "Up to a few hundred milliseconds", in seconds.
const FEW_HUNDRED_MS: std::ops::RangeInclusive<f64> = 0.0..=0.5;
/// A collapse is removed if the median client sends less than this share of the unnecessary copies that it sent before:
/// by this median the paper judges its variants.
const REMOVED: std::ops::RangeInclusive<f64> = 0.0..=0.5;

/// All claims whose schemes were run.
pub(super) fn figures(measured: &[Measurements]) -> Vec<Figure> {
    let cells = Cells(measured);
    let comparisons = [
        ten_clients_are_hardly_slower_than_one(&cells),
        default_takes_nearly_twice_as_long_as_cocoa(&cells),
        cocoa_is_worse_than_the_default_for_random_clients(&cells),
        full_backoff_removes_the_collapse(&cells),
    ];
    comparisons.into_iter().flatten().flat_map(|claim| claim.figures(NAME)).collect()
}

fn ten_clients_are_hardly_slower_than_one(cells: &Cells<'_>) -> Vec<Claim> {
    let slowest = |clients: u32| cells.value(&format!("default/continuous/{clients}/inf"), "fct_max_s");
    let difference = slowest(10).zip(slowest(1)).map(|((ten, runs), (one, _))| (ten - one, runs));
    let row = "ten_clients_up_to_a_few_hundred_ms_slower/default/continuous/inf";
    difference
        .map(|found| Claim::in_range(row, "difference_s", Unit::Seconds, found, &FEW_HUNDRED_MS))
        .into_iter()
        .collect()
}

fn default_takes_nearly_twice_as_long_as_cocoa(cells: &Cells<'_>) -> Vec<Claim> {
    let compare = |buffer: &&str| {
        let cell = format!("continuous/100/{buffer}");
        let ratio = cells.ratio(&format!("default/{cell}"), &format!("cocoa/{cell}"), "fct_median_s")?;
        let row = format!("default_nearly_twice_cocoa/{cell}");
        Some(Claim::in_range(row, "fct_median_ratio", Unit::Ratio, ratio, &NEARLY_TWICE))
    };
    ["14100", "28200", "inf"].iter().filter_map(compare).collect()
}

fn cocoa_is_worse_than_the_default_for_random_clients(cells: &Cells<'_>) -> Vec<Claim> {
    let cell = "random/400/inf";
    let ratio = cells.ratio(&format!("cocoa/{cell}"), &format!("default/{cell}"), "fct_median_s");
    let row = format!("cocoa_worse_than_default/{cell}");
    ratio
        .map(|ratio| Claim::in_range(row, "fct_median_ratio", Unit::Ratio, ratio, &(1.0..=f64::INFINITY)))
        .into_iter()
        .collect()
}

/// For continuous clients CoCoA does not collapse, so there is nothing to remove.
fn full_backoff_removes_the_collapse(cells: &Cells<'_>) -> Vec<Claim> {
    const COLLAPSED: [(&str, &str); 3] = [("default", "continuous"), ("default", "random"), ("cocoa", "random")];
    let mut comparisons = Vec::new();
    for (base, workload) in COLLAPSED {
        for variant in ["fb1", "fb2"] {
            let cell = format!("{workload}/400/inf");
            let (with, without) = (format!("{base}-{variant}/{cell}"), format!("{base}/{cell}"));
            let row = format!("full_backoff_removes_collapse/{with}");
            let ratio = cells.ratio(&with, &without, "unnecessary_median");
            comparisons
                .extend(ratio.map(|ratio| Claim::in_range(row, "unnecessary_ratio", Unit::Ratio, ratio, &REMOVED)));
        }
    }
    comparisons
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
