//! How near measured values are to published ones: those that the network was fitted on, and those that it predicts.

use conche_results::Near;

use crate::experiment::Experiment;
use crate::report::Table;
use crate::results::{Figure, Unit};

/// Where a published value stands to the parameters of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Parameters were fitted on it.
    Fitted,
    /// Nothing was.
    Predicted,
}

/// How near what was measured is to what was published.
///
/// A count of values within a bound does not tell a value that was five times off and is 1.5 times off now; the mean of
/// |ln(measured / published)| does, and an excess and a shortfall by the same factor weigh the same in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Closeness {
    /// Values that were published and measured.
    pub values: usize,
    /// Those of them that are within [`WITHIN_PERCENT`].
    pub within: usize,
    /// Those of them that have a ratio: neither is 0.
    ratios: usize,
    log_ratios: f64,
}

/// How near is near, in per cent of what was published.
pub const WITHIN_PERCENT: f64 = 15.0;

impl Closeness {
    /// That of all published values of this origin.
    #[must_use]
    pub fn of(paper: &Experiment, figures: &[Figure], origin: Origin) -> Self {
        let mut closeness = Self::default();
        let judged = figures.iter().filter(|figure| figure.unit != Unit::Verdict);
        let of_origin = judged.filter(|figure| figure.published.is_some() && paper.origin(figure) == Some(origin));
        of_origin.for_each(|figure| closeness.count(figure));
        closeness
    }

    fn count(&mut self, figure: &Figure) {
        self.values += 1;
        self.within += usize::from(figure.deviation_percent().is_some_and(|off| off.abs() <= WITHIN_PERCENT));
        let ratio = figure.published.map(|published| figure.measured / published);
        if let Some(ratio) = ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0) {
            self.ratios += 1;
            self.log_ratios += libm::log(ratio).abs();
        }
    }

    /// The mean of |ln(measured / published)|: 0.1 for 10 % in either direction, 0.7 for a factor of two. `None` if no value has
    /// a ratio.
    #[must_use]
    pub fn mean_log_ratio(&self) -> Option<f64> {
        (self.ratios > 0).then(|| self.log_ratios / self.ratios as f64)
    }

    /// In numbers alone.
    pub(super) fn near(&self) -> Near {
        Near { values: self.values, within: self.within, mean_log_ratio: self.mean_log_ratio() }
    }

    /// The numbers of a row, in the order of [`HEADER`].
    pub(super) fn cells(&self) -> [String; 2] {
        let within = if self.values == 0 { "-".to_owned() } else { format!("{} of {}", self.within, self.values) };
        [within, self.mean_log_ratio().map_or("-".to_owned(), |mean| format!("{mean:.2}"))]
    }
}

/// What the numbers of [`Closeness`] are called in tables.
pub(super) const HEADER: [&str; 2] = ["within 15 %", "mean |ln ratio|"];

/// A row for the values that the network was fitted on and one for those that it predicts; nothing if none were published.
pub(crate) fn closeness_table(paper: &Experiment, figures: &[Figure]) -> Option<Table> {
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
