//! Capture files (pcapng) of UDP datagrams from a simulator or a program's own sockets. IP and UDP
//! headers are generated from the addresses, so that Wireshark can dissect the payload.
//!
//! ```
//! use std::time::Duration;
//!
//! use conche_pcapng::{CaptureFile, Direction, Interface, Packet, UdpDatagram};
//!
//! let interfaces = [Interface { name: "client", description: "a CoAP client" }];
//! let mut capture = CaptureFile::begin(Vec::new(), interfaces, [])?;
//! capture.record(&Packet {
//!     interface: 0,
//!     at: Duration::from_secs(1_700_000_000),
//!     direction: Direction::Out,
//!     comment: Some("original transmission"),
//!     lost: 0,
//!     datagram: UdpDatagram {
//!         from: ([192, 0, 2, 1], 61616).into(),
//!         to: ([192, 0, 2, 2], 5683).into(),
//!         identification: 0,
//!         ecn: 0,
//!         // A CoAP ping.
//!         payload: &[0x40, 0, 0x12, 0x34],
//!     },
//! })?;
//! let file: Vec<u8> = capture.finish()?;
//! # assert!(file.len() > 100);
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

mod frame;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::name_resolution::{Ipv4Record, NameResolutionBlock, Record};
use pcap_file::{DataLink, Endianness, PcapError};

pub use frame::UdpDatagram;

/// A capture file under construction, with times in nanoseconds.
pub struct CaptureFile<W: Write> {
    writer: W,
    blocks: Blocks,
}

/// Not generic, so that it is compiled once.
struct Blocks {
    encoder: PcapNgWriter<Vec<u8>>,
    frame: Vec<u8>,
}

/// A place where packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Short name.
    pub name: &'a str,
    /// Description.
    pub description: &'a str,
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Index of the interface.
    pub interface: u32,
    /// Time since 1970, or since the start of a simulation.
    pub at: Duration,
    /// Direction.
    pub direction: Direction,
    /// Comment.
    pub comment: Option<&'a str>,
    /// Number of packets that could not be captured since the previous one.
    pub lost: u64,
    /// Datagram.
    pub datagram: UdpDatagram<'a>,
}

/// The direction of a packet at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Neither, such as inside a node.
    Unknown,
    /// Incoming.
    In,
    /// Outgoing.
    Out,
}

impl<W: Write> CaptureFile<W> {
    /// Begins a file, with names for IPv4 addresses.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn begin<'a>(
        writer: W,
        interfaces: impl IntoIterator<Item = Interface<'a>>,
        names: impl IntoIterator<Item = (Ipv4Addr, &'a str)>,
    ) -> io::Result<Self> {
        let blocks = Blocks::begin(interfaces.into_iter().collect(), names.into_iter().collect())?;
        let mut file = Self { writer, blocks };
        file.write()?;
        Ok(file)
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.blocks.packet(packet)?;
        self.write()
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Ends the file and returns the flushed writer.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> io::Result<W> {
        let Self { mut writer, .. } = self;
        writer.flush()?;
        Ok(writer)
    }

    fn write(&mut self) -> io::Result<()> {
        let blocks = self.blocks.encoder.get_mut();
        let written = self.writer.write_all(blocks);
        blocks.clear();
        written
    }
}

impl Blocks {
    fn begin<'a>(interfaces: Vec<Interface<'a>>, names: Vec<(Ipv4Addr, &'a str)>) -> io::Result<Self> {
        // Little endian on all machines: the same packets give the same file.
        let mut encoder = PcapNgWriter::with_endianness(Vec::new(), Endianness::Little).map_err(into_io)?;
        for Interface { name, description } in interfaces {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfDescription(Cow::Borrowed(description)),
                InterfaceDescriptionOption::IfTsResol(9),
            ];
            let block = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options };
            encoder.write_pcapng_block(block).map_err(into_io)?;
        }
        let named = |(address, name): (Ipv4Addr, &'a str)| {
            let ip_addr = Cow::Owned(address.octets().to_vec());
            Record::Ipv4(Ipv4Record { ip_addr, names: vec![Cow::Borrowed(name)] })
        };
        let records: Vec<_> = names.into_iter().map(named).collect();
        if !records.is_empty() {
            encoder.write_pcapng_block(NameResolutionBlock { records, options: vec![] }).map_err(into_io)?;
        }
        Ok(Self { encoder, frame: Vec::new() })
    }

    fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let Self { encoder, frame } = self;
        packet.datagram.encapsulate(frame);
        let comment = packet.comment.map(|comment| EnhancedPacketOption::Comment(Cow::Borrowed(comment)));
        let lost = Some(packet.lost).filter(|lost| *lost > 0).map(EnhancedPacketOption::DropCount);
        let flags = EnhancedPacketOption::Flags(packet.direction.flags());
        let block = EnhancedPacketBlock {
            interface_id: packet.interface,
            timestamp: packet.at,
            original_len: u32::try_from(frame.len()).unwrap_or(u32::MAX),
            data: Cow::Borrowed(frame),
            options: comment.into_iter().chain([flags]).chain(lost).collect(),
        };
        encoder.write_pcapng_block(block).map(drop).map_err(into_io)
    }
}

impl Direction {
    fn flags(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::In => 1,
            Self::Out => 2,
        }
    }
}

impl<W: Write> fmt::Debug for CaptureFile<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureFile").finish_non_exhaustive()
    }
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
