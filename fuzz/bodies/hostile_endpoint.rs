//! Two endpoints with drawn configurations, controllers, applications and a network that loses,
//! delays, doubles and forges datagrams: limits down to nothing, messages down to 64 bytes, tokens
//! up to the longest, Q-Block, streams, observation. Invariants:
//!
//! - `poll` ends and never requests to be called again at once,
//! - no message is larger than `message_bytes`, and none is dropped for its size,
//! - after all exchanges nothing remains, and the endpoint accepts the next request.
//!
//! Each choice is a byte of the input or, after its end, the next number of a generator seeded by
//! its first eight bytes.

use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::{BlockSize, Body, Code, OptionNumber, Token};
use conche_proto::config::{Multicast, ResponseLimit};
use conche_proto::{
    Datagram, Endpoint, EndpointConfig, Envelope, Event, ExchangeId, IncompleteBody, Input, Instant, Limits,
    ObserverId, Output, PathKey, QBlock, Reliability, RemainingBody, Request, RequestError, RequestId, Response,
    SourceValidation, SubscriptionId,
};

/// The endpoints have the addresses 0 and 1; others are attackers.
const PEERS: u64 = 2;
const TOPICS: u64 = 3;
/// The datagrams that an attacker keeps.
const MOST_KEPT: usize = 400;
/// Longer than all lifetimes together.
const TO_THE_END: Duration = Duration::from_secs(50_000);

/// Runs an input.
pub fn run(input: &[u8]) {
    let mut draw = Draw::new(input);
    let (Some(first), Some(second)) = (Node::draw(&mut draw), Node::draw(&mut draw)) else { return };
    let mut world = World::new([first, second], &mut draw);
    for _ in 0..300 + draw.below(500) {
        world.step(&mut draw);
    }
    for mut node in world.nodes {
        node.finish(world.now, &mut draw);
    }
}

/// Where choices come from.
struct Draw {
    bytes: std::vec::IntoIter<u8>,
    state: u64,
}

impl Draw {
    fn new(input: &[u8]) -> Self {
        let mut seed = [0; 8];
        seed.iter_mut().zip(input).for_each(|(byte, given)| *byte = *given);
        let bytes = input.get(8..).unwrap_or_default().to_vec().into_iter();
        let mut draw = Self { bytes, state: u64::from_le_bytes(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
        for _ in 0..5 {
            draw.generate();
        }
        draw
    }

    fn generate(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        let end = end.max(1);
        match self.bytes.next() {
            Some(byte) if end <= 256 => u64::from(byte) % end,
            Some(byte) => (u64::from(byte) << 8 | u64::from(self.bytes.next().unwrap_or_default())) % end,
            None => self.generate() % end,
        }
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("less than a length")
    }

    /// One of `of` times.
    fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }

    fn any<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        (!choices.is_empty()).then(|| choices[self.index(choices.len())])
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("a byte")
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.generate().to_le_bytes()[0]).collect()
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn configuration(draw: &mut Draw) -> EndpointConfig {
    let mut config = EndpointConfig { limits: limits(draw), ..EndpointConfig::default() };
    let sizes = [BlockSize::B16, BlockSize::B32, BlockSize::B64, BlockSize::B256, BlockSize::B1024, BlockSize::B1024];
    config.block_size = draw.pick(&sizes);
    if !draw.once_in(3) {
        let max_payloads = draw.pick(&[1, 2, 3, 10, 10, 100, 1024]);
        config.q_block = Some(QBlock { max_payloads, confirmable: draw.once_in(3), ..QBlock::default() });
    }
    config.longest_token = draw.pick(&[8, 8, 20, 300, 65_804]);
    let most =
        if config.longest_token <= 8 { 8 } else { config.longest_token.min(config.limits.message_bytes / 2).max(8) };
    config.token_length = draw.pick(&[0, 1, 2, 4, 8, 8, 8, most]).min(most);
    config.source_validation = if draw.once_in(4) { SourceValidation::Ping } else { SourceValidation::Off };
    if draw.once_in(6) {
        let [per_second, burst] = [20, 20].map(|most| u32::try_from(draw.below(most)).expect("small"));
        config.response_limit = Some(ResponseLimit { per_second, burst });
    }
    if draw.once_in(3) {
        config.multicast = Some(Multicast::with_leisure(draw.pick(&[Duration::ZERO, ms(10), s(5), s(100)])));
    }
    config.queue_lifetime = draw.pick(&[ms(1), s(1), s(60)]);
    if draw.once_in(3) {
        config.longest_pause = Some(draw.pick(&[ms(1), s(5), s(300)]));
    }
    if draw.once_in(3) {
        config.response_timeout = Some(draw.pick(&[s(2), s(5), s(300)]));
    }
    config.transfer_lifetime = draw.pick(&[ms(1), s(10), s(3_600)]);
    config.separate_after = draw.pick(&[Duration::ZERO, ms(500), ms(1_900)]);
    config.transmission.max_retransmit = draw.pick(&[0, 1, 4, 4, 4, 8]);
    config.transmission.nstart = draw.pick(&[1, 1, 1, 2, 8]);
    config.transmission.probing_rate = draw.pick(&[0, 1, 1, 10, 1_000, u32::MAX]);
    config.datagram_overhead = draw.pick(&[0, 28, u32::MAX]);
    config.retry_after = draw.pick(&[Duration::ZERO, s(2), Duration::MAX]);
    config.idle_lifetime = draw.pick(&[Duration::ZERO, s(255)]);
    if draw.once_in(5) {
        let timeout_cap = draw.pick(&[ms(1), s(60)]);
        config.envelope = Envelope { timeout_floor: Duration::ZERO, timeout_cap, monotonic_backoff: draw.once_in(2) };
    }
    config
}

fn limits(draw: &mut Draw) -> Limits {
    let message_bytes = draw.pick(&[64, 65, 70, 80, 100, 128, 200, 300, 1_152, 1_152, 2_000]);
    let mut limits = Limits { message_bytes, ..Limits::default() };
    if draw.once_in(2) {
        return limits;
    }
    let mut some = || draw.pick(&[1, 2, 3, 5, 20, 1_000]);
    limits.peers = some();
    limits.queue_per_peer = some();
    limits.queue = some();
    limits.exchanges = some();
    limits.incoming = some();
    limits.paths = some();
    limits.outputs = 4_096;
    let mut few = || draw.pick(&[0, 1, 2, 4, 20, 1_000]);
    limits.group_requests = few();
    limits.group_responses = few();
    limits.observers = few();
    limits.observers_per_peer = few();
    limits.subscriptions = few();
    limits.transfers_per_peer = few();
    limits.transfers = few();
    limits.assembly_bytes = draw.pick(&[0, 100, 2_000, 100_000]);
    limits.body_bytes = draw.pick(&[0, 10, 1_000, 5_000, 1 << 20]);
    let least = 4 * (message_bytes + 128);
    limits.deduplication_bytes = if draw.once_in(3) { 0 } else { least + draw.index(5_000) };
    limits
}

/// An endpoint and its application.
struct Node {
    endpoint: Endpoint<u64, AnyController>,
    message_bytes: usize,
    buffer: Vec<u8>,
    wake: Option<Instant>,
    sent: Vec<(u64, Vec<u8>)>,
    requests: Vec<RequestId>,
    all_requests: Vec<RequestId>,
    exchanges: Vec<ExchangeId>,
    responses: Vec<ExchangeId>,
    subscriptions: Vec<SubscriptionId>,
    observers: Vec<ObserverId>,
    unfinished: Vec<IncompleteBody>,
    ends: bool,
}

impl Node {
    /// `None` for an invalid configuration.
    fn draw(draw: &mut Draw) -> Option<Self> {
        let config = configuration(draw);
        let message_bytes = config.limits.message_bytes;
        let names = [
            "default",
            "cocoa",
            "temper",
            "fasor",
            "temper",
            "default-fb2",
            "peak-hopper",
            "linux",
            "basic",
            "bdp",
            "cocoa-plus",
        ];
        let controller = AnyController::by_name(draw.pick(&names));
        let seed = draw.bytes(32).try_into().expect("32 bytes");
        let mut endpoint = Endpoint::new(config, controller.expect("a known name"), seed).ok()?;
        if draw.once_in(2) {
            let length = draw.pick(&[120, 128, 0]);
            endpoint.share_paths(Box::new(move |peer| Some(PathKey::new(u128::from(*peer), length))));
        }
        if draw.once_in(2) {
            endpoint.set_source_groups(Box::new(|peer| peer >> 8));
        }
        if draw.once_in(2) {
            endpoint.stream_requests(Box::new(|message| message.payload().len() % 2 == 0));
        }
        Some(Self {
            endpoint,
            message_bytes,
            buffer: vec![0; message_bytes + 100],
            wake: None,
            sent: Vec::new(),
            requests: Vec::new(),
            all_requests: Vec::new(),
            exchanges: Vec::new(),
            responses: Vec::new(),
            subscriptions: Vec::new(),
            observers: Vec::new(),
            unfinished: Vec::new(),
            ends: false,
        })
    }

    /// Polls until the endpoint waits.
    fn drain(&mut self, now: Instant, draw: &mut Draw) {
        for _ in 0..100_000 {
            match self.endpoint.poll(now, &mut self.buffer) {
                Output::Transmit(transmit) => {
                    assert!(transmit.len <= self.message_bytes, "{} bytes in a datagram", transmit.len);
                    self.sent.push((transmit.to, self.buffer[..transmit.len].to_vec()));
                }
                Output::Event(event) => self.take(now, event, draw),
                Output::Wait(wake) => {
                    assert!(wake.is_none_or(|wake| wake > now), "a busy loop");
                    assert_eq!(self.endpoint.stats().oversized, 0, "a message was too large to leave");
                    self.wake = wake;
                    return;
                }
            }
        }
        panic!("polling has no end");
    }

    fn take(&mut self, now: Instant, event: Event<u64>, draw: &mut Draw) {
        match event {
            Event::Request { id, .. } => {
                self.requests.push(id);
                self.all_requests.push(id);
            }
            Event::Part { request, .. } if self.ends => {
                let _ = self.endpoint.respond(now, request, Response::new(Code::NOT_FOUND, Body::EMPTY));
            }
            Event::Part { request, last, .. } => {
                self.all_requests.push(request);
                if !draw.once_in(3) {
                    let _ = self.endpoint.continue_request(now, request);
                }
                if last && draw.once_in(2) {
                    let _ = self.endpoint.respond(now, request, Response::new(Code::CHANGED, Body::EMPTY));
                }
            }
            Event::Block { exchange, .. } if self.ends => {
                self.endpoint.cancel(now, exchange);
            }
            Event::Block { .. } if draw.once_in(5) => {}
            Event::Block { exchange, .. } => {
                self.endpoint.fetch_next(now, exchange);
            }
            Event::Wanted { body, bytes } => {
                self.unfinished.push(body);
                if !self.ends && !draw.once_in(4) {
                    let last = draw.once_in(4);
                    let length = (bytes + draw.index(50)).min(5_000);
                    let _ = self.endpoint.supply(now, body, vec![1; length].into(), last);
                }
            }
            Event::Stale { subscription, .. } if !self.ends && draw.once_in(2) => {
                let _ = self.endpoint.reregister(now, subscription);
            }
            _ => {}
        }
    }

    /// An operation of the application.
    fn operate(&mut self, now: Instant, peer: u64, draw: &mut Draw) {
        match draw.below(26) {
            0..=4 => self.request(now, peer, draw),
            5 => {
                let Some(body) = body(draw, false) else { return };
                let request =
                    Request::new(draw.pick(&[Code::GET, Code::FETCH]), body).with_reliability(reliability(draw));
                if let Ok((exchange, subscription)) = self.endpoint.subscribe(now, peer, request) {
                    self.exchanges.push(exchange);
                    self.subscriptions.push(subscription);
                }
            }
            6 => {
                let Some(subscription) = draw.any(&self.subscriptions) else { return };
                match draw.below(3) {
                    0 => drop(self.endpoint.unsubscribe(now, subscription)),
                    1 => drop(self.endpoint.forget(now, subscription)),
                    _ => drop(self.endpoint.reregister(now, subscription)),
                }
            }
            7 => self.exchanges.extend(self.endpoint.ping(now, peer)),
            8 => {
                if let Some(exchange) = draw.any(&self.exchanges) {
                    self.endpoint.cancel(now, exchange);
                }
            }
            9..=14 => self.answer(now, draw),
            15 | 16 => {
                if let Some(response) = response(draw) {
                    let _ = self.endpoint.notify(now, draw.below(TOPICS), response);
                }
            }
            17 => match draw.any(&self.observers) {
                Some(observer) => drop(self.endpoint.dismiss(now, observer)),
                None => drop(self.endpoint.dismiss_all(now, draw.below(TOPICS))),
            },
            18 if draw.once_in(4) => self.endpoint.lose_peer(now, &peer),
            18 => {
                self.endpoint.reset_path(now, &peer);
                self.endpoint.forget_path(&peer);
            }
            19 => {
                let Some(body) = body(draw, false) else { return };
                let mut request = Request::new(Code::GET, body).with_reliability(Reliability::NeverConfirmable);
                request.timeout = draw.once_in(2).then_some(s(5));
                self.exchanges.extend(self.endpoint.request_group(now, peer, request));
            }
            20 => {
                if let Some(body) = draw.any(&self.unfinished) {
                    let (length, last) = (draw.index(3_000), draw.once_in(3));
                    let _ = self.endpoint.supply(now, body, vec![2; length].into(), last);
                }
            }
            21 => {
                if let (Some(exchange), Some(response)) = (draw.any(&self.responses), response(draw)) {
                    let _ = self.endpoint.supersede(exchange, response);
                }
            }
            22 => {
                if let Some(exchange) = draw.any(&self.exchanges) {
                    self.endpoint.fetch_next(now, exchange);
                }
            }
            23 => drop(self.endpoint.handle(now, Input::Unreachable { peer, quoted: None })),
            _ => {}
        }
    }

    fn request(&mut self, now: Instant, peer: u64, draw: &mut Draw) {
        let Some(body) = body(draw, false) else { return };
        let methods = [Code::GET, Code::GET, Code::GET, Code::POST, Code::PUT, Code::DELETE, Code::FETCH, Code::PATCH];
        let mut request = Request::new(draw.pick(&methods), body).with_reliability(reliability(draw));
        request.streamed = draw.once_in(5);
        request.whole = !draw.once_in(5);
        request.tagged = draw.once_in(4);
        if draw.once_in(5) {
            request.timeout = Some(draw.pick(&[Duration::ZERO, ms(50), s(10), Duration::MAX]));
        }
        if draw.once_in(6) {
            let length = 8 + draw.index(12);
            request.token = Token::extended(&draw.bytes(length));
        }
        if draw.once_in(6) {
            let size = draw.once_in(2).then(|| u32::try_from(draw.below(1 << 32)).unwrap_or(u32::MAX));
            request.rest = Some(RemainingBody { size });
        }
        self.exchanges.extend(self.endpoint.request(now, peer, request));
    }

    fn answer(&mut self, now: Instant, draw: &mut Draw) {
        if self.requests.is_empty() {
            return;
        }
        let index = draw.index(self.requests.len());
        let id = self.requests[index];
        if draw.once_in(3) {
            self.observers.extend(self.endpoint.observe(now, id, draw.below(TOPICS)));
        }
        match draw.below(10) {
            0 => self.endpoint.ignore(now, id),
            1 => {
                let _ = self.endpoint.acknowledge(now, id);
                return;
            }
            2 => {
                if let Some(response) = response(draw) {
                    let _ = self.endpoint.respond_in_parts(now, id, response, RemainingBody { size: None });
                }
            }
            3 => {
                let _ = self.endpoint.continue_request(now, id);
                return;
            }
            _ => {
                if let Some(mut response) = response(draw) {
                    response.even_to_group = draw.once_in(4);
                    if let Ok(Some(exchange)) = self.endpoint.respond(now, id, response) {
                        self.responses.push(exchange);
                    }
                }
            }
        }
        if !draw.once_in(10) {
            self.requests.swap_remove(index);
        }
    }

    /// Ends all exchanges; nothing remains.
    fn finish(&mut self, now: Instant, draw: &mut Draw) {
        self.ends = true;
        self.ignore_all(now);
        for subscription in std::mem::take(&mut self.subscriptions) {
            self.endpoint.forget(now, subscription);
        }
        for exchange in self.exchanges.clone() {
            if draw.once_in(2) {
                self.endpoint.cancel(now, exchange);
            }
        }
        for topic in 0..TOPICS {
            self.endpoint.dismiss_all(now, topic);
        }
        let end = self.run(now, draw);
        for body in std::mem::take(&mut self.unfinished) {
            match body {
                IncompleteBody::Request(exchange) => drop(self.endpoint.cancel(end, exchange)),
                IncompleteBody::Response(request) => self.endpoint.ignore(end, request),
            }
        }
        for exchange in std::mem::take(&mut self.exchanges) {
            self.endpoint.cancel(end, exchange);
        }
        let end = self.run(end, draw);
        let left = self.endpoint.occupancy();
        let held = [left.exchanges, left.queued, left.incoming, left.responses, left.timers];
        let observation = [left.observers, left.subscriptions];
        let tables = [left.deduplication_entries, left.deduplication_bytes, left.over_paths, left.at_leisure];
        let bodies = [left.transfers, left.assemblies, left.representations, left.body_bytes, left.streams];
        assert!(held.iter().chain(&observation).chain(&tables).chain(&bodies).all(|held| *held == 0), "{left:?}");
        let next = self.endpoint.request(end, 77_777, Request::new(Code::GET, Body::EMPTY));
        let has_room = !matches!(next, Err(error) if !matches!(error, RequestError::NoToken { .. } | RequestError::TooLarge { .. }));
        assert!(has_room, "{next:?} {left:?}");
    }

    fn ignore_all(&mut self, now: Instant) {
        self.requests.clear();
        for id in std::mem::take(&mut self.all_requests) {
            self.endpoint.ignore(now, id);
        }
    }

    fn run(&mut self, from: Instant, draw: &mut Draw) -> Instant {
        let (mut now, end) = (from, from + TO_THE_END);
        for _ in 0..400_000 {
            self.ignore_all(now);
            self.drain(now, draw);
            self.sent.clear();
            match self.wake.filter(|&wake| wake <= end) {
                Some(wake) => now = wake,
                None => return end,
            }
        }
        panic!("it wakes without end: {:?}", self.endpoint.occupancy());
    }
}

fn reliability(draw: &mut Draw) -> Reliability {
    use Reliability::{Confirmable, NeverConfirmable, NonConfirmable};
    draw.pick(&[Confirmable, Confirmable, NonConfirmable, NeverConfirmable])
}

fn response(draw: &mut Draw) -> Option<Response> {
    let codes = [
        Code::CONTENT,
        Code::CONTENT,
        Code::CONTENT,
        Code::CHANGED,
        Code::NOT_FOUND,
        Code::CONTINUE,
        Code::VALID,
        Code::REQUEST_ENTITY_INCOMPLETE,
        Code::REQUEST_ENTITY_TOO_LARGE,
        Code::BAD_OPTION,
        Code::BAD_REQUEST,
        Code::UNAUTHORIZED,
        Code::GET,
        Code::EMPTY,
    ];
    let mut response = Response::new(draw.pick(&codes), body(draw, true)?);
    response.reliability = if draw.once_in(3) { Some(reliability(draw)) } else { None };
    Some(response)
}

/// Draws legal or illegal options, and a payload.
fn body(draw: &mut Draw, is_response: bool) -> Option<Body> {
    let mut options: Vec<(u16, Vec<u8>)> = Vec::new();
    let mut maybe = |draw: &mut Draw, number: u16, of: u64, least: usize, most: usize| {
        if draw.once_in(of) {
            let length = least + draw.index(most - least + 1);
            options.push((number, draw.bytes(length)));
        }
    };
    let (etag, observe, max_age, block2, block1, q_block1, q_block2, size1) = (4, 6, 14, 23, 27, 19, 31, 60);
    let (no_response, request_tag, location_query) = (258, 292, 20);
    if is_response {
        maybe(draw, etag, 3, 1, 8);
        maybe(draw, max_age, 4, 1, 1);
        maybe(draw, block2, 20, 0, 3);
        maybe(draw, block1, 20, 0, 3);
        maybe(draw, observe, 20, 1, 1);
        maybe(draw, location_query, 8, 0, 60);
    } else {
        for number in [block1, block2, q_block1, q_block2] {
            maybe(draw, number, 8, 0, 3);
        }
        maybe(draw, observe, 8, 0, 1);
        maybe(draw, size1, 10, 2, 2);
        maybe(draw, request_tag, 10, 3, 3);
        maybe(draw, no_response, 8, 1, 1);
        options.push((OptionNumber::URI_PATH.0, vec![b'a' + draw.byte() % 3]));
    }
    let lengths = [0, 0, 1, 15, 16, 17, 50, 64, 100, 500, 1_024, 1_025, 3_000, 6_000, 20_000];
    let payload = vec![draw.byte(); draw.pick(&lengths)];
    let body = options.iter().fold(Body::builder(), |body, (number, value)| body.option(OptionNumber(*number), value));
    body.payload(payload).build().ok()
}

/// A datagram on its way.
struct Flying {
    at: Instant,
    to: usize,
    from: u64,
    multicast: bool,
    bytes: Vec<u8>,
}

struct World {
    now: Instant,
    nodes: [Node; 2],
    flying: Vec<Flying>,
    kept: Vec<Vec<u8>>,
    /// Percentages of datagrams and steps.
    loss: u64,
    attacks: u64,
    /// Milliseconds.
    longest_delay: u64,
}

impl World {
    fn new(nodes: [Node; 2], draw: &mut Draw) -> Self {
        Self {
            now: Instant::ZERO + if draw.once_in(3) { s(1_000_000) } else { Duration::ZERO },
            nodes,
            flying: Vec::new(),
            kept: Vec::new(),
            loss: draw.pick(&[0, 5, 30, 60]),
            attacks: draw.pick(&[0, 0, 10, 40]),
            longest_delay: draw.pick(&[1, 50, 1_000, 20_000]),
        }
    }

    fn step(&mut self, draw: &mut Draw) {
        let who = draw.index(2);
        for _ in 0..draw.below(3) {
            let peer = if draw.once_in(10) { PEERS + draw.below(6) } else { 1 - who as u64 };
            self.nodes[who].operate(self.now, peer, draw);
        }
        for index in 0..2 {
            self.collect(index, draw);
        }
        if draw.below(100) < self.attacks && !self.kept.is_empty() {
            for _ in 0..1 + draw.below(4) {
                self.attack(draw);
            }
        }
        self.pass_time(draw);
        self.flying.sort_by_key(|flying| flying.at);
        let arrived = self.flying.iter().take_while(|flying| flying.at <= self.now).count();
        for Flying { to, from, multicast, bytes, .. } in self.flying.drain(..arrived) {
            let node = &mut self.nodes[to];
            let mut datagram = Datagram::new(from, &bytes);
            datagram.multicast = multicast;
            // A refused datagram is lost.
            let _ = node.endpoint.handle(self.now, Input::Datagram(datagram));
            node.drain(self.now, draw);
        }
        for node in &mut self.nodes {
            node.drain(self.now, draw);
        }
    }

    /// Delivers each datagram zero to two times, and returns some in an ICMP error.
    fn collect(&mut self, index: usize, draw: &mut Draw) {
        self.nodes[index].drain(self.now, draw);
        for (to, bytes) in std::mem::take(&mut self.nodes[index].sent) {
            if self.kept.len() < MOST_KEPT {
                self.kept.push(bytes.clone());
            } else {
                let place = draw.index(MOST_KEPT);
                self.kept[place].clone_from(&bytes);
            }
            if to < PEERS && draw.below(100) >= self.loss {
                for _ in 0..1 + u64::from(draw.once_in(20)) {
                    let at = self.now + ms(1 + draw.below(self.longest_delay));
                    let (to, from) = (usize::try_from(to).expect("0 or 1"), index as u64);
                    self.flying.push(Flying { at, to, from, multicast: false, bytes: bytes.clone() });
                }
            }
            if draw.once_in(30) {
                let quoted = if draw.once_in(2) { changed(&bytes, draw) } else { bytes };
                let unreachable = Input::Unreachable { peer: to, quoted: Some(&quoted) };
                let _ = self.nodes[index].endpoint.handle(self.now, unreachable);
            }
        }
    }

    /// Replays a datagram, perhaps changed, from either address.
    fn attack(&mut self, draw: &mut Draw) {
        let seen = draw.pick(&self.kept);
        let bytes = if draw.once_in(4) { seen } else { changed(&seen, draw) };
        let to = draw.index(2);
        let from = if draw.once_in(3) { PEERS + draw.below(300) } else { 1 - to as u64 };
        self.flying.push(Flying { at: self.now, to, from, multicast: draw.once_in(15), bytes });
    }

    fn pass_time(&mut self, draw: &mut Draw) {
        let wakes = self.nodes.iter().filter_map(|node| node.wake);
        let mut next = self.flying.iter().map(|flying| flying.at).chain(wakes).min();
        if next.is_none() || draw.once_in(3) {
            let jump = self.now + draw.pick(&[ms(1), ms(100), s(1), s(10), s(100), s(400)]);
            next = Some(next.map_or(jump, |next| next.min(jump)));
        }
        if draw.once_in(100) {
            next = Some(self.now + s(1_000));
        }
        self.now = next.map_or(self.now, |next| next.max(self.now));
    }
}

/// Changes bytes, message ID, type, code or length.
fn changed(datagram: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut bytes = datagram.to_vec();
    match draw.below(6) {
        0 => {
            for _ in 0..1 + draw.below(3) {
                let (place, value) = (draw.index(bytes.len()), draw.byte());
                bytes.get_mut(place).into_iter().for_each(|byte| *byte = value);
            }
        }
        1 => {
            if let Some(id) = bytes.get_mut(2..4) {
                id.copy_from_slice(&[draw.byte(), draw.byte()]);
            }
        }
        2 => {
            let ty = draw.byte() & 0b11;
            bytes.first_mut().into_iter().for_each(|first| *first = *first & 0xcf | ty << 4);
        }
        3 => {
            let code = draw.pick(&[0, 1, 2, 5, 65, 68, 69, 95, 128, 130, 132, 136, 140, 141, 163]);
            bytes.get_mut(1).into_iter().for_each(|byte| *byte = code);
        }
        4 => bytes.truncate(draw.index(datagram.len() + 1)),
        _ => {
            let length = draw.index(40);
            bytes.extend(draw.bytes(length));
        }
    }
    bytes
}
