//! Speed of the simulator: clients in a closed loop at one slow link, as in ANRW'18, and the event
//! queue alone.
//!
//! Throughput is in events per second. The bottleneck's requests are transmitted about 1.2 times
//! per exchange with 100 clients. One case matches a common comparison: 100 clients, 50 exchanges
//! each, requests of 60 bytes over 30 kbit/s and responses of 12 bytes over 60 kbit/s, 14100 B of
//! buffer in each direction, 4 retransmissions.

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
    Client { server: NodeId, left: u32, request: Body },
    Server { response: Body },
}

impl Application for Role {
    type Timer = (RequestId, Option<Cause>);

    fn start(&mut self, context: &mut Context<'_, Self>) {
        if let Role::Client { server, request, .. } = self {
            context.request(*server, Request::new(Code::GET, request.clone())).expect("nothing is queued");
        }
    }

    fn event(&mut self, context: &mut Context<'_, Self>, event: Event<NodeId>) {
        match (self, event) {
            (Role::Server { .. }, Event::Request { id, .. }) => {
                let delay = Duration::from_nanos(context.rng().between(2_000_000, 4_000_000));
                let cause = context.cause();
                context.set_timer(delay, (id, cause));
            }
            (Role::Client { server, left, request }, Event::Response { .. } | Event::Failed { .. }) if *left > 1 => {
                *left -= 1;
                context.request(*server, Request::new(Code::GET, request.clone())).expect("nothing is queued");
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

struct Case {
    clients: u32,
    up: LinkConfig,
    down: LinkConfig,
    request_bytes: usize,
    response_bytes: usize,
    max_retransmit: u8,
}

fn link(kbit: u64, delay_ms: u64, queue: DropTail) -> LinkConfig {
    let (rate, delay) = (Some(BitRate::kbit(kbit)), Duration::from_millis(delay_ms));
    LinkConfig { rate, delay, queue, ..LinkConfig::default() }
}

impl Case {
    fn anrw18(clients: u32, queue: DropTail) -> Self {
        let (up, down) = (link(60, 200, DropTail::default()), link(30, 400, queue));
        Self { clients, up, down, request_bytes: 4, response_bytes: 66, max_retransmit: 20 }
    }

    fn common() -> Self {
        let (up, down) = (link(30, 400, DropTail::bytes(14_100)), link(60, 200, DropTail::bytes(14_100)));
        Self { clients: 100, up, down, request_bytes: 60, response_bytes: 12, max_retransmit: 4 }
    }
}

fn body(message_bytes: usize) -> Body {
    let payload = vec![b'.'; message_bytes.saturating_sub(5)];
    Body::builder().payload(payload).build().expect("a short payload")
}

fn bottleneck(case: &Case) -> Simulation<Node<Role>> {
    let ms = Duration::from_millis;
    let mut net = Topology::new();
    let (hub, router, server) = (net.node("hub"), net.node("router"), net.node("server"));
    net.link("uplink", hub, router, case.up);
    net.link("downlink", router, hub, case.down);
    let jitter = LinkConfig { jitter: Jitter::uniform_reordering(ms(10), ms(20)), ..LinkConfig::default() };
    net.duplex("jitter", router, server, jitter);
    let clients: Vec<NodeId> = (0..case.clients)
        .map(|i| {
            let client = net.node(format!("client{i}"));
            net.duplex(format!("access{i}"), client, hub, LinkConfig::default());
            client
        })
        .collect();

    let mut sim = Simulation::new(&net, 1, ()).expect("a valid topology");
    let (request, response) = (body(case.request_bytes), body(case.response_bytes));
    for node in clients.into_iter().chain([server]) {
        let role = if node == server {
            Role::Server { response: response.clone() }
        } else {
            Role::Client { server, left: 50, request: request.clone() }
        };
        let config = EndpointConfig {
            transmission: TransmissionParameters {
                max_retransmit: case.max_retransmit,
                ..TransmissionParameters::default()
            },
            envelope: Envelope::open(Duration::from_secs(60)),
            token_length: 0,
            source_validation: conche_proto::SourceValidation::Off,
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
    for (name, case) in [
        ("100 clients, 14100 B", Case::anrw18(100, DropTail::bytes(14_100))),
        ("400 clients, no limit", Case::anrw18(400, DropTail::default())),
        ("100 clients, 60 and 12 B", Case::common()),
    ] {
        let mut once = bottleneck(&case);
        once.run();
        println!("{name}: {} events, {:?}", once.events(), once.counters());
        group.throughput(Throughput::Elements(once.events()));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_batched(|| bottleneck(&case), |mut sim| sim.run(), BatchSize::PerIteration);
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
