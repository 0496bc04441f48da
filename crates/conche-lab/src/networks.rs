//! Networks to compare controllers on, in addition to the papers.
//!
//! Each is a file of `scenarios/networks`. Its `purpose` is fixed there: controllers may be
//! developed on design networks, and are judged on judgement networks.

use crate::experiment::Experiment;
use crate::scenario::{Controllers, FileError};

/// A network to compare controllers on.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Short name, such as `lossy-lan`: the name of its file.
    pub name: &'static str,
    /// Text of its scenario.
    pub scenario: &'static str,
}

/// All networks, by name.
pub static NETWORKS: &[Network] = include!(concat!(env!("OUT_DIR"), "/networks.rs"));

impl Network {
    /// Finds a network by name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        NETWORKS.iter().find(|network| network.name == name)
    }

    /// Returns the network's experiment, on which `controllers` can run.
    ///
    /// # Panics
    /// Never: a test reads every scenario.
    #[must_use]
    pub fn experiment(&self, controllers: &Controllers) -> Experiment {
        Experiment::read(self.scenario, &|_| Err(FileError::NotFound), controllers)
            .expect("the scenarios of networks are valid: a test reads them all")
    }
}
