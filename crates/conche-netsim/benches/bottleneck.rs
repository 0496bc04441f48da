//! How fast the simulator runs: clients in a closed loop at one slow link, as ANRW'18 has them, and the event queue alone.
//!
//! Throughput is in events a second. The copies of the bottleneck's requests are about 1.2 a exchange with 100 clients.

use std::hint::black_box;
use std::time::Duration;

use conche_netsim::node::{Application, Context, Node};
use conche_netsim::packet::Cause;
use conche_netsim::rng::{Entity, Purpose, Streams};
use conche_netsim::scheduler::Scheduler;
use conche_netsim::wired::{DropTail, Jitter, LinkConfig, Topology};
use conche_netsim::{BitRate, Instant, NodeId, Simulation};
use conche_proto::cc::default::CoapDefault;
use conche_proto::codec::{Body, Code};
use conche_proto::{EndpointConfig, Envelope, Event, Request, RequestId, Response, TransmissionParameters};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

enum Role {
    Client { server: NodeId, left: u32 },
    Server { response: Body },
}

impl Application for Role {
    type Controller = CoapDefault;
    type Timer = (RequestId, Option<Cause>);

    fn start(&mut self, context: &mut Context<'_, Self>) {
        if let Role::Client { server, .. } = *self {
            context.request(server, Request::new(Code::GET, Body::default())).expect("nothing is queued");
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        match (self, event) {
            (Role::Server { .. }, Event::Request { id, .. }) => {
                let delay = Duration::from_nanos(context.rng().between(2_000_000, 4_000_000));
                let cause = context.cause();
                context.set_timer(delay, (id, cause));
            }
            (Role::Client { server, left }, Event::Response { .. }) if *left > 1 => {
                *left -= 1;
                context.request(*server, Request::new(Code::GET, Body::default())).expect("nothing is queued");
            }
            _ => {}
        }
    }

    fn timer(&mut self, context: &mut Context<'_, Self>, (request, cause): Self::Timer) {
        if let Role::Server { response } = self {
            context.respond_to(cause, request, Response::new(Code::CONTENT, response.clone())).expect("it is waiting");
        }
    }
}

fn bottleneck(clients: u32, queue: DropTail) -> Simulation<Node<Role>> {
    let ms = Duration::from_millis;
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

    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    let response = Body::builder().payload(vec![b'.'; 61]).build().expect("a payload of 61 bytes");
    for node in clients.into_iter().chain([server]) {
        let role = if node == server {
            Role::Server { response: response.clone() }
        } else {
            Role::Client { server, left: 50 }
        };
        let config = EndpointConfig {
            transmission: TransmissionParameters { max_retransmit: 20, ..TransmissionParameters::default() },
            envelope: Envelope::open(Duration::from_secs(60)),
            token_length: 0,
            ..EndpointConfig::default()
        };
        let seed = sim.streams().seed_bytes(Entity::Node(node), Purpose::named("endpoint"));
        let host = Node::new(config, CoapDefault::default(), seed, role).expect("a valid configuration");
        sim.attach(node, host).expect("a node");
    }
    sim
}

fn runs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bottleneck");
    group.sample_size(10);
    for (name, clients, queue) in
        [("100 clients, 14100 B", 100, DropTail::bytes(14_100)), ("400 clients, no limit", 400, DropTail::default())]
    {
        let mut once = bottleneck(clients, queue);
        once.run();
        println!("{name}: {} events, {:?}", once.events(), once.counters());
        group.throughput(Throughput::Elements(once.events()));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_batched(|| bottleneck(clients, queue), |mut sim| sim.run(), BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// The hold model: take the next event and schedule another one, with a constant number pending.
fn hold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hold");
    group.throughput(Throughput::Elements(1));
    for pending in [64, 512, 4096] {
        let mut stream = Streams::new(1).stream(Entity::Run, Purpose::named("hold"));
        let mut scheduler = Scheduler::new();
        for _ in 0..pending {
            scheduler.schedule(Instant::from_nanos(stream.below(1_000_000)), [0_u32; 3]);
        }
        group.bench_function(BenchmarkId::from_parameter(pending), |bencher| {
            bencher.iter(|| {
                let event = scheduler.next(Instant::FAR_FUTURE).expect("never empty");
                scheduler.schedule(scheduler.now() + Duration::from_nanos(stream.below(1_000_000)), black_box(event));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, runs, hold);
criterion_main!(benches);
