//! The paper's experiment as data, read from TOML.

use std::time::Duration;

use conche_netsim::mac::{MacConfig, QueueConfig};
use conche_netsim::routing::{Objective, RplConfig};
use serde::Deserialize;

use super::media::Media;
use crate::scenario::{AtLeastOne, Endpoint, NonEmpty, SCHEMA, ScenarioError, Scheme, distinct};
use crate::units::{Size, Span};

/// The whole experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    pub(super) schema: u32,
    /// Read before: it led here.
    #[serde(rename = "model")]
    _model: String,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) replications: AtLeastOne,
    pub(super) seed: u64,
    pub(super) network: Network,
    pub(super) messages: Messages,
    pub(super) endpoint: Endpoint,
    #[serde(rename = "static")]
    pub(super) fixed: Fixed,
    pub(super) dynamic: Dynamic,
    pub(super) mixed: Mixed,
    pub(super) measurement: Measurement,
    pub(super) quick: Quick,
    pub(super) schemes: NonEmpty<Scheme>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    /// Motes on each circle, the inmost first.
    pub(super) rings: NonEmpty<u32>,
    pub(super) ring_spacing_m: f64,
    pub(super) headers: Headers,
    pub(super) queue: Queue,
    pub(super) rpl: Rpl,
    pub(super) media: Media,
}

/// Bytes of a frame beside the CoAP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Headers {
    pub(super) mac: Size,
    /// IPv6, hop-by-hop options and UDP as they are sent.
    pub(super) compressed: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    packets: usize,
    neighbours: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rpl {
    objective: RplObjective,
    min_ratio: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RplObjective {
    HopCount,
    Etx,
}

/// Sizes of messages, headers of the network layer included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Messages {
    /// The size by which rates and goodput are counted.
    pub(super) request: Size,
    pub(super) response: Size,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fixed {
    /// In bit/s for each mote.
    pub(super) rates: NonEmpty<f64>,
    pub(super) duration: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dynamic {
    /// In bit/s for each mote.
    pub(super) lowest: f64,
    pub(super) highest: f64,
    pub(super) growth: Growth,
    pub(super) step: Span,
}

/// How the rate grows from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Growth {
    /// Twofold.
    Doubling,
    /// Fourfold.
    Quadrupling,
    /// By so many bit/s.
    Step(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mixed {
    /// How many motes send Confirmable messages.
    pub(super) confirmable: u32,
    /// In bit/s.
    pub(super) confirmable_rate: f64,
    /// In bit/s.
    pub(super) unaware_rate: f64,
    pub(super) on_off: Span,
    pub(super) duration: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measurement {
    pub(super) fairness_window: Span,
    pub(super) series_window: Span,
    pub(super) series_hops: u16,
}

/// What a first impression has instead.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    replications: AtLeastOne,
    rates: NonEmpty<f64>,
    duration: Span,
    step: Span,
    mixed: Span,
    on_off: Span,
}

impl Scenario {
    pub(super) fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)?;
        scenario.validate()?;
        Ok(scenario)
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let fail = |place: &str, problem: String| Err(ScenarioError::new(place, problem));
        if self.schema != SCHEMA {
            return fail("schema", format!("{} is unknown; this conche reads 1", self.schema));
        }
        if self.network.media.all().is_empty() {
            return fail("network.media", "no medium; name at least one of mrm31, udgm, sinr".to_owned());
        }
        let header = 4 + u64::from(self.endpoint.token_length);
        let headers = self.network.headers;
        let least = headers.compressed.0 + header;
        for (place, size) in
            [("messages.request", self.messages.request), ("messages.response", self.messages.response)]
        {
            if size.0 < least || size.0 + headers.mac.0 > 127 {
                return fail(
                    place,
                    format!("{} B do not fit: from {least} B to {} B do", size.0, 127 - headers.mac.0.min(127)),
                );
            }
        }
        let rates = self.fixed.rates.iter().chain([
            &self.dynamic.lowest,
            &self.dynamic.highest,
            &self.mixed.confirmable_rate,
            &self.mixed.unaware_rate,
        ]);
        for rate in rates {
            if !(rate.is_finite() && *rate > 0.0) {
                return fail("static.rates, dynamic, mixed", format!("{rate} bit/s is no rate; it must be above 0"));
            }
        }
        if matches!(self.dynamic.growth, Growth::Step(step) if step.is_nan() || step <= 0.0) {
            return fail("dynamic.growth", "a step must be above 0 bit/s".to_owned());
        }
        if self.mixed.confirmable == 0 || self.mixed.confirmable > self.network.motes() {
            return fail("mixed.confirmable", format!("it must be from 1 to the {} motes", self.network.motes()));
        }
        let windows = [self.measurement.fairness_window, self.measurement.series_window, self.mixed.on_off];
        if windows.iter().any(|window| window.0.is_zero()) {
            return fail("measurement, mixed.on_off", "a window must be longer than 0 s".to_owned());
        }
        distinct("schemes", self.schemes.iter().map(|scheme| &scheme.name))?;
        self.schemes.iter().try_for_each(|scheme| scheme.build().map(|_| ()))
    }

    /// A first impression.
    pub(super) fn quick(&mut self) {
        let quick = self.quick.clone();
        self.fixed = Fixed { rates: quick.rates, duration: quick.duration };
        self.dynamic = Dynamic { step: quick.step, growth: Growth::Quadrupling, ..self.dynamic };
        self.mixed = Mixed { duration: quick.mixed, on_off: quick.on_off, ..self.mixed };
    }

    pub(super) fn quick_replications(&self) -> u32 {
        self.quick.replications.get()
    }

    /// How often a mote generates a message at this rate.
    pub(super) fn interval(&self, bits_per_second: f64) -> Duration {
        Duration::from_secs_f64(self.messages.request.0 as f64 * 8.0 / bits_per_second)
    }

    pub(super) fn mac(&self) -> MacConfig {
        let headers = self.network.headers;
        let overhead = u8::try_from(headers.mac.0 + headers.compressed.0).unwrap_or(u8::MAX);
        let queue = self.network.queue;
        let queue = QueueConfig { packets: Some(queue.packets), neighbours: Some(queue.neighbours) };
        MacConfig { queue, overhead_octets: overhead, ..MacConfig::contiki31() }
    }

    /// The longest frame.
    pub(super) fn psdu_octets(&self) -> u8 {
        let octets = self.messages.request.0.max(self.messages.response.0) + self.network.headers.mac.0;
        u8::try_from(octets).unwrap_or(u8::MAX)
    }
}

impl Network {
    pub(super) fn motes(&self) -> u32 {
        self.rings.iter().sum()
    }
}

impl Dynamic {
    /// The rate of each step, in bit/s.
    pub(super) fn rates(&self) -> Vec<f64> {
        let mut rates = vec![self.lowest];
        let mut rate = self.lowest;
        // A thousand steps are more than anybody waits for.
        while rate < self.highest && rates.len() < 1000 {
            rate = match self.growth {
                Growth::Doubling => rate * 2.0,
                Growth::Quadrupling => rate * 4.0,
                Growth::Step(step) => rate + step,
            };
            rates.push(rate.min(self.highest));
        }
        let down: Vec<f64> = rates.iter().rev().skip(1).copied().collect();
        rates.extend(down);
        rates
    }
}

impl Rpl {
    pub(super) fn config(self) -> RplConfig {
        let objective = match self.objective {
            RplObjective::HopCount => Objective::HopCount,
            RplObjective::Etx => Objective::Etx,
        };
        RplConfig { objective, min_ratio: self.min_ratio }
    }
}
