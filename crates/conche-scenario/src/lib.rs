//! Experiments on CoAP congestion control as data: TOML files that contain every parameter.
//!
//! Unknown keys, numbers without a unit and invalid values are errors.
//!
//! ```text
//!     nodes + links + nats + radios   the network
//!     traffic                     clients, servers, times and sizes of requests
//!     schemes, mixes              congestion control of the clients
//!     changes                     changes to the network during a run
//!     sweep                       varied values: each combination is a cell
//!     values -> items, tables, figure, claims    measurements of each cell, and their presentation
//! ```

mod bounds;
mod change;
mod claim;
mod document;
mod effort;
mod endpoint;
mod error;
mod files;
mod items;
mod metric;
mod network;
mod path;
mod plot;
mod scheme;
mod statistic;
mod sweep;
mod traffic;
mod value;
mod wording;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range as StdRange;
use std::time::Duration;

use serde::Deserialize;

pub use bounds::{AtLeastOne, MAX_REPLICATIONS, NonEmpty, Range, Texts};
pub use change::{Change, ChangeEvent, Phase};
pub use claim::{Claim, Compare, Operand};
pub use conche_netsim::units;
pub use conche_proto::cc::any::Controllers;
pub use document::{Document, Part};
pub use effort::Effort;
pub use endpoint::{Endpoint, Envelope, Handshakes, Security};
use error::ensure;
pub use error::{ErrorSpan, ScenarioError};
pub use files::{FileError, Files, Rows};
pub use items::{Bar, Features, Fitted, Head, Item, Reason, Table, filled, matches, matches_any, parsed};
pub use metric::{
    Better, Classes, Handshake, MOST_WINDOWS, Metric, MetricError, Numbers, Observed, Period, Properties, Received,
    Transferred, Unit, Windows,
};
pub use network::{Draw, Ends, Link, Measured, Nat, Nodes, Placement, Radio, Routing, Selected, Spread, Trace};
pub use plot::{Kind, Plot, Style};
pub use scheme::{ControllerName, Paths, Scheme, select};
pub use statistic::Statistic;
pub use sweep::{Axis, Cell, Label, Point};
pub use traffic::{
    Block, Count, Method, Nstart, Observe, Outstanding, Pace, Pairs, STATE_BYTES, Sender, Tcp, Traffic, Transfer,
};
pub use value::{By, Pick, Value};

use crate::units::Span;

/// Version of the file format.
pub const SCHEMA: u32 = 1;

const MOST_NODES: u64 = 10_000_000;

/// An experiment, or one cell of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of the file format; [`SCHEMA`].
    pub schema: u32,
    /// Short name, used in results.
    pub name: String,
    /// One-line title.
    pub title: String,
    /// Whether controllers may be developed on it; `None` without a rule.
    pub purpose: Option<Purpose>,
    /// Replications of each cell, with different random numbers.
    pub replications: AtLeastOne,
    /// Seed.
    pub seed: u64,
    /// Duration of a run in virtual time; or `time_limit`.
    pub duration: Option<Span>,
    /// Maximum duration of a run that ends with its flows; exceeding it is an error.
    pub time_limit: Option<Span>,
    /// Runs the flows alone, one after the other, with different random numbers.
    #[serde(default)]
    pub one_by_one: bool,
    /// Parameters of every CoAP endpoint.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// Nodes.
    #[serde(default)]
    pub nodes: Vec<Nodes>,
    /// Wired links.
    #[serde(default)]
    pub links: Vec<Link>,
    /// NATs between nodes.
    #[serde(default)]
    pub nats: Vec<Nat>,
    /// Radio channels.
    #[serde(default)]
    pub radios: Vec<Radio>,
    /// Traffic.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// Changes to the network during a run.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// Phases with values of their own.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Controllers that schemes and traffic name.
    #[serde(skip)]
    pub controllers: Controllers,
    /// Congestion control schemes.
    pub schemes: NonEmpty<Scheme>,
    /// The only schemes to run, whatever the effort.
    #[serde(default)]
    pub only_schemes: Vec<String>,
    /// Runs in which clients of several schemes share the network.
    #[serde(default)]
    pub mixes: Vec<Mix>,
    /// Axes of the sweep.
    #[serde(default)]
    pub sweep: Vec<Axis>,
    /// Parts with their own network, traffic or values.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Overrides for a first impression.
    #[serde(default)]
    pub quick: Quick,
    /// Template of row names. Default: all axes, `{scheme}/{one}/{another}`.
    pub row: Option<String>,
    /// Measured values. Default: those that any traffic has.
    #[serde(default = "value::standard")]
    pub values: Vec<Value>,
    /// Tables and figures of the paper. Values without one belong to `grid`.
    #[serde(default)]
    pub items: Vec<Item>,
    /// Shows static properties of the schemes.
    pub features: Option<Features>,
    /// Tables of text. Default: one of all values.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Plots of a report. Default: one per item and column.
    #[serde(default, rename = "figure")]
    pub plots: Vec<Plot>,
    /// Claims about the results.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Names in `each` whose labels sort claims, by first occurrence.
    #[serde(default)]
    pub claim_order: Vec<String>,
    /// CSV file of published values: row, column, value.
    pub published: Option<String>,
    /// Published values that the network was fitted on.
    #[serde(default)]
    pub fitted: Vec<Fitted>,
    /// Bars: maximum deviations from published values.
    #[serde(default)]
    pub bars: Vec<Bar>,
    /// Reasons for known deviations.
    #[serde(default)]
    pub reasons: Vec<Reason>,
}

/// Use of a network in the development of controllers. A ranking never mixes the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Controllers may be developed on it: parameters chosen, variants selected.
    Design,
    /// No choice may depend on its results.
    Judgement,
}

impl Purpose {
    /// Returns its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Design => "design",
            Self::Judgement => "judgement",
        }
    }
}

/// Clients of several schemes in equal shares: client i uses scheme i modulo their number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Name in results.
    pub name: String,
    /// Names of its schemes.
    pub schemes: Vec<String>,
}

/// Overrides for a first impression.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quick {
    /// Maximum replications of each cell. Default: 3.
    pub replications: AtLeastOne,
    /// Values by path.
    pub set: BTreeMap<String, toml::Value>,
}

impl Default for Quick {
    fn default() -> Self {
        Self { replications: AtLeastOne::new(3).expect("not 0"), set: BTreeMap::new() }
    }
}

fn group_of(reference: &str) -> &str {
    reference.split('[').next().unwrap_or_default()
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

    /// Returns the maximum number of nodes of a reference such as `client[0..10]`.
    pub fn most_nodes(&self, reference: &str) -> u32 {
        self.nodes.iter().find(|nodes| nodes.name == group_of(reference)).map_or(0, Nodes::size)
    }

    /// Returns the names of the nodes of a reference such as `client[0..10]`.
    ///
    /// # Errors
    /// If a node does not exist; the error names `place`.
    pub fn selected(&self, place: impl fmt::Display, reference: &str) -> Result<BTreeSet<String>, ScenarioError> {
        let Selected { group, members } = self.parse_nodes(place, reference)?;
        let names = self.nodes.iter().filter(|nodes| nodes.name == group).flat_map(Nodes::names);
        let is_member = |index: u32| members.as_ref().is_none_or(|all| all.iter().any(|range| range.contains(&index)));
        Ok((0..).zip(names).filter(|(index, _)| is_member(*index)).map(|(_, name)| name).collect())
    }

    fn validate_nodes(&self, place: impl fmt::Display, reference: &str) -> Result<(), ScenarioError> {
        self.parse_nodes(place, reference).map(drop)
    }

    /// Parses a reference to nodes that exist.
    fn parse_nodes<'a>(&self, place: impl fmt::Display, reference: &'a str) -> Result<Selected<'a>, ScenarioError> {
        let Some(selected) = Selected::parse(reference) else {
            let problem = format_args!(
                "`{reference}` is no name of nodes; write it as in mote, mote[3], mote[1..4] or mote[0..6,7..30]"
            );
            return Err(ScenarioError::new(place, problem));
        };
        let group = selected.group;
        let Some(nodes) = self.nodes.iter().find(|nodes| nodes.name == group) else {
            let known: Vec<&str> = self.nodes.iter().map(|nodes| nodes.name.as_str()).collect();
            let problem = format_args!("there are no nodes `{group}`; there are {}", known.join(", "));
            return Err(ScenarioError::new(place, problem));
        };
        let size = nodes.size();
        let exists = |range: &StdRange<u32>| range.start < range.end && range.end <= size;
        let problem =
            format_args!("`{reference}` exceeds the group; its {size} nodes are {group}[0..{size}], counted from 0");
        ensure(selected.members.iter().flatten().all(exists), place, problem)?;
        Ok(selected)
    }

    fn validate_changes(&self) -> Result<(), ScenarioError> {
        self.changes.iter().enumerate().try_for_each(|(number, change)| {
            let place = |key: &str| format!("changes.{number}.event.{key}");
            match &change.event {
                ChangeEvent::Link { name, wire } => {
                    self.validate_link(&place("link.name"), name)?;
                    wire.check(name).map_err(|problem| ScenarioError::new(place("link.wire"), problem))?;
                    let awaits_now = wire.wakes.is_some_and(|wakes| wakes.awaits_uplinks());
                    let awaited = self.links.iter().any(|link| link.name == *name && link.awaits_uplinks());
                    let problem = "the link does not wait for uplinks at the start; set `after_uplink` there, too";
                    ensure(awaited || !awaits_now, place("link.wire.wakes"), problem)?;
                    let is_traced = self.links.iter().any(|link| link.name == *name && link.trace.is_some());
                    let problem = "the link has a `trace`, which is its rate; leave `rate` out";
                    ensure(!is_traced || wire.rate.is_none(), place("link.wire.rate"), problem)
                }
                ChangeEvent::Fail { link, .. } => self.validate_link(&place("fail.link"), link),
                ChangeEvent::CutOff { nodes, .. } => self.validate_nodes(place("cut-off.nodes"), nodes),
                ChangeEvent::Reboot { nodes } => self.validate_nodes(place("reboot.nodes"), nodes),
                ChangeEvent::Rebind { nodes } => {
                    let place = place("rebind.nodes");
                    let mut outside = self.selected(&place, nodes)?;
                    for nat in &self.nats {
                        let inside = self.selected(&place, &nat.inside)?;
                        outside.retain(|node| !inside.contains(node));
                    }
                    let Some(node) = outside.first() else { return Ok(()) };
                    let problem = format_args!("`{node}` is behind no NAT; write it into `inside` of one of [[nats]]");
                    Err(ScenarioError::new(place, problem))
                }
            }
        })
    }

    fn validate_nats(&self) -> Result<(), ScenarioError> {
        distinct("nats", self.nats.iter().map(|nat| &nat.name))?;
        let mut behind = BTreeSet::new();
        for nat in &self.nats {
            let place = |key: &str| format!("nats.{}.{key}", nat.name);
            let at = self.selected(place("at"), &nat.at)?;
            let inside = self.selected(place("inside"), &nat.inside)?;
            let both = at.intersection(&inside).next().map_or("", String::as_str);
            let problem = format_args!("`{both}` is behind itself; a NAT is a node on the path to others");
            ensure(both.is_empty(), place("at"), problem)?;
            let (at, count) = (at.len(), inside.len());
            let problem = format_args!("{count} nodes have no equal shares at {at}; make it a multiple");
            ensure(count.is_multiple_of(at), place("inside"), problem)?;
            let problem = "no answer arrives within 0s; write a timeout as in \"120s\"";
            ensure(!nat.timeout.0.is_zero(), place("timeout"), problem)?;
            for node in inside {
                let problem = format_args!("`{node}` is behind two NATs; give it one");
                ensure(!behind.contains(&node), place("inside"), problem)?;
                behind.insert(node);
            }
        }
        let is_bulk = |traffic: &&Traffic| matches!(traffic.sender, Sender::Transfer(_) | Sender::Tcp(_));
        for traffic in self.traffic.iter().filter(is_bulk).filter(|_| !behind.is_empty()) {
            for (key, end) in [("from", &traffic.from), ("to", &traffic.to)] {
                let place = format!("traffic.{}.{key}", traffic.name);
                let ends = self.selected(&place, end)?;
                let problem = "a NAT translates UDP only; give bulk transfers nodes behind none";
                ensure(behind.is_disjoint(&ends), place, problem)?;
            }
        }
        Ok(())
    }

    fn validate_link(&self, place: &str, name: &str) -> Result<(), ScenarioError> {
        let known: Vec<_> = self.links.iter().map(|link| link.name.as_str()).collect();
        let problem = match known[..] {
            [] => format!("there is no link `{name}`; radios have none that could change"),
            _ => format!("there is no link `{name}`; the links are {}", known.join(", ")),
        };
        ensure(known.contains(&name), place, problem)
    }

    /// Returns the template of row names.
    pub fn row_template(&self) -> Cow<'_, str> {
        if let Some(row) = &self.row {
            return row.into();
        }
        let axes = self.sweep.iter().map(|axis| axis.name.as_str()).filter(|axis| *axis != sweep::SCHEME);
        let named: Vec<_> = axes.map(|axis| format!("/{{{axis}}}")).collect();
        format!("{{scheme}}{}", named.concat()).into()
    }

    fn validate(&self) -> Result<(), ScenarioError> {
        let of_schema = format_args!("this conche reads scenarios of schema {SCHEMA}, not {}", self.schema);
        ensure(self.schema == SCHEMA, "schema", of_schema)?;
        distinct("nodes", self.nodes.iter().map(|nodes| &nodes.name))?;
        distinct("links", self.links.iter().map(|link| &link.name))?;
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
        self.links.iter().try_for_each(|link| {
            let ends = link.ends()?;
            let keys = if ends.both_ways { ["between.0", "between.1"] } else { ["from", "to"] };
            let ends = keys.into_iter().zip([ends.from, ends.to]);
            ends.into_iter()
                .try_for_each(|(key, end)| self.validate_nodes(format_args!("links.{}.{key}", link.name), end))
        })?;
        self.radios.iter().try_for_each(|radio| {
            let stations = (0..).zip(radio.stations.iter());
            stations.into_iter().try_for_each(|(number, station): (u32, _)| {
                self.validate_nodes(format_args!("radios.{}.stations.{number}", radio.name), station)
            })?;
            let Routing::Rpl { root, .. } = &radio.routing else { return Ok(()) };
            self.validate_nodes(format_args!("radios.{}.routing.rpl.root", radio.name), root)
        })?;
        self.validate_nats()?;
        self.validate_changes()?;
        self.radios.iter().try_for_each(Radio::validate)?;
        self.traffic.iter().try_for_each(|traffic| traffic.validate(self.endpoint.token_length, &self.phases))?;
        self.traffic.iter().try_for_each(|traffic| {
            let ends = [("from", &traffic.from), ("to", &traffic.to)];
            ends.into_iter()
                .try_for_each(|(key, end)| self.validate_nodes(format_args!("traffic.{}.{key}", traffic.name), end))
        })?;
        let observes = self.traffic.iter().any(|traffic| traffic.observe.is_some());
        let endless =
            "what is observed changes without end; say how long a run is by its `duration`, and not `one_by_one`";
        ensure(!observes || (self.duration.is_some() && !self.one_by_one), "traffic", endless)?;
        self.validate_end()?;
        self.traffic.iter().try_for_each(|traffic| traffic.validate_security(self.endpoint.security))?;
        self.radios.iter().try_for_each(|radio| radio.carries(&self.traffic, &self.endpoint))?;
        Phase::validate(&self.phases, self.duration)?;
        self.schemes.iter().try_for_each(|scheme| scheme.build(&self.controllers).map(drop))?;
        self.mixes.iter().try_for_each(|mix| self.validate_mix(mix))?;
        self.sweep.iter().try_for_each(Axis::validate)?;
        let is_timed = !self.phases.is_empty() || self.values.iter().any(|value| value.metric.windows().is_some());
        let one_run = "phases and windows are of one run, and here each flow has its own; leave them out";
        ensure(!(self.one_by_one && is_timed), "one_by_one", one_run)?;
        self.claims.iter().enumerate().try_for_each(|(index, claim)| {
            claim.validate().map_err(|error| error.at_element(&claim.row, "claims", index))
        })?;
        let axes: Vec<&str> = self.sweep.iter().map(|axis| axis.name.as_str()).chain(["scheme", "mix"]).collect();
        let traffic: Vec<&str> = self.traffic.iter().map(|traffic| traffic.name.as_str()).collect();
        let longest = self.duration.or(self.time_limit).unwrap_or(Span(Duration::ZERO));
        self.values.iter().enumerate().try_for_each(|(index, value)| {
            let checked = value.validate(&axes, &traffic, longest).and_then(|()| self.validate_planned(value));
            checked.map_err(|error| error.at_element(&value.column, "values", index))
        })?;
        self.watched_links().try_for_each(|(name, _)| self.validate_watched(name))
    }

    /// Checks that a run without a duration ends: with its transfer, with a share of its exchanges, or
    /// when all traffic has ended.
    fn validate_end(&self) -> Result<(), ScenarioError> {
        let ends_all = |traffic: &Traffic| traffic.ends_run.is_some() || matches!(traffic.sender, Sender::Transfer(_));
        if self.duration.is_some() || self.traffic.iter().any(ends_all) {
            return Ok(());
        }
        let problem = "it never ends, and a run with a `time_limit` ends when all traffic has: give it a number of \
                       `exchanges` or a time to `stop`, or the run a `duration` in place of the `time_limit`";
        self.traffic
            .iter()
            .try_for_each(|traffic| ensure(traffic.ends(), format_args!("traffic.{}", traffic.name), problem))
    }

    /// Returns watched links, and their waiting times.
    pub fn watched_links(&self) -> impl Iterator<Item = (&str, Span)> {
        let watched = self.values.iter().filter_map(|value| match value.metric.measured() {
            Metric::StandingQueue { link, above } => Some((link.as_str(), *above)),
            _ => None,
        });
        watched.collect::<BTreeSet<_>>().into_iter()
    }

    fn validate_planned(&self, value: &Value) -> Result<(), ScenarioError> {
        let metric = match value.metric.measured() {
            Metric::Completed => "completed",
            Metric::Settling { .. } => "settling",
            _ => return Ok(()),
        };
        let counts = |traffic: &&Traffic| value.traffic.as_ref().is_none_or(|name| *name == traffic.name);
        let is_planned = self.traffic.iter().filter(counts).any(Traffic::is_planned);
        let problem = format_args!(
            "`{metric}` is a share of the planned exchanges, and the traffic has no end: set its `exchanges`, or \
             measure `succeeded`, `loss` or `goodput`"
        );
        ensure(is_planned, format_args!("values.{}.metric", value.column), problem)
    }

    fn validate_watched(&self, name: &str) -> Result<(), ScenarioError> {
        let refuse = |problem: &str| Err(ScenarioError::new("values.standing-queue", problem));
        let Some(link) = self.links.iter().find(|link| link.name == name) else {
            let known: Vec<_> = self.links.iter().map(|link| link.name.as_str()).collect();
            return refuse(&format!("there is no link `{name}`; the links are {}", known.join(", ")));
        };
        let changes = |change: &Change| match &change.event {
            ChangeEvent::Link { name: changed, .. } | ChangeEvent::Fail { link: changed, .. } => changed == name,
            ChangeEvent::CutOff { .. } | ChangeEvent::Reboot { .. } | ChangeEvent::Rebind { .. } => false,
        };
        match link.wire.rate {
            None if link.trace.is_some() => {
                refuse(&format!("the rate of `{name}` changes, so that the time of a frame in it is unknown"))
            }
            None => refuse(&format!("the link `{name}` has no rate, and nothing ever waits for it")),
            Some(_) if link.wire.aqm.is_some() || self.changes.iter().any(changes) => refuse(&format!(
                "the link `{name}` changes or manages its queue, so that the time of a frame in it is unknown"
            )),
            Some(_) if link.wire.wakes.is_some() || link.wire.duty_cycle < 1.0 => refuse(&format!(
                "frames wait for `{name}` while it is idle, so that the time of a frame in it is unknown"
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

    fn known_schemes(&self, place: &str, names: &[String]) -> Result<(), ScenarioError> {
        let Some(unknown) = names.iter().find(|name| self.scheme(name).is_none()) else { return Ok(()) };
        let known: Vec<_> = self.schemes.iter().map(|scheme| scheme.name.as_str()).collect();
        let problem = format_args!("there is no scheme `{unknown}`; the schemes are {}", known.join(", "));
        Err(ScenarioError::new(place, problem))
    }
}

/// Returns the row templates of these sections.
pub fn templates(sections: &[Scenario]) -> impl Iterator<Item = Cow<'_, str>> {
    sections.iter().flat_map(|section| {
        let own = section.values.iter().filter_map(|value| value.row.as_deref().map(Cow::from));
        std::iter::once(section.row_template()).chain(own)
    })
}

fn distinct<'a>(place: &str, names: impl Iterator<Item = &'a String>) -> Result<(), ScenarioError> {
    different(place, names, &['/', '@', ' ', '\t', '\n'], "/, @ or white space")
}

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
