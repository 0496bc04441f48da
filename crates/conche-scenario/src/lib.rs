//! Experiments on CoAP congestion control as data: TOML files that contain every parameter.
//!
//! The papers' scenarios use the same format as users' files. Unknown keys, numbers without a unit
//! and invalid values are refused when a file is read.
//!
//! ```text
//!   nodes + links + radios      the network
//!   traffic                     who asks whom, when, how much
//!   schemes, mixes              who runs which congestion control
//!   changes                     what happens to the network during a run
//!   sweep                       what is varied: each combination is a cell
//!   values -> items, tables, figure, claims    what is measured of each cell, and shown
//! ```

mod better;
mod bounds;
mod cell;
mod change;
mod claim;
pub mod controllers;
mod document;
mod effort;
mod error;
mod files;
mod metric;
mod metric_error;
mod network;
mod part;
mod path;
mod phase;
mod plot;
mod radio;
mod received;
mod results;
mod scheme;
mod security;
mod statistic;
mod sweep;
mod traffic;
mod transfer;
mod unit;
mod value;

use serde::Deserialize;

pub use better::Better;
pub use bounds::{AtLeastOne, NonEmpty, Range, Texts};
pub use cell::Cell;
pub use change::{Change, Happening};
pub use claim::{Claim, Compare, Operand};
pub use conche_netsim::units;
pub use document::Document;
pub use effort::Effort;
use error::ensure;
pub use error::{ScenarioError, Span as ErrorSpan};
pub use files::{FileError, Files, Rows};
pub use metric::{Classes, Metric, Windows};
pub use metric_error::{MOST_WINDOWS, MetricError};
pub use network::{Draw, Ends, Link, Nodes, Placement, Selected, Spread};
pub use part::Part;
pub use phase::Phase;
pub use plot::{Kind, Plot, Style};
pub use radio::{Measured, Radio, Routing};
pub use received::{Handshake, Observed, Received, Transferred};
pub use results::{Bar, Features, Fitted, Head, Item, Reason, Table, filled, matches, matches_any, parsed};
pub use scheme::{ControllerName, Paths, Scheme, select};
pub use security::{Handshakes, Security};
pub use statistic::Statistic;
pub use sweep::{Axis, Label, Point};
pub use traffic::{Count, Method, Nstart, Observe, Outstanding, Pace, Pairs, STATE_BYTES, Sender, Traffic};
pub use transfer::{Tcp, Transfer};
pub use unit::Unit;
pub use value::{By, Pick, Value};

use crate::units::{Size, Span};

/// Version of the file format.
pub const SCHEMA: u32 = 1;

/// Maximum number of nodes of a group: more would exceed memory.
const MOST_NODES: u64 = 10_000_000;

/// An experiment, or one cell of it with its swept values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of the file format; [`SCHEMA`].
    pub schema: u32,
    /// A short name, used in results.
    pub name: String,
    /// The title, on one line.
    pub title: String,
    /// Replications of each cell, with different random numbers.
    pub replications: AtLeastOne,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Duration of a run, in virtual time. Alternatively:
    pub duration: Option<Span>,
    /// Maximum duration of a run that ends when all flows are complete. A run beyond it is an
    /// error.
    pub time_limit: Option<Span>,
    /// Runs each flow of a replication alone, one after the other, with different random numbers.
    #[serde(default)]
    pub one_by_one: bool,
    /// Parameters of every CoAP endpoint. Default: RFC 7252's.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// The nodes.
    #[serde(default)]
    pub nodes: Vec<Nodes>,
    /// Wired links.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Radio channels.
    #[serde(default)]
    pub radios: Vec<Radio>,
    /// The traffic.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// Changes to the network during a run.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// Phases of a run with values of their own. Default: values of the whole run only.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Congestion control schemes. All endpoints of a run use the same one.
    pub schemes: NonEmpty<Scheme>,
    /// Names of the only schemes to run, whatever the effort selects. Default: all that it selects.
    #[serde(default)]
    pub only_schemes: Vec<String>,
    /// Mixes: runs in which clients of several schemes share the network.
    #[serde(default)]
    pub mixes: Vec<Mix>,
    /// The axes of the sweep.
    #[serde(default)]
    pub sweep: Vec<Axis>,
    /// Parts of the experiment, each with its own network, traffic or values. Default: none.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Overrides for a first impression.
    #[serde(default)]
    pub quick: Quick,
    /// Row names: a template of the axes. Default: all axes, as `{scheme}/{one}/{another}`.
    pub row: Option<String>,
    /// The measured values. Default: those that any traffic has.
    #[serde(default = "value::standard")]
    pub values: Vec<Value>,
    /// The tables and figures of the paper that values belong to. Other values belong to the item
    /// `grid`.
    #[serde(default)]
    pub items: Vec<Item>,
    /// Static properties of the schemes: bytes of state per peer, and a table. Default: not shown.
    pub features: Option<Features>,
    /// Tables of text. Default: one of all values.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Plots of a report. Default: one per item and column.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Plot>,
    /// Claims about the results.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// The order of claims: names in `each`, by whose labels they are sorted, the first name first.
    /// Labels are sorted by first occurrence; claims without the label come last. Default: the
    /// listed order.
    #[serde(default)]
    pub claim_order: Vec<String>,
    /// A CSV file of published values: row, column, value.
    pub published: Option<String>,
    /// Published values that the network was fitted on. Default: none.
    #[serde(default)]
    pub fitted: Vec<Fitted>,
    /// Bars: maximum deviations from published values.
    #[serde(default)]
    pub bars: Vec<Bar>,
    /// Reasons for known deviations.
    #[serde(default)]
    pub reasons: Vec<Reason>,
}

/// Parameters of every CoAP endpoint, with RFC 7252's names. The initial RTO is a parameter of
/// schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// MAX_RETRANSMIT.
    pub max_retransmit: u8,
    /// NSTART.
    pub nstart: u16,
    /// Maximum timeout, for all schemes.
    pub timeout_cap: Span,
    /// Token length of requests in bytes, 0 to 8.
    pub token_length: u8,
    /// Maximum queued requests of an endpoint, over all peers. Default: 65 536.
    pub queue: Option<AtLeastOne>,
    /// Bytes of network and transport headers around a CoAP message, which count towards rates and
    /// goodput, for controllers and in metrics. Default: 28 B for IP and UDP.
    pub datagram_overhead: Option<Size>,
    /// Protection of messages. Default: none.
    #[serde(default)]
    pub security: Security,
    /// Parameters of handshakes.
    #[serde(default)]
    pub handshakes: Handshakes,
}

/// Clients of several schemes in equal shares: client i uses scheme i modulo their number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Its name in results.
    pub name: String,
    /// Names of the schemes.
    pub schemes: Vec<String>,
}

/// Overrides for a first impression.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    /// Maximum replications of each cell. Default: 3.
    pub replications: AtLeastOne,
    /// Values by path.
    pub set: std::collections::BTreeMap<String, toml::Value>,
}

impl Default for Quick {
    fn default() -> Self {
        Self { replications: AtLeastOne::new(3).expect("not 0"), set: std::collections::BTreeMap::new() }
    }
}

impl Scenario {
    /// Returns the scheme with this name.
    #[must_use]
    pub fn scheme(&self, name: &str) -> Option<&Scheme> {
        self.schemes.iter().find(|scheme| scheme.name == name)
    }

    /// Returns NSTART under a scheme.
    #[must_use]
    pub fn nstart(&self, scheme: &str) -> u16 {
        self.scheme(scheme).and_then(|scheme| scheme.nstart).unwrap_or(self.endpoint.nstart)
    }

    /// Returns the maximum number of nodes of a reference such as `client` or `client[0..10]`.
    pub fn most_nodes(&self, reference: &str) -> u32 {
        let group = reference.split('[').next().unwrap_or_default();
        self.nodes.iter().find(|nodes| nodes.name == group).map_or(0, Nodes::size)
    }

    /// Returns the template of row names.
    pub fn row_template(&self) -> std::borrow::Cow<'_, str> {
        if let Some(row) = &self.row {
            return row.into();
        }
        let axes = self.sweep.iter().map(|axis| axis.name.as_str()).filter(|axis| *axis != sweep::SCHEME);
        let named: Vec<_> = axes.map(|axis| format!("/{{{axis}}}")).collect();
        format!("{{scheme}}{}", named.concat()).into()
    }

    /// Checks everything that no single field can check, except the number of clients per mix,
    /// which is unknown here.
    fn validate(&self) -> Result<(), ScenarioError> {
        let of_schema = format_args!("this conche reads scenarios of schema {SCHEMA}, not {}", self.schema);
        ensure(self.schema == SCHEMA, "schema", of_schema)?;
        distinct("nodes", self.nodes.iter().map(|nodes| &nodes.name))?;
        distinct("links", self.links.iter().map(|link| &link.name))?;
        // Rows do not contain names of radios.
        different("radios", self.radios.iter().map(|radio| &radio.name), &['.'], "a dot")?;
        distinct("traffic", self.traffic.iter().map(|traffic| &traffic.name))?;
        distinct("schemes", self.schemes.iter().map(|scheme| &scheme.name))?;
        distinct("mixes", self.mixes.iter().map(|mix| &mix.name))?;
        distinct("sweep", self.sweep.iter().map(|axis| &axis.name))?;
        ensure(!self.nodes.is_empty(), "nodes", "there is none; write it as [[nodes]]")?;
        ensure(!self.traffic.is_empty(), "traffic", "there is none; write it as [[traffic]]")?;
        let ends = "say either how long a run is, or the `time_limit` of one that ends by itself";
        ensure(self.duration.is_some() != self.time_limit.is_some(), "duration", ends)?;
        self.endpoint.validate()?;
        self.nodes.iter().try_for_each(Nodes::validate)?;
        let nodes: u64 = self.nodes.iter().map(|nodes| u64::from(nodes.size())).sum();
        let many = format_args!("{nodes} nodes are more than the {MOST_NODES} that a run can have");
        ensure(nodes <= MOST_NODES, "nodes", many)?;
        self.links.iter().try_for_each(Link::validate)?;
        self.radios.iter().try_for_each(Radio::validate)?;
        self.traffic.iter().try_for_each(|traffic| traffic.validate(self.endpoint.token_length, &self.phases))?;
        let observes = self.traffic.iter().any(|traffic| traffic.observe.is_some());
        let endless =
            "what is observed changes without end; say how long a run is by its `duration`, and not `one_by_one`";
        ensure(!observes || (self.duration.is_some() && !self.one_by_one), "traffic", endless)?;
        self.endpoint.security.validate(&self.traffic)?;
        self.radios.iter().try_for_each(|radio| radio.carries(&self.traffic, &self.endpoint))?;
        Phase::validate(&self.phases, self.duration)?;
        self.schemes.iter().try_for_each(|scheme| scheme.build().map(drop))?;
        self.mixes.iter().try_for_each(|mix| self.validate_mix(mix))?;
        self.sweep.iter().try_for_each(Axis::validate)?;
        let is_timed = !self.phases.is_empty() || self.values.iter().any(|value| value.metric.windows().is_some());
        let one_run = "phases and windows are of one run, and here each flow has its own; leave them out";
        ensure(!(self.one_by_one && is_timed), "one_by_one", one_run)?;
        self.claims.iter().try_for_each(Claim::validate)?;
        let axes: Vec<&str> = self.sweep.iter().map(|axis| axis.name.as_str()).chain(["scheme", "mix"]).collect();
        let traffic: Vec<&str> = self.traffic.iter().map(|traffic| traffic.name.as_str()).collect();
        let longest = self.duration.or(self.time_limit).unwrap_or(Span(std::time::Duration::ZERO));
        self.values.iter().try_for_each(|value| value.validate(&axes, &traffic, longest))?;
        self.watched_links().try_for_each(|(name, _)| self.validate_watched(name))
    }

    /// Returns the links whose queues are observed with the observed waiting time, once for all
    /// values that share both.
    pub fn watched_links(&self) -> impl Iterator<Item = (&str, Span)> {
        let watched = self.values.iter().filter_map(|value| match value.metric.measured() {
            Metric::StandingQueue { link, above } => Some((link.as_str(), *above)),
            _ => None,
        });
        watched.collect::<std::collections::BTreeSet<_>>().into_iter()
    }

    /// Checks that an observed link can compute the waiting time of frames.
    fn validate_watched(&self, name: &str) -> Result<(), ScenarioError> {
        let refuse = |problem: &str| Err(ScenarioError::new("values.standing-queue", problem));
        let Some(link) = self.links.iter().find(|link| link.name == name) else {
            let known: Vec<_> = self.links.iter().map(|link| link.name.as_str()).collect();
            return refuse(&format!("there is no link `{name}`; the links are {}", known.join(", ")));
        };
        let changes = |change: &Change| match &change.event {
            Happening::Link { name: changed, .. } | Happening::Fail { link: changed, .. } => changed == name,
            Happening::CutOff { .. } | Happening::Reboot { .. } => false,
        };
        match link.wire.rate {
            None => refuse(&format!("the link `{name}` has no rate, and nothing ever waits for it")),
            Some(_) if link.wire.aqm.is_some() || self.changes.iter().any(changes) => refuse(&format!(
                "the link `{name}` changes or manages its queue, so that nobody knows how long a frame will wait"
            )),
            Some(_) => Ok(()),
        }
    }

    fn validate_mix(&self, mix: &Mix) -> Result<(), ScenarioError> {
        let place = format!("mixes.{}.schemes", mix.name);
        ensure(mix.schemes.len() >= 2, &place, "a mix needs at least two schemes")?;
        distinct(&place, mix.schemes.iter())?;
        self.known_schemes(&place, &mix.schemes)
    }

    /// Checks that schemes with these names exist.
    fn known_schemes(&self, place: &str, names: &[String]) -> Result<(), ScenarioError> {
        let Some(unknown) = names.iter().find(|name| self.scheme(name).is_none()) else { return Ok(()) };
        let known: Vec<_> = self.schemes.iter().map(|scheme| scheme.name.as_str()).collect();
        let problem = format_args!("there is no scheme `{unknown}`; the schemes are {}", known.join(", "));
        Err(ScenarioError::new(place, problem))
    }
}

impl Default for Endpoint {
    /// RFC 7252 §4.8; tokens of 4 bytes.
    fn default() -> Self {
        let timeout_cap = Span(std::time::Duration::from_secs(60));
        Self {
            max_retransmit: 4,
            nstart: 1,
            timeout_cap,
            token_length: 4,
            queue: None,
            datagram_overhead: None,
            security: Security::default(),
            handshakes: Handshakes::default(),
        }
    }
}

impl Endpoint {
    /// Returns the bytes of headers around a CoAP message.
    pub fn overhead(&self) -> u32 {
        const IP_AND_UDP: u32 = 28;
        self.datagram_overhead.map_or(IP_AND_UDP, |size| u32::try_from(size.0).unwrap_or(u32::MAX))
    }

    fn validate(&self) -> Result<(), ScenarioError> {
        ensure(self.nstart > 0, "endpoint.nstart", "0 exchanges at a time; RFC 7252 has 1")?;
        let long = format_args!("{} bytes; a token has at most 8 (RFC 7252 §3)", self.token_length);
        ensure(self.token_length <= 8, "endpoint.token_length", long)?;
        let headers = self.datagram_overhead.is_none_or(|size| u32::try_from(size.0).is_ok());
        ensure(headers, "endpoint.datagram_overhead", "no headers are as long; those of IP and UDP have 28B")?;
        self.handshakes.validate()?;
        let pause = "a timeout of 0 repeats messages without a pause; write it as in \"60s\"";
        ensure(!self.timeout_cap.0.is_zero(), "endpoint.timeout_cap", pause)
    }
}

/// Returns the templates of the rows of these sections.
pub fn templates(sections: &[Scenario]) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    sections.iter().flat_map(|section| {
        let own = section.values.iter().filter_map(|value| value.row.as_deref().map(std::borrow::Cow::from));
        std::iter::once(section.row_template()).chain(own)
    })
}

/// Checks that names are unique, and unambiguous in rows and paths.
fn distinct<'a>(place: &str, names: impl Iterator<Item = &'a String>) -> Result<(), ScenarioError> {
    different(place, names, &['/', '@', ' ', '\t', '\n'], "/, @ or white space")
}

/// Checks the same for names that occur only in rows, which may have several parts, as in
/// `static/60`.
fn labels<'a>(place: &str, names: impl Iterator<Item = &'a String>) -> Result<(), ScenarioError> {
    different(place, names, &['@', ' ', '\t', '\n'], "@ or white space")
}

fn different<'a>(
    place: &str,
    names: impl Iterator<Item = &'a String>,
    refused: &[char],
    listed: &str,
) -> Result<(), ScenarioError> {
    let mut seen = Vec::new();
    for name in names {
        let is_name = !name.is_empty() && !name.contains(refused);
        ensure(is_name, place, format_args!("`{name}` is no name: it must not be empty nor contain {listed}"))?;
        ensure(!seen.contains(&name), place, format_args!("the name `{name}` is there twice"))?;
        seen.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
