//! Malformed and unusual datagrams against the real server process over loopback UDP.
//!
//! Each entry of the corpus starts a new server. A reaction is complete when two consecutive pings
//! have been answered: the server may answer the first ping before a request read together with it,
//! but finishes both before it reads the second. So silence needs no waiting. conche-proto tests
//! reactions that take time (EXCHANGE_LIFETIME, NON_LIFETIME) with a virtual clock.

#![allow(missing_docs, reason = "a test")]

mod common;

use std::net::UdpSocket;
use std::time::Duration;

use serde::Deserialize;

#[derive(Deserialize)]
struct Corpus {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    group: String,
    name: String,
    role: String,
    dst: Option<String>,
    hex: Option<String>,
    #[serde(rename = "gen")]
    generated: Option<Generated>,
    expect: Expectation,
    #[serde(default)]
    also_accept: Vec<Reaction>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Generated {
    prefix: String,
    repeat: String,
    count: usize,
    #[serde(default)]
    suffix: String,
}

#[derive(Deserialize)]
struct Expectation {
    #[serde(default)]
    accept: Vec<Reaction>,
}

#[derive(Deserialize)]
struct Step {
    t_ms: u64,
    hex: String,
    accept: Vec<Reaction>,
    identical_to_step: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct Reaction {
    kind: String,
    hex: Option<String>,
    prefix: Option<String>,
    #[serde(rename = "type")]
    types: Option<String>,
    code: Option<String>,
    token: Option<String>,
}

impl Reaction {
    fn is(&self, replies: &[String]) -> bool {
        match (self.kind.as_str(), replies) {
            ("silent", replies) => replies.is_empty(),
            ("rst" | "empty_ack" | "exact", [reply]) => Some(reply) == self.hex.as_ref(),
            ("response", [reply]) => self.is_response(reply),
            ("any", _) => true,
            ("rst" | "empty_ack" | "exact" | "response", _) => false,
            (unknown, _) => panic!("the corpus has a kind of reaction that this test does not know: {unknown}"),
        }
    }

    fn is_response(&self, reply: &str) -> bool {
        let bytes = decode(reply);
        let [first, code, _, _, rest @ ..] = bytes.as_slice() else { return false };
        let kind = ["CON", "NON", "ACK", "RST"][usize::from(first >> 4 & 0b11)];
        let token = rest.get(..usize::from(first & 0b1111));
        let has = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        self.types.as_ref().is_none_or(|types| types.split('|').any(|wanted| wanted == kind))
            && has(&self.code, &format!("{}.{:02}", code >> 5, code & 0b1_1111))
            && self.prefix.as_ref().is_none_or(|prefix| reply.starts_with(prefix))
            && token.is_some_and(|token| has(&self.token, &encode(token)))
    }
}

impl Entry {
    /// Whether the entry has an immediate reaction, and needs only unicast CoAP of RFC 7252.
    fn concerns_this_test(&self) -> bool {
        let later = ["block", "observe", "multicast", "oscore", "dtls"];
        self.role == "server"
            && self.dst.as_deref().is_none_or(|destination| destination == "unicast")
            && !later.contains(&self.group.as_str())
            && !self.name.contains("Block")
            && self.steps.iter().all(|step| step.t_ms <= 2000)
    }

    fn datagram(&self) -> Vec<u8> {
        match (&self.hex, &self.generated) {
            (Some(hex), _) => decode(hex),
            (None, Some(Generated { prefix, repeat, count, suffix })) => {
                decode(&format!("{prefix}{}{suffix}", repeat.repeat(*count)))
            }
            (None, None) => panic!("{}: an entry has a datagram or steps", self.id),
        }
    }
}

fn decode(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect()
}

fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn reaction(socket: &UdpSocket, datagram: &[u8]) -> Vec<String> {
    socket.send(datagram).expect("loopback sends");
    let mut replies = Vec::new();
    for id in [0x57, 0x58] {
        socket.send(&[0x40, 0x00, 0x7e, id]).expect("loopback sends");
        let mut buffer = [0; 2048];
        loop {
            let length = socket.recv(&mut buffer).expect("the server still answers a ping");
            if buffer[..length] == [0x70, 0x00, 0x7e, id] {
                break;
            }
            replies.push(encode(&buffer[..length]));
        }
    }
    replies
}

fn complaint(entry: &Entry) -> Option<String> {
    let (_server, address) = common::serve();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
    socket.connect(address).expect("loopback connects");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a positive time");
    let judge = |replies: &[String], accept: &mut dyn Iterator<Item = &Reaction>| {
        let accepted: Vec<&Reaction> = accept.collect();
        let fine = accepted.iter().any(|reaction| reaction.is(replies));
        (!fine).then(|| format!("{} ({}): {replies:?}, accepted are {accepted:?}", entry.id, entry.name))
    };
    if entry.steps.is_empty() {
        let replies = reaction(&socket, &entry.datagram());
        return judge(&replies, &mut entry.expect.accept.iter().chain(&entry.also_accept));
    }
    let mut earlier: Vec<Vec<String>> = Vec::new();
    for step in &entry.steps {
        let replies = reaction(&socket, &decode(&step.hex));
        if let Some(wrong) = judge(&replies, &mut step.accept.iter()) {
            return Some(wrong);
        }
        if step.identical_to_step.is_some_and(|number| earlier.get(number) != Some(&replies)) {
            return Some(format!("{} ({}): {replies:?} after {earlier:?}", entry.id, entry.name));
        }
        earlier.push(replies);
    }
    None
}

#[test]
fn the_server_process_reacts_to_every_datagram_as_the_rfcs_demand() {
    let corpus = include_str!("../../conche-proto/tests/data/malformed-datagrams.json");
    let corpus: Corpus = serde_json::from_str(corpus).expect("the corpus has this schema");
    let entries: Vec<Entry> = corpus.entries.into_iter().filter(Entry::concerns_this_test).collect();
    assert_eq!(entries.len(), 56, "entries that concern this test");
    let wrong: Vec<String> = entries.iter().filter_map(complaint).collect();
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), entries.len(), wrong.join("\n"));
}
