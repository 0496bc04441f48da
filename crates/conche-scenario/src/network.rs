//! The network of a scenario: nodes and links.

use std::ops::Range;

use conche_netsim::wired::LinkConfig;
use serde::Deserialize;

use super::{AtLeastOne, NonEmpty, Rows, ScenarioError, ensure};

/// A node or, with a `count`, a group of equal nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// Its name.
    pub name: String,
    /// Number of nodes. Default: a single node, no group.
    pub count: Option<AtLeastOne>,
    /// Number of address prefixes, with equal shares of the nodes in order: with 250 prefixes, 100
    /// 000 nodes are 400 per prefix. Default: one.
    pub prefixes: Option<AtLeastOne>,
    /// Positions of radio stations.
    pub place: Option<Placement>,
}

/// Positions of the nodes of a group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Placement {
    /// Individual x and y in metres: `{ at = [[0, 0], [10, 5]] }`.
    At(Rows<(f64, f64)>),
    /// A line along x.
    Line {
        /// Distance between neighbours.
        spacing_m: f64,
        /// Position of the first node. Default: 0, 0.
        #[serde(default)]
        from: (f64, f64),
    },
    /// A grid, filled row by row.
    Grid {
        /// Nodes per row.
        columns: AtLeastOne,
        /// Distance between rows and between columns.
        spacing_m: f64,
    },
    /// Circles around 0, 0, the innermost first.
    Circles {
        /// Nodes per circle.
        counts: NonEmpty<u32>,
        /// Distance between circles.
        spacing_m: f64,
    },
    /// Uniform in a rectangle, drawn for each replication.
    Field {
        /// Extent along x.
        width_m: f64,
        /// Extent along y.
        height_m: f64,
    },
}

/// A link between two nodes. If one end is a group, each of its nodes has a link. Between two
/// groups, each node of the larger one has a link, and the nodes of the smaller one have equal
/// shares of them, in order.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name in results and changes.
    pub name: String,
    /// The sending end of a unidirectional link; requires `to`.
    pub from: Option<String>,
    /// The receiving end.
    pub to: Option<String>,
    /// The two ends of a pair of links, one per direction.
    pub between: Option<(String, String)>,
    /// Rate, delay, loss and queue. Default: none of them.
    #[serde(default)]
    pub wire: LinkConfig,
    /// Variation of the rate between replications. Default: none.
    pub spread: Option<Spread>,
}

/// A lognormal distribution of the rate over replications.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Standard deviation of the natural logarithm of the rate.
    pub sigma: f64,
    /// The sampling of the distribution.
    pub draw: Draw,
}

/// The sampling of a distribution over the replications of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Each replication draws from the whole distribution.
    Independent,
    /// Each of n replications takes the middle of another one of n equally probable parts, so that
    /// few runs cover the distribution evenly.
    Stratified,
}

/// The ends of a link.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The sending end.
    pub from: &'a str,
    /// The receiving end.
    pub to: &'a str,
    /// Whether there is a link in each direction.
    pub both_ways: bool,
}

impl Link {
    /// Returns its ends.
    ///
    /// # Errors
    /// If the ends are missing or ambiguous.
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
    /// Checks the spread; `place` names its owner in errors.
    fn validate(self, place: &str) -> Result<(), ScenarioError> {
        let problem = format_args!("{} is not between 0 and 3; it is that of the natural logarithm", self.sigma);
        ensure((0.0..=3.0).contains(&self.sigma), format_args!("{place}.sigma"), problem)
    }
}

impl Nodes {
    /// Returns the number of nodes.
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

    /// Returns whether it is a group of numbered nodes.
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
    /// Ranges of its node numbers; `None` for the whole group.
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
