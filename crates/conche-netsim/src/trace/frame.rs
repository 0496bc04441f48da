//! Simulated packets as frames that Wireshark reads: IPv4 (RFC 791) and UDP (RFC 768).

use std::net::Ipv4Addr;

use crate::NodeId;
use crate::packet::Packet;

/// CoAP's UDP port, RFC 7252 §12.8.
const COAP_PORT: u16 = 5683;
const IP_HEADER_BYTES: u16 = 20;
const UDP_HEADER_BYTES: u16 = 8;

/// The address of a node: 10.0.0.1 for the first one; of everyone: the limited broadcast address.
pub(super) fn address(node: NodeId) -> Ipv4Addr {
    if node == NodeId::BROADCAST {
        return Ipv4Addr::BROADCAST;
    }
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 1).to_bits().wrapping_add(node.0))
}

/// Writes the packet with its headers to `frame`.
pub(super) fn encapsulate(packet: &Packet, frame: &mut Vec<u8>) {
    let payload = packet.bytes();
    let udp_length = u16::try_from(payload.len()).unwrap_or(u16::MAX).saturating_add(UDP_HEADER_BYTES);
    let ports = [COAP_PORT.to_be_bytes(), COAP_PORT.to_be_bytes()].concat();

    frame.clear();
    frame.extend([0x45, 0]);
    frame.extend(udp_length.saturating_add(IP_HEADER_BYTES).to_be_bytes());
    // The packet's number as identification, so that duplicates can be recognised; not a fragment, TTL 64, UDP.
    frame.extend(&packet.meta.id.as_u64().to_be_bytes()[6..]);
    frame.extend([0x40, 0, 64, 17, 0, 0]);
    frame.extend(address(packet.meta.from).octets());
    frame.extend(address(packet.meta.to).octets());
    let checksum = internet_checksum(frame);
    frame[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(ports);
    frame.extend(udp_length.to_be_bytes());
    // RFC 768: a checksum of zero means that none was computed.
    frame.extend([0, 0]);
    frame.extend(payload);
}

/// RFC 1071, over a whole number of 16-bit words.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while let Ok(carry) = u16::try_from(sum >> 16)
        && carry > 0
    {
        sum = (sum & 0xffff) + u32::from(carry);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_a_known_header() {
        // A header whose checksum field is filled sums to zero; RFC 1071's own example sums to 0xddf2.
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(&example), !0xddf2);
    }

    #[test]
    fn nodes_have_addresses_of_their_own_from_10_0_0_1_on() {
        assert_eq!(address(NodeId(0)), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(NodeId(400)), Ipv4Addr::new(10, 0, 1, 145));
    }
}
