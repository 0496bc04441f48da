//! ANRW'18's topology: completion times without loss, and conservation of transmissions.
//!
//! ```text
//!   client 1 ─┐      60 kbit/s, 200 ms, no limit            U(10, 20) ms
//!      ...    ├─ hub ═══════════════════════════> router ─────────────────> server (answers after U(2, 4) ms)
//!   client N ─┘     <═══════════════════════════         <─────────────────
//!                    30 kbit/s, 400 ms, B bytes wait        U(10, 20) ms
//! ```

use std::time::Duration;

use conche_netsim::node::Node;
use conche_netsim::packet::Packet;
use conche_netsim::trace::Observer;
use conche_netsim::wired::{DropTail, Jitter, LinkConfig, Topology};
use conche_netsim::{BitRate, Instant, NodeId, Simulation};

use crate::roles::{Role, attach, papers_config};

const EXCHANGES: u32 = 50;
/// Time until the first response reaches the head of the return link, plus the time after its
/// serialisation: 4.267 + 200 + 15 + 3 + 15 + 400 ms.
const BASE_SECONDS: f64 = 0.637;
/// 94 bytes at 30 kbit/s.
const SERVICE_SECONDS: f64 = 94.0 * 8.0 / 30_000.0;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn simulate<O: Observer>(clients: u32, queue: DropTail, seed: u64, observer: O) -> Simulation<Node<Role>, O> {
    let mut net = Topology::new();
    let (hub, router, server) = (net.node("hub"), net.node("router"), net.node("server"));
    let rate = |kbit, delay| LinkConfig { rate: Some(BitRate::kbit(kbit)), delay, ..LinkConfig::default() };
    net.link("uplink", hub, router, rate(60, ms(200)));
    net.link("downlink", router, hub, LinkConfig { queue, ..rate(30, ms(400)) });
    let jitter = LinkConfig { jitter: Jitter::uniform_reordering(ms(10), ms(20)), ..LinkConfig::default() };
    net.duplex("jitter", router, server, jitter);
    let clients: Vec<NodeId> = (0..clients)
        .map(|i| {
            let client = net.node(format!("client{i}"));
            net.duplex(format!("access{i}"), client, hub, LinkConfig::default());
            client
        })
        .collect();

    let mut sim = Simulation::new(&net, seed, observer).expect("a valid topology");
    attach(&mut sim, server, papers_config(20), Role::Server { fastest: ms(2), slowest: ms(4) });
    for client in clients {
        attach(&mut sim, client, papers_config(20), Role::client(server, EXCHANGES));
    }
    sim.run();
    sim
}

/// In seconds, sorted.
fn completion_times<O: Observer>(sim: &Simulation<Node<Role>, O>) -> Vec<f64> {
    let clients = sim.hosts().map(|(_, host)| host.application().outcomes()).filter(|outcomes| !outcomes.is_empty());
    let mut times: Vec<f64> = clients
        .map(|outcomes| {
            assert_eq!(outcomes.len(), EXCHANGES as usize);
            assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()));
            outcomes.last().expect("not empty").at.as_nanos() as f64 / 1e9
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times
}

/// 50 clients, room for 150 frames: the return link never idles and loses nothing, so the k-th
/// client finishes after FCT_k = L + (49N + k)·s, exactly, except that L contains the first frame's
/// jitter.
#[test]
fn clients_of_a_saturated_link_finish_one_service_time_after_another() {
    const RUNS: u32 = 20;
    let mut sums = vec![0.0; 50];
    for seed in 1..=RUNS {
        let times = completion_times(&simulate(50, DropTail::bytes(14_100), seed.into(), ()));
        assert_eq!(times.len(), 50);
        for pair in times.windows(2) {
            assert!((pair[1] - pair[0] - SERVICE_SECONDS).abs() < 1e-6, "seed {seed}: {pair:?}");
        }
        for (sum, time) in sums.iter_mut().zip(times) {
            *sum += time;
        }
    }
    for (k, sum) in (1..).zip(sums) {
        let (measured, expected) = (sum / f64::from(RUNS), BASE_SECONDS + SERVICE_SECONDS * f64::from(49 * 50 + k));
        assert!((measured - expected).abs() < 0.005, "client {k}: {measured:.4} s instead of {expected:.4} s");
    }
}

/// The knee: an unloaded round trip with its service time, 0.662 s, is 26 service times. Fewer
/// clients leave the link idle and each exchange takes the unloaded time; more wait for the link.
#[test]
fn the_link_saturates_at_26_clients() {
    let mean_of = |clients| {
        let times = completion_times(&simulate(clients, DropTail::default(), 1, ()));
        times.iter().sum::<f64>() / times.len() as f64 / f64::from(EXCHANGES)
    };
    let unloaded = BASE_SECONDS + SERVICE_SECONDS;
    assert!((mean_of(1) / unloaded - 1.0).abs() < 0.005, "1 client: {:.4} s an exchange", mean_of(1));
    assert!((mean_of(10) / unloaded - 1.0).abs() < 0.04, "10 clients: {:.4} s an exchange", mean_of(10));
    let saturated = 60.0 * SERVICE_SECONDS;
    assert!((mean_of(60) / saturated - 1.0).abs() < 0.02, "60 clients: {:.4} s an exchange", mean_of(60));
}

#[derive(Default)]
struct Responses {
    delivered: u32,
    last: Instant,
}

impl Observer for Responses {
    fn on_delivered(&mut self, now: Instant, packet: &Packet) {
        if packet.meta.cause.is_some() {
            self.delivered += 1;
            self.last = now;
        }
    }
}

/// 400 clients, no limit: each transmission is answered over the return link, which never idles, so
/// the last response arrives after L + s·Σ transmissions.
#[test]
fn without_a_limit_the_run_lasts_as_long_as_all_copies_take() {
    let sim = simulate(400, DropTail::default(), 1, Responses::default());
    let copies: u32 = sim
        .hosts()
        .flat_map(|(_, host)| host.application().outcomes())
        .map(|outcome| outcome.course.transmissions)
        .sum();
    let counters = sim.counters();
    assert_eq!(counters.sent, 2 * u64::from(copies), "the server answers every copy");
    assert_eq!((counters.dropped, counters.in_flight), (0, 0));
    assert_eq!(sim.observer().delivered, copies);
    let expected = BASE_SECONDS + SERVICE_SECONDS * f64::from(copies);
    let measured = sim.observer().last.as_nanos() as f64 / 1e9;
    assert!((measured / expected - 1.0).abs() < 0.001, "{measured:.1} s instead of {expected:.1} s");
    // `tests/models/bottleneck.py`, an independent model, has this many transmissions, ± 8.
    assert!(copies.abs_diff(98_232) < 100, "{copies} copies");
}
