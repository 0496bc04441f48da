//! UDP datagrams as raw IP packets: with headers of IPv4 (RFC 791) or IPv6 (RFC 8200) and of UDP
//! (RFC 768).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The value of the "protocol" or "next header" field.
const UDP: u8 = 17;
const HOPS: u8 = 64;
const IPV4_HEADER_BYTES: u16 = 20;
const UDP_HEADER_BYTES: u16 = 8;

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpDatagram<'a> {
    /// Source. An IPv4-mapped IPv6 address counts as IPv4.
    pub from: SocketAddr,
    /// Destination.
    pub to: SocketAddr,
    /// IPv4 identification, equal for duplicates of a packet.
    pub identification: u16,
    /// ECN field (RFC 3168 §5), in the two lowest bits.
    pub ecn: u8,
    /// Payload.
    pub payload: &'a [u8],
}

impl UdpDatagram<'_> {
    /// Replaces `frame`'s contents. Truncates a payload beyond the length that the headers can
    /// express.
    pub(crate) fn encapsulate(&self, frame: &mut Vec<u8>) {
        let most = usize::from(u16::MAX - IPV4_HEADER_BYTES - UDP_HEADER_BYTES);
        let payload = self.payload.get(..most).unwrap_or(self.payload);
        let udp_length = u16::try_from(payload.len()).unwrap_or(u16::MAX).saturating_add(UDP_HEADER_BYTES);
        frame.clear();
        let addresses_start = match (self.from.ip().to_canonical(), self.to.ip().to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                frame.extend([0x45, self.ecn & 0b11]);
                frame.extend(udp_length.saturating_add(IPV4_HEADER_BYTES).to_be_bytes());
                frame.extend(self.identification.to_be_bytes());
                // Don't Fragment.
                frame.extend([0x40, 0, HOPS, UDP, 0, 0]);
                frame.extend([from.octets(), to.octets()].concat());
                let checksum = checksum([frame.as_slice()]);
                frame[10..12].copy_from_slice(&checksum.to_be_bytes());
                12
            }
            (from, to) => {
                frame.extend([0x60, (self.ecn & 0b11) << 4, 0, 0]);
                frame.extend(udp_length.to_be_bytes());
                frame.extend([UDP, HOPS]);
                frame.extend([v6(from).octets(), v6(to).octets()].concat());
                8
            }
        };
        let udp_start = frame.len();
        frame.extend([self.from.port().to_be_bytes(), self.to.port().to_be_bytes(), udp_length.to_be_bytes()].concat());
        frame.extend([0, 0]);
        frame.extend(payload);
        // The pseudo header consists of addresses, protocol and length.
        let pseudo = [[0, UDP], udp_length.to_be_bytes()].concat();
        let sum = match checksum([&pseudo, &frame[addresses_start..]]) {
            // Zero would mean that no checksum was computed.
            0 => u16::MAX,
            sum => sum,
        };
        frame[udp_start + 6..udp_start + 8].copy_from_slice(&sum.to_be_bytes());
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The Internet checksum (RFC 1071); all parts but the last must have an even length.
fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u16 {
    let words = parts.into_iter().flat_map(|part| part.chunks(2));
    // 32 bits hold the sum of all words of a frame.
    let mut sum: u32 = words.map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low))).sum();
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

    fn framed(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
        let [from, to] = [from, to].map(|address| address.parse().expect("an address"));
        let mut frame = vec![7; 3];
        UdpDatagram { from, to, identification: 0x1234, ecn: 0b11, payload }.encapsulate(&mut frame);
        frame
    }

    /// Returns zero if the checksum is right.
    fn verified(frame: &[u8], addresses_start: usize) -> u16 {
        let header = if addresses_start == 12 { 20 } else { 40 };
        let length = u16::try_from(frame.len() - header).expect("a short datagram");
        checksum([&[0, UDP][..], &length.to_be_bytes(), &frame[addresses_start..]])
    }

    #[test]
    fn the_checksum_is_that_of_a_known_header() {
        // RFC 1071 §3 sums these bytes to 0xddf2.
        assert_eq!(checksum([&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7][..]]), !0xddf2);
        assert_eq!(checksum([&[0x00, 0x01][..], &[0xf2]]), checksum([&[0x00, 0x01, 0xf2, 0x00][..]]));
    }

    #[test]
    fn ipv4_has_its_header_and_both_checksums_are_right() {
        let frame = framed("192.0.2.1:5683", "[::ffff:192.0.2.2]:61616", b"odd");
        assert_eq!(frame[..10], [0x45, 0b11, 0, 31, 0x12, 0x34, 0x40, 0, 64, 17]);
        assert_eq!(frame[12..20], [192, 0, 2, 1, 192, 0, 2, 2]);
        assert_eq!(frame[20..26], [0x16, 0x33, 0xf0, 0xb0, 0, 11]);
        assert_eq!(&frame[28..], b"odd");
        assert_eq!((checksum([&frame[..20]]), verified(&frame, 12)), (0, 0));
    }

    #[test]
    fn ipv6_has_its_header_and_the_checksum_that_it_must_have() {
        let frame = framed("[2001:db8::1]:5683", "[2001:db8::2]:5683", b"even");
        assert_eq!(frame[..8], [0x60, 0b11_0000, 0, 0, 0, 12, 17, 64]);
        assert_eq!((frame[8], frame[23], frame[39]), (0x20, 1, 2));
        assert_eq!(verified(&frame, 8), 0);
    }

    #[test]
    fn a_frame_is_cut_off_at_the_largest_header_length() {
        let frame = framed("192.0.2.1:1", "192.0.2.2:2", &vec![0; 70_000]);
        assert_eq!(frame.len(), usize::from(u16::MAX));
        assert_eq!(frame[2..4], [0xff, 0xff]);
    }
}
