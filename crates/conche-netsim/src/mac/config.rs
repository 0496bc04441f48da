//! Parameters of a radio network, with IEEE 802.15.4's names, and presets of known stacks.

use std::time::Duration;

use super::access::AccessConfig;
use super::contiki::{Contiki27, Contiki30, Contiki31};
use super::control::ControlTraffic;
use super::ieee802154::{A_UNIT_BACKOFF_PERIOD, Ieee802154};
use super::rdc::{ContikiMac, Rdc};
use super::tinyos::{BinaryExponential, TinyOs};
use crate::radio::phy::{A_MAX_PHY_PACKET_SIZE, A_TURNAROUND_TIME, CCA_DURATION, SYMBOL};
use crate::radio::{MediumConfig, RadioError, check};
use crate::sixlowpan::{DatagramTooLong, Sixlowpan};

/// A radio network: a medium and the MAC of all its stations.
///
/// ```toml
/// medium = "mrm31"
/// mac = { preset = "contiki31" }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RadioConfig {
    /// Propagation and interference.
    pub medium: MediumConfig,
    /// Medium access.
    pub mac: MacConfig,
}

/// A MAC. Its constructors are presets.
///
/// In TOML, `preset` names a constructor in kebab case (default: the standard's). Other keys
/// replace its values singly. `contikimac` applies [`MacConfig::contikimac`].
///
/// ```toml
/// preset = "contiki30"
/// contikimac = { check_rate_hz = 16, with_bursts = false }
/// queue = { packets = 4 }
/// unload = "2ms"
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MacConfig {
    /// Backoff and retries.
    pub access: AccessConfig,
    /// The timing of one attempt.
    pub attempt: AttemptConfig,
    /// Duty cycling of the receivers.
    pub rdc: Rdc,
    /// Queues of the stations.
    pub queue: QueueConfig,
    /// Octets of the PSDU beyond the payload: MHR, compressed network headers, FCS.
    pub overhead_octets: u8,
    /// Headers and fragmentation, replacing `overhead_octets`; ContikiMAC's header adds to
    /// `mac_extra_octets`. Default: none, which drops packets too long for a frame.
    pub sixlowpan: Option<Sixlowpan>,
    /// Control traffic. Default: none.
    pub control: Option<ControlTraffic>,
    /// Time to load a frame before its first backoff. Default: zero.
    pub load: Duration,
    /// Time to read a frame before delivery or forwarding. Default: zero.
    pub unload: Duration,
}

/// Timing of one attempt. A duty-cycled radio uses only the turnarounds.
///
/// ```toml
/// cca = "128us"
/// acknowledgment = "none"
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptConfig {
    /// Duration of clear channel assessment; the state at its end counts. `None`: no assessment.
    pub cca: Option<Duration>,
    /// Time from the assessment to the turnaround, with the receiver on.
    pub preparation: Duration,
    /// Time to switch to transmission, with the receiver off.
    pub tx_turnaround: Duration,
    /// Time to switch to reception.
    pub rx_turnaround: Duration,
    /// Acknowledgment, if used.
    pub acknowledgment: Option<Acknowledgment>,
    /// Spacing after a frame.
    pub spacing: Option<InterframeSpacing>,
}

/// Acknowledgment of frames.
///
/// ```toml
/// turnaround = "1ms"
/// wait = "2ms"
/// another_ends_the_wait = false
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgment {
    /// Time from a frame's end to its acknowledgment, with the receiver off.
    pub turnaround: Duration,
    /// Maximum time from a frame's end to its acknowledgment's.
    pub wait: Duration,
    /// An acknowledgment with another sequence number fails the attempt (§7.5.6.4.3).
    pub another_ends_the_wait: bool,
}

/// Interframe spacing (IEEE Std 802.15.4-2006, §7.5.1.3).
///
/// ```toml
/// short = "192us"
/// long = "640us"
/// max_short_octets = 18
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterframeSpacing {
    /// SIFS: spacing after a short frame.
    pub short: Duration,
    /// LIFS: spacing after a long frame.
    pub long: Duration,
    /// aMaxSIFSFrameSize: the longest short frame (PSDU) in octets.
    pub max_short_octets: u8,
}

/// Queue limits, including the frame in transmission.
///
/// ```toml
/// packets = 8
/// neighbours = 2
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// Maximum number of frames. `None`: unlimited.
    pub packets: Option<usize>,
    /// Maximum neighbours with a queue, each with its own backoff. `None`: one shared queue.
    pub neighbours: Option<usize>,
}

impl Default for InterframeSpacing {
    /// macMinSIFSPeriod 12 and macMinLIFSPeriod 40 symbols (Table 1), aMaxSIFSFrameSize 18 octets
    /// (Table 85).
    fn default() -> Self {
        Self { short: SYMBOL.saturating_mul(12), long: SYMBOL.saturating_mul(40), max_short_octets: 18 }
    }
}

impl Default for Acknowledgment {
    /// aTurnaroundTime (§7.5.6.4.2), and macAckWaitDuration = aUnitBackoffPeriod + aTurnaroundTime
    /// + phySHRDuration (10 symbols) + 6·phySymbolsPerOctet: 54 symbols, 864 µs (§7.4.2).
    fn default() -> Self {
        let wait = A_UNIT_BACKOFF_PERIOD + A_TURNAROUND_TIME + SYMBOL * (10 + 6 * 2);
        Self { turnaround: A_TURNAROUND_TIME, wait, another_ends_the_wait: true }
    }
}

impl Default for AttemptConfig {
    /// The standard's times, with acknowledgment and spacing.
    fn default() -> Self {
        Self {
            cca: Some(CCA_DURATION),
            preparation: Duration::ZERO,
            tx_turnaround: A_TURNAROUND_TIME,
            rx_turnaround: A_TURNAROUND_TIME,
            acknowledgment: Some(Acknowledgment::default()),
            spacing: Some(InterframeSpacing::default()),
        }
    }
}

/// MHR with short addresses and one PAN (§7.2.2.2): frame control 2, sequence number 1, PAN 2,
/// addresses 2 and 2; FCS 2.
const SHORT_ADDRESSES_OCTETS: u8 = 11;
const fn jiffies(jiffies: u64) -> Duration {
    Duration::from_nanos((jiffies * 1_000_000_000 + (1 << 14)) >> 15)
}

impl MacConfig {
    /// Returns the standard's unslotted CSMA-CA: acknowledgments, short addresses, unlimited
    /// queues.
    #[must_use]
    pub fn ieee802154() -> Self {
        Self {
            access: AccessConfig::Ieee802154(Ieee802154::default()),
            attempt: AttemptConfig::default(),
            rdc: Rdc::AlwaysOn,
            queue: QueueConfig::default(),
            overhead_octets: SHORT_ADDRESSES_OCTETS,
            sixlowpan: None,
            control: None,
            load: Duration::ZERO,
            unload: Duration::ZERO,
        }
    }

    /// Returns Contiki 2.7 with NullRDC: no acknowledgments, 8 packet buffers, 2 neighbours.
    #[must_use]
    pub fn contiki27() -> Self {
        Self::contiki_null_rdc(AccessConfig::Contiki27(Contiki27::default()), 8)
    }

    /// Returns Contiki 3.0, otherwise as [`MacConfig::contiki27`].
    #[must_use]
    pub fn contiki30() -> Self {
        Self::contiki_null_rdc(AccessConfig::Contiki30(Contiki30::default()), 8)
    }

    /// Returns Contiki 2.7 with ContikiMAC at 8 Hz and hardware acknowledgments.
    #[must_use]
    pub fn contiki27_contikimac() -> Self {
        Self::contiki27().contikimac(ContikiMac::contiki27())
    }

    /// Returns Contiki 3.0, otherwise as [`MacConfig::contiki27_contikimac`].
    #[must_use]
    pub fn contiki30_contikimac() -> Self {
        Self::contiki30().contikimac(ContikiMac::contiki30())
    }

    /// Returns this MAC with ContikiMAC, whose cycle is the time base of Contiki's backoff
    /// (`NETSTACK_RDC.channel_check_interval`).
    #[must_use]
    pub fn contikimac(self, config: ContikiMac) -> Self {
        let access = match self.access {
            AccessConfig::Contiki27(access) => {
                AccessConfig::Contiki27(Contiki27 { time_base: config.cycle_time, ..access })
            }
            AccessConfig::Contiki30(access) => {
                AccessConfig::Contiki30(Contiki30 { time_base: config.cycle_time, ..access })
            }
            other => other,
        };
        let attempt = AttemptConfig { acknowledgment: Some(Acknowledgment::default()), ..self.attempt };
        Self { access, attempt, rdc: Rdc::ContikiMac(config), ..self }
    }

    /// Returns Contiki 3.1 on Cooja motes: software acknowledgments, 2 ms to prepare a frame and 1
    /// ms an acknowledgment, 16 packet buffers, 2 neighbours.
    #[must_use]
    pub fn contiki31() -> Self {
        let ms = Duration::from_millis;
        let acknowledgment = Acknowledgment { turnaround: ms(1), wait: ms(2), another_ends_the_wait: false };
        Self {
            access: AccessConfig::Contiki31(Contiki31::default()),
            attempt: AttemptConfig {
                cca: Some(Duration::ZERO),
                preparation: ms(2),
                tx_turnaround: Duration::ZERO,
                rx_turnaround: Duration::ZERO,
                acknowledgment: Some(acknowledgment),
                spacing: None,
            },
            rdc: Rdc::AlwaysOn,
            queue: QueueConfig { packets: Some(16), neighbours: Some(2) },
            overhead_octets: SHORT_ADDRESSES_OCTETS,
            sixlowpan: None,
            control: None,
            load: Duration::ZERO,
            unload: Duration::ZERO,
        }
    }

    /// Returns TinyOS's CC2420 stack: 7 jiffies from a clear channel to the frame, hardware
    /// acknowledgments within 256 jiffies.
    #[must_use]
    pub fn tinyos() -> Self {
        let acknowledgment =
            Acknowledgment { turnaround: A_TURNAROUND_TIME, wait: jiffies(256), another_ends_the_wait: false };
        Self {
            access: AccessConfig::TinyOs(TinyOs::default()),
            attempt: AttemptConfig {
                preparation: jiffies(7).saturating_sub(A_TURNAROUND_TIME),
                acknowledgment: Some(acknowledgment),
                spacing: None,
                ..AttemptConfig::default()
            },
            rdc: Rdc::AlwaysOn,
            queue: QueueConfig::default(),
            overhead_octets: SHORT_ADDRESSES_OCTETS,
            sixlowpan: None,
            control: None,
            load: Duration::ZERO,
            unload: Duration::ZERO,
        }
    }

    /// Returns [`MacConfig::tinyos`] with binary exponential backoff.
    #[must_use]
    pub fn tinyos_binary_exponential() -> Self {
        Self { access: AccessConfig::BinaryExponential(BinaryExponential::default()), ..Self::tinyos() }
    }

    /// Returns this MAC without acknowledgments.
    #[must_use]
    pub fn unacknowledged(self) -> Self {
        Self { attempt: AttemptConfig { acknowledgment: None, ..self.attempt }, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), RadioError> {
        if let Some(control) = self.control {
            check("interval", control.interval.as_secs_f64(), 1e-3, f64::MAX, "at least 1 ms")?;
            check("psdu_octets", f64::from(control.psdu_octets), 0.0, f64::from(A_MAX_PHY_PACKET_SIZE), "at most 127")?;
        }
        let Rdc::ContikiMac(config) = self.rdc else { return Ok(()) };
        let listen = config.listen_time_after_packet_detected.as_secs_f64();
        let longer = "longer than listen_time_after_packet_detected, in seconds";
        check("cycle_time", config.cycle_time.as_secs_f64(), listen.max(1e-3), f64::MAX, longer)?;
        self.attempt.acknowledgment.map(|_| ()).ok_or(RadioError::Unacknowledged)
    }

    /// Returns `true` if this payload fits a hop, in fragments if necessary.
    #[must_use]
    pub fn carries(&self, payload_bytes: usize) -> bool {
        match &self.sixlowpan {
            Some(headers) => self.frames(headers, payload_bytes).is_ok(),
            None => self.psdu_octets(payload_bytes).is_some(),
        }
    }

    /// Returns `None` if the frame is too long.
    pub(super) fn psdu_octets(&self, payload_bytes: usize) -> Option<u8> {
        let (header, shortest) = self.header_and_shortest();
        let octets = u8::try_from(payload_bytes).ok()?.checked_add(self.overhead_octets)?.checked_add(header)?;
        Some(octets.max(shortest)).filter(|octets| *octets <= A_MAX_PHY_PACKET_SIZE)
    }

    pub(super) fn frames(
        &self,
        headers: &Sixlowpan,
        payload_bytes: usize,
    ) -> Result<impl Iterator<Item = u8> + Clone + use<>, DatagramTooLong> {
        let (header, shortest) = self.header_and_shortest();
        let headers = Sixlowpan { mac_extra_octets: headers.mac_extra_octets.saturating_add(header), ..*headers };
        Ok(headers.frames(payload_bytes)?.map(move |octets| octets.max(shortest)))
    }

    fn header_and_shortest(&self) -> (u8, u8) {
        match self.rdc {
            Rdc::AlwaysOn => (0, 0),
            Rdc::ContikiMac(config) => (config.header_octets, config.shortest_packet_size),
        }
    }

    fn contiki_null_rdc(access: AccessConfig, packets: usize) -> Self {
        Self {
            access,
            attempt: AttemptConfig { acknowledgment: None, spacing: None, ..AttemptConfig::default() },
            rdc: Rdc::AlwaysOn,
            queue: QueueConfig { packets: Some(packets), neighbours: Some(2) },
            overhead_octets: SHORT_ADDRESSES_OCTETS,
            sixlowpan: None,
            control: None,
            load: Duration::ZERO,
            unload: Duration::ZERO,
        }
    }
}

impl InterframeSpacing {
    /// Returns the spacing after a frame with this PSDU.
    #[must_use]
    pub const fn after(&self, psdu_octets: u8) -> Duration {
        if psdu_octets <= self.max_short_octets { self.short } else { self.long }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_times_come_out_in_microseconds() {
        let acknowledgment = Acknowledgment::default();
        assert_eq!((acknowledgment.turnaround.as_micros(), acknowledgment.wait.as_micros()), (192, 864));
        let spacing = InterframeSpacing::default();
        assert_eq!((spacing.after(18).as_micros(), spacing.after(19).as_micros()), (192, 640));
        assert_eq!(MacConfig::tinyos().attempt.acknowledgment.map(|ack| ack.wait.as_nanos()), Some(7_812_500));
    }
}
