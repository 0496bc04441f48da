//! Distance between measured and published values, for fitted and predicted ones.

use conche_results::Near;

use super::Experiment;
use crate::report::Table;
use crate::results::{MeasuredValue, Unit};

/// A published value's relation to network parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Parameters were fitted on it.
    Fitted,
    /// The value was not used for fitting.
    Predicted,
}

/// Distance between measured and published values.
///
/// The mean of |ln(measured / published)|, unlike a count within a bound, shows an improvement from
/// a factor of 5 to 1.5, and weighs excess and shortfall equally.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Closeness {
    /// Values that were both published and measured.
    pub values: usize,
    /// Values within [`WITHIN_PERCENT`].
    pub within: usize,
    /// Values with a ratio: neither side is 0.
    ratios: usize,
    log_ratios: f64,
}

/// Bound of [`Closeness::within`] in per cent of the published value.
pub const WITHIN_PERCENT: f64 = 15.0;

impl Closeness {
    /// Sums up the published values of this origin.
    #[must_use]
    pub fn of(paper: &Experiment, figures: &[MeasuredValue], origin: Origin) -> Self {
        let mut closeness = Self::default();
        let judged = figures.iter().filter(|figure| figure.unit != Unit::Verdict);
        let of_origin = judged.filter(|figure| figure.published.is_some() && paper.origin(figure) == Some(origin));
        of_origin.for_each(|figure| closeness.count(figure));
        closeness
    }

    fn count(&mut self, figure: &MeasuredValue) {
        self.values += 1;
        self.within += usize::from(figure.deviation_percent().is_some_and(|off| off.abs() <= WITHIN_PERCENT));
        let ratio = figure.published.map(|published| figure.measured / published);
        if let Some(ratio) = ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0) {
            self.ratios += 1;
            self.log_ratios += libm::log(ratio).abs();
        }
    }

    /// The mean of |ln(measured / published)|: 0.1 for 10 %, 0.7 for a factor of two; `None`
    /// without ratios.
    #[must_use]
    pub fn mean_log_ratio(&self) -> Option<f64> {
        (self.ratios > 0).then(|| self.log_ratios / self.ratios as f64)
    }

    pub(crate) fn near(&self) -> Near {
        Near { values: self.values, within: self.within, mean_log_ratio: self.mean_log_ratio() }
    }

    /// Formats the cells of a row, in the order of [`HEADER`].
    pub(crate) fn cells(&self) -> [String; 2] {
        let within = if self.values == 0 { "-".to_owned() } else { format!("{} of {}", self.within, self.values) };
        [within, self.mean_log_ratio().map_or("-".to_owned(), |mean| format!("{mean:.2}"))]
    }
}

/// Column names of [`Closeness`] in tables.
pub(crate) const HEADER: [&str; 2] = ["within 15 %", "mean |ln ratio|"];

/// Returns one row for the fitted values and one for the predicted ones; `None` without published
/// values.
pub(super) fn closeness_table(paper: &Experiment, figures: &[MeasuredValue]) -> Option<Table> {
    let of = |origin| Closeness::of(paper, figures, origin);
    let rows = [("fitted on", of(Origin::Fitted)), ("predicted", of(Origin::Predicted))];
    let rows: Vec<_> = rows.into_iter().filter(|(_, closeness)| closeness.values > 0).collect();
    (!rows.is_empty()).then(|| Table {
        title: "How near to what was published".to_owned(),
        header: ["values", HEADER[0], HEADER[1]].map(String::from).into(),
        names: 1,
        rows: rows.iter().map(|(name, of)| [&[(*name).to_owned()], &of.cells()[..]].concat()).collect(),
        notes: Vec::new(),
    })
}
