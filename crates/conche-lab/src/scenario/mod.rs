//! Experiments as data: a scenario names every parameter, and a TOML file holds it.
//!
//! The scenarios of the papers are files like any user's; nothing of them is a literal in code. Unknown keys, numbers
//! without a unit and values that make no sense are refused when the file is read. Here is the scenario of clients behind
//! one bottleneck, and what it shares with those of other networks, which are with their [papers](crate::papers).

mod bounds;
mod error;
mod network;
#[cfg(test)]
pub(crate) mod reduced;
mod scheme;

use serde::Deserialize;

pub use bounds::{AtLeastOne, NonEmpty, Range};
pub use error::{ScenarioError, Span as ErrorSpan};
pub use network::{Buffer, Core, Downlink, Link, Network, SharedBottleneck};
pub use scheme::{Aging, ControllerName, Scheme, Vbf, select};

use crate::experiment::{About, Effort, replications};
use crate::units::{Size, Span, SpanRange};

/// The version of the file format.
pub const SCHEMA: u32 = 1;

/// The replications of a first impression.
const QUICK_REPLICATIONS: u32 = 3;

/// An experiment: who sends what over which network, how often, under which congestion control.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The version of the format that the file is written in; [`SCHEMA`].
    pub schema: u32,
    /// A short name, which the results carry.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// How often each cell is repeated with other random numbers.
    pub replications: AtLeastOne,
    /// Where all random numbers come from.
    pub seed: u64,
    /// A run that takes longer, in virtual time, is an error.
    pub time_limit: Span,
    /// The network.
    pub network: Network,
    /// The host that answers.
    pub server: Server,
    /// Parameters of every CoAP endpoint.
    pub endpoint: Endpoint,
    /// How clients work; each way is combined with every scheme.
    pub workloads: NonEmpty<Workload>,
    /// The congestion control of clients; all clients of a run have the same.
    pub schemes: NonEmpty<Scheme>,
    /// Runs in which clients of several schemes share the network.
    #[serde(default)]
    pub mixes: Vec<Mix>,
}

/// The host that answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// How long its host takes for a request that arrives, duplicates included.
    pub processing: SpanRange,
    /// The size of a response as a CoAP message: header, options, payload.
    pub response: Size,
}

/// Parameters of every CoAP endpoint, under RFC 7252's names. The initial RTO belongs to the schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// MAX_RETRANSMIT.
    pub max_retransmit: u8,
    /// NSTART.
    pub nstart: u16,
    /// No timeout of any scheme is longer.
    pub timeout_cap: Span,
    /// Bytes of the tokens of requests, 0 to 8.
    pub token_length: u8,
}

/// How a client works: one exchange after another, until enough have succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What results call it.
    pub name: String,
    /// How many exchanges of a client must succeed.
    pub exchanges: AtLeastOne,
    /// After each batch of so many exchanges the client forgets its congestion state; without, it never does.
    pub batch: Option<Range>,
}

/// Clients of several schemes, in equal shares: client i runs scheme i modulo their number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// What results call it.
    pub name: String,
    /// The names of the schemes.
    pub schemes: Vec<String>,
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

    /// The scheme of this name.
    #[must_use]
    pub fn scheme(&self, name: &str) -> Option<&Scheme> {
        self.schemes.iter().find(|scheme| scheme.name == name)
    }

    /// The same experiment with these schemes instead: its own by their names, and otherwise any controller by its name.
    /// Mixes whose schemes are not all among them are left out.
    ///
    /// # Errors
    /// If a name is unknown or there twice, or there is none; the error lists the valid ones.
    pub fn with_schemes(&self, names: &[impl AsRef<str>]) -> Result<Self, ScenarioError> {
        let schemes = select(&self.schemes, names)?;
        let mut changed = Self { schemes, mixes: Vec::new(), ..self.clone() };
        let complete = |mix: &&Mix| mix.schemes.iter().all(|name| changed.scheme(name).is_some());
        changed.mixes = self.mixes.iter().filter(complete).cloned().collect();
        changed.validate()?;
        Ok(changed)
    }

    /// What it is, and how much of it will be run.
    #[must_use]
    pub fn about(&self) -> About<'_> {
        let Self { name, title, seed, .. } = self;
        About { name, title, extent: replications(self.replications.get()), seed: *seed }
    }

    /// Changes how much is run, and of which schemes.
    ///
    /// # Errors
    /// If a controller is unknown.
    pub fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        let number = effort.replications(self.replications.get(), QUICK_REPLICATIONS);
        self.replications = AtLeastOne::new(number).unwrap_or(self.replications);
        self.seed = effort.seed.unwrap_or(self.seed);
        if !effort.controllers.is_empty() {
            *self = self.with_schemes(&effort.controllers)?;
        }
        Ok(())
    }

    /// Checks what one field alone cannot tell.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        if self.schema != SCHEMA {
            return Err(ScenarioError::new(
                "schema",
                format!("this conche reads scenarios of schema {SCHEMA}, not {}", self.schema),
            ));
        }
        distinct("workloads", self.workloads.iter().map(|workload| &workload.name))?;
        distinct("schemes", self.schemes.iter().map(|scheme| &scheme.name))?;
        distinct("mixes", self.mixes.iter().map(|mix| &mix.name))?;
        self.network.validate()?;
        self.endpoint.validate()?;
        self.server.validate(self.endpoint.token_length)?;
        self.schemes.iter().try_for_each(|scheme| scheme.build().map(drop))?;
        if let Some(scheme) = self.schemes.iter().find(|scheme| scheme.nstart.is_some()) {
            let problem = "clients here have one exchange at a time; leave it out".to_owned();
            return Err(ScenarioError::new(format!("schemes.{}.nstart", scheme.name), problem));
        }
        self.mixes.iter().try_for_each(|mix| self.validate_mix(mix))
    }

    fn validate_mix(&self, mix: &Mix) -> Result<(), ScenarioError> {
        let place = format!("mixes.{}.schemes", mix.name);
        if mix.schemes.len() < 2 {
            return Err(ScenarioError::new(place, "a mix needs at least two schemes".to_owned()));
        }
        distinct(&place, mix.schemes.iter())?;
        match mix.schemes.iter().find(|name| self.scheme(name).is_none()) {
            None => Ok(()),
            Some(unknown) => {
                let known: Vec<_> = self.schemes.iter().map(|scheme| scheme.name.as_str()).collect();
                Err(ScenarioError::new(
                    place,
                    format!("there is no scheme `{unknown}`; the schemes are {}", known.join(", ")),
                ))
            }
        }
    }
}

impl Endpoint {
    pub(crate) fn validate(&self) -> Result<(), ScenarioError> {
        if self.nstart == 0 {
            return Err(ScenarioError::new("endpoint.nstart", "0 exchanges at a time; RFC 7252 has 1".to_owned()));
        }
        if self.token_length > 8 {
            let problem = format!("{} bytes; a token has at most 8 (RFC 7252 §3)", self.token_length);
            return Err(ScenarioError::new("endpoint.token_length", problem));
        }
        if self.timeout_cap.0.is_zero() {
            let problem = "a timeout of 0 repeats messages without a pause; write it as in \"60s\"";
            return Err(ScenarioError::new("endpoint.timeout_cap", problem.to_owned()));
        }
        Ok(())
    }
}

impl Server {
    /// RFC 7252 §4.6.
    const MOST: u64 = 1152;

    fn validate(&self, token_length: u8) -> Result<(), ScenarioError> {
        // Header, token, payload marker, and one byte of payload.
        let least = 4 + u64::from(token_length) + 2;
        if (least..=Self::MOST).contains(&self.response.0) {
            return Ok(());
        }
        let problem = format!("{} is not between {least}B and {}B", self.response, Self::MOST);
        Err(ScenarioError::new("server.response", problem))
    }
}

pub(crate) fn distinct<'a>(place: &str, names: impl Iterator<Item = &'a String>) -> Result<(), ScenarioError> {
    let mut seen = Vec::new();
    for name in names {
        if name.is_empty() || name.contains(['/', '@']) || name.contains(char::is_whitespace) {
            let problem = format!("`{name}` is no name: it must not be empty nor contain /, @ or white space");
            return Err(ScenarioError::new(place, problem));
        }
        if seen.contains(&name) {
            return Err(ScenarioError::new(place, format!("the name `{name}` is there twice")));
        }
        seen.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
