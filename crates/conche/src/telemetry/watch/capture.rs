//! [`Capture`]: the datagrams of sockets as a capture file.
//!
//! A program does not see IP and UDP headers. Connecting another socket to the peer, without
//! sending, reveals the local address that the kernel chooses for an unbound one.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, UNIX_EPOCH};

use conche_pcapng::{CaptureFile, Direction, Interface, Packet, UdpDatagram};

use super::Fact;
use super::recorder::{Format, Record, Recorder, Start};
use crate::uri::{DEFAULT_PORT, DEFAULT_SECURED_PORT};

const PEERS: usize = 4096;

/// A capture file (pcapng) of all datagrams that sockets send and receive, payloads included, for
/// Wireshark and tshark. Needs no privileges.
///
/// IP and UDP headers are synthesized from the addresses: fragments, hop limits and checksums
/// differ from those on the wire. Messages of a `coaps` session are recorded unencrypted, and the
/// port 5684 as 5683, on which Wireshark expects CoAP (other ports: Decode As). A received
/// multicast datagram has our unicast address as destination, and a comment. Datagrams dropped
/// because the file was too slow are counted with the next packet (option `epb_dropcount`).
///
/// ```
/// use conche::Server;
/// use conche::watch::Capture;
///
/// // Any writer, such as a file.
/// let capture = Capture::new().write_to(std::io::sink())?;
/// let server = Server::builder().watch(capture.clone());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Capture {}

impl Capture {
    /// Captures all datagrams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the file. A separate thread writes it, buffered.
    ///
    /// # Errors
    /// If the header cannot be written, or the thread cannot be started.
    pub fn write_to(self, writer: impl Write + Send + 'static) -> io::Result<Recorder> {
        let start = Start::now();
        let interface = Interface { name: "conche", description: "datagrams of a program; headers are made up" };
        let mut file = CaptureFile::begin(BufWriter::new(writer), [interface], [])?;
        file.flush()?;
        let since_1970 = start.wall_clock.duration_since(UNIX_EPOCH).unwrap_or_default();
        Recorder::start(start, Packets { file, since_1970, ours: HashMap::new(), lost: 0 })
    }
}

struct Packets<W: Write> {
    file: CaptureFile<BufWriter<W>>,
    since_1970: Duration,
    ours: HashMap<(SocketAddr, IpAddr), IpAddr>,
    lost: u64,
}

impl<W: Write> Packets<W> {
    fn ours(&mut self, record: &Record) -> SocketAddr {
        let Record { socket, peer, .. } = *record;
        let bound = Some(socket.ip().to_canonical()).filter(|address| !address.is_unspecified());
        let known = record.local.or(bound);
        if self.ours.len() >= PEERS {
            self.ours.clear();
        }
        let chosen = || *self.ours.entry((socket, peer.ip())).or_insert_with(|| source_toward(peer));
        SocketAddr::new(known.unwrap_or_else(chosen), socket.port())
    }
}

impl<W: Write + Send + 'static> Format for Packets<W> {
    fn wants(fact: &Fact) -> bool {
        matches!(fact, Fact::Sent { .. } | Fact::Received { .. })
    }

    fn record(&mut self, record: &Record) -> io::Result<()> {
        let (direction, ecn, comment) = match record.fact {
            Fact::Sent { attempt: 0, ecn, .. } => (Direction::Out, ecn, None),
            Fact::Sent { attempt, ecn, .. } => (Direction::Out, ecn, Some(format!("retransmission {attempt}"))),
            Fact::Received { multicast: false, ecn } => (Direction::In, ecn, None),
            Fact::Received { multicast: true, ecn } => (Direction::In, ecn, Some("it came to a group".to_owned())),
            _ => return Ok(()),
        };
        let (ours, peer) = (self.ours(record), record.peer);
        let moved = coap_ports([ours, peer], &record.datagram);
        let [ours, peer] = moved.unwrap_or([ours, peer]);
        let moved = moved.map(|_| "decrypted; port 5684 written as 5683".to_owned());
        let comment = [comment, moved].into_iter().flatten().reduce(|one, other| format!("{one}; {other}"));
        let (from, to) = if direction == Direction::Out { (ours, peer) } else { (peer, ours) };
        self.file.record(&Packet {
            interface: 0,
            at: self.since_1970 + record.at,
            direction,
            comment: comment.as_deref(),
            lost: std::mem::take(&mut self.lost),
            datagram: UdpDatagram { from, to, identification: 0, ecn: ecn.bits(), payload: &record.datagram },
        })
    }

    fn lost(&mut self, count: u64, _: Duration) -> io::Result<()> {
        self.lost += count;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the addresses under which Wireshark reads a session's unencrypted messages as CoAP, not
/// DTLS. `None` if the addresses may stay.
fn coap_ports(ends: [SocketAddr; 2], datagram: &[u8]) -> Option<[SocketAddr; 2]> {
    // The version of CoAP; DTLS records differ.
    let is_coap = datagram.first().is_some_and(|first| first >> 6 == 1);
    let is_secured = |end: &SocketAddr| end.port() == DEFAULT_SECURED_PORT;
    (is_coap && ends.iter().any(is_secured))
        .then(|| ends.map(|end| if is_secured(&end) { SocketAddr::new(end.ip(), DEFAULT_PORT) } else { end }))
}

/// Returns the kernel's source address toward this peer; unspecified on error.
fn source_toward(peer: SocketAddr) -> IpAddr {
    let any = match peer {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let probe = UdpSocket::bind((any, 0)).and_then(|probe| {
        probe.connect(peer)?;
        probe.local_addr()
    });
    probe.map_or(any, |local| local.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wireshark_reads_messages_of_a_session_as_coap_and_records_as_dtls() {
        let ends = |port| [([127, 0, 0, 1], 40_000).into(), ([127, 0, 0, 1], port).into()];
        let (message, record) = (b"\x40\x01\x00\x01", b"\x17\xfe\xfd\x00");
        assert_eq!(coap_ports(ends(5684), message), Some(ends(5683)));
        assert_eq!(coap_ports(ends(5684), record), None, "a relay forwards records");
        assert_eq!(coap_ports(ends(5683), message), None);
    }
}
