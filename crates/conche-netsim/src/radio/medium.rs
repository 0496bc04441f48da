//! The media.

use thiserror::Error;

use super::mrm31::{Mrm31, Mrm31Medium};
use super::neighbours::{Neighbours, RadioLink};
use super::power::Power;
use super::reception::FramePart;
use super::sinr::{Sinr, SinrMedium};
use super::stations::Position;
use super::udgm::{Udgm, UdgmMedium};
use crate::Instant;
use crate::ids::Station;
use crate::rng::{Stream, Streams};

pub(crate) trait Medium {
    fn neighbours(&self) -> &Neighbours;

    /// Adds the links that deliver a frame if the channel is idle; over others it is noise.
    fn reach(&self, from: Station, streams: &mut [Stream], reached: &mut Vec<u32>);

    fn arrive(&self, link: RadioLink, receiver: ReceiverState) -> Arrival;

    /// Returns the probability of receiving a part under interference.
    fn survives(&self, signal: Power, interference: Power, part: FramePart) -> f64;

    /// Returns the remaining factor for a whole frame, such as fading.
    fn passes(&mut self, number: u32, now: Instant, stream: &mut Stream) -> f64;

    /// Returns the probability of receiving this many octets, with SHR and PHR, without
    /// interference.
    fn reception_ratio(&self, number: u32, link: RadioLink, octets: u32) -> f64;

    /// Returns the result of clear channel assessment.
    fn is_busy(&self, level: Power) -> bool;
}

/// State of a receiver as a frame begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiverState {
    /// Received power without the new signal.
    pub(crate) level: Power,
    /// Signal to which the receiver is synchronised.
    pub(crate) receiving: Option<Power>,
    /// On, and neither switching nor transmitting.
    pub(crate) listening: bool,
}

/// A frame's effect at a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// None, not even interference.
    Unheard,
    /// Interference.
    Noise,
    /// The receiver synchronises, and loses its previous frame.
    Receive,
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
    /// Cooja's multi-path ray tracer of Contiki 3.1.
    Mrm31(Mrm31),
    /// Signal, interference and noise.
    Sinr(Sinr),
}

/// Why a radio network is invalid.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RadioError {
    /// A parameter is out of range or NaN.
    #[error("{parameter} is {value}, but it must be {range}")]
    Parameter {
        /// The parameter's name.
        parameter: &'static str,
        /// The configured value.
        value: f64,
        /// The permitted range.
        range: &'static str,
    },
    /// A duty-cycled MAC lacks acknowledgments.
    #[error("ContikiMAC needs acknowledgments: they end its strobes")]
    Unacknowledged,
    /// There are more than 65535 stations.
    #[error("{0} stations; a radio network has at most 65535")]
    TooManyStations(usize),
    /// A path loss matrix has the wrong size.
    #[error("the matrix of path losses must have a row and a column for each of the {0} stations")]
    Matrix(usize),
    /// A node is placed twice.
    #[error("node {0:?} is placed twice; a node has one station in a radio network")]
    PlacedTwice(String),
    /// A hop's end is a node that is not placed.
    #[error("link {link:?} is a hop from or to node {node:?}, which is not placed in this radio network")]
    NotPlaced {
        /// The link.
        link: String,
        /// The node.
        node: String,
    },
}

/// Callers match the type once per frame: calls per neighbour are static.
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
    /// Returns each link's signal-to-noise ratio in dB; empty without noise.
    pub(super) fn snr_db(&self) -> Vec<f64> {
        match self {
            Self::Sinr(medium) => medium.snr_db(),
            Self::Udgm(_) | Self::Mrm31(_) => Vec::new(),
        }
    }

    /// Returns each sender's receivers, with ratios without interference, in order.
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

/// Rejects values outside `low..=high` or NaN.
pub(crate) fn check(
    parameter: &'static str,
    value: f64,
    low: f64,
    high: f64,
    range: &'static str,
) -> Result<(), RadioError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(RadioError::Parameter { parameter, value, range }) }
}
