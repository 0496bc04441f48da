//! What all media have in common, and the choice of one.

use thiserror::Error;

use super::mrm31::{Mrm31, Mrm31Medium};
use super::neighbours::{Neighbours, RadioLink, Station};
use super::position::Position;
use super::power::Power;
use super::reception::Stretch;
use super::sinr::{Sinr, SinrMedium};
use super::udgm::{Udgm, UdgmMedium};
use crate::Instant;
use crate::rng::{Stream, Streams};

/// How signals reach stations, disturb each other and are received.
pub(crate) trait Medium {
    /// Who hears whom.
    fn neighbours(&self) -> &Neighbours;

    /// A frame begins: adds the links, of those whose frames can be received, over which it is heard unless something else is on
    /// the air. Each station has its own stream. Over all others it is noise.
    fn reach(&self, from: Station, streams: &mut [Stream], reached: &mut Vec<u32>);

    /// What becomes of it at a station that it reaches.
    fn arrive(&self, link: RadioLink, ear: Hearing) -> Arrival;

    /// The probability that a stretch of a frame survives beside this interference.
    fn survives(&self, signal: Power, interference: Power, stretch: Stretch) -> f64;

    /// The probability that a link lets a whole frame through, interference apart.
    fn passes(&mut self, number: u32, now: Instant, stream: &mut Stream) -> f64;

    /// The probability that a frame of this many octets, SHR and PHR included, is received over a link in silence.
    fn reception_ratio(&self, number: u32, link: RadioLink, octets: u32) -> f64;

    /// What clear channel assessment says of this much power.
    fn is_busy(&self, level: Power) -> bool;
}

/// What a station hears at the moment when a further frame begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hearing {
    /// All signals together, without the new one.
    pub(crate) level: Power,
    /// The signal that its receiver has synchronised with.
    pub(crate) receiving: Option<Power>,
    /// Its receiver is on, not switching or transmitting.
    pub(crate) listening: bool,
}

/// What becomes of a frame at a station that hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Nothing, not even as interference.
    Unheard,
    /// It is interference.
    Noise,
    /// The receiver synchronises with it, and loses what it was receiving.
    Receive,
    /// As before, and what was received is no longer heard at all.
    Replace,
}

/// A radio medium with its parameters.
///
/// ```toml
/// medium = "mrm31"
/// medium = { udgm = { transmission_range_m = 10, interference_range_m = 20 } }
/// medium = { sinr = { noise_dbm = -98, path_loss = { log-distance = { exponent = 3.5 } } } }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum MediumConfig {
    /// Unit disks: any overlap destroys both frames.
    Udgm(Udgm),
    /// Cooja's multi-path ray tracer as of Contiki 3.1, without obstacles.
    Mrm31(Mrm31),
    /// Signal, interference and noise.
    Sinr(Sinr),
}

/// Why a radio network makes no sense.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RadioError {
    /// A parameter is not a number in its range.
    #[error("{parameter} is {value}, but it must be {range}")]
    Parameter {
        /// Its name.
        parameter: &'static str,
        /// What it was set to.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// A duty-cycled MAC was set to go without acknowledgments.
    #[error("ContikiMAC needs acknowledgments: they end its strobes")]
    Unacknowledged,
    /// There are more stations than can be numbered.
    #[error("{0} stations; a radio network has at most 65535")]
    TooManyStations(usize),
    /// A matrix of losses does not fit the stations.
    #[error("the matrix of path losses must have a row and a column for each of the {0} stations")]
    Matrix(usize),
    /// A node was placed twice.
    #[error("node {0:?} is placed twice; a node has one station in a radio network")]
    PlacedTwice(String),
    /// A hop leads from or to a node that was not placed.
    #[error("link {link:?} is a hop from or to node {node:?}, which is not placed in this radio network")]
    NotPlaced {
        /// The link.
        link: String,
        /// The node.
        node: String,
    },
}

/// A medium at work, one of all. Callers take it apart once for each frame, so that what happens at each neighbour is
/// static.
#[derive(Debug)]
pub(crate) enum AnyMedium {
    Udgm(UdgmMedium),
    Mrm31(Mrm31Medium),
    Sinr(SinrMedium),
}

impl MediumConfig {
    pub(crate) fn build(&self, positions: &[Position], streams: &Streams) -> Result<AnyMedium, RadioError> {
        Ok(match self {
            Self::Udgm(config) => AnyMedium::Udgm(UdgmMedium::new(config, positions)?),
            Self::Mrm31(config) => AnyMedium::Mrm31(Mrm31Medium::new(config, positions)?),
            Self::Sinr(config) => AnyMedium::Sinr(SinrMedium::new(config, positions, streams)?),
        })
    }
}

impl AnyMedium {
    /// The signal-to-noise ratio of each link, in dB; none in a medium without noise.
    pub(super) fn snr_db(&self) -> Vec<f64> {
        match self {
            Self::Sinr(medium) => medium.snr_db(),
            Self::Udgm(_) | Self::Mrm31(_) => Vec::new(),
        }
    }

    /// The packet reception ratios without interference: for each sender those that hear it, in their order.
    pub(crate) fn reception_ratios(&self, stations: usize, octets: u32) -> Vec<Vec<(Station, f64)>> {
        match self {
            Self::Udgm(medium) => reception_ratios(medium, stations, octets),
            Self::Mrm31(medium) => reception_ratios(medium, stations, octets),
            Self::Sinr(medium) => reception_ratios(medium, stations, octets),
        }
    }
}

fn reception_ratios<M: Medium>(medium: &M, stations: usize, octets: u32) -> Vec<Vec<(Station, f64)>> {
    let ratio = |(number, link): (u32, RadioLink)| (link.to, medium.reception_ratio(number, link, octets));
    let of = |from| medium.neighbours().from(from).map(ratio).filter(|(_, ratio)| *ratio > 0.0).collect();
    (0..).take(stations).map(of).collect()
}

/// Refuses a parameter that is outside of `low..=high`, or not a number.
pub(crate) fn check(
    parameter: &'static str,
    value: f64,
    low: f64,
    high: f64,
    range: &'static str,
) -> Result<(), RadioError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(RadioError::Parameter { parameter, value, range }) }
}
