//! Summarises a reproduction: values within their bar, distances, and claims that hold.

use conche_results::Score;

use crate::experiment::{Closeness, Experiment, HEADER, Origin};
use crate::report::{Table, deviation, number};
use crate::results::{MeasuredValue, Unit, Verdict};

/// A paper's reproduction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Values with a bar.
    pub promised: usize,
    /// Values beyond their bar.
    pub beyond: Vec<Miss>,
    /// Distance of fitted values.
    pub fitted: Closeness,
    /// Distance of predicted values.
    pub predicted: Closeness,
    /// Claims that were tested.
    pub claims: usize,
    /// Refuted claims.
    pub refuted: Vec<Miss>,
    /// Number of inconclusive claims.
    pub inconclusive: usize,
}

/// A result that differs from the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// Value beyond its bar, or a claim's verdict.
    pub figure: MeasuredValue,
    /// Documented reason, if any.
    pub reason: Option<String>,
}

impl Summary {
    /// Sums up a paper's values.
    #[must_use]
    pub fn new(paper: &Experiment, figures: &[MeasuredValue]) -> Self {
        let of = |origin| Closeness::of(paper, figures, origin);
        let mut summary = Self { fitted: of(Origin::Fitted), predicted: of(Origin::Predicted), ..Self::default() };
        for figure in figures {
            let miss = || Miss { figure: figure.clone(), reason: paper.reason(figure).map(str::to_owned) };
            if figure.unit == Unit::Verdict {
                summary.claims += 1;
                let verdict = Verdict::of(figure.measured);
                summary.refuted.extend((verdict == Verdict::Refuted).then(miss));
                summary.inconclusive += usize::from(verdict == Verdict::Inconclusive);
            } else if let Some(within) = paper.within(figure) {
                summary.promised += 1;
                summary.beyond.extend((!within).then(miss));
            }
        }
        summary
    }

    /// Number of values within their bar.
    #[must_use]
    pub fn within(&self) -> usize {
        self.promised - self.beyond.len()
    }

    /// Returns the summary as numbers.
    #[must_use]
    pub fn score(&self) -> Score {
        Score {
            promised: self.promised,
            within: self.within(),
            fitted: self.fitted.near(),
            predicted: self.predicted.near(),
            hold: self.hold(),
            refuted: self.refuted.len(),
            inconclusive: self.inconclusive,
        }
    }

    /// Number of claims that hold.
    #[must_use]
    pub fn hold(&self) -> usize {
        self.claims - self.refuted.len() - self.inconclusive
    }
}

/// Returns a table with one row per paper.
#[must_use]
pub fn overview(summaries: &[(&str, Summary)]) -> Table {
    let row = |(paper, summary): &(&str, Summary)| {
        let [fitted, predicted] = [summary.fitted.cells(), summary.predicted.cells()];
        let bars = [(*paper).to_owned(), format!("{} of {}", summary.within(), summary.promised)];
        let claims = [
            format!("{} of {}", summary.hold(), summary.claims),
            summary.refuted.len().to_string(),
            summary.inconclusive.to_string(),
        ];
        [&bars[..], &claims, &fitted, &predicted].concat()
    };
    let named = |values: &str| HEADER.map(|number| format!("{values}: {number}"));
    Table {
        title: "Papers".to_owned(),
        header: [
            &["paper", "figures within their bar", "claims that hold", "refuted", "inconclusive"].map(String::from)[..],
            &named("fitted"),
            &named("predicted"),
        ]
        .concat(),
        names: 1,
        rows: summaries.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

/// Returns a table of a paper's values beyond their bar and refuted claims.
#[must_use]
pub fn misses(paper: &str, summary: &Summary) -> Table {
    // Misses with the same reason share a note.
    let mut reasons: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for Miss { figure, reason } in summary.beyond.iter().chain(&summary.refuted) {
        let mark = reason.as_deref().map_or(String::new(), |reason| {
            let place = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            format!("({})", place + 1)
        });
        let (published, measured) = match figure.unit {
            Unit::Verdict => (String::new(), number(figure.measured, figure.unit)),
            unit => {
                (figure.published.map(|value| number(value, unit)).unwrap_or_default(), number(figure.measured, unit))
            }
        };
        let column = figure.column.trim_end_matches("_holds").to_owned();
        let off = if figure.unit == Unit::Verdict { String::new() } else { deviation(figure) };
        rows.push(vec![figure.row.clone(), column, published, measured, off, mark]);
    }
    Table {
        title: format!("{paper}: what is not as published"),
        header: ["cell or claim", "value", "published", "measured", "deviation", "reason"].map(String::from).into(),
        names: 2,
        rows,
        notes: reasons.iter().zip(1..).map(|(reason, number)| format!("({number}) {reason}")).collect(),
    }
}
