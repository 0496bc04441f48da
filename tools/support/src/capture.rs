//! Reads capture files of `conche emulate` and `conche run`: datagrams at their senders, and those
//! that a link dropped.

use std::fs::File;
use std::io::BufReader;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::Block;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};

/// Lowest bits of a packet's flags (pcapng §4.3.1): its direction.
const DIRECTION: u32 = 0b11;
const OUT: u32 = 2;

const IPV4_HEADER_BYTES: usize = 20;
const UDP_HEADER_BYTES: usize = 8;

/// A datagram in the emulated network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Time since the start of the run, in nanoseconds.
    pub at_ns: u128,
    /// Sender.
    pub from: Ipv4Addr,
    /// Receiver.
    pub to: Ipv4Addr,
    /// Number of the packet, equal in its records.
    pub number: u16,
    /// Number of the packet that it answers, from its comment.
    pub answers: Option<u16>,
    /// Whether this is the record of a link that dropped it.
    pub is_dropped: bool,
    /// Of UDP.
    pub payload: Vec<u8>,
}

/// Reads a capture file.
///
/// # Errors
/// If it cannot be read, or a packet is no UDP datagram over IPv4.
pub fn read(path: &Path) -> Result<Vec<Datagram>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let in_file = || format!("cannot read {}", path.display());
    let mut reader = PcapNgReader::new(BufReader::new(file)).with_context(in_file)?;
    let mut datagrams = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.with_context(in_file)? {
            datagrams.push(datagram(&packet).with_context(in_file)?);
        }
    }
    Ok(datagrams)
}

fn datagram(packet: &EnhancedPacketBlock<'_>) -> Result<Datagram> {
    let flags = packet.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Flags(flags) => Some(*flags),
        _ => None,
    });
    let answers = packet.options.iter().find_map(|option| match option {
        EnhancedPacketOption::Comment(comment) => answered(comment),
        _ => None,
    });
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.data.get(at..at + 4)?).ok()?));
    let (Some(from), Some(to), Some(payload), Some(number)) =
        (address(12), address(16), packet.data.get(IPV4_HEADER_BYTES + UDP_HEADER_BYTES..), packet.data.get(4..6))
    else {
        bail!("a packet is no UDP datagram over IPv4");
    };
    Ok(Datagram {
        at_ns: packet.timestamp.as_nanos(),
        from,
        to,
        number: u16::from_be_bytes([number[0], number[1]]),
        answers,
        is_dropped: flags.is_none_or(|flags| flags & DIRECTION != OUT),
        payload: payload.to_vec(),
    })
}

/// Returns the number in `packet 70000: answers packet 69999, …`, as far as headers have it.
fn answered(comment: &str) -> Option<u16> {
    let (_, rest) = comment.split_once(": answers packet ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    u16::try_from(digits.parse::<u64>().ok()? & u64::from(u16::MAX)).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conche_pcapng::{CaptureFile, Direction, Interface, Packet, UdpDatagram};

    use super::*;

    #[test]
    fn datagrams_are_read_with_the_place_of_their_record() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let interfaces = [("client", "a node"), ("uplink", "a link")];
        let interfaces = interfaces.map(|(name, description)| Interface { name, description });
        let mut capture = CaptureFile::begin(file.reopen().expect("it is there"), interfaces, []).expect("a header");
        for (interface, direction) in [(0, Direction::Out), (1, Direction::Unknown)] {
            let datagram = UdpDatagram {
                from: ([10, 0, 0, 1], 5683).into(),
                to: ([10, 0, 0, 2], 5683).into(),
                identification: 7,
                ecn: 0,
                payload: &[0x40, 1, 0x12, 0x34],
            };
            let at = Duration::from_millis(u64::from(interface) + 5);
            let packet = Packet {
                interface,
                at,
                direction,
                comment: Some("packet 7: answers packet 65539, client exchange 1"),
                lost: 0,
                datagram,
            };
            capture.record(&packet).expect("it can be written");
        }
        capture.finish().expect("it can be written");
        let sent = Datagram {
            at_ns: 5_000_000,
            from: Ipv4Addr::new(10, 0, 0, 1),
            to: Ipv4Addr::new(10, 0, 0, 2),
            number: 7,
            answers: Some(3),
            is_dropped: false,
            payload: vec![0x40, 1, 0x12, 0x34],
        };
        let dropped = Datagram { at_ns: 6_000_000, is_dropped: true, ..sent.clone() };
        assert_eq!(read(file.path()).expect("it can be read"), [sent, dropped]);
    }
}
