//! The testbed's parameters, and the network that they give.

use std::num::NonZeroU8;

use conche_netsim::mac::{self, ControlTraffic, MacConfig, RadioConfig};
use conche_netsim::radio::phy::A_MAX_PHY_PACKET_SIZE;
use conche_netsim::radio::{Gilbert, MediumConfig, PathLoss, Position, ReceptionCurve, Sinr};
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::routing::{LinkQuality, Objective, RplConfig, RplTree};
use conche_netsim::sixlowpan::Sixlowpan;
use conche_netsim::wired::{LinkConfig, Loss, Topology};
use conche_netsim::{NodeId, RadioId};
use serde::Deserialize;

use super::links::{self, MOTES};
use super::measured::POSITIONS_M;
use crate::scenario::ScenarioError;
use crate::units::{BitRate, Size, Span};

/// FlockLab: its radio links, the stack of its motes, and how it is joined to the Internet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testbed {
    /// Which mote is the border router, in the order of the published figure.
    pub border_router: u8,
    /// At this distance half of all pairs of motes are connected (packet reception ratio above 0.9), in metres.
    pub median_range_m: f64,
    /// How fast power falls with distance.
    pub path_loss_exponent: f64,
    /// Standard deviation of shadowing, in dB.
    pub shadowing_db: f64,
    /// Standard deviation of what each direction of a link has for itself, in dB.
    pub asymmetry_db: f64,
    /// Noise in the channel, in dBm.
    pub noise_dbm: f64,
    /// Clear channel assessment calls the channel busy from here on, in dBm.
    pub cca_threshold_dbm: f64,
    /// A later frame takes a receiver over if it is stronger than all else by this, in dB.
    pub capture_db: f64,
    /// Losses beyond those of noise and interference.
    pub fading: Option<Fading>,
    /// The MAC of the motes.
    pub contiki: Contiki,
    /// Links with a lower packet reception ratio, in either direction, are not part of the tree.
    pub min_ratio: f64,
    /// What a mote takes to handle a frame that it received.
    pub processing: Span,
    /// What a server takes for a request.
    pub server: Span,
    /// Each mote broadcasts a DIO in each such interval: RPL in a network that has converged.
    pub dio_interval: Span,
    /// The serial line between border router and gateway.
    pub slip: BitRate,
    /// The share of packets that this line loses, either way: it has no flow control.
    pub slip_loss: f64,
    /// One way between gateway and cloud.
    pub internet: Span,
}

/// A link is bad for a while, now and then.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fading {
    /// How long it is good, in the mean.
    pub good: Span,
    /// How long it is bad, in the mean.
    pub bad: Span,
    /// The share of frames that it loses while bad.
    pub loss: f64,
}

/// The version of Contiki on the motes, which is that of its CSMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Contiki {
    /// Contiki 2.7.
    #[serde(rename = "2.7")]
    V2_7,
    /// Contiki 3.0.
    #[serde(rename = "3.0")]
    V3_0,
}

/// What a tree minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Hops.
    HopCount,
    /// Expected transmissions.
    Etx,
}

/// ContikiMAC's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContikiMac {
    /// How often a mote wakes up to look for energy on the channel, a second.
    pub check_rate_hz: NonZeroU8,
    /// Whether frames that wait for one neighbour are sent in a burst.
    pub bursts: bool,
}

/// A network to put hosts on.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its nodes and links.
    pub topology: Topology,
    /// The motes' radio network.
    pub radio: RadioId,
    /// Where the clients are.
    pub cloud: NodeId,
    /// The servers, one behind each mote but the border router.
    pub servers: Vec<NodeId>,
    /// How many radio hops each of them is away from the border router.
    pub hops: Vec<u16>,
}

/// IPv6 and UDP headers, which no compression saves on a wire.
const HEADER_BYTES: u32 = 48;
/// A DIO with its options, from one mote to all (Contiki, RFC 6550 §6.3).
const DIO_PSDU_OCTETS: u8 = 90;
/// The motes' radio.
const CURVE: ReceptionCurve = ReceptionCurve::Cc2420;
/// The largest frame that the tree is computed for: a response.
const TREE_PSDU_OCTETS: u8 = 95;

impl ContikiMac {
    fn of(self, version: mac::ContikiMac) -> mac::ContikiMac {
        let version = version.channel_check_rate(u32::from(self.check_rate_hz.get()));
        mac::ContikiMac { with_bursts: self.bursts, ..version }
    }
}

impl Testbed {
    pub(crate) fn validate(&self) -> Result<(), ScenarioError> {
        let refuse = |place: &str, problem: String| Err(ScenarioError::new(format!("testbed.{place}"), problem));
        if usize::from(self.border_router) >= MOTES {
            return refuse(
                "border_router",
                format!("there is no mote {}; they are 0 to {}", self.border_router, MOTES - 1),
            );
        }
        if self.median_range_m <= 0.0 || !self.median_range_m.is_finite() {
            return refuse("median_range_m", format!("{} is no distance above 0", self.median_range_m));
        }
        if !(0.0..=1.0).contains(&self.slip_loss) {
            return refuse("slip_loss", format!("{} is no share from 0 to 1", self.slip_loss));
        }
        if self.dio_interval.0.is_zero() {
            return refuse("dio_interval", "0s would send nothing but DIOs; write it as in \"260s\"".to_owned());
        }
        if self.slip.as_bits() == 0 {
            return refuse("slip", "0bit/s sends nothing; write it as in 115.2kbit/s".to_owned());
        }
        // The rest is checked where the network is built; trying it now shows the error at once.
        match self.network(None, Metric::Etx, 1) {
            Ok(_) => Ok(()),
            Err(error) => Err(ScenarioError::new("testbed", error)),
        }
    }

    /// Refuses a CoAP message that is less than its header and token, or does not fit into a frame: fragments are not
    /// part of the model.
    pub(crate) fn check_message(&self, place: &str, size: Size, token_length: u8) -> Result<(), ScenarioError> {
        let least = 4 + u64::from(token_length);
        let header = match self.contiki {
            Contiki::V2_7 => mac::ContikiMac::contiki27().header_octets,
            Contiki::V3_0 => mac::ContikiMac::contiki30().header_octets,
        };
        let most = u64::from(A_MAX_PHY_PACKET_SIZE - overhead_octets() - header);
        if (least..=most).contains(&size.0) {
            return Ok(());
        }
        Err(ScenarioError::new(place, format!("{size} is not between {least}B and {most}B")))
    }

    /// The network with this duty cycle, or with radios that are always on (NullRDC), as drawn from `links_seed`: the
    /// testbed is the same in all replications.
    ///
    /// # Errors
    /// If a parameter makes no sense.
    pub fn network(&self, rdc: Option<ContikiMac>, objective: Metric, links_seed: u64) -> Result<Network, String> {
        let streams = Streams::new(links_seed);
        let mut topology = Topology::new();
        let cloud = topology.node("cloud");
        let gateway = topology.node("gateway");
        let motes: Vec<NodeId> = (0..MOTES).map(|mote| topology.node(format!("mote {mote}"))).collect();
        let levels_dbm = self.levels_dbm(&streams);
        let config = RadioConfig { medium: MediumConfig::Sinr(self.medium(&levels_dbm)), mac: self.mac(rdc) };
        let radio = topology.radio("flocklab", config);
        for (mote, (x, y)) in motes.iter().zip(POSITIONS_M) {
            topology.place(radio, *mote, Position::metres(x, y));
        }
        let quality = topology.link_quality(radio, links_seed, TREE_PSDU_OCTETS).map_err(|error| error.to_string())?;
        let quality = if rdc.is_some() { self.waking(&quality, &motes, &levels_dbm)? } else { quality };
        let root = motes[usize::from(self.border_router).min(MOTES - 1)];
        let mut ties = streams.stream(Entity::Run, Purpose::named("rpl"));
        let tree = RplTree::new(&quality, root, self.rpl(objective), &mut ties);
        if let Some(lost) = tree.unreached().next() {
            let lost = motes.iter().position(|mote| *mote == lost).unwrap_or_default();
            return Err(format!(
                "mote {lost} has no path to the border router; let weaker links into the tree (min_ratio)"
            ));
        }
        tree.install(&mut topology, radio);
        let plain = LinkConfig { header_bytes: HEADER_BYTES, ..LinkConfig::default() };
        let loss = Loss::Bernoulli(self.slip_loss);
        let slip = LinkConfig { rate: Some(self.slip), loss, ..plain };
        topology.duplex("slip", root, gateway, slip);
        topology.duplex("internet", gateway, cloud, LinkConfig { delay: self.internet.0, ..plain });
        let (mut servers, mut hops) = (Vec::new(), Vec::new());
        for (number, mote) in motes.iter().enumerate().filter(|(_, mote)| **mote != root) {
            let server = topology.node(format!("server {number}"));
            topology.link(format!("to server {number}"), *mote, server, LinkConfig { delay: self.server.0, ..plain });
            topology.link(format!("from server {number}"), server, *mote, plain);
            servers.push(server);
            hops.push(tree.hops(*mote).unwrap_or_default());
        }
        Ok(Network { topology, radio, cloud, servers, hops })
    }

    /// How strong each mote hears each other one, by sender and receiver.
    fn levels_dbm(&self, streams: &Streams) -> Vec<Vec<f64>> {
        let loss = links::PathLoss {
            median_range_m: self.median_range_m,
            exponent: self.path_loss_exponent,
            shadowing_db: self.shadowing_db,
            asymmetry_db: self.asymmetry_db,
        };
        let mut stream = streams.stream(Entity::Run, Purpose::named("links"));
        let mut levels = links::signal_to_noise_db(loss, CURVE, &mut stream);
        levels.iter_mut().flatten().for_each(|level| *level += self.noise_dbm);
        levels
    }

    /// The links whose receivers wake up: ContikiMAC's channel checks miss what is below the threshold.
    fn waking(&self, quality: &LinkQuality, motes: &[NodeId], levels_dbm: &[Vec<f64>]) -> Result<LinkQuality, String> {
        let ratio = |from: usize, to: usize| {
            let heard = levels_dbm[from][to] >= self.cca_threshold_dbm;
            if heard { quality.ratio(motes[from], motes[to]) } else { 0.0 }
        };
        let ratios = (0..MOTES).map(|from| (0..MOTES).map(|to| ratio(from, to)).collect()).collect();
        LinkQuality::new(motes.to_vec(), ratios).map_err(|error| error.to_string())
    }

    fn medium(&self, levels_dbm: &[Vec<f64>]) -> Sinr {
        // Only differences count: all stations transmit with 0 dBm.
        let losses = levels_dbm.iter().map(|row| row.iter().map(|level| -level).collect()).collect();
        Sinr {
            tx_power_dbm: 0.0,
            path_loss: PathLoss::Matrix(losses),
            noise_dbm: self.noise_dbm,
            cca_threshold_dbm: self.cca_threshold_dbm,
            capture_threshold_db: Some(self.capture_db),
            curve: CURVE,
            fading: self.fading.map(|fading| Gilbert {
                mean_good: fading.good.0,
                mean_bad: fading.bad.0,
                loss_bad: fading.loss,
            }),
            ..Sinr::default()
        }
    }

    fn mac(&self, rdc: Option<ContikiMac>) -> MacConfig {
        let csma = match self.contiki {
            Contiki::V2_7 => MacConfig::contiki27(),
            Contiki::V3_0 => MacConfig::contiki30(),
        };
        let mac = match (rdc, self.contiki) {
            (None, _) => csma,
            (Some(rdc), Contiki::V2_7) => csma.contikimac(rdc.of(mac::ContikiMac::contiki27())),
            (Some(rdc), Contiki::V3_0) => csma.contikimac(rdc.of(mac::ContikiMac::contiki30())),
        };
        let control = ControlTraffic { interval: self.dio_interval.0, psdu_octets: DIO_PSDU_OCTETS };
        MacConfig { overhead_octets: overhead_octets(), unload: self.processing.0, control: Some(control), ..mac }
    }

    fn rpl(&self, objective: Metric) -> RplConfig {
        let objective = match objective {
            Metric::HopCount => Objective::HopCount,
            Metric::Etx => Objective::Etx,
        };
        RplConfig { objective, min_ratio: self.min_ratio }
    }
}

fn overhead_octets() -> u8 {
    u8::try_from(Sixlowpan::default().overhead_octets()).expect("headers are shorter than a frame")
}
