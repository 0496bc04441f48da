//! Radio channels: stations, medium, access and routing.

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
    /// Its name in results.
    pub name: String,
    /// Nodes and groups with a station; they need a place.
    pub stations: NonEmpty<String>,
    /// The medium.
    pub medium: MediumConfig,
    /// Measured links, which replace the path loss of the medium `sinr`.
    pub measured: Option<Measured>,
    /// All replications share places, links and tree, as on a testbed. Default: each replication
    /// draws its own.
    #[serde(default)]
    pub fixed: bool,
    /// Medium access.
    pub mac: MacConfig,
    /// Routing.
    pub routing: Routing,
}

/// Links that agree with measured packet reception ratios. The ratios of listed links are known;
/// all other links are below the listing threshold. One model of path loss with log-normal
/// shadowing draws the signal-to-noise ratios of both kinds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Sender and receiver (indices of stations, counted from 0), packet reception ratio.
    pub ratios: Rows<(u16, u16, f64)>,
    /// Listing threshold: all links above this ratio are listed.
    pub complete_above: f64,
    /// Ratio from which a link counts as free of losses.
    pub perfect: f64,
    /// Octets of the measured frames on the air, including SHR, PHR and FCS.
    pub octets: u32,
    /// Distance in metres at which half of all pairs are above `complete_above`.
    pub median_range_m: f64,
    /// Path loss exponent.
    pub path_loss_exponent: f64,
    /// Standard deviation of the shadowing shared by both directions of a pair, in dB.
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
        /// The border router.
        root: String,
        /// The choice of parents.
        #[serde(default)]
        tree: RplConfig,
        /// Size of the frame for link quality.
        psdu_octets: u8,
        /// Capacity of the border router's routing table; it drops packets to other destinations.
        /// Default: unlimited.
        routes: Option<u16>,
    },
    /// Stations discover routes by AODV during the run. They send transfers, and have no CoAP.
    Aodv(AodvConfig),
    /// One route, which AODV discovers before the run. Traffic sets its number of `hops`.
    Frozen {
        /// Parameters of the discovery.
        aodv: AodvConfig,
        /// The MAC during the discovery.
        mac: Box<MacConfig>,
    },
}

impl Radio {
    /// Checks that messages of its stations fit into a frame; longer ones would all be dropped.
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
