//! 6LoWPAN: size of a UDP datagram on a radio hop, in octets and frames.
//!
//! ```text
//!   one frame   MHR │                   IPHC │ hop-by-hop option │ UDP │ CoAP ......... │ FCS
//!   fragments   MHR │ FRAG1 4 B         IPHC │ hop-by-hop option │ UDP │ CoAP ..       │ FCS
//!               MHR │ FRAGN 5 B                              .. CoAP in units of 8 B .. │ FCS
//! ```
//!
//! Sources: IEEE Std 802.15.4-2006 §7.2.2.2 (frames), RFC 4944 §5.3 (fragmentation), RFC 6282
//! (compression), RFC 6553 (RPL option), RFC 768. Simplification: sizes are equal on all hops,
//! though the first and last elide an address equal to the frame's.

use thiserror::Error;

use crate::radio::phy::A_MAX_PHY_PACKET_SIZE;

/// Headers before a UDP payload.
///
/// ```toml
/// context_identifier = true
/// destination = "identifier"
/// udp = { compressed = { port_octets = 1 } }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sixlowpan {
    /// Addresses in the MAC header.
    pub mac_addresses: MacAddresses,
    /// Octets added to the standard's MAC header.
    pub mac_extra_octets: u8,
    /// IPHC context identifier extension (RFC 6282 §3.1.2), which Contiki sends even for context 0.
    pub context_identifier: bool,
    /// Inline hop limit: it is not 1, 64 or 255.
    pub inline_hop_limit: bool,
    /// Source address.
    pub source: Inline,
    /// Destination address.
    pub destination: Inline,
    /// RPL option in a hop-by-hop header: 8 octets and an inline next header.
    pub rpl_option: bool,
    /// UDP header.
    pub udp: UdpHeader,
    /// Maximum PSDU without fragmentation.
    pub max_psdu_octets: u8,
}

/// Addresses of a frame, both in one PAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacAddresses {
    /// 16 bits each.
    Short,
    /// 64 bits each.
    Extended,
}

/// The inline part of an IPv6 address (RFC 6282 §3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inline {
    /// Nothing: derived from context and frame.
    Elided,
    /// The last 2 octets.
    Short,
    /// The interface identifier, 8 octets.
    Identifier,
    /// All 16 octets.
    Full,
}

/// Encoding of the UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpHeader {
    /// 8 octets, and the next header inline.
    Uncompressed,
    /// NHC, ports and checksum (RFC 6282 §4.3).
    Compressed {
        /// Octets for both ports: 4, 3 or 1.
        port_octets: u8,
    },
}

/// The datagram exceeds RFC 4944's 11-bit size field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a UDP payload of {0} octets does not fit into a 6LoWPAN datagram of at most 2047 octets")]
pub struct DatagramTooLong(pub usize);

/// Frame control, sequence number, PAN identifier and FCS (IEEE Std 802.15.4-2006 §7.2.1).
const MAC_OCTETS_BESIDE_ADDRESSES: u16 = 2 + 1 + 2 + 2;
const IPHC_OCTETS: u16 = 2;
/// RFC 6553's RPL option in its hop-by-hop header: 2 + 2 + 4.
const RPL_HOP_BY_HOP_OCTETS: u16 = 8;
const UDP_OCTETS: u16 = 8;
const IPV6_OCTETS: u16 = 40;
const FRAG1_OCTETS: u16 = 4;
const FRAGN_OCTETS: u16 = 5;
const MAX_DATAGRAM_OCTETS: u16 = (1 << 11) - 1;

impl Default for Sixlowpan {
    /// 67 octets, between a mote and an Internet host with Contiki and RPL: 64-bit MAC addresses,
    /// the host's full address, the mote's identifier, RPL option, uncompressed UDP.
    fn default() -> Self {
        Self {
            mac_addresses: MacAddresses::Extended,
            mac_extra_octets: 0,
            context_identifier: false,
            inline_hop_limit: true,
            source: Inline::Identifier,
            destination: Inline::Full,
            rpl_option: true,
            udp: UdpHeader::Uncompressed,
            max_psdu_octets: A_MAX_PHY_PACKET_SIZE,
        }
    }
}

impl Sixlowpan {
    /// Returns Contiki's headers between two motes of one RPL network: 60 octets.
    #[must_use]
    pub fn within_mesh() -> Self {
        Self { context_identifier: true, destination: Inline::Identifier, ..Self::default() }
    }

    /// Returns the size of MHR and FCS in octets.
    #[must_use]
    pub const fn mac_octets(&self) -> u16 {
        let addresses = match self.mac_addresses {
            MacAddresses::Short => 2 * 2,
            MacAddresses::Extended => 2 * 8,
        };
        MAC_OCTETS_BESIDE_ADDRESSES + addresses + self.mac_extra_octets as u16
    }

    /// Returns the compressed IPv6 and UDP headers in octets.
    #[must_use]
    pub const fn compressed_octets(&self) -> u16 {
        let (udp, udp_inline) = match self.udp {
            UdpHeader::Uncompressed => (UDP_OCTETS, true),
            UdpHeader::Compressed { port_octets } => (1 + port_octets as u16 + 2, false),
        };
        IPHC_OCTETS
            + self.context_identifier as u16
            // The header before an uncompressed one names it.
            + (self.rpl_option || udp_inline) as u16
            + self.inline_hop_limit as u16
            + self.source.octets()
            + self.destination.octets()
            + if self.rpl_option { RPL_HOP_BY_HOP_OCTETS } else { 0 }
            + udp
    }

    /// Returns the octets of an unfragmented PSDU beyond the UDP payload.
    #[must_use]
    pub const fn overhead_octets(&self) -> u16 {
        self.mac_octets() + self.compressed_octets()
    }

    const fn uncompressed_octets(&self) -> u16 {
        let hop_by_hop = if self.rpl_option { RPL_HOP_BY_HOP_OCTETS } else { 0 };
        IPV6_OCTETS + hop_by_hop + UDP_OCTETS
    }

    /// Returns the PSDU octets of each frame for a UDP payload, in order.
    ///
    /// # Errors
    /// If the datagram is longer than 2047 octets before compression.
    ///
    /// ```
    /// use conche_netsim::sixlowpan::Sixlowpan;
    ///
    /// let headers = Sixlowpan::default();
    /// assert_eq!(headers.frames(18)?.collect::<Vec<u8>>(), [85]);
    /// assert_eq!(headers.frames(70)?.collect::<Vec<u8>>(), [127, 42]);
    /// # Ok::<(), conche_netsim::sixlowpan::DatagramTooLong>(())
    /// ```
    pub fn frames(
        &self,
        udp_payload_octets: usize,
    ) -> Result<impl Iterator<Item = u8> + Clone + use<>, DatagramTooLong> {
        let payload = u16::try_from(udp_payload_octets).ok();
        let payload = payload.filter(|octets| octets.saturating_add(self.uncompressed_octets()) <= MAX_DATAGRAM_OCTETS);
        let payload = payload.ok_or(DatagramTooLong(udp_payload_octets))?;
        let whole = self.overhead_octets() + payload;
        let (first, rest) = if whole <= u16::from(self.max_psdu_octets) {
            (whole, 0)
        } else {
            let in_first = self.payload_of_first();
            (self.overhead_octets() + FRAG1_OCTETS + in_first, payload - in_first)
        };
        let (each, before) = (self.payload_of_next(), self.mac_octets() + FRAGN_OCTETS);
        let next = (0..rest.div_ceil(each)).map(move |fragment| before + (rest - fragment * each).min(each));
        // Saturates only if the headers leave no room.
        Ok(std::iter::once(first).chain(next).map(|octets| u8::try_from(octets).unwrap_or(u8::MAX)))
    }

    fn payload_of_first(&self) -> u16 {
        let room = u16::from(self.max_psdu_octets).saturating_sub(self.overhead_octets() + FRAG1_OCTETS);
        let headers = self.uncompressed_octets();
        ((headers + room) / 8 * 8).saturating_sub(headers)
    }

    fn payload_of_next(&self) -> u16 {
        let room = u16::from(self.max_psdu_octets).saturating_sub(self.mac_octets() + FRAGN_OCTETS);
        (room / 8 * 8).max(8)
    }
}

impl Inline {
    const fn octets(self) -> u16 {
        match self {
            Self::Elided => 0,
            Self::Short => 2,
            Self::Identifier => 8,
            Self::Full => 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(headers: Sixlowpan, payload: usize) -> Vec<u8> {
        headers.frames(payload).expect("it is short enough").collect()
    }

    #[test]
    fn a_mote_and_a_host_in_the_internet_need_67_octets() {
        // 23 MAC, 2 IPHC, 1 next header, 1 hop limit, 16 and 8 addresses, 8 hop-by-hop, 8 UDP.
        let headers = Sixlowpan::default();
        assert_eq!((headers.mac_octets(), headers.compressed_octets()), (23, 44));
        assert_eq!((frames(headers, 18), frames(headers, 28)), (vec![85], vec![95]));
    }

    #[test]
    fn two_motes_need_60_octets() {
        // A compressed datagram of 85 octets, 48 of them CoAP, and a piggybacked response of 5.
        let headers = Sixlowpan::within_mesh();
        assert_eq!(headers.compressed_octets(), 37);
        assert_eq!((frames(headers, 48), frames(headers, 5)), (vec![108], vec![65]));
    }

    #[test]
    fn link_local_neighbours_without_rpl_need_17_octets() {
        // 11 MAC; IPHC 2 with all elided; NHC 1, ports 1, checksum 2; hop limit 64.
        let headers = Sixlowpan {
            mac_addresses: MacAddresses::Short,
            inline_hop_limit: false,
            source: Inline::Elided,
            destination: Inline::Elided,
            rpl_option: false,
            udp: UdpHeader::Compressed { port_octets: 1 },
            ..Sixlowpan::default()
        };
        assert_eq!((headers.overhead_octets(), frames(headers, 109)), (17, vec![126]));
        assert_eq!((frames(headers, 110), frames(headers, 111).len()), (vec![127], 2));
    }

    #[test]
    fn fragments_carry_units_of_eight_octets_of_the_uncompressed_datagram() {
        let headers = Sixlowpan::default();
        assert_eq!(frames(headers, 60), [127], "the longest frame");
        // 127 - 67 - 4 = 56 octets, and 56 of headers: 112 = 14 units. Then 127 - 23 - 5 = 99
        // octets: 12 units.
        assert_eq!(frames(headers, 61), [127, 23 + 5 + 5]);
        assert_eq!(frames(headers, 56 + 96), [127, 23 + 5 + 96]);
        assert_eq!(frames(headers, 56 + 96 + 1), [127, 124, 23 + 5 + 1]);
        // Without the option: 48 of headers, 35 of them sent; 127 - 58 - 4 = 65 octets, rounded to
        // 64 (112 of 113).
        let headers = Sixlowpan { rpl_option: false, ..headers };
        assert_eq!(frames(headers, 100), [23 + 36 + 4 + 64, 23 + 5 + 36]);
    }

    #[test]
    fn a_datagram_has_at_most_2047_octets() {
        let headers = Sixlowpan::default();
        // 56 octets of headers: 1991 of payload; 56 in the first, 96 in each of 20, 15 in the last.
        assert_eq!(frames(headers, 1991).len(), 22);
        assert_eq!(frames(headers, 1991).last(), Some(&(23 + 5 + 15)));
        assert_eq!(headers.frames(1992).err(), Some(DatagramTooLong(1992)));
        assert_eq!(headers.frames(70_000).err(), Some(DatagramTooLong(70_000)));
    }
}
