//! How well a paper was reproduced: figures within their bar, how near figures are, and claims that hold.

use conche_results::Score;

use super::closeness::{Closeness, HEADER, Origin};
use crate::experiment::Experiment;
use crate::report::{Table, deviation, number};
use crate::results::{Figure, Unit, Verdict};

/// What came out of one paper.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Figures that a bar is set for.
    pub promised: usize,
    /// Those of them that are beyond it.
    pub beyond: Vec<Miss>,
    /// How near the figures are that the network was fitted on.
    pub fitted: Closeness,
    /// How near those are that it predicts.
    pub predicted: Closeness,
    /// Claims of the paper that were put to the test.
    pub claims: usize,
    /// Those of them that are refuted.
    pub refuted: Vec<Miss>,
    /// How many of them are inconclusive.
    pub inconclusive: usize,
}

/// What did not come out as published.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// The figure; of a claim, the verdict.
    pub figure: Figure,
    /// Why, if that is known.
    pub reason: Option<String>,
}

impl Summary {
    /// Counts the figures of a paper.
    #[must_use]
    pub fn new(paper: &Experiment, figures: &[Figure]) -> Self {
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

    /// How many figures are within their bar.
    #[must_use]
    pub fn within(&self) -> usize {
        self.promised - self.beyond.len()
    }

    /// In numbers alone.
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

    /// How many claims hold.
    #[must_use]
    pub fn hold(&self) -> usize {
        self.claims - self.refuted.len() - self.inconclusive
    }
}

/// One row a paper, by its name.
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

/// One row for each figure beyond its bar and each claim that is refuted, of one paper.
#[must_use]
pub fn misses(paper: &str, summary: &Summary) -> Table {
    // Many misses may have one reason: it is told once, below.
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
