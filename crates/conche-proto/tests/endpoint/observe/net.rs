//! [`Net`]: a server with one resource, observing clients, and the links between them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code, ContentFormat, OptionNumber, OwnedMessage, Type};
use conche_proto::{
    Endpoint, EndpointConfig, Event, ExchangeId, Input, Instant, ObserverId, Output, Reliability, Request, Response,
    SourceValidation, SubscriptionId,
};

use crate::support::ms;
use crate::support::world::{by_name, seed_of};

pub const SERVER: u32 = 0;
pub const TOPIC: u64 = 77;

pub struct Resource {
    pub state: String,
    pub format: ContentFormat,
    pub max_age: Option<u32>,
    pub observable: bool,
    pub reliability: Option<Reliability>,
    pub exists: bool,
    pub observers: Vec<ObserverId>,
    /// Requests get no response.
    pub mute: bool,
}

impl Resource {
    pub fn response(&self) -> Response {
        if !self.exists {
            return Response::new(Code::NOT_FOUND, Body::EMPTY);
        }
        let mut body = Body::builder().content_format(self.format).payload(self.state.clone());
        if let Some(seconds) = self.max_age {
            body = body.uint(OptionNumber::MAX_AGE, seconds);
        }
        let response = Response::new(Code::CONTENT, body.build().expect("legal options"));
        Response { reliability: self.reliability, ..response }
    }
}

#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    pub from: u32,
    pub to: u32,
    pub message: OwnedMessage,
}

impl Sent {
    pub fn ty(&self) -> Type {
        self.message.header().ty
    }

    pub fn notifies(&self) -> bool {
        self.from == SERVER && self.message.code().is_response() && self.ty() != Type::Acknowledgement
    }

    pub fn observe(&self) -> Option<u32> {
        self.message.uint(OptionNumber::OBSERVE)
    }
}

/// The delay of a datagram; `None` for a loss.
pub type Link = Box<dyn FnMut(&Sent) -> Option<Duration>>;

pub struct Node {
    pub endpoint: Endpoint<u32, AnyController>,
    pub events: Vec<(Instant, Event<u32>)>,
    wake: Option<Instant>,
}

pub struct Net {
    pub now: Instant,
    pub nodes: Vec<Node>,
    pub resource: Resource,
    pub link: Link,
    pub sent: Vec<Sent>,
    arrivals: BTreeMap<(Instant, u64), (u32, u32, Vec<u8>)>,
    wakes: BTreeSet<(Instant, u32)>,
    sequence: u64,
    buffer: Vec<u8>,
}

impl Net {
    pub fn of(clients: u32) -> Self {
        Self::with(clients, "default", &EndpointConfig::default())
    }

    pub fn with(clients: u32, controller: &str, config: &EndpointConfig) -> Self {
        let config = EndpointConfig { source_validation: SourceValidation::Off, ..config.clone() };
        let node = |address: u32| {
            let endpoint = Endpoint::new(config.clone(), by_name(controller), seed_of(address.into()));
            Node { endpoint: endpoint.expect("legal parameters"), events: Vec::new(), wake: None }
        };
        Self {
            now: Instant::from_millis(1_000),
            nodes: (0..=clients).map(node).collect(),
            resource: Resource {
                state: "0".to_owned(),
                format: ContentFormat::TEXT_PLAIN,
                max_age: None,
                observable: true,
                reliability: None,
                exists: true,
                observers: Vec::new(),
                mute: false,
            },
            link: Box::new(|_| Some(ms(10))),
            sent: Vec::new(),
            arrivals: BTreeMap::new(),
            wakes: BTreeSet::new(),
            sequence: 0,
            buffer: vec![0; 2048],
        }
    }

    pub fn endpoint(&mut self, node: u32) -> &mut Endpoint<u32, AnyController> {
        &mut self.nodes[node as usize].endpoint
    }

    pub fn events(&self, node: u32) -> impl Iterator<Item = &Event<u32>> {
        self.nodes[node as usize].events.iter().map(|(_, event)| event)
    }

    pub fn subscribe(&mut self, client: u32) -> (ExchangeId, SubscriptionId) {
        let now = self.now;
        let ids = self.endpoint(client).subscribe(now, SERVER, get()).expect("room for a subscription");
        self.settle(client);
        ids
    }

    pub fn change(&mut self, state: &str) {
        state.clone_into(&mut self.resource.state);
        self.tell();
    }

    pub fn tell(&mut self) {
        let (now, response) = (self.now, self.resource.response());
        self.endpoint(SERVER).notify(now, TOPIC, response).expect("a legal response");
        self.settle(SERVER);
    }

    pub fn request(&mut self, client: u32, request: Request) -> ExchangeId {
        let now = self.now;
        let id = self.endpoint(client).request(now, SERVER, request).expect("room for a request");
        self.settle(client);
        id
    }

    pub fn inject(&mut self, from: u32, to: u32, bytes: &[u8]) {
        let now = self.now;
        self.endpoint(to).handle(now, Input::datagram(from, bytes)).expect("drained");
        self.settle(to);
    }

    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            let wake = self.wakes.first().map(|(at, _)| *at);
            let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
            let Some(next) = wake.into_iter().chain(arrival).min().filter(|&next| next <= until) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.arrivals.first_entry().filter(|entry| entry.key().0 <= next) {
                let (from, to, bytes) = entry.remove();
                self.inject(from, to, &bytes);
            }
            while let Some((_, node)) = self.wakes.first().copied().filter(|(at, _)| *at <= next) {
                self.settle(node);
            }
        }
        self.now = until;
    }

    pub fn known(&self, client: u32) -> Option<String> {
        let message = |event: &Event<u32>| match event {
            Event::Response { message, .. } | Event::Notification { message, .. } => {
                Some(String::from_utf8_lossy(message.payload()).into_owned())
            }
            _ => None,
        };
        self.events(client).filter_map(message).last()
    }

    pub fn states(&self, client: u32) -> Vec<String> {
        let notified = |event: &Event<u32>| match event {
            Event::Notification { message, .. } => Some(String::from_utf8_lossy(message.payload()).into_owned()),
            _ => None,
        };
        self.events(client).filter_map(notified).collect()
    }

    pub fn notifications(&self) -> Vec<&Sent> {
        self.sent.iter().filter(|sent| sent.notifies()).collect()
    }

    pub fn held(&self) -> (usize, usize) {
        let of = |node: &Node| (node.endpoint.occupancy().observers, node.endpoint.occupancy().subscriptions);
        self.nodes.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Asserts that nothing is held at the end.
    pub fn assert_quiescent(&mut self) {
        self.run(Duration::from_secs(1_000));
        for node in &self.nodes {
            let left = node.endpoint.occupancy();
            assert_eq!((left.exchanges, left.queued, left.incoming, left.responses), (0, 0, 0, 0), "{left:?}");
            assert_eq!((left.observers, left.subscriptions, left.timers, left.outputs), (0, 0, 0, 0), "{left:?}");
        }
    }

    pub fn settle(&mut self, address: u32) {
        loop {
            let now = self.now;
            let node = &mut self.nodes[address as usize];
            match node.endpoint.poll(now, &mut self.buffer) {
                Output::Transmit(transmit) => {
                    let bytes = self.buffer[..transmit.len].to_vec();
                    let message = OwnedMessage::decode(bytes.clone()).expect("well-formed");
                    let sent = Sent { at: now, from: address, to: transmit.to, message };
                    if let Some(delay) = (self.link)(&sent).filter(|_| (sent.to as usize) < self.nodes.len()) {
                        self.sequence += 1;
                        self.arrivals.insert((now + delay, self.sequence), (address, sent.to, bytes));
                    }
                    self.sent.push(sent);
                }
                #[cfg(feature = "oscore")]
                Output::Event(Event::Reserve(reserve)) => node.endpoint.reserved(reserve),
                Output::Event(event) => {
                    if let (SERVER, Event::Request { id, message, .. }, false) = (address, &event, self.resource.mute) {
                        self.serve(*id, message);
                    }
                    self.nodes[address as usize].events.push((now, event));
                }
                Output::Wait(wake) => {
                    assert!(wake.is_none_or(|wake| wake > now), "a busy loop");
                    if let Some(before) = node.wake {
                        self.wakes.remove(&(before, address));
                    }
                    node.wake = wake;
                    self.wakes.extend(wake.map(|wake| (wake, address)));
                    return;
                }
            }
        }
    }

    fn serve(&mut self, id: conche_proto::RequestId, message: &OwnedMessage) {
        let now = self.now;
        let (resource, server) = (&mut self.resource, &mut self.nodes[SERVER as usize].endpoint);
        let response = match message.code() {
            Code::GET | Code::FETCH => {
                if resource.observable && message.uint(OptionNumber::OBSERVE) == Some(0) {
                    resource.observers.extend(server.observe(now, id, TOPIC));
                }
                resource.response()
            }
            Code::PUT => {
                resource.state = String::from_utf8_lossy(message.payload()).into_owned();
                server.notify(now, TOPIC, resource.response()).expect("a legal response");
                Response::new(Code::CHANGED, Body::EMPTY)
            }
            Code::DELETE => {
                resource.exists = false;
                server.notify(now, TOPIC, resource.response()).expect("a legal response");
                Response::new(Code::DELETED, Body::EMPTY)
            }
            _ => Response::new(Code::METHOD_NOT_ALLOWED, Body::EMPTY),
        };
        let response = Response { reliability: None, ..response };
        server.respond(now, id, response).expect("the request waits");
    }
}

pub fn get() -> Request {
    Request::new(Code::GET, Body::builder().path("/obs").build().expect("a legal path"))
}

pub fn write(code: Code, payload: &str) -> Request {
    let body = Body::builder().path("/obs").payload(payload.to_owned()).build();
    Request::new(code, body.expect("a legal path"))
}

pub fn registration(ty: Type, id: u16, token: &[u8], observe: u8) -> Vec<u8> {
    let value: &[u8] = if observe == 0 { &[] } else { &[1] };
    crate::support::wire::with_options(ty, Code::GET, id, token, &[(6, value), (11, b"obs")], b"")
}
