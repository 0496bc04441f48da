//! Two endpoints share a security context; an attacker delays, replays, drops, changes and
//! exchanges datagrams, while reservations are stored or not and endpoints restart. Invariants:
//!
//! - no nonce protects two messages,
//! - the server's application receives as protected only the client's protected requests, and a
//!   POST once,
//! - the client's application receives only the server's responses to that request, and states in
//!   order.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code, Message, OptionNumber, OwnedMessage};
use conche_proto::oscore::{Context, ContextId, Credentials, EndId, Reserve, Start};
use conche_proto::{
    Endpoint, EndpointConfig, Event, ExchangeId, Input, Instant, Output, Reliability, Request, RequestId, Response,
    SourceValidation, SubscriptionId,
};

const NAMES: [&[u8]; 2] = [b"client", b"srv"];
const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Where the ends are.
const ADDRESSES: [u32; 2] = [0, 1];
const TOPIC: u64 = 1;
const METHODS: [Code; 4] = [Code::GET, Code::POST, Code::PUT, Code::FETCH];
/// Datagrams that the attacker records.
const MOST_KEPT: usize = 48;

/// Runs a script.
pub fn run(script: &[u8]) {
    let mut bytes = script.iter().copied();
    let mut world = World::new(bytes.next().unwrap_or_default());
    while let Some(what) = bytes.next() {
        let argument = bytes.next().unwrap_or_default();
        world.operate(what, argument, bytes.next().unwrap_or_default());
    }
    world.finish();
}

struct End {
    endpoint: Endpoint<u32, AnyController>,
    context: ContextId,
    /// By the store, numbers below it may have been used.
    kept: u64,
    asked: Vec<Reserve>,
}

struct World {
    now: Instant,
    validates: bool,
    ends: [End; 2],
    /// Destination and bytes.
    datagrams: Vec<(usize, Vec<u8>)>,
    issued: Vec<(bool, Code)>,
    exchanges: HashMap<ExchangeId, usize>,
    subscription: Option<SubscriptionId>,
    subscribing: Option<ExchangeId>,
    newest: u32,
    /// POSTs that the application got.
    posted: HashSet<usize>,
    waiting: Vec<(RequestId, Option<usize>, bool)>,
    state: u32,
    nonces: HashMap<(usize, usize, Vec<u8>), Vec<u8>>,
    numbers: HashMap<Vec<u8>, HashSet<Vec<u8>>>,
}

fn credentials(end: usize) -> Credentials {
    let [own, other] = [NAMES[end], NAMES[1 - end]].map(|id| EndId::new(id).expect("short"));
    Credentials::new(*b"16 random bytes.", own, other)
}

fn text(number: usize, length: usize) -> Vec<u8> {
    let mut text = format!("{number}.").into_bytes();
    text.resize(text.len().max(length), b'x');
    text
}

fn number(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|&byte| byte == b'.')?;
    str::from_utf8(&text[..end]).ok()?.parse().ok()
}

/// Reads the Partial IV in an OSCORE option (RFC 8613 §6.1).
fn number_of(value: &[u8]) -> Vec<u8> {
    value.split_first().and_then(|(flags, rest)| rest.get(..usize::from(flags & 7))).unwrap_or_default().to_vec()
}

fn answer(request: usize) -> Vec<u8> {
    text(request, [0, 40, 1_500, 3_000][request % 4])
}

impl World {
    fn new(config: u8) -> Self {
        let source_validation = if config & 1 == 0 { SourceValidation::Off } else { SourceValidation::Ping };
        let config = EndpointConfig { source_validation, ..EndpointConfig::default() };
        let ends = [CLIENT, SERVER].map(|end| {
            let controller = AnyController::by_name("default").expect("a known name");
            let mut endpoint = Endpoint::new(config.clone(), controller, [if end == CLIENT { 1 } else { 2 }; 32])
                .expect("legal settings");
            let context = Context::derive(&credentials(end), Start::First).expect("legal credentials");
            let context = endpoint.add_context(context).expect("the first one");
            End { endpoint, context, kept: 0, asked: Vec::new() }
        });
        let mut world = Self {
            now: Instant::ZERO,
            validates: source_validation == SourceValidation::Ping,
            ends,
            datagrams: Vec::new(),
            issued: Vec::new(),
            exchanges: HashMap::new(),
            subscription: None,
            subscribing: None,
            newest: 0,
            posted: HashSet::new(),
            waiting: Vec::new(),
            state: 0,
            nonces: HashMap::new(),
            numbers: HashMap::new(),
        };
        world.settle();
        (0..2).for_each(|end| world.store(end, true));
        world
    }

    fn operate(&mut self, what: u8, argument: u8, detail: u8) {
        let kept = self.datagrams.len().max(1);
        let one = usize::from(argument) % kept;
        match what % 16 {
            0..=2 => self.request(argument, detail),
            3..=6 if one < self.datagrams.len() => {
                let (to, bytes) = self.datagrams.remove(one);
                self.hand_in(to, &bytes);
            }
            7 if one < self.datagrams.len() => {
                let (to, bytes) = self.datagrams[one].clone();
                self.hand_in(to, &bytes);
            }
            8 if one < self.datagrams.len() => drop(self.datagrams.remove(one)),
            9 if one < self.datagrams.len() => {
                let (to, mut bytes) = self.datagrams[one].clone();
                let place = usize::from(detail) % bytes.len();
                bytes[place] ^= 1 << (argument % 8);
                self.hand_in(to, &bytes);
            }
            10 => self.exchange_contents(one, usize::from(detail) % kept),
            11 => self.now += Duration::from_millis([50, 1_000, 3_000, 70_000][usize::from(argument % 4)]),
            12 => self.respond(argument, detail),
            13 => self.notify(),
            14 => self.observe(argument),
            15 => match argument % 8 {
                0 if detail.is_multiple_of(4) => self.restart(usize::from(detail / 4) % 2),
                1 => self.store(usize::from(detail) % 2, detail & 2 == 0),
                2 => self.now += Duration::from_secs(300),
                _ => self.let_all_pass(),
            },
            _ => {}
        }
        self.settle();
    }

    fn request(&mut self, argument: u8, detail: u8) {
        self.request_with(argument, detail, None);
    }

    fn request_with(&mut self, argument: u8, detail: u8, echo: Option<&[u8]>) {
        let (serial, method) = (self.issued.len(), METHODS[usize::from(argument) % METHODS.len()]);
        let protected = argument & 0x10 == 0;
        let length = if method == Code::GET { 0 } else { [1, 30, 2_500][usize::from(detail) % 3] };
        let mut body = Body::builder().path("/a").query(&serial.to_string());
        if length > 0 {
            body = body.payload(text(serial, length));
        }
        if let Some(echo) = echo {
            body = body.option(OptionNumber::ECHO, echo);
        }
        let reliability = if detail & 0x80 == 0 { Reliability::Confirmable } else { Reliability::NonConfirmable };
        let request = Request::new(method, body.build().expect("legal")).with_reliability(reliability);
        let End { endpoint, context, .. } = &mut self.ends[CLIENT];
        let request = if protected { request.protected(*context) } else { request };
        self.issued.push((protected, method));
        if let Ok(exchange) = endpoint.request(self.now, ADDRESSES[SERVER], request) {
            self.exchanges.insert(exchange, serial);
        }
    }

    fn observe(&mut self, argument: u8) {
        let End { endpoint, context, .. } = &mut self.ends[CLIENT];
        match self.subscription {
            Some(id) if argument.is_multiple_of(3) => drop(endpoint.reregister(self.now, id)),
            Some(id) if argument % 3 == 1 => drop(endpoint.unsubscribe(self.now, id).map(|_| self.subscription = None)),
            Some(_) => {}
            None => {
                let request = Request::new(Code::GET, Body::builder().path("/state").build().expect("legal"));
                let subscribed = endpoint.subscribe(self.now, ADDRESSES[SERVER], request.protected(*context));
                if let Ok((exchange, subscription)) = subscribed {
                    (self.subscribing, self.subscription, self.newest) = (Some(exchange), Some(subscription), 0);
                }
            }
        }
    }

    fn respond(&mut self, argument: u8, detail: u8) {
        if self.waiting.is_empty() {
            return;
        }
        let (id, serial, observes) = self.waiting.remove(usize::from(argument) % self.waiting.len());
        let endpoint = &mut self.ends[SERVER].endpoint;
        if observes {
            endpoint.observe(self.now, id, TOPIC);
        }
        let payload = match serial {
            Some(serial) => answer(serial),
            None => text(self.state as usize, 0),
        };
        let code = if detail % 8 == 7 { Code::NOT_FOUND } else { Code::CONTENT };
        let body = Body::builder().payload(payload).build().expect("legal");
        // The request may have been given up.
        let _ = endpoint.respond(self.now, id, Response::new(code, body));
    }

    fn notify(&mut self) {
        self.state += 1;
        let body = Body::builder().payload(text(self.state as usize, 0)).build().expect("legal");
        self.ends[SERVER].endpoint.notify(self.now, TOPIC, Response::new(Code::CONTENT, body)).expect("legal");
    }

    fn let_all_pass(&mut self) {
        for _ in 0..8 {
            for (to, bytes) in std::mem::take(&mut self.datagrams) {
                self.hand_in(to, &bytes);
            }
            (0..self.waiting.len()).for_each(|_| self.respond(0, 0));
            self.settle();
        }
    }

    fn store(&mut self, end: usize, works: bool) {
        let End { endpoint, kept, asked, .. } = &mut self.ends[end];
        for reserve in asked.drain(..) {
            match works {
                true => {
                    *kept = (*kept).max(reserve.up_to);
                    endpoint.reserved(reserve);
                }
                false => endpoint.not_reserved(reserve.context),
            }
        }
        self.settle();
    }

    /// Loses everything that was not stored.
    fn restart(&mut self, end: usize) {
        let End { endpoint, context, kept, asked } = &mut self.ends[end];
        asked.clear();
        endpoint.remove_context(*context).expect("it is there");
        let start = Start::Restarted { next: *kept };
        *context = endpoint.add_context(Context::derive(&credentials(end), start).expect("legal")).expect("room");
        self.settle();
        self.store(end, true);
    }

    fn exchange_contents(&mut self, one: usize, other: usize) {
        let (Some((to, front)), Some((_, behind))) = (self.datagrams.get(one), self.datagrams.get(other)) else {
            return;
        };
        let parts = |bytes: &[u8]| Message::decode(bytes).ok().map(|message| 4 + message.token().len());
        let (Some(end), Some(start)) = (parts(front), parts(behind)) else { return };
        let (to, bytes) = (*to, [&front[..end], &behind[start..]].concat());
        self.hand_in(to, &bytes);
    }

    fn hand_in(&mut self, to: usize, bytes: &[u8]) {
        if let (SERVER, Ok(message)) = (to, Message::decode(bytes))
            && let Some(value) = message.option(OptionNumber::OSCORE)
        {
            self.numbers.entry(message.token().as_slice().to_vec()).or_default().insert(number_of(value));
        }
        self.ends[to].endpoint.handle(self.now, Input::datagram(ADDRESSES[1 - to], bytes)).expect("drained");
        self.settle();
    }

    fn settle(&mut self) {
        for end in [CLIENT, SERVER] {
            let mut buffer = [0; 1280];
            loop {
                match self.ends[end].endpoint.poll(self.now, &mut buffer) {
                    Output::Transmit(transmit) => self.left(end, buffer[..transmit.len].to_vec()),
                    Output::Event(Event::Reserve(reserve)) => self.ends[end].asked.push(reserve),
                    Output::Event(event) if end == CLIENT => self.client(event),
                    Output::Event(event) => self.server(event),
                    Output::Wait(_) => break,
                }
            }
        }
    }

    /// Records a datagram; its nonce protected no other.
    fn left(&mut self, end: usize, bytes: Vec<u8>) {
        let message = Message::decode(&bytes).expect("well-formed");
        if let Some(value) = message.option(OptionNumber::OSCORE) {
            let own = number_of(value);
            let nonce = if own.is_empty() {
                // It answers one of these.
                let numbers = self.numbers.get(message.token().as_slice()).filter(|numbers| numbers.len() == 1);
                numbers.and_then(|numbers| numbers.iter().next()).map(|number| (CLIENT, number.clone()))
            } else {
                Some((end, own))
            };
            if let Some((by, number)) = nonce {
                let sealed = self.nonces.entry((end, by, number)).or_insert_with(|| message.payload().to_vec());
                assert!(sealed == message.payload(), "a nonce protects two messages: {message}");
            }
        }
        if self.datagrams.len() < MOST_KEPT {
            self.datagrams.push((1 - end, bytes));
        }
    }

    fn server(&mut self, event: Event<u32>) {
        let Event::Request { id, message, .. } = event else { return };
        let query = message.option(OptionNumber::URI_QUERY).and_then(|query| str::from_utf8(query).ok());
        let serial = query.and_then(|query| query.parse::<usize>().ok());
        let observes = message.uint(OptionNumber::OBSERVE) == Some(0);
        if self.ends[SERVER].endpoint.security(id).is_some() {
            match serial {
                Some(serial) => {
                    assert_eq!(self.issued.get(serial), Some(&(true, message.code())), "{message}");
                    let said = Some(message.payload()).filter(|payload| !payload.is_empty());
                    assert!(said.is_none_or(|payload| number(payload) == Some(serial)), "{message}");
                    let once = message.code() != Code::POST || self.posted.insert(serial);
                    assert!(once, "a POST came twice: {message}");
                }
                None => assert_eq!(message.uri_path(), "/state"),
            }
        }
        self.waiting.push((id, serial, observes));
    }

    fn client(&mut self, event: Event<u32>) {
        match event {
            Event::Response { exchange, message, .. } if self.subscribing == Some(exchange) => self.told(&message),
            Event::Response { exchange, message, .. } => {
                let Some(serial) = self.exchanges.remove(&exchange) else { return };
                let (protected, method) = self.issued[serial];
                let echo = message.option(OptionNumber::ECHO).filter(|_| protected);
                if let (Code::UNAUTHORIZED, Some(echo)) = (message.code(), echo) {
                    // As clients do.
                    let method = METHODS.iter().position(|&known| known == method).unwrap_or_default();
                    return self.request_with(u8::try_from(method).unwrap_or_default(), 0, Some(echo));
                }
                // A server cuts a response to its code if it is too large for an unverified
                // address, and repeating the request would repeat its effect.
                let is_cut = self.validates && !method.is_idempotent() && message.payload().is_empty();
                if protected && message.code().is_success() && !is_cut {
                    assert!(message.payload() == answer(serial), "the answer to another request: {message}");
                }
            }
            Event::Notification { message, .. } => self.told(&message),
            Event::SubscriptionOver { .. } => self.subscription = None,
            _ => {}
        }
    }

    fn told(&mut self, message: &OwnedMessage) {
        if message.code().is_success() {
            let state = number(message.payload()).and_then(|state| u32::try_from(state).ok()).expect("a state");
            assert!(self.newest <= state && state <= self.state, "{message} after {}", self.newest);
            self.newest = state;
        }
    }

    /// All exchanges are over.
    fn finish(&mut self) {
        for _ in 0..64 {
            self.datagrams.clear();
            (0..self.waiting.len()).for_each(|_| self.respond(0, 0));
            self.now += Duration::from_secs(60);
            self.settle();
        }
        for End { endpoint, .. } in &self.ends {
            assert_eq!(endpoint.occupancy().exchanges, 0);
        }
        assert_eq!(self.ends[SERVER].endpoint.occupancy().incoming, 0);
    }
}
