//! Reproduced papers on CoAP congestion control: scenarios, published values, and tables.

mod summary;

pub use crate::experiment::{Closeness, Origin, WITHIN_PERCENT};
pub use summary::{Miss, Summary, misses, overview};

use crate::experiment::Experiment;
use crate::scenario::FileError;

/// A reproduced paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Short name of paper and scenario, such as `anrw18`.
    pub name: &'static str,
    /// Text of its scenario.
    pub scenario: &'static str,
}

/// All papers, in listing order; a `static`, to contain the texts once.
pub static PAPERS: &[Paper] = &[ETFA14, COMMAG16, BDP19, WIOPT12, ANRW18];

/// Betzler, Gomez, Demirkol, Kovatsch, "Congestion Control for CoAP Cloud Services", ETFA 2014.
pub const ETFA14: Paper = Paper { name: "etfa14", scenario: include_str!("../../../../scenarios/etfa14.toml") };

/// Betzler, Gomez, Demirkol, Paradells, "CoAP Congestion Control for the Internet of Things", IEEE
/// Communications Magazine 54(7), 2016.
pub const COMMAG16: Paper = Paper { name: "commag16", scenario: include_str!("../../../../scenarios/commag16.toml") };

/// Järvinen, Raitahila, Cao, Kojo, "Is CoAP Congestion Safe?", ANRW 2018.
pub const ANRW18: Paper = Paper { name: "anrw18", scenario: include_str!("../../../../scenarios/anrw18.toml") };

/// Ancillotti, Bruno, "BDP-CoAP: Leveraging Bandwidth-Delay Product for Congestion Control in
/// CoAP", IEEE World Forum on Internet of Things 2019.
pub const BDP19: Paper = Paper { name: "bdp19", scenario: include_str!("../../../../scenarios/bdp19.toml") };

/// Betzler, Gomez, Demirkol, Paradells, "Should We Use the Default Protocol Settings for Networks
/// of Constrained Devices?", WiOpt 2012. Compared by its text, not its plots.
pub const WIOPT12: Paper = Paper { name: "wiopt12", scenario: include_str!("../../../../scenarios/wiopt12.toml") };

/// Returns a file beside the scenarios of papers.
///
/// # Errors
/// If no file has this name.
pub fn paper_file(name: &str) -> Result<String, FileError> {
    let text = match name {
        "anrw18.csv" => include_str!("../../../../scenarios/anrw18.csv"),
        "commag16.csv" => include_str!("../../../../scenarios/commag16.csv"),
        "etfa14.csv" => include_str!("../../../../scenarios/etfa14.csv"),
        "flocklab-links.csv" => include_str!("../../../../scenarios/flocklab-links.csv"),
        "flocklab-places.csv" => include_str!("../../../../scenarios/flocklab-places.csv"),
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

    /// Returns the paper's experiment.
    ///
    /// # Panics
    /// Never: the scenario is part of conche.
    #[must_use]
    pub fn experiment(&self) -> Experiment {
        Experiment::read(self.scenario, &paper_file).expect("the scenarios of papers are valid: a test reads them all")
    }
}
