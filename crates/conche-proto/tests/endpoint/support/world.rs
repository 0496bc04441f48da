//! [`World`]: endpoints, a network, and a clock that advances from one wake-up to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::OwnedMessage;
use conche_proto::{Endpoint, EndpointConfig, Event, ExchangeId, Input, Instant, Output, Request, SourceValidation};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::{CLIENT, Fixture, SERVER, Streamer, ms};
use crate::model::Address;
use crate::model::checker::Checker;

#[derive(Clone, Debug)]
pub struct Datagram {
    pub at: Instant,
    pub from: Address,
    pub to: Address,
    pub bytes: Vec<u8>,
    /// The sender's exchange and the number of the transmission.
    pub exchange: Option<(ExchangeId, u8)>,
}

impl Datagram {
    pub fn message(&self) -> OwnedMessage {
        OwnedMessage::from(super::wire::decode(&self.bytes))
    }
}

/// Delays of all copies of a datagram that arrive: none for a loss, two for a duplication.
pub type Link<D = Datagram> = Box<dyn FnMut(&D) -> Vec<Duration>>;

pub struct Node {
    pub endpoint: Endpoint<Address, AnyController>,
    pub checker: Checker,
    /// Answers requests; without it they are only recorded.
    pub app: Option<Fixture>,
    pub streamer: Option<Streamer>,
    pub events: Vec<(Instant, Event<Address>)>,
    wake: Option<Instant>,
}

/// Endpoints and the network between them. Datagrams to other addresses are dropped.
pub struct World {
    pub now: Instant,
    pub link: Link,
    pub in_bursts: bool,
    pub sent: Vec<Datagram>,
    nodes: BTreeMap<Address, Node>,
    arrivals: BTreeMap<(Instant, u64), Datagram>,
    sequence: u64,
    buffer: Vec<u8>,
}

impl World {
    /// A client and the fixture server with the default configuration and RFC 7252's congestion
    /// control.
    pub fn pair() -> Self {
        Self::pair_of(&EndpointConfig::default(), &by_name("default"), 7)
    }

    pub fn client() -> Self {
        Self::client_of(&EndpointConfig::default(), by_name("default"))
    }

    pub fn server() -> Self {
        let mut world = Self::empty();
        world.add(SERVER, EndpointConfig::default(), by_name("default"), 9);
        world.node(SERVER).app = Some(Fixture::default());
        world
    }

    pub fn pair_of(config: &EndpointConfig, controller: &AnyController, seed: u64) -> Self {
        let mut world = Self::empty();
        world.add(CLIENT, config.clone(), controller.clone(), seed);
        world.add(SERVER, config.clone(), controller.clone(), seed ^ u64::MAX);
        world.node(SERVER).app = Some(Fixture::default());
        world
    }

    pub fn client_of(config: &EndpointConfig, controller: AnyController) -> Self {
        let mut world = Self::empty();
        world.add(CLIENT, config.clone(), controller, 7);
        world
    }

    /// Without nodes, at the epoch.
    pub fn empty() -> Self {
        Self {
            now: Instant::ZERO,
            link: Box::new(|_| vec![ms(10)]),
            in_bursts: false,
            sent: Vec::new(),
            nodes: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            sequence: 0,
            buffer: vec![0; 2048],
        }
    }

    /// Without source validation.
    pub fn add(&mut self, address: Address, config: EndpointConfig, controller: AnyController, seed: u64) {
        let config = EndpointConfig { source_validation: SourceValidation::Off, ..config };
        let checker = Checker::new(&config);
        let endpoint = Endpoint::new(config, controller, seed_of(seed)).expect("legal parameters");
        self.nodes
            .insert(address, Node { endpoint, checker, app: None, streamer: None, events: Vec::new(), wake: None });
    }

    pub fn node(&mut self, address: Address) -> &mut Node {
        self.nodes.get_mut(&address).expect("there is a node at this address")
    }

    pub fn events(&self, address: Address) -> &[(Instant, Event<Address>)] {
        &self.nodes[&address].events
    }

    pub fn app(&self) -> &Fixture {
        self.nodes[&SERVER].app.as_ref().expect("the server has the fixture application")
    }

    pub fn request(&mut self, request: Request) -> ExchangeId {
        self.request_to(SERVER, request)
    }

    pub fn request_to(&mut self, to: Address, request: Request) -> ExchangeId {
        let timeout = request.timeout;
        let now = self.now;
        let client = self.node(CLIENT);
        let id = client.endpoint.request(now, to, request).expect("the client has room for the request");
        client.checker.opened(now, id, to, timeout);
        self.settle(CLIENT);
        id
    }

    pub fn ping(&mut self, to: Address) -> ExchangeId {
        let now = self.now;
        let client = self.node(CLIENT);
        let id = client.endpoint.ping(now, to).expect("the client has room for a ping");
        client.checker.opened(now, id, to, None);
        self.settle(CLIENT);
        id
    }

    pub fn cancel(&mut self, id: ExchangeId) -> bool {
        let now = self.now;
        let client = self.node(CLIENT);
        let was_open = client.endpoint.cancel(now, id);
        client.checker.cancelled(id, was_open);
        self.settle(CLIENT);
        was_open
    }

    pub fn inject(&mut self, from: Address, to: Address, bytes: &[u8]) {
        let now = self.now;
        let node = self.node(to);
        node.checker.received(now, from, bytes);
        node.endpoint.handle(now, Input::datagram(from, bytes)).expect("worlds poll after every input");
        self.settle(to);
    }

    pub fn unreachable(&mut self, peer: Address, quoted: Option<&[u8]>) {
        let now = self.now;
        let input = Input::Unreachable { peer, quoted };
        self.node(CLIENT).endpoint.handle(now, input).expect("worlds poll after every input");
        self.settle(CLIENT);
    }

    pub fn next(&self) -> Option<Instant> {
        let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
        let nodes = self.nodes.values();
        let wakes = nodes.flat_map(|node| {
            let apps = [node.app.as_ref().and_then(Fixture::next), node.streamer.as_ref().and_then(Streamer::next)];
            apps.into_iter().chain([node.wake])
        });
        let wakes = wakes.flatten();
        wakes.chain(arrival).min()
    }

    pub fn step(&mut self) -> bool {
        let Some(next) = self.next().map(|next| next.max(self.now)) else { return false };
        self.check_that_nothing_happens_before(next);
        self.now = next;
        while let Some(entry) = self.arrivals.first_entry().filter(|entry| entry.key().0 <= next) {
            let Datagram { from, to, bytes, .. } = entry.remove();
            self.inject(from, to, &bytes);
        }
        for address in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.let_app_respond(address);
            self.settle(address);
        }
        true
    }

    pub fn run_until(&mut self, until: Instant) {
        while self.next().is_some_and(|next| next <= until) {
            self.step();
        }
        self.now = self.now.max(until);
    }

    pub fn run(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Asserts that every exchange ended.
    pub fn run_to_end(&mut self) {
        while self.step() {}
        for node in self.nodes.values() {
            node.checker.finish();
            let occupancy = node.endpoint.occupancy();
            assert_eq!((occupancy.exchanges, occupancy.queued, occupancy.timers), (0, 0, 0));
            assert_eq!((occupancy.deduplication_entries, occupancy.deduplication_bytes), (0, 0));
            assert_eq!((occupancy.transfers, occupancy.assemblies, occupancy.representations), (0, 0, 0));
            assert_eq!((occupancy.body_bytes, occupancy.streams), (0, 0));
            assert!(node.streamer.is_none() || occupancy.incoming == 0, "{occupancy:?}");
        }
    }

    pub fn sleep(&mut self, span: Duration) {
        self.now += span;
        for node in self.nodes.values_mut() {
            node.checker.punctual = false;
        }
        for address in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.settle(address);
        }
    }

    pub fn sent_by(&self, from: Address) -> impl DoubleEndedIterator<Item = &Datagram> {
        self.sent.iter().filter(move |datagram| datagram.from == from)
    }

    pub fn departures(&self, id: ExchangeId) -> Vec<Instant> {
        let of_exchange = |datagram: &&Datagram| datagram.exchange.is_some_and(|(exchange, _)| exchange == id);
        self.sent.iter().filter(of_exchange).map(|datagram| datagram.at).collect()
    }

    pub fn first_copy(&self, id: ExchangeId) -> Datagram {
        self.sent.iter().find(|datagram| datagram.exchange == Some((id, 0))).expect("the message left").clone()
    }

    /// The application responds at once.
    pub fn settle(&mut self, address: Address) {
        loop {
            let (now, buffer) = (self.now, &mut self.buffer);
            let node = self.nodes.get_mut(&address).expect("there is a node at this address");
            match node.endpoint.poll(now, buffer) {
                Output::Transmit(transmit) => {
                    let bytes = self.buffer[..transmit.len].to_vec();
                    node.checker.transmitted(now, &transmit, &bytes);
                    let exchange = transmit.exchange.map(|exchange| (exchange, transmit.attempt));
                    self.transmit(Datagram { at: now, from: address, to: transmit.to, bytes, exchange });
                }
                Output::Event(event) => {
                    #[cfg(feature = "oscore")]
                    if let Event::Reserve(reserve) = &event {
                        node.endpoint.reserved(*reserve);
                    }
                    node.checker.event(now, &event);
                    if let (Some(app), Event::Request { id, message, .. }) = (&mut node.app, &event)
                        && let Some(response) = app.handle(now, *id, message)
                    {
                        let exchange = node.endpoint.respond(now, *id, response).expect("the request waits");
                        let Event::Request { from, .. } = &event else { unreachable!("matched above") };
                        match exchange {
                            Some(exchange) if self.in_bursts => node.checker.opened(now, exchange, *from, None),
                            _ => assert_eq!(exchange, None, "quick responses are piggybacked or Non-confirmable"),
                        }
                    }
                    if let Some(streamer) = &mut node.streamer {
                        streamer.event(now, &mut node.endpoint, &event);
                    }
                    node.events.push((now, event));
                }
                Output::Wait(wake) => {
                    node.wake = wake;
                    node.checker.settled(now, &node.endpoint, wake);
                    return;
                }
            }
        }
    }

    fn let_app_respond(&mut self, address: Address) {
        let now = self.now;
        let node = self.node(address);
        if let Some(streamer) = &mut node.streamer {
            streamer.due(now, &mut node.endpoint);
        }
        for (id, response) in node.app.as_mut().map(|app| app.due(now)).unwrap_or_default() {
            let from = node.events.iter().find_map(|(_, event)| match event {
                Event::Request { id: request, from, .. } if *request == id => Some(*from),
                _ => None,
            });
            let exchange = node.endpoint.respond(now, id, response).expect("the request waits");
            let from = from.expect("a request was an event first");
            node.checker.opened(now, exchange.expect("late responses are Confirmable"), from, None);
        }
    }

    fn transmit(&mut self, datagram: Datagram) {
        for delay in (self.link)(&datagram) {
            if self.nodes.contains_key(&datagram.to) {
                self.sequence += 1;
                self.arrivals.insert((self.now + delay, self.sequence), datagram.clone());
            }
        }
        self.sent.push(datagram);
    }

    /// Polling an endpoint early has no effect, except a later wake-up.
    fn check_that_nothing_happens_before(&mut self, next: Instant) {
        let just_before = next - Duration::from_nanos(1);
        for (address, node) in &mut self.nodes {
            for now in [self.now, just_before].into_iter().filter(|&now| now >= self.now && now < next) {
                match node.endpoint.poll(now, &mut self.buffer) {
                    Output::Wait(wake) => {
                        let earlier = node.wake.is_none_or(|before| wake.is_some_and(|wake| wake < before));
                        assert!(wake == node.wake || !earlier, "node {address}: {wake:?} instead of {:?}", node.wake);
                        node.wake = wake;
                    }
                    output => panic!("node {address} has no work before {:?} but gave {output:?}", node.wake),
                }
            }
        }
    }
}

/// Percentages of loss and duplication, and a delay of 10 ms plus up to `jitter_ms`.
pub fn lossy_link<D>(seed: u64, loss: u32, duplication: u32, jitter_ms: u64) -> Link<D> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    Box::new(move |_| {
        let mut chance = |percent| random.next_u32() % 100 < percent;
        let count = if chance(loss) { 0 } else { 1 + usize::from(chance(duplication)) };
        (0..count).map(|_| ms(10 + random.next_u64() % (jitter_ms + 1))).collect()
    })
}

pub fn by_name(name: &str) -> AnyController {
    AnyController::by_name(name).expect("a known controller")
}

pub fn seed_of(number: u64) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed
}
