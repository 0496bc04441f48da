//! The network that a scenario composes: groups of nodes, links, radios.

use std::ops::Range;

use conche_netsim::mac::MacConfig;
use conche_netsim::radio::MediumConfig;
use conche_netsim::routing::RplConfig;
use conche_netsim::wired::LinkConfig;
use serde::Deserialize;

use super::{AtLeastOne, NonEmpty, ScenarioError};

/// A node or, with a `count`, several alike: a group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// What links, radios and traffic call it.
    pub name: String,
    /// How many there are. Without, it is one node.
    pub count: Option<AtLeastOne>,
    /// Where they are, for radios.
    pub place: Option<Placement>,
}

/// Where the nodes of a group are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Placement {
    /// Each at its own x and y in metres: `{ at = [[0, 0], [10, 5]] }`.
    At(Vec<(f64, f64)>),
    /// In a line along x.
    Line {
        /// From one to the next.
        spacing_m: f64,
        /// Where the first one is. Default: 0, 0.
        #[serde(default)]
        from: (f64, f64),
    },
    /// Row by row.
    Grid {
        /// Nodes in a row.
        columns: AtLeastOne,
        /// From one to the next, either way.
        spacing_m: f64,
    },
    /// On circles around 0, 0, the inmost first.
    Circles {
        /// Nodes on each.
        counts: NonEmpty<u32>,
        /// From one circle to the next.
        spacing_m: f64,
    },
    /// Anywhere in a rectangle, drawn anew for each replication.
    Field {
        /// Along x.
        width_m: f64,
        /// Along y.
        height_m: f64,
    },
}

/// A link between two nodes. With a group at one end each of its nodes has a link of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// What results and changes call it.
    pub name: String,
    /// Where frames enter it, for one direction; with `to`.
    pub from: Option<String>,
    /// Where they leave it.
    pub to: Option<String>,
    /// Its two ends, for one link each way.
    pub between: Option<(String, String)>,
    /// What happens to a frame; without, nothing, in no time.
    #[serde(default)]
    pub wire: LinkConfig,
    /// How the rate differs from replication to replication; without, not at all.
    pub spread: Option<Spread>,
}

/// The rates of replications are lognormally distributed around the link's.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Standard deviation of the rate's natural logarithm.
    pub sigma: f64,
    /// How the replications of a cell share the distribution.
    pub draw: Draw,
}

/// How the replications of a cell share a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Each draws from all of it.
    Independent,
    /// Of n replications each takes the middle of another one of n equally probable parts, so that few runs cover it
    /// evenly.
    Stratified,
}

/// Nodes that share a radio channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Radio {
    /// What results call it.
    pub name: String,
    /// The nodes and groups that have a station in it. They need a place.
    pub stations: NonEmpty<String>,
    /// Who hears whom.
    pub medium: MediumConfig,
    /// When stations transmit.
    pub mac: MacConfig,
    /// Over which stations packets go.
    pub routing: Routing,
}

/// How packets find their way through a radio network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Routing {
    /// The tree of RPL, once it has settled.
    Rpl {
        /// The border router.
        root: String,
        /// How parents are chosen.
        #[serde(default)]
        tree: RplConfig,
        /// The frame whose loss counts.
        psdu_octets: u8,
    },
}

/// The ends of a link.
pub(crate) struct Ends<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) both_ways: bool,
}

impl Link {
    /// Where it begins and ends.
    ///
    /// # Errors
    /// If it has no ends, or too many.
    pub(crate) fn ends(&self) -> Result<Ends<'_>, ScenarioError> {
        match (&self.from, &self.to, &self.between) {
            (Some(from), Some(to), None) => Ok(Ends { from, to, both_ways: false }),
            (None, None, Some((from, to))) => Ok(Ends { from, to, both_ways: true }),
            _ => {
                let problem = "write its ends as `from` and `to`, or for both directions as `between = [\"a\", \"b\"]`";
                Err(ScenarioError::new(format!("links.{}", self.name), problem.to_owned()))
            }
        }
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        self.ends()?;
        match self.spread {
            Some(Spread { sigma, .. }) if !(0.0..=3.0).contains(&sigma) => {
                let problem = format!("{sigma} is not between 0 and 3; it is that of the natural logarithm");
                Err(ScenarioError::new(format!("links.{}.spread.sigma", self.name), problem))
            }
            Some(_) if self.wire.rate.is_none() => {
                let problem = "the link has no rate that could differ; give it one in `wire`".to_owned();
                Err(ScenarioError::new(format!("links.{}.spread", self.name), problem))
            }
            _ => Ok(()),
        }
    }
}

impl Nodes {
    /// How many nodes it is.
    #[must_use]
    pub fn size(&self) -> u32 {
        match (&self.place, self.count) {
            (Some(Placement::Circles { counts, .. }), None) => counts.iter().sum(),
            (Some(Placement::At(places)), None) => u32::try_from(places.len()).unwrap_or(u32::MAX),
            (_, count) => count.map_or(1, AtLeastOne::get),
        }
    }

    /// Whether its nodes have numbers behind their names.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.count.is_some() || self.size() > 1
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let places = match &self.place {
            Some(Placement::At(places)) => places.len() as u64,
            Some(Placement::Circles { counts, .. }) => counts.iter().map(|count| u64::from(*count)).sum(),
            _ => return Ok(()),
        };
        match self.count {
            Some(count) if u64::from(count.get()) != places => {
                let problem = format!("{places} places for {count} nodes; leave `count` out, or give each a place");
                Err(ScenarioError::new(format!("nodes.{}.place", self.name), problem))
            }
            _ if places == 0 => {
                Err(ScenarioError::new(format!("nodes.{}.place", self.name), "it has no place at all".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// A reference to a group, or to a part of it: `mote`, `mote[3]`, `mote[1..4]`.
pub(crate) struct Selected<'a> {
    pub(crate) group: &'a str,
    pub(crate) members: Option<Range<u32>>,
}

impl<'a> Selected<'a> {
    /// Reads a reference; `None` if it is malformed.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let Some((group, rest)) = text.split_once('[') else { return Some(Self { group: text, members: None }) };
        let inner = rest.strip_suffix(']')?;
        let members = match inner.split_once("..") {
            Some((from, to)) => from.parse().ok()?..to.parse().ok()?,
            None => {
                let one: u32 = inner.parse().ok()?;
                one..one.checked_add(1)?
            }
        };
        Some(Self { group, members: Some(members) })
    }
}
