//! Radio channels: who shares one, over which medium, and how packets find their way.

use conche_netsim::mac::MacConfig;
use conche_netsim::radio::MediumConfig;
use conche_netsim::routing::RplConfig;
use conche_netsim::routing::aodv::AodvConfig;
use serde::Deserialize;

use super::{Endpoint, NonEmpty, Rows, ScenarioError, Security, Selected, Traffic, ensure};

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
    /// Links as they were measured, in place of the path loss of the medium, which must be `sinr`.
    pub measured: Option<Measured>,
    /// Whether places, links and tree are those of one testbed: the same in all replications. Default: each has its own.
    #[serde(default)]
    pub fixed: bool,
    /// When stations transmit.
    pub mac: MacConfig,
    /// Over which stations packets go.
    pub routing: Routing,
}

/// Links that agree with measured packet reception ratios. Those of the links above a ratio are known, of all others that
/// they are below; the signal-to-noise ratios of both are drawn from one model of path loss with log-normal shadowing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// From, to (places of stations, counted from 0), packet reception ratio.
    pub ratios: Rows<(u16, u16, f64)>,
    /// All links above this ratio are listed.
    pub complete_above: f64,
    /// A ratio from here on is that of a link that lost nothing; it may be any better.
    pub perfect: f64,
    /// What was sent to measure them, in octets on the air: with SHR, PHR and FCS.
    pub octets: u32,
    /// At this distance half of all pairs are above `complete_above`, in metres.
    pub median_range_m: f64,
    /// How fast power falls with distance.
    pub path_loss_exponent: f64,
    /// Standard deviation of the shadowing that both directions of a pair share, in dB.
    pub shadowing_db: f64,
    /// Standard deviation of what each direction has for itself, in dB.
    pub asymmetry_db: f64,
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
        /// How many destinations the border router's table has room for; it drops packets for the others. Default: all.
        routes: Option<u16>,
    },
    /// Each station looks for routes by AODV while it runs. Such stations send transfers, and have no CoAP.
    Aodv(AodvConfig),
    /// Over one route, which AODV has found before the run: traffic says how many `hops` it has.
    Frozen {
        /// How it was looked for.
        aodv: AodvConfig,
        /// The MAC at that time.
        mac: Box<MacConfig>,
    },
}

impl Radio {
    /// Refuses messages of its stations that are too long for a frame and would all be dropped.
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
