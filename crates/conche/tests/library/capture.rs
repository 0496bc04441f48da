//! A capture contains every datagram with the headers that it would have had.

#![cfg(feature = "pcapng")]

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conche::cc::default::CoapDefault;
use conche::codec::Message;
use conche::server::get;
use conche::watch::Capture;
use conche::{Client, Code, Server};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use tokio::net::UdpSocket;

struct Captured {
    at: Duration,
    from: SocketAddr,
    to: SocketAddr,
    payload: Vec<u8>,
    options: Vec<EnhancedPacketOption<'static>>,
}

fn read(path: &Path) -> Vec<Captured> {
    let mut reader = PcapNgReader::new(File::open(path).expect("it was written")).expect("a capture file");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("no block is malformed") {
            let packet = packet.into_owned();
            let (from, to, udp) = addresses(&packet.data);
            let port = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
            packets.push(Captured {
                at: packet.timestamp,
                from: SocketAddr::new(from, port(0)),
                to: SocketAddr::new(to, port(2)),
                payload: udp[8..].to_vec(),
                options: packet.options,
            });
        }
    }
    packets
}

/// Source, destination and payload of an IP packet.
fn addresses(packet: &[u8]) -> (IpAddr, IpAddr, &[u8]) {
    let v4 = |at: usize| Ipv4Addr::from_octets(packet[at..at + 4].try_into().expect("four bytes")).into();
    let v6 = |at: usize| Ipv6Addr::from_octets(packet[at..at + 16].try_into().expect("sixteen bytes")).into();
    match packet[0] >> 4 {
        4 => (v4(12), v4(16), &packet[20..]),
        version => {
            assert_eq!(version, 6);
            (v6(8), v6(24), &packet[40..])
        }
    }
}

async fn capture(path: &Path, host: &str) -> SocketAddr {
    let capture = Capture::new().write_to(File::create(path).expect("a new file")).expect("a writable file");
    let server = Server::builder().route("/hello", get(async || "world")).watch(capture.clone());
    let server = server.bind("[::]:0").await.expect("a free port");
    let client = Client::builder().watch(capture.clone()).build().expect("defaults");
    let port = server.local_addr().port();
    client.get(format!("coap://{host}:{port}/hello")).await.expect("an answer").successful().expect("2.05");
    let recorded = capture.finish().await.expect("a writable file");
    assert_eq!((recorded.written, recorded.lost), (4, 0));
    SocketAddr::new(host.trim_matches(['[', ']']).parse().expect("an address"), port)
}

#[tokio::test]
async fn both_ends_of_an_exchange_are_captured_with_the_addresses_that_an_unbound_socket_has() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for host in ["127.0.0.1", "[::1]"] {
        let path = directory.path().join("both.pcapng");
        let there = capture(&path, host).await;
        let packets = read(&path);
        let [asked, heard, answered, received] = packets.as_slice() else { panic!("{} packets", packets.len()) };
        let here = asked.from;
        assert_eq!(here.ip(), there.ip(), "both are on this host");
        for (packet, from, to, code) in [
            (asked, here, there, Code::GET),
            (heard, here, there, Code::GET),
            (answered, there, here, Code::CONTENT),
            (received, there, here, Code::CONTENT),
        ] {
            assert_eq!((packet.from, packet.to), (from, to));
            assert_eq!(Message::decode(&packet.payload).expect("a CoAP message").code(), code);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
        assert!(now.abs_diff(asked.at) < Duration::from_secs(600), "{:?} is not {now:?}", asked.at);
    }
}

#[tokio::test(start_paused = true)]
async fn retransmissions_have_a_comment() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("silent.pcapng");
    let capture = Capture::new().write_to(File::create(&path).expect("a new file")).expect("a writable file");
    // Its backoff allows all four retransmissions.
    let client = Client::builder().controller(CoapDefault::default()).watch(capture.clone()).build().expect("defaults");
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
    client.get(format!("coap://{}/", silent.local_addr().expect("it is bound"))).await.expect_err("nobody answers");
    capture.finish().await.expect("a writable file");
    let comments: Vec<_> = read(&path)
        .iter()
        .map(|packet| {
            packet.options.iter().find_map(|option| match option {
                EnhancedPacketOption::Comment(comment) => Some(comment.clone().into_owned()),
                _ => None,
            })
        })
        .collect();
    assert_eq!(comments.len(), 5);
    assert_eq!((comments[0].as_deref(), comments[4].as_deref()), (None, Some("retransmission 4")));
}

#[tokio::test]
#[ignore = "needs tshark"]
async fn wireshark_finds_the_response_to_each_request() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for host in ["127.0.0.1", "[::1]"] {
        let path = directory.path().join("both.pcapng");
        let port = capture(&path, host).await.port();
        let arguments = ["-d", &format!("udp.port=={port},coap"), "-Y", "coap && !_ws.malformed", "-T", "fields"];
        let fields =
            ["-e", "coap.code", "-e", "coap.response_to", "-o", "udp.check_checksum:TRUE", "-e", "udp.checksum.status"];
        let output = Command::new("tshark").arg("-r").arg(&path).args(arguments).args(fields).output();
        let Ok(output) = output else {
            assert!(
                std::env::var_os("CONCHE_REQUIRE_TOOLS").is_none(),
                "tshark does not run; install the package tshark"
            );
            return eprintln!("skipped: tshark does not run");
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        let codes: Vec<_> = lines.iter().map(|fields| fields[0]).collect();
        assert_eq!(codes, ["1", "1", "69", "69"], "{text}");
        assert!(lines[2..].iter().all(|fields| !fields[1].is_empty()), "{text}");
        // 1 means "good".
        assert!(lines.iter().all(|fields| fields[2] == "1"), "{text}");
    }
}
