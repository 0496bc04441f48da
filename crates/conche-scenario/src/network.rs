//! The network that a scenario composes: groups of nodes, and links.

use std::ops::Range;

use conche_netsim::wired::LinkConfig;
use serde::Deserialize;

use super::{AtLeastOne, NonEmpty, Rows, ScenarioError, ensure};

/// A node or, with a `count`, several alike: a group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// What links, radios and traffic call it.
    pub name: String,
    /// How many there are. Without, it is one node.
    pub count: Option<AtLeastOne>,
    /// How many address prefixes they have, as equal shares in their order: 250 of 100 000 nodes have 400 nodes each. Default: one.
    pub prefixes: Option<AtLeastOne>,
    /// Where they are, for radios.
    pub place: Option<Placement>,
}

/// Where the nodes of a group are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Placement {
    /// Each at its own x and y in metres: `{ at = [[0, 0], [10, 5]] }`.
    At(Rows<(f64, f64)>),
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

/// A link between two nodes. With a group at one end each of its nodes has a link of its own; between two groups each node of
/// the larger one has, and the smaller one's nodes have equal shares of these, in their order.
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

/// The ends of a link.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Where frames enter it.
    pub from: &'a str,
    /// Where they leave it.
    pub to: &'a str,
    /// Whether it is a link each way.
    pub both_ways: bool,
}

impl Link {
    /// Where it begins and ends.
    ///
    /// # Errors
    /// If it has no ends, or too many.
    pub fn ends(&self) -> Result<Ends<'_>, ScenarioError> {
        match (&self.from, &self.to, &self.between) {
            (Some(from), Some(to), None) => Ok(Ends { from, to, both_ways: false }),
            (None, None, Some((from, to))) => Ok(Ends { from, to, both_ways: true }),
            _ => {
                let problem = "write its ends as `from` and `to`, or for both directions as `between = [\"a\", \"b\"]`";
                Err(ScenarioError::new(format_args!("links.{}", self.name), problem))
            }
        }
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        self.ends()?;
        let Some(spread) = self.spread else { return Ok(()) };
        let place = format!("links.{}.spread", self.name);
        ensure(self.wire.rate.is_some(), &place, "the link has no rate that could differ; give it one in `wire`")?;
        spread.validate(&place)
    }
}

impl Spread {
    /// Refuses one that makes no sense; `place` is what it is of.
    fn validate(self, place: &str) -> Result<(), ScenarioError> {
        let problem = format_args!("{} is not between 0 and 3; it is that of the natural logarithm", self.sigma);
        ensure((0.0..=3.0).contains(&self.sigma), format_args!("{place}.sigma"), problem)
    }
}

impl Nodes {
    /// How many nodes it is.
    #[must_use]
    pub fn size(&self) -> u32 {
        match (&self.place, self.count) {
            (Some(Placement::Circles { counts, .. }), None) => {
                counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
            }
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
        let place = format!("nodes.{}.place", self.name);
        if let Some(count) = self.count {
            let problem = format_args!("{places} places for {count} nodes; leave `count` out, or give each a place");
            ensure(u64::from(count.get()) == places, &place, problem)?;
        }
        ensure(places > 0, &place, "it has no place at all")
    }
}

/// A reference to a group, or to a part of it: `mote`, `mote[3]`, `mote[1..4]`, `mote[0..6,7..30]`.
#[derive(Clone, Debug)]
pub struct Selected<'a> {
    /// The group.
    pub group: &'a str,
    /// The numbers of its nodes; `None`: all of it.
    pub members: Option<Vec<Range<u32>>>,
}

impl<'a> Selected<'a> {
    /// Reads a reference; `None` if it is malformed.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let Some((group, rest)) = text.split_once('[') else { return Some(Self { group: text, members: None }) };
        let range = |text: &str| match text.split_once("..") {
            Some((from, to)) => Some(from.trim().parse().ok()?..to.trim().parse().ok()?),
            None => {
                let one: u32 = text.trim().parse().ok()?;
                Some(one..one.checked_add(1)?)
            }
        };
        let members: Option<Vec<Range<u32>>> = rest.strip_suffix(']')?.split(',').map(range).collect();
        Some(Self { group, members: Some(members?) })
    }
}
