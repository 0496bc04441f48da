//! The paper's experiment as data.

use serde::Deserialize;

use crate::experiment::Effort;
use crate::papers::flocklab::{ContikiMac, Metric, Testbed};
use crate::scenario::{AtLeastOne, Endpoint, NonEmpty, SCHEMA, ScenarioError, Scheme, distinct, select};
use crate::units::{Size, Span};

/// An experiment on a testbed like FlockLab: one-to-one, many-to-many, and a burst.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The version of the format that the file is written in.
    pub schema: u32,
    /// The paper whose network and workloads these are.
    pub model: String,
    /// A short name, which the results carry.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// How often each cell is repeated with other random numbers.
    pub replications: AtLeastOne,
    /// Where all random numbers come from.
    pub seed: u64,
    /// The network.
    pub testbed: Testbed,
    /// Parameters of every CoAP endpoint.
    pub endpoint: Endpoint,
    /// Messages.
    pub sizes: Sizes,
    /// One mote after the other.
    pub baseline: Baseline,
    /// All motes at the same time.
    pub many: Many,
    /// Many clients that begin at the same time.
    pub burst: Burst,
    /// How a first impression is smaller.
    pub quick: Quick,
    /// What clients do.
    pub workloads: NonEmpty<Workload>,
    /// How motes save energy, each a half of the experiment.
    pub rdcs: NonEmpty<Rdc>,
    /// The congestion control of clients.
    pub schemes: NonEmpty<Scheme>,
}

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// They ask one mote after the other.
    Baseline,
    /// They ask all motes at the same time.
    Many,
    /// They ask a few motes, and from a time on all.
    Burst,
}

/// Sizes of CoAP messages: header, token, options, payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Of a request.
    pub request: Size,
    /// Of a response.
    pub response: Size,
}

/// One mote after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Exchanges with each mote.
    pub exchanges: AtLeastOne,
}

/// All motes at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Many {
    /// For how long.
    pub duration: Span,
}

/// Many clients that begin at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// For how long the continuous clients send.
    pub duration: Span,
    /// Motes that are asked all the time, drawn at random.
    pub continuous: u8,
    /// Of the others, those that the burst is for.
    pub clients: u8,
    /// When the burst begins.
    pub begin: Span,
    /// Exchanges of each client of the burst.
    pub exchanges: AtLeastOne,
}

/// How a first impression is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Replications.
    pub replications: AtLeastOne,
    /// The duration of many-to-many.
    pub duration: Span,
    /// Exchanges of the baseline.
    pub exchanges: AtLeastOne,
}

/// How motes save energy, under the name that results give it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rdc {
    /// What results call it.
    pub name: String,
    /// ContikiMAC; without, radios are always on and frames not acknowledged (NullRDC).
    pub contikimac: Option<ContikiMac>,
    /// What the tree minimises: without acknowledgments RPL takes every link for a perfect one, and counts hops.
    pub objective: Metric,
}

impl Scenario {
    /// Reads a scenario and checks it.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)?;
        scenario.validate()?;
        Ok(scenario)
    }

    /// Changes how much is run, and of which schemes.
    pub(super) fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        let replications = effort.replications(self.replications.get(), self.quick.replications.get());
        self.replications = AtLeastOne::new(replications).unwrap_or(self.replications);
        if effort.quick {
            self.many.duration = self.quick.duration;
            self.baseline.exchanges = self.quick.exchanges;
        }
        self.seed = effort.seed.unwrap_or(self.seed);
        if !effort.controllers.is_empty() {
            self.schemes = select(&self.schemes, &effort.controllers)?;
        }
        self.validate()
    }

    fn validate(&self) -> Result<(), ScenarioError> {
        if self.schema != SCHEMA {
            let problem = format!("this conche reads scenarios of schema {SCHEMA}, not {}", self.schema);
            return Err(ScenarioError::new("schema", problem));
        }
        distinct("schemes", self.schemes.iter().map(|scheme| &scheme.name))?;
        distinct("rdcs", self.rdcs.iter().map(|rdc| &rdc.name))?;
        self.endpoint.validate()?;
        self.testbed.validate()?;
        for (place, size) in [("sizes.request", self.sizes.request), ("sizes.response", self.sizes.response)] {
            self.testbed.check_message(place, size, self.endpoint.token_length)?;
        }
        self.schemes.iter().try_for_each(|scheme| scheme.build().map(drop))
    }
}
