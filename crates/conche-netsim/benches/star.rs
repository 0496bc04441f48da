//! Speed of radio networks: a saturated IEEE 802.15.4 star, and CoAP over one, with receivers
//! always on and with ContikiMAC.
//!
//! Throughput is in events per second. The CoAP star matches a common comparison: 29 clients and a
//! server in range of each other, 50 exchanges each, requests of 60 bytes and responses of 12 bytes
//! of UDP payload.

use std::hint::black_box;
use std::time::Duration;

use conche_netsim::host::{Host, Port, Received};
use conche_netsim::mac::{MacConfig, QueueConfig, RadioConfig};
use conche_netsim::radio::{MediumConfig, PathLoss, Position, Sinr, Udgm};
use conche_netsim::wired::Topology;
use conche_netsim::{Instant, NodeId, Simulation};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const STATIONS: usize = 30;

/// A grid of 6 columns, 5 m apart, with hops to the first station.
fn star(medium: MediumConfig, mac: MacConfig) -> (Topology, Vec<NodeId>) {
    let mut net = Topology::new();
    let radio = net.radio("air", RadioConfig { medium, mac });
    let nodes: Vec<NodeId> = (0..STATIONS).map(|i| net.node(format!("n{i}"))).collect();
    for (i, node) in nodes.iter().enumerate() {
        net.place(radio, *node, Position::metres(5.0 * (i % 6) as f64, 5.0 * (i / 6) as f64));
    }
    for (i, node) in nodes.iter().enumerate().skip(1) {
        net.duplex_hop(format!("hop{i}"), radio, *node, nodes[0]);
    }
    (net, nodes)
}

enum Saturated {
    Sender(NodeId),
    Sink,
}

impl Host for Saturated {
    type Timer = ();

    fn start(&mut self, port: &mut Port<'_, ()>) {
        let first = port.rng().below(100_000_000);
        port.set_timer(Duration::from_nanos(first), ());
    }

    fn timer(&mut self, port: &mut Port<'_, ()>, (): ()) {
        if let Self::Sender(to) = *self {
            for _ in 0..20 {
                port.send(to, &[0; 100], None, None);
            }
            port.set_timer(Duration::from_millis(100), ());
        }
    }

    fn receive(&mut self, _: &mut Port<'_, ()>, _: Received<'_>) {}
    fn wake(&mut self, _: &mut Port<'_, ()>) {}
}

fn saturated(medium: MediumConfig) -> Simulation<Saturated> {
    let queue = QueueConfig { packets: Some(64), neighbours: None };
    let (net, nodes) = star(medium, MacConfig { queue, ..MacConfig::ieee802154() });
    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    sim.attach(nodes[0], Saturated::Sink).expect("a node");
    for node in &nodes[1..] {
        sim.attach(*node, Saturated::Sender(nodes[0])).expect("a node");
    }
    sim
}

/// Sends requests of 60 bytes until 50 have ended, with a first timeout of U(2, 3) s that doubles
/// and 4 retransmissions, or responds with 12 bytes.
enum Exchange {
    Client { server: NodeId, number: u32, left: u32, attempt: u32, timeout: Duration },
    Server,
}

impl Exchange {
    fn next(&mut self, port: &mut Port<'_, (u32, u32)>) {
        let Self::Client { number, left, attempt, timeout, .. } = self else { return };
        if *left == 0 {
            return;
        }
        (*number, *left, *attempt) = (*number + 1, *left - 1, 0);
        *timeout = Duration::from_nanos(port.rng().between(2_000_000_000, 3_000_000_000));
        self.transmit(port);
    }

    fn transmit(&mut self, port: &mut Port<'_, (u32, u32)>) {
        let Self::Client { server, number, attempt, timeout, .. } = self else { return };
        let mut request = [0; 60];
        request[..4].copy_from_slice(&number.to_be_bytes());
        port.send(*server, &request, None, None);
        port.set_timer(*timeout, (*number, *attempt));
    }
}

impl Host for Exchange {
    type Timer = (u32, u32);

    fn start(&mut self, port: &mut Port<'_, (u32, u32)>) {
        if matches!(self, Self::Client { .. }) {
            port.set_timer(Duration::from_millis(50) * port.node().as_u32(), (0, 0));
        }
    }

    fn timer(&mut self, port: &mut Port<'_, (u32, u32)>, (of, try_of): (u32, u32)) {
        let Self::Client { number, attempt, timeout, .. } = self else { return };
        if of != *number || try_of != *attempt {
            return;
        }
        if of == 0 || *attempt == 4 {
            return self.next(port);
        }
        (*attempt, *timeout) = (*attempt + 1, *timeout * 2);
        self.transmit(port);
    }

    fn receive(&mut self, port: &mut Port<'_, (u32, u32)>, packet: Received<'_>) {
        match self {
            Self::Server => {
                port.send(packet.meta.from, &packet.bytes[..12], None, None);
            }
            Self::Client { number, .. } if packet.bytes[..4] == number.to_be_bytes() => self.next(port),
            Self::Client { .. } => {}
        }
    }

    fn wake(&mut self, _: &mut Port<'_, (u32, u32)>) {}
}

fn exchanges(medium: MediumConfig, mac: MacConfig) -> Simulation<Exchange> {
    // MHR 9, FCS 2, IPHC 2, addresses elided, UDP 6.
    let (net, nodes) = star(medium, MacConfig { overhead_octets: 19, ..mac });
    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    sim.attach(nodes[0], Exchange::Server).expect("a node");
    for node in &nodes[1..] {
        let client = Exchange::Client { server: nodes[0], number: 0, left: 50, attempt: 0, timeout: Duration::ZERO };
        sim.attach(*node, client).expect("a node");
    }
    sim
}

fn media() -> [(&'static str, MediumConfig); 2] {
    let path_loss = PathLoss::LogDistance {
        reference_loss_db: 46.7,
        exponent: 3.0,
        shadowing_sigma_db: 0.0,
        asymmetry_sigma_db: 0.0,
    };
    let sinr =
        Sinr { path_loss, noise_dbm: -110.0, sensitivity_dbm: -106.0, cca_threshold_dbm: -96.0, ..Sinr::default() };
    [("udgm", MediumConfig::Udgm(Udgm::default())), ("sinr", MediumConfig::Sinr(sinr))]
}

fn saturated_star(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("saturated star of 30");
    group.sample_size(10);
    let end = Instant::from_millis(20_000);
    for (name, medium) in media() {
        let mut once = saturated(medium.clone());
        once.run_until(end);
        println!("{name}: {} events, {:?}", once.events(), once.counters());
        group.throughput(Throughput::Elements(once.events()));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let setup = || saturated(medium.clone());
            bencher.iter_batched(setup, |mut sim| black_box(sim.run_until(end)), BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn coap_star(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("29 clients, 50 exchanges each");
    group.sample_size(10);
    let [udgm, sinr] = media();
    let asleep = MacConfig::contiki27_contikimac();
    for ((name, medium), mac) in
        [(udgm.clone(), MacConfig::ieee802154()), (sinr, MacConfig::ieee802154()), (("contikimac", udgm.1), asleep)]
    {
        let mut once = exchanges(medium.clone(), mac);
        once.run();
        println!("{name}: {} events, {:?}, {:?} of virtual time", once.events(), once.counters(), once.now());
        group.throughput(Throughput::Elements(once.events()));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            let setup = || exchanges(medium.clone(), mac);
            bencher.iter_batched(setup, |mut sim| black_box(sim.run()), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, saturated_star, coap_star);
criterion_main!(benches);
