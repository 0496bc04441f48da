//! Bulk transfers.

use std::num::{NonZeroU8, NonZeroU16};

use conche_netsim::transport::tcp::Acknowledgments;
use conche_netsim::transport::tcp::segment::ENCODED_OCTETS;
use serde::Deserialize;

use super::{AtLeastOne, ScenarioError, ensure};
use crate::units::{Size, Span};

/// A bulk transfer over a simplified TCP, with the timers of the scheme: see
/// [`conche_netsim::transport::tcp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Number of segments.
    pub segments: AtLeastOne,
    /// Bytes per segment.
    pub payload: Size,
    /// Bytes of network and transport headers per datagram.
    pub header: Size,
    /// Maximum congestion window, in segments.
    pub window: NonZeroU16,
    /// Kind of acknowledgments: `"cumulative"` or `"positive"`.
    pub acknowledgments: Acknowledgments,
    /// Processing time of a received segment.
    pub processing: Span,
    /// Minimum timeout.
    pub min_rto: Span,
    /// Maximum expirations of a segment's timer; the transfer fails after them.
    pub max_timeouts: NonZeroU8,
}

/// A bulk transfer over TCP with congestion control (RFC 5681, RFC 6582). Its timers are those of
/// the scheme or, preferably, of the traffic's own controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Number of segments.
    pub segments: AtLeastOne,
    /// Bytes per segment.
    pub payload: Size,
    /// Bytes of headers per datagram, beyond those that links add.
    pub header: Size,
    /// Maximum congestion window, in segments: the receiver's window.
    pub window: NonZeroU16,
    /// Minimum timeout.
    pub min_rto: Span,
    /// Maximum expirations of a segment's timer; the transfer fails after them.
    pub max_timeouts: NonZeroU8,
}

impl Tcp {
    pub(super) fn validate(&self, place: &str) -> Result<(), ScenarioError> {
        let least =
            format_args!("{} does not hold the numbers of a segment; at least {ENCODED_OCTETS}B does", self.header);
        ensure(self.header.0 >= ENCODED_OCTETS as u64, format_args!("{place}.header"), least)?;
        let bytes = self.payload.0.saturating_add(self.header.0);
        let long = format_args!("{} with its header is longer than {LONGEST_DATAGRAM}B", self.payload);
        ensure(bytes <= LONGEST_DATAGRAM, format_args!("{place}.payload"), long)
    }
}

/// Ethernet's MTU.
const LONGEST_DATAGRAM: u64 = 1500;
/// Bytes of addresses and numbers.
const LEAST_HEADER: u64 = 10;
/// aMaxPHYPacketSize of IEEE 802.15.4.
const LONGEST_FRAME: u64 = 127;

impl Transfer {
    /// Returns the octets of a datagram with data.
    #[must_use]
    pub fn datagram_octets(&self) -> u64 {
        self.payload.0.saturating_add(self.header.0)
    }

    pub(super) fn validate(&self, place: &str) -> Result<(), ScenarioError> {
        let least = format_args!("{} does not hold addresses and numbers; at least {LEAST_HEADER}B does", self.header);
        ensure(self.header.0 >= LEAST_HEADER, format_args!("{place}.header"), least)?;
        let long = format_args!("{} with its header does not fit into a frame of {LONGEST_FRAME}B", self.payload);
        ensure(self.datagram_octets() <= LONGEST_FRAME, format_args!("{place}.payload"), long)
    }
}
