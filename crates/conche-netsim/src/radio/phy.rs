//! Times and sizes of the O-QPSK physical layer in the 2.4 GHz band (IEEE Std 802.15.4-2006).
//!
//! ```text
//!   SHR: preamble 4 B, SFD 1 B │ PHR 1 B │ PSDU: MHR, payload, FCS, at most 127 B
//! ```

use std::time::Duration;

/// Duration of a symbol: 62.5 ksymbol/s (§6.5.3.2).
pub const SYMBOL: Duration = Duration::from_micros(16);
/// Duration of an octet: two symbols of four bits (§6.5.2.2).
pub const OCTET: Duration = Duration::from_micros(32);
/// Duration of a bit: 250 kbit/s (§6.5.1).
pub const BIT: Duration = Duration::from_micros(4);
/// SHR (§6.3.1, §6.3.2) and PHR (§6.3.3) in octets.
pub const SHR_PHR_OCTETS: u32 = 6;
/// aMaxPHYPacketSize (Table 22): the maximum PSDU in octets.
pub const A_MAX_PHY_PACKET_SIZE: u8 = 127;
/// aTurnaroundTime (Table 22), 12 symbols: from receiving to transmitting and back.
pub const A_TURNAROUND_TIME: Duration = Duration::from_micros(192);
/// Duration of a clear channel assessment (§6.9.9): 8 symbols.
pub const CCA_DURATION: Duration = Duration::from_micros(128);
/// PSDU of an acknowledgment (§7.2.2.3): frame control 2, sequence number 1, FCS 2 octets.
pub const ACK_PSDU_OCTETS: u8 = 5;

/// Returns a frame's time on air.
#[must_use]
pub const fn airtime(psdu_octets: u8) -> Duration {
    // No overflow: at most 255 + 6 octets.
    Duration::from_micros(32 * (SHR_PHR_OCTETS as u64 + psdu_octets as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_frame_takes_4256_and_an_acknowledgment_352_microseconds() {
        assert_eq!(airtime(A_MAX_PHY_PACKET_SIZE), Duration::from_micros(4256));
        assert_eq!(airtime(ACK_PSDU_OCTETS), Duration::from_micros(352));
        assert_eq!((OCTET, OCTET), (2 * SYMBOL, 8 * BIT));
    }
}
