//! Nodes, links, NATs and radio channels.

use std::ops::Range;
use std::time::Duration;

use conche_netsim::mac::MacConfig;
use conche_netsim::radio::MediumConfig;
use conche_netsim::routing::RplConfig;
use conche_netsim::routing::aodv::AodvConfig;
use conche_netsim::wired::{LinkConfig, RateTrace};
use serde::Deserialize;

use super::{AtLeastOne, Endpoint, NonEmpty, Rows, ScenarioError, Security, Traffic, ensure};
use crate::units::Span;

/// A node or, with a `count`, a group of equal nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// Name.
    pub name: String,
    /// Number of nodes. Default: one node, no group.
    pub count: Option<AtLeastOne>,
    /// Number of address prefixes, shared equally by the nodes in order. Default: one.
    pub prefixes: Option<AtLeastOne>,
    /// Positions of radio stations.
    pub place: Option<Placement>,
    /// Command of the program that `conche emulate` starts for each node.
    pub program: Option<String>,
}

/// Positions of the nodes of a group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Placement {
    /// x and y in metres: `{ at = [[0, 0], [10, 5]] }`.
    At(Rows<(f64, f64)>),
    /// A line along x.
    Line {
        /// Distance between neighbours.
        spacing_m: f64,
        /// Position of the first node.
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

/// A link between two nodes, or one per node of a group. Between groups, each node of the larger
/// one has a link, in equal shares of the smaller one's nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name in results and changes.
    pub name: String,
    /// Sending end of a unidirectional link; requires `to`.
    pub from: Option<String>,
    /// Receiving end.
    pub to: Option<String>,
    /// Ends of two links, one per direction.
    pub between: Option<(String, String)>,
    /// Rate, delay, loss and queue.
    #[serde(default)]
    pub wire: LinkConfig,
    /// Variation of the rate between replications.
    pub spread: Option<Spread>,
    /// Recorded rates, in place of a rate in `wire`.
    pub trace: Option<Trace>,
}

/// A NAT between nodes and the rest of the network.
///
/// Nodes outside see an address that the NAT gives to each node inside, and only their answers to
/// it reach the node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nat {
    /// Name in errors and paths.
    pub name: String,
    /// The node that translates, or a group; its members have equal consecutive shares of `inside`.
    pub at: String,
    /// The nodes behind it.
    pub inside: String,
    /// How long a mapping lasts after the last datagram from inside. Default: 300 s, as RFC 4787
    /// recommends (REQ-5).
    #[serde(default = "mapping_timeout")]
    pub timeout: Span,
}

const fn mapping_timeout() -> Span {
    Span(Duration::from_secs(300))
}

/// Rates over time, which repeat.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Time in seconds, and rate in bit/s from that time on; the last row ends the trace.
    pub rates: Rows<(f64, f64)>,
    /// Time in the trace at which the run starts. Default: random for each run and link.
    pub start: Option<Span>,
}

impl Trace {
    /// Returns the rates.
    ///
    /// # Errors
    /// If the rows are no trace.
    pub fn rates(&self, link: &str) -> Result<RateTrace, ScenarioError> {
        let place = format!("links.{link}.trace.rates");
        RateTrace::new(&self.rates).map_err(|problem| ScenarioError::new(place, problem))
    }
}

/// A lognormal distribution of the rate over replications.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Standard deviation of the rate's natural logarithm.
    pub sigma: f64,
    /// Sampling.
    pub draw: Draw,
}

/// Sampling of a distribution over a cell's replications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Each replication draws from the whole distribution.
    Independent,
    /// Each of n replications takes the middle of a different one of n equally probable parts.
    Stratified,
}

/// The ends of a link.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Sending end.
    pub from: &'a str,
    /// Receiving end.
    pub to: &'a str,
    /// Whether there is a link in each direction.
    pub both_ways: bool,
}

impl Link {
    /// Returns the ends.
    ///
    /// # Errors
    /// If they are missing or ambiguous.
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

    pub(super) fn awaits_uplinks(&self) -> bool {
        self.wire.wakes.is_some_and(|wakes| wakes.awaits_uplinks())
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let ends = self.ends()?;
        let wire = format!("links.{}.wire", self.name);
        self.wire.check(&self.name).map_err(|problem| ScenarioError::new(&wire, problem))?;
        let problem = "each direction would wait for frames of the other; write two links, with `from` and `to`, and \
                       `after_uplink` in the one toward the nodes that sleep";
        ensure(!(ends.both_ways && self.awaits_uplinks()), format_args!("{wire}.wakes"), problem)?;
        if let Some(trace) = &self.trace {
            let problem = "the link has a `trace`, which is its rate; leave `rate` out";
            ensure(self.wire.rate.is_none(), format_args!("{wire}.rate"), problem)?;
            trace.rates(&self.name)?;
        }
        let Some(spread) = self.spread else { return Ok(()) };
        let place = format!("links.{}.spread", self.name);
        ensure(self.wire.rate.is_some(), &place, "the link has no rate that could differ; give it one in `wire`")?;
        spread.validate(&place)
    }
}

impl Spread {
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

    /// Returns its nodes as `mote[0]`, `mote[1]`, ….
    pub fn names(&self) -> impl Iterator<Item = String> {
        let name = |index| if self.is_group() { format!("{}[{index}]", self.name) } else { self.name.clone() };
        (0..self.size()).map(name)
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

/// A group or part of it: `mote`, `mote[3]`, `mote[1..4]`, `mote[0..6,7..30]`.
#[derive(Clone, Debug)]
pub struct Selected<'a> {
    /// Group.
    pub group: &'a str,
    /// Node numbers; `None` for the whole group.
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

/// Nodes that share a radio channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Radio {
    /// Name in results.
    pub name: String,
    /// Nodes and groups with a station; they need a place.
    pub stations: NonEmpty<String>,
    /// Medium.
    pub medium: MediumConfig,
    /// Measured links, instead of the path loss of medium `sinr`.
    pub measured: Option<Measured>,
    /// All replications share places, links and tree, as on a testbed.
    #[serde(default)]
    pub fixed: bool,
    /// Medium access.
    pub mac: MacConfig,
    /// Routing.
    pub routing: Routing,
}

/// Links from measured packet reception ratios; unlisted links are below the list's threshold. One
/// model of path loss with log-normal shadowing draws both.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Sender and receiver (station indices from 0), and ratio.
    pub ratios: Rows<(u16, u16, f64)>,
    /// Threshold of the list.
    pub complete_above: f64,
    /// Ratio from which a link counts as lossless.
    pub perfect: f64,
    /// Octets of the measured frames on the air, with SHR, PHR and FCS.
    pub octets: u32,
    /// Distance in metres at which half of the pairs exceed `complete_above`.
    pub median_range_m: f64,
    /// Path loss exponent.
    pub path_loss_exponent: f64,
    /// Standard deviation of a pair's shadowing, in dB.
    pub shadowing_db: f64,
    /// Standard deviation of the additional shadowing per direction, in dB.
    pub asymmetry_db: f64,
}

/// Routing in a radio network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Routing {
    /// A converged RPL tree.
    Rpl {
        /// Border router.
        root: String,
        /// Choice of parents.
        #[serde(default)]
        tree: RplConfig,
        /// Size of the frame for link quality.
        psdu_octets: u8,
        /// Capacity of the border router's routing table, beyond which packets are dropped.
        /// Default: unlimited.
        routes: Option<u16>,
    },
    /// AODV during the run. Stations send transfers, no CoAP.
    Aodv(AodvConfig),
    /// A route that AODV discovers before the run. Traffic sets `hops`.
    Frozen {
        /// Parameters of the discovery.
        aodv: AodvConfig,
        /// MAC during the discovery.
        mac: Box<MacConfig>,
    },
}

impl Radio {
    pub(super) fn carries(&self, traffic: &[Traffic], endpoint: &Endpoint) -> Result<(), ScenarioError> {
        let is_station = |nodes: &str| {
            Selected::parse(nodes).is_some_and(|nodes| self.stations.iter().any(|station| station == nodes.group))
        };
        for one in traffic.iter().filter(|one| is_station(&one.from) || is_station(&one.to)) {
            let handshakes = ("endpoint.handshakes.mtu".to_owned(), endpoint.handshakes.mtu.0);
            let handshakes = (endpoint.security != Security::Plain).then_some(handshakes);
            let datagrams = one.datagrams(endpoint).into_iter();
            let datagrams = datagrams.map(|(key, bytes)| (format!("traffic.{}.{key}", one.name), bytes));
            for (place, bytes) in datagrams.chain(handshakes) {
                let problem = format_args!(
                    "{bytes} B do not fit into a frame of the radio `{}`; make it shorter, or give its `mac` a \
                     `sixlowpan` that fragments",
                    self.name
                );
                let fits = usize::try_from(bytes).is_ok_and(|bytes| self.mac.carries(bytes));
                ensure(fits, place, problem)?;
            }
        }
        Ok(())
    }

    pub(super) fn validate(&self) -> Result<(), ScenarioError> {
        let place = |key: &str| format!("radios.{}.{key}", self.name);
        let is_frozen = matches!(self.routing, Routing::Frozen { .. });
        ensure(!is_frozen || self.fixed, place("fixed"), "routes are frozen in one testbed; write `fixed = true`")?;
        let Some(measured) = &self.measured else { return Ok(()) };
        let is_sinr = matches!(self.medium, MediumConfig::Sinr(_));
        ensure(is_sinr, place("measured"), "the medium has no signal-to-noise ratios; only `sinr` has")?;
        for (key, ratio) in [("complete_above", measured.complete_above), ("perfect", measured.perfect)] {
            let problem = format_args!("{ratio} is not between 0 and 1");
            ensure(ratio > 0.0 && ratio < 1.0, place(&format!("measured.{key}")), problem)?;
        }
        for (from, to, ratio) in measured.ratios.iter() {
            let problem = format_args!("{ratio} from {from} to {to} is no ratio above 0 and up to 1");
            ensure(*ratio > 0.0 && *ratio <= 1.0, place("measured.ratios"), problem)?;
        }
        for (key, value, least) in [
            ("median_range_m", measured.median_range_m, f64::MIN_POSITIVE),
            ("path_loss_exponent", measured.path_loss_exponent, 0.0),
            ("shadowing_db", measured.shadowing_db, 0.0),
            ("asymmetry_db", measured.asymmetry_db, 0.0),
        ] {
            let than = if least > 0.0 { "above 0" } else { "of at least 0" };
            let problem = format_args!("{value} is no number {than}");
            ensure((least..=1e6).contains(&value), place(&format!("measured.{key}")), problem)?;
        }
        Ok(())
    }
}
