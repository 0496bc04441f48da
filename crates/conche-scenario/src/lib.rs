//! Experiments on CoAP congestion control as data: a scenario names every parameter, and a TOML file holds it.
//!
//! The scenarios of the papers are files like any user's; nothing of them is a literal in code. Unknown keys, numbers
//! without a unit and values that make no sense are refused when the file is read.
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

/// The version of the file format.
pub const SCHEMA: u32 = 1;

/// More would not fit into any memory.
const MOST_NODES: u64 = 10_000_000;

/// An experiment, or one cell of it: there everything that is varied has its value.
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
    /// How long a run is, in virtual time. Or:
    pub duration: Option<Span>,
    /// A run ends when all its flows have had their exchanges; one that takes longer than this is an error.
    pub time_limit: Option<Span>,
    /// Whether each flow is run by itself, one after the other with other random numbers; a replication is all of them.
    #[serde(default)]
    pub one_by_one: bool,
    /// Parameters of every CoAP endpoint. Default: RFC 7252's.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// The nodes.
    #[serde(default)]
    pub nodes: Vec<Nodes>,
    /// What joins them by wire.
    #[serde(default)]
    pub links: Vec<Link>,
    /// What joins them by radio.
    #[serde(default)]
    pub radios: Vec<Radio>,
    /// Who asks whom.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// What happens to the network during a run.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// Stretches of a run that are measured by themselves as well. Default: only the whole is measured.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Congestion control: each is run by itself, by all endpoints.
    pub schemes: NonEmpty<Scheme>,
    /// The names of those that are run, whichever an effort asks for. Default: all, or what it asks for.
    #[serde(default)]
    pub only_schemes: Vec<String>,
    /// Runs in which clients of several schemes share the network.
    #[serde(default)]
    pub mixes: Vec<Mix>,
    /// What is varied.
    #[serde(default)]
    pub sweep: Vec<Axis>,
    /// Parts of the experiment, each with a network, traffic or measurements of its own. Default: it is one.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// What a first impression has instead.
    #[serde(default)]
    pub quick: Quick,
    /// The name of a row: a template of the axes. Default: all of them, as `{scheme}/{one}/{another}`.
    pub row: Option<String>,
    /// What is measured. Default: what any traffic has.
    #[serde(default = "value::standard")]
    pub values: Vec<Value>,
    /// The tables and figures that values belong to. What is in none is in the item `grid`.
    #[serde(default)]
    pub items: Vec<Item>,
    /// What distinguishes the schemes before any run: the bytes of state for each peer, and a table. Default: not shown.
    pub features: Option<Features>,
    /// Tables of text. Default: one of everything.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Figures of a report. Default: one of each item and column.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Plot>,
    /// What is said of the results in words.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Names in `each` of claims, by whose labels claims are put in order: by the first one, then by the second, and so on.
    /// Labels are in the order in which they are first listed; what has no such label comes last. Default: as claims are listed.
    #[serde(default)]
    pub claim_order: Vec<String>,
    /// A CSV file of published values: row, column, value.
    pub published: Option<String>,
    /// Which of these the network was fitted on. Default: none.
    #[serde(default)]
    pub fitted: Vec<Fitted>,
    /// How near values must be to the published ones.
    #[serde(default)]
    pub bars: Vec<Bar>,
    /// Why some are not.
    #[serde(default)]
    pub reasons: Vec<Reason>,
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
    /// How many requests of an endpoint may wait to leave, over all peers. Default: 65 536.
    pub queue: Option<AtLeastOne>,
    /// Bytes of the headers of network and transport around a CoAP message, which count towards rates and goodput: for
    /// controllers, and in metrics. Default: 28 B of IP and UDP.
    pub datagram_overhead: Option<Size>,
    /// What protects messages on their way. Default: nothing.
    #[serde(default)]
    pub security: Security,
    /// How sessions come to be, if there are any.
    #[serde(default)]
    pub handshakes: Handshakes,
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

/// What a first impression has instead of the whole.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    /// How often each cell is repeated, at most. Default: 3 times.
    pub replications: AtLeastOne,
    /// What values are set to, by their paths.
    pub set: std::collections::BTreeMap<String, toml::Value>,
}

impl Default for Quick {
    fn default() -> Self {
        Self { replications: AtLeastOne::new(3).expect("not 0"), set: std::collections::BTreeMap::new() }
    }
}

impl Scenario {
    /// The scheme of this name.
    #[must_use]
    pub fn scheme(&self, name: &str) -> Option<&Scheme> {
        self.schemes.iter().find(|scheme| scheme.name == name)
    }

    /// NSTART under a scheme.
    #[must_use]
    pub fn nstart(&self, scheme: &str) -> u16 {
        self.scheme(scheme).and_then(|scheme| scheme.nstart).unwrap_or(self.endpoint.nstart)
    }

    /// How many nodes a reference such as `client` or `client[0..10]` is of, at most.
    pub fn most_nodes(&self, reference: &str) -> u32 {
        let group = reference.split('[').next().unwrap_or_default();
        self.nodes.iter().find(|nodes| nodes.name == group).map_or(0, Nodes::size)
    }

    /// What rows are called, as a template of the axes.
    pub fn row_template(&self) -> std::borrow::Cow<'_, str> {
        if let Some(row) = &self.row {
            return row.into();
        }
        let axes = self.sweep.iter().map(|axis| axis.name.as_str()).filter(|axis| *axis != sweep::SCHEME);
        let named: Vec<_> = axes.map(|axis| format!("/{{{axis}}}")).collect();
        format!("{{scheme}}{}", named.concat()).into()
    }

    /// The number of flows' clients that mixes deal schemes to is not known here; all else that one field alone cannot tell
    /// is checked.
    fn validate(&self) -> Result<(), ScenarioError> {
        let of_schema = format_args!("this conche reads scenarios of schema {SCHEMA}, not {}", self.schema);
        ensure(self.schema == SCHEMA, "schema", of_schema)?;
        distinct("nodes", self.nodes.iter().map(|nodes| &nodes.name))?;
        distinct("links", self.links.iter().map(|link| &link.name))?;
        // No row has a radio's name.
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

    /// The links whose queues are watched, each with the waiting time that is watched for, once for all values that are of it.
    pub fn watched_links(&self) -> impl Iterator<Item = (&str, Span)> {
        let watched = self.values.iter().filter_map(|value| match value.metric.measured() {
            Metric::StandingQueue { link, above } => Some((link.as_str(), *above)),
            _ => None,
        });
        watched.collect::<std::collections::BTreeSet<_>>().into_iter()
    }

    /// Refuses to watch a link that does not know how long a frame will wait.
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

    /// Refuses names that no scheme has.
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
    /// Bytes of the headers around a CoAP message.
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

/// What rows of these sections may look like.
pub fn templates(sections: &[Scenario]) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    sections.iter().flat_map(|section| {
        let own = section.values.iter().filter_map(|value| value.row.as_deref().map(std::borrow::Cow::from));
        std::iter::once(section.row_template()).chain(own)
    })
}

/// Refuses names that are there twice, or that rows and paths could not be told apart by.
fn distinct<'a>(place: &str, names: impl Iterator<Item = &'a String>) -> Result<(), ScenarioError> {
    different(place, names, &['/', '@', ' ', '\t', '\n'], "/, @ or white space")
}

/// The same for what rows alone are made of: such a name may have several parts, as in `static/60`.
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
