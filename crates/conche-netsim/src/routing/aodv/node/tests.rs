//! Small networks of AODV nodes, drawn beside their tests.

use super::super::metric::tests::path_dr;
use super::*;
use crate::rng::{Entity, Purpose, Streams};

const STRONG: f64 = 20.0;
const WEAK: f64 = 4.0;

struct Net {
    nodes: Vec<Aodv>,
    links: Vec<(u32, u32, f64)>,
    stream: Stream,
    now: Instant,
    sent: Vec<(u32, Message)>,
    found: Vec<(u32, Output)>,
}

impl Net {
    fn new(metric: Metric, links: &[(u32, u32, f64)]) -> Self {
        let ms = Duration::from_millis;
        let reply_wait = if metric == Metric::HopCount { Duration::ZERO } else { ms(100) };
        let config = AodvConfig {
            metric,
            reply_wait,
            net_traversal_time: ms(1000),
            rreq_retries: 2,
            forward_jitter: ms(5),
            net_diameter: 10,
        };
        let count = links.iter().map(|(a, b, _)| a.max(b) + 1).max().expect("a link");
        Self {
            nodes: (0..count).map(|node| Aodv::new(NodeId(node), config.clone())).collect(),
            links: links.to_vec(),
            stream: Streams::new(1).stream(Entity::Run, Purpose::named("net")),
            now: Instant::ZERO,
            sent: Vec::new(),
            found: Vec::new(),
        }
    }

    fn discover(&mut self, from: u32, to: u32) {
        self.nodes[from as usize].discover(self.now, NodeId(to));
        self.run();
    }

    fn run(&mut self) {
        loop {
            let mut arriving = Vec::new();
            for node in 0..self.nodes.len() {
                while let Some(output) = self.nodes[node].poll(self.now) {
                    let from = self.nodes[node].address.0;
                    match output {
                        Output::Broadcast(message) => arriving.extend(self.heard(from, None, message)),
                        Output::Unicast(to, message) => arriving.extend(self.heard(from, Some(to.0), message)),
                        output => self.found.push((from, output)),
                    }
                }
            }
            if arriving.is_empty() {
                let Some(next) = self.nodes.iter().filter_map(Aodv::next_wake).min() else { return };
                self.now = next.max(self.now);
            } else {
                self.now += Duration::from_millis(1);
            }
            for (from, to, snr_db, message) in arriving {
                self.nodes[to as usize].receive(self.now, NodeId(from), snr_db, message, &mut self.stream);
            }
        }
    }

    fn heard(&mut self, from: u32, only: Option<u32>, message: Message) -> Vec<(u32, u32, f64, Message)> {
        self.sent.push((from, message));
        let both_ways = self.links.iter().flat_map(|&(a, b, snr_db)| [(a, b, snr_db), (b, a, snr_db)]);
        both_ways
            .filter(|(a, b, _)| *a == from && only.is_none_or(|only| only == *b))
            .map(|(_, to, snr_db)| (from, to, snr_db, message))
            .collect()
    }

    fn route(&self, from: u32, to: u32) -> Vec<u32> {
        let mut way = vec![from];
        while let Some(at) = way.last().copied().filter(|at| *at != to) {
            let Some(next) = self.nodes[at as usize].next_hop(NodeId(to)) else { break };
            way.push(next.0);
            assert!(way.len() < 20, "a loop: {way:?}");
        }
        way
    }

    fn requests_by(&self, node: u32) -> usize {
        let is_request = |message: &Message| matches!(message, Message::Request { .. });
        self.sent.iter().filter(|(from, message)| *from == node && is_request(message)).count()
    }
}

/// ```text
///   0 ──── 1 ──── 2 ──── 3
///   ╰╴╴╴╴╴╴╴╴╴╴╴╴╴╯ weak
/// ```
const SHORTCUT: [(u32, u32, f64); 4] = [(0, 1, STRONG), (1, 2, STRONG), (2, 3, STRONG), (0, 2, WEAK)];

#[test]
fn hop_count_takes_the_weak_shortcut_and_path_dr_the_strong_way_round() {
    for (metric, way, hops) in [(Metric::HopCount, vec![0, 2, 3], 2), (path_dr(), vec![0, 1, 2, 3], 3)] {
        let mut net = Net::new(metric, &SHORTCUT);
        net.discover(0, 3);
        assert_eq!(net.found, [(0, Output::Found { destination: NodeId(3), hops })]);
        assert_eq!(net.route(0, 3), way);
        assert_eq!(net.route(3, 0), way.iter().rev().copied().collect::<Vec<_>>(), "the way back is the same");
    }
}

#[test]
fn only_the_destination_replies_and_copies_are_forwarded_once() {
    let mut net = Net::new(Metric::HopCount, &SHORTCUT);
    net.discover(1, 3);
    net.sent.clear();
    net.discover(0, 3);
    let replies: Vec<u32> = net
        .sent
        .iter()
        .filter_map(|(from, message)| matches!(message, Message::Reply { .. }).then_some(*from))
        .collect();
    assert_eq!(replies, [3, 2], "node 1 has a route and keeps silent");
    assert_eq!([0, 1, 2, 3].map(|node| net.requests_by(node)), [1, 1, 1, 0]);
}

#[test]
fn a_broken_link_is_reported_to_the_origin_which_finds_another_way() {
    // 0 ─ 1 ─ 3 and 0 ─ 2 ─ 4 ─ 3
    let links = [(0, 1, STRONG), (1, 3, STRONG), (0, 2, STRONG), (2, 4, STRONG), (4, 3, STRONG)];
    let mut net = Net::new(Metric::HopCount, &links);
    net.discover(0, 3);
    assert_eq!(net.route(0, 3), [0, 1, 3]);
    net.links.remove(1);
    net.nodes[1].link_broken(NodeId(3), Some((NodeId(0), NodeId(3))));
    net.run();
    assert_eq!(net.nodes[0].next_hop(NodeId(3)), None);
    net.discover(0, 3);
    assert_eq!(net.route(0, 3), [0, 2, 4, 3]);
}

#[test]
fn a_search_without_reply_is_repeated_twice_and_then_given_up() {
    let mut net = Net::new(Metric::HopCount, &[(0, 1, STRONG), (2, 3, STRONG)]);
    net.discover(0, 3);
    assert_eq!(net.found, [(0, Output::Unreachable(NodeId(3)))]);
    assert_eq!(net.requests_by(0), 3);
    assert_eq!(net.now, Instant::from_millis(1000 + 2000 + 4000));
}

#[test]
fn a_request_goes_no_further_than_the_diameter() {
    let links: Vec<(u32, u32, f64)> = (0..12).map(|node| (node, node + 1, STRONG)).collect();
    let mut net = Net::new(Metric::HopCount, &links);
    net.discover(0, 10);
    net.discover(0, 11);
    assert_eq!(net.found[0].1, Output::Found { destination: NodeId(10), hops: 10 });
    assert_eq!(net.found[1].1, Output::Unreachable(NodeId(11)));
}
