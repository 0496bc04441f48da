//! Reproduced papers: scenarios, published values, and summaries.

use conche_results::{Score, Verdict};

use crate::experiment::{CLOSENESS_HEADER, Experiment};
pub use crate::experiment::{Closeness, Provenance, WITHIN_PERCENT};
use crate::scenario::{Controllers, FileError, Unit};
use crate::table::{Table, deviation, number};
use crate::value::MeasuredValue;

/// A reproduced paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Short name, such as `anrw18`.
    pub name: &'static str,
    /// Text of its scenario.
    pub scenario: &'static str,
}

/// All papers in listing order; a `static`, so that texts are linked once.
pub static PAPERS: &[Paper] = &[ETFA14, COMMAG16, BDP19, WIOPT12, ANRW18];

/// Betzler, Gomez, Demirkol, Kovatsch, "Congestion Control for CoAP Cloud Services", ETFA 2014.
pub const ETFA14: Paper = Paper { name: "etfa14", scenario: include_str!("../scenarios/etfa14.toml") };

/// Betzler, Gomez, Demirkol, Paradells, "CoAP Congestion Control for the Internet of Things", IEEE
/// Communications Magazine 54(7), 2016.
pub const COMMAG16: Paper = Paper { name: "commag16", scenario: include_str!("../scenarios/commag16.toml") };

/// Järvinen, Raitahila, Cao, Kojo, "Is CoAP Congestion Safe?", ANRW 2018.
pub const ANRW18: Paper = Paper { name: "anrw18", scenario: include_str!("../scenarios/anrw18.toml") };

/// Ancillotti, Bruno, "BDP-CoAP: Leveraging Bandwidth-Delay Product for Congestion Control in
/// CoAP", IEEE World Forum on Internet of Things 2019.
pub const BDP19: Paper = Paper { name: "bdp19", scenario: include_str!("../scenarios/bdp19.toml") };

/// Betzler, Gomez, Demirkol, Paradells, "Should We Use the Default Protocol Settings for Networks
/// of Constrained Devices?", WiOpt 2012. Compared with its text, not its plots.
pub const WIOPT12: Paper = Paper { name: "wiopt12", scenario: include_str!("../scenarios/wiopt12.toml") };

/// Returns a file of the papers' directory.
///
/// # Errors
/// If it does not exist.
pub fn paper_file(name: &str) -> Result<String, FileError> {
    let text = match name {
        "anrw18.csv" => include_str!("../scenarios/anrw18.csv"),
        "commag16.csv" => include_str!("../scenarios/commag16.csv"),
        "etfa14.csv" => include_str!("../scenarios/etfa14.csv"),
        "flocklab-links.csv" => include_str!("../scenarios/flocklab-links.csv"),
        "flocklab-places.csv" => include_str!("../scenarios/flocklab-places.csv"),
        _ => return Err(FileError::NotFound),
    };
    Ok(text.to_owned())
}

impl Paper {
    /// Finds a paper by name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        PAPERS.iter().find(|paper| paper.name == name)
    }

    /// Returns the paper's experiment, on which `controllers` can run.
    ///
    /// # Panics
    /// Never: a test reads every scenario.
    #[must_use]
    pub fn experiment(&self, controllers: &Controllers) -> Experiment {
        Experiment::read(self.scenario, &paper_file, controllers)
            .expect("the scenarios of papers are valid: a test reads them all")
    }
}

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
    /// Tested claims.
    pub claims: usize,
    /// Refuted claims.
    pub refuted: Vec<Miss>,
    /// Inconclusive claims.
    pub inconclusive: usize,
}

/// A result that differs from the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// Value beyond its bar, or verdict of a claim.
    pub value: MeasuredValue,
    /// Documented reason, if any.
    pub reason: Option<String>,
}

impl Summary {
    /// Sums up a paper's values.
    #[must_use]
    pub fn new(paper: &Experiment, values: &[MeasuredValue]) -> Self {
        let of = |provenance| Closeness::of(paper, values, provenance);
        let mut summary =
            Self { fitted: of(Provenance::Fitted), predicted: of(Provenance::Predicted), ..Self::default() };
        for value in values {
            let miss = || Miss { value: value.clone(), reason: paper.reason(value).map(str::to_owned) };
            if value.unit == Unit::Verdict {
                summary.claims += 1;
                let verdict = Verdict::of(value.measured);
                summary.refuted.extend((verdict == Verdict::Refuted).then(miss));
                summary.inconclusive += usize::from(verdict == Verdict::Inconclusive);
            } else if let Some(within) = paper.within(value) {
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

/// Returns one row per paper.
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
    let named = |values: &str| CLOSENESS_HEADER.map(|number| format!("{values}: {number}"));
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

/// Returns a table of refuted claims and values beyond their bar.
#[must_use]
pub fn misses(paper: &str, summary: &Summary) -> Table {
    // Misses with the same reason share a note.
    let mut reasons: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for Miss { value, reason } in summary.beyond.iter().chain(&summary.refuted) {
        let mark = reason.as_deref().map_or(String::new(), |reason| {
            let place = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                reasons.push(reason);
                reasons.len() - 1
            });
            format!("({})", place + 1)
        });
        let (published, measured) = match value.unit {
            Unit::Verdict => (String::new(), number(value.measured, value.unit)),
            unit => (
                value.published.map(|published| number(published, unit)).unwrap_or_default(),
                number(value.measured, unit),
            ),
        };
        let column = value.column.trim_end_matches("_holds").to_owned();
        let off = if value.unit == Unit::Verdict { String::new() } else { deviation(value) };
        rows.push(vec![value.row.clone(), column, published, measured, off, mark]);
    }
    Table {
        title: format!("{paper}: what is not as published"),
        header: ["cell or claim", "value", "published", "measured", "deviation", "reason"].map(String::from).into(),
        names: 2,
        rows,
        notes: reasons.iter().zip(1..).map(|(reason, number)| format!("({number}) {reason}")).collect(),
    }
}
