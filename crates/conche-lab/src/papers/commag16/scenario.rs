//! The experiment as data: `scenarios/commag16.toml`.

use conche_netsim::wired::Service;
use serde::Deserialize;

use crate::experiment::Effort;
use crate::papers::flocklab::{ContikiMac, Metric, Testbed};
use crate::scenario::{AtLeastOne, Endpoint, NonEmpty, SCHEMA, ScenarioError, Scheme, Spread, distinct, select};
use crate::units::{BitRate, Size, Span};

/// The replications of a first impression.
const QUICK_REPLICATIONS: u32 = 3;

/// Clients that share a modem, each working all the time, or many of them in a burst.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The version of the format that the file is written in; [`SCHEMA`].
    pub schema: u32,
    /// Names this model.
    pub model: String,
    /// A short name, which the results carry.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// How often each cell is repeated with other random numbers.
    pub replications: AtLeastOne,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Clients behind a modem; without, they are left out.
    pub gprs: Option<Gprs>,
    /// Clients of motes; without, they are left out.
    pub flocklab: Option<FlockLab>,
    /// Clients that work all the time.
    pub continuous: Continuous,
    /// Some clients work all the time, and all others join them at once.
    pub burst: Burst,
    /// Parameters of every CoAP endpoint.
    pub endpoint: Endpoint,
    /// The congestion control of clients; all clients of a run have the same.
    pub schemes: NonEmpty<Scheme>,
}

/// Clients behind one GPRS modem, and their server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gprs {
    /// Numbers of clients, each a cell of the experiment.
    pub clients: NonEmpty<AtLeastOne>,
    /// A frame with a request, everything included.
    pub request: Size,
    /// A frame with a response, everything included.
    pub response: Size,
    /// From the modem to the server.
    pub uplink: Link,
    /// From the server to the modem.
    pub downlink: Link,
}

/// A client for each mote of FlockLab but the border router.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlockLab {
    /// A request as a CoAP message.
    pub request: Size,
    /// A response as a CoAP message.
    pub response: Size,
    /// How motes save energy.
    pub contikimac: ContikiMac,
    /// What the tree minimises.
    pub objective: Metric,
    /// A burst that has not settled so long after its start never does.
    pub limit: Span,
    /// The motes and how they are joined to the Internet.
    pub testbed: Testbed,
}

/// A direction of the radio link: one FIFO without limit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// How fast it sends, in the mean over runs.
    pub rate: BitRate,
    /// How the rate of a run is drawn; without, it is always the mean.
    pub spread: Option<Spread>,
    /// How the time of a frame deviates from its size over the rate.
    pub service: Service,
    /// Probability that a frame holds the link up.
    pub stall_probability: f64,
    /// How long it does, exponentially distributed with this mean.
    pub stall: Span,
    /// Propagation and what else takes the same time for every frame.
    pub delay: Span,
    /// Further delay of each frame, exponentially distributed with this mean; frames stay in order.
    pub jitter: Span,
    /// Probability that a frame is lost.
    pub loss: f64,
}

/// Clients that open an exchange whenever the last one is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continuous {
    /// For how long.
    pub duration: Span,
}

/// All but a few clients begin at the same time and end after some exchanges each.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// How many clients work all the time.
    pub continuous: u32,
    /// When the others begin.
    pub start: Span,
    /// How many exchanges each of them opens.
    pub exchanges: AtLeastOne,
    /// The burst has settled when this share of its exchanges has succeeded.
    pub settled: f64,
    /// A burst that has not settled so long after its start never does.
    pub limit: Span,
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
    ///
    /// # Errors
    /// If a controller is unknown.
    pub fn adjust(&mut self, effort: &Effort) -> Result<(), ScenarioError> {
        let replications = effort.replications(self.replications.get(), QUICK_REPLICATIONS);
        self.replications = AtLeastOne::new(replications).unwrap_or(self.replications);
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
        self.endpoint.validate()?;
        self.schemes.iter().try_for_each(|scheme| scheme.build().map(drop))?;
        let message = u64::from(self.endpoint.token_length) + 4;
        if let Some(gprs) = &self.gprs {
            gprs.validate(message)?;
        }
        if let Some(flocklab) = &self.flocklab {
            flocklab.validate(self.endpoint.token_length)?;
        }
        if self.gprs.is_none() && self.flocklab.is_none() {
            return Err(ScenarioError::new("gprs", "there is no network; write [gprs], [flocklab] or both".to_owned()));
        }
        share("burst.settled", self.burst.settled)
    }
}

impl Gprs {
    fn validate(&self, message: u64) -> Result<(), ScenarioError> {
        for (name, frame) in [("gprs.request", self.request), ("gprs.response", self.response)] {
            if frame.0 < message || u32::try_from(frame.0).is_err() {
                let problem = format!("{frame} is no frame around a message of {message}B");
                return Err(ScenarioError::new(name, problem));
            }
        }
        self.uplink.validate("gprs.uplink")?;
        self.downlink.validate("gprs.downlink")
    }
}

impl FlockLab {
    fn validate(&self, token_length: u8) -> Result<(), ScenarioError> {
        self.testbed.check_message("flocklab.request", self.request, token_length)?;
        self.testbed.check_message("flocklab.response", self.response, token_length)?;
        self.testbed.validate()
    }
}

impl Link {
    fn validate(&self, place: &str) -> Result<(), ScenarioError> {
        if self.rate.as_bits() == 0 {
            let problem = "0bit/s sends nothing; write it as in 15kbit/s".to_owned();
            return Err(ScenarioError::new(format!("{place}.rate"), problem));
        }
        share(&format!("{place}.loss"), self.loss)?;
        share(&format!("{place}.stall_probability"), self.stall_probability)?;
        self.spread.map_or(Ok(()), |spread| spread.validate(place))
    }
}

fn share(place: &str, value: f64) -> Result<(), ScenarioError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(ScenarioError::new(place, format!("{value} is not between 0 and 1")))
}
