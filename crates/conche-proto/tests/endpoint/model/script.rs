//! Scripts: bytes interpreted as operations on an endpoint, its clock and its network.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::{
    Block, BlockSize, Body, Code, Encoder, Message, MessageId, NoResponse, OptionNumber, Token, Type, encode_empty,
};
use conche_proto::{
    Datagram, Endpoint, Event, ExchangeId, Input, Instant, ObserverId, Output, Reliability, Request, RequestId,
    RespondError, Response, SubscriptionId,
};

use super::Address;
use super::checker::Checker;
use super::configurations::Drawn;
use super::focus::Focus;
use super::streams::{STREAMED, Streaming};

/// Runs a script: nothing panics, the checker finds no violation, and every exchange ends.
pub fn run(focus: &Focus, script: &[u8]) {
    let mut bytes = Bytes(script);
    let Some(mut machine) = Machine::new(focus, &mut bytes) else { return };
    while !bytes.0.is_empty() {
        let what = focus.operation(bytes.next());
        machine.operate(what, &mut bytes);
        machine.settle();
    }
    machine.finish();
}

/// The rest of a script, followed by zeros.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub fn next(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    pub fn index(&mut self, of: usize) -> usize {
        usize::from(self.next()) % of.max(1)
    }

    pub fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

#[derive(Clone)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) from: Address,
    local: Option<IpAddr>,
    token: Token,
    unwanted: NoResponse,
    /// It requests a block in the middle of the response, which may not exist.
    in_the_middle: bool,
}

pub(super) struct Machine {
    pub(super) endpoint: Endpoint<Address, AnyController>,
    pub(super) checker: Checker,
    pub(super) now: Instant,
    pub(super) wake: Option<Instant>,
    pub(super) buffer: Vec<u8>,
    /// Number of local addresses, and of received datagrams.
    pub(super) addresses: u8,
    pub(super) arrivals: u8,
    in_bursts: bool,
    streams: bool,
    pub(super) streaming: Streaming,
    pub(super) exchanges: Vec<ExchangeId>,
    pub(super) requests: Vec<Asked>,
    pub(super) answered: HashSet<RequestId>,
    /// A response that must be sent before the endpoint waits.
    pub(super) due: Option<(Asked, Code)>,
    pub(super) sent: Vec<(Address, Vec<u8>)>,
    pub(super) subscriptions: Vec<SubscriptionId>,
    pub(super) observers: Vec<ObserverId>,
}

pub(super) const PEERS: u8 = 6;
pub(super) const RELIABILITIES: [Reliability; 3] =
    [Reliability::Confirmable, Reliability::NonConfirmable, Reliability::NeverConfirmable];
pub(super) const METHODS: [Code; 5] = [Code::GET, Code::POST, Code::PUT, Code::DELETE, Code(31)];
const RESPONSES: [Code; 3] = [Code::CONTENT, Code::NOT_FOUND, Code::GET];

impl Machine {
    /// Returns `None` if the configuration was refused, as expected.
    fn new(focus: &Focus, bytes: &mut Bytes<'_>) -> Option<Self> {
        let drawn = Drawn::from(focus, bytes);
        let mut checker = Checker::new(&drawn.config);
        // BDP-CoAP also paces retransmissions, so intervals may shrink although timeouts do not.
        checker.backoff_shows &= !drawn.named.name().starts_with("bdp");
        let mut endpoint = drawn.endpoint()?;
        if drawn.streams {
            endpoint.stream_requests(Box::new(|message| message.code() == STREAMED));
        }
        Some(Self {
            endpoint,
            checker,
            now: drawn.start,
            wake: None,
            buffer: vec![0; drawn.config.limits.message_bytes],
            addresses: drawn.addresses,
            arrivals: 0,
            in_bursts: drawn.config.q_block.is_some(),
            streams: drawn.streams,
            streaming: Streaming::default(),
            exchanges: Vec::new(),
            requests: Vec::new(),
            answered: HashSet::new(),
            due: None,
            sent: Vec::new(),
            subscriptions: Vec::new(),
            observers: Vec::new(),
        })
    }

    fn operate(&mut self, what: u8, bytes: &mut Bytes<'_>) {
        match what % 16 {
            _ if what >= 0xf0 && self.in_bursts => self.receive_of_burst(bytes),
            _ if what >= 0xe0 && self.streams => self.stream(what, bytes),
            _ if what >= 0xa0 => self.observe_or_send_blocks(what, bytes),
            0 => self.advance_to(self.wake.unwrap_or(self.now)),
            1 => self.advance(Duration::from_millis(bytes.next().into())),
            2 => self.advance(Duration::from_secs(bytes.next().into())),
            3 => self.jump(bytes),
            4 | 5 => self.request(bytes),
            6 => self.ping(bytes),
            7 => self.cancel(bytes),
            8 => self.respond(bytes),
            9 => self.postpone(bytes),
            10 => self.receive_request(bytes),
            11 | 12 => self.receive_answer(bytes),
            13 => self.receive_bytes(bytes),
            14 => self.report_unreachable(bytes),
            _ => self.something_rare(bytes),
        }
    }

    fn advance(&mut self, span: Duration) {
        self.advance_to(self.now + span);
    }

    fn advance_to(&mut self, until: Instant) {
        while let Some(wake) = self.wake.filter(|&wake| wake <= until && wake > self.now) {
            self.now = wake;
            self.settle();
        }
        self.now = self.now.max(until);
    }

    fn jump(&mut self, bytes: &mut Bytes<'_>) {
        self.checker.punctual = false;
        self.now += bytes.choose(&[1, 60, 300, 3_600, 86_400].map(Duration::from_secs));
    }

    pub(super) fn peer(bytes: &mut Bytes<'_>) -> Address {
        Address::from(bytes.next() % PEERS)
    }

    fn request(&mut self, bytes: &mut Bytes<'_>) {
        let to = Self::peer(bytes);
        let body = Body::builder().path("/t").payload(vec![b'x'; usize::from(bytes.next())]).build();
        let request = Request {
            reliability: bytes.choose(&RELIABILITIES),
            timeout: match bytes.next() {
                0 => None,
                tenths => Some(Duration::from_millis(100) * u32::from(tenths - 1)),
            },
            ..Request::new(bytes.choose(&METHODS), body.expect("a legal path"))
        };
        let timeout = request.timeout;
        if let Ok(id) = self.endpoint.request(self.now, to, request) {
            self.checker.opened(self.now, id, to, timeout);
            self.exchanges.push(id);
        }
    }

    fn ping(&mut self, bytes: &mut Bytes<'_>) {
        let to = Self::peer(bytes);
        if let Ok(id) = self.endpoint.ping(self.now, to) {
            self.checker.opened(self.now, id, to, None);
            self.exchanges.push(id);
        }
    }

    fn cancel(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.exchanges.len());
        if let Some(&id) = self.exchanges.get(index) {
            let was_open = self.endpoint.cancel(self.now, id);
            self.checker.cancelled(id, was_open);
        }
    }

    fn respond(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.requests.len());
        let Some(asked) = self.requests.get(index).cloned() else { return };
        let body = Body::builder().payload(vec![b'y'; usize::from(bytes.next())]).build().expect("no options");
        self.respond_with(asked, body, bytes);
    }

    pub(super) fn respond_with(&mut self, asked: Asked, body: Body, bytes: &mut Bytes<'_>) {
        let reliability = bytes.choose(&[None, Some(0), Some(1), Some(2)]).map(|index: usize| RELIABILITIES[index]);
        let code = bytes.choose(&RESPONSES);
        let separate = self.endpoint.occupancy().responses;
        match self.endpoint.respond(self.now, asked.id, Response { reliability, ..Response::new(code, body) }) {
            Ok(exchange) => {
                assert!(self.answered.insert(asked.id), "{:?} is answered twice", asked.id);
                match exchange {
                    Some(exchange) => {
                        self.checker.opened(self.now, exchange, asked.from, None);
                        self.exchanges.push(exchange);
                    }
                    // Sent now, unless it is Non-confirmable and waits for a message ID.
                    None if asked.unwanted.suppresses(code) || asked.in_the_middle => {}
                    // May be given before the client requests it.
                    None if self.checker.flows.has(asked.id) => {}
                    None if self.endpoint.occupancy().responses == separate => self.due = Some((asked, code)),
                    None => {}
                }
            }
            Err(RespondError::NotPending) => {
                self.answered.insert(asked.id);
            }
            Err(_) => assert!(!self.answered.contains(&asked.id), "{:?} waits again", asked.id),
        }
    }

    fn postpone(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.requests.len());
        let Some(&Asked { id, .. }) = self.requests.get(index) else { return };
        match bytes.next() % 2 {
            0 => self.endpoint.acknowledge(self.now, id).unwrap_or_default(),
            _ => {
                self.endpoint.ignore(self.now, id);
                self.answered.insert(id);
            }
        }
    }

    fn receive_request(&mut self, bytes: &mut Bytes<'_>) {
        let from = Self::peer(bytes);
        let ty = bytes.choose(&[Type::Confirmable, Type::NonConfirmable]);
        let (code, id) = (bytes.choose(&METHODS), MessageId(u16::from(bytes.next() % 8)));
        let length = bytes.index(9);
        let token = Token::new(bytes.take(length)).unwrap_or_default();
        let token = self.checker.lengthened(token);
        self.receive(from, &message(ty, code, id, &token));
    }

    fn receive_answer(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.sent.len());
        let Some((to, sent)) = self.sent.iter().rev().nth(index).cloned() else { return };
        let sent = Message::decode_extended(&sent).expect("what was sent is well-formed");
        let other_id = MessageId(0x4000 | u16::from(bytes.next()));
        let (id, token) = (sent.id(), sent.token());
        let mut datagram = match bytes.next() % 8 {
            0 => encode_empty(Type::Acknowledgement, id).to_vec(),
            1 => encode_empty(Type::Reset, id).to_vec(),
            2 => message(Type::Confirmable, Code::CONTENT, other_id, &token),
            3 => message(Type::NonConfirmable, Code::CONTENT, other_id, &token),
            4 => message(Type::Acknowledgement, Code::CONTENT, other_id, &token),
            5 => encode_empty(Type::Acknowledgement, other_id).to_vec(),
            6 => sent.as_bytes().to_vec(),
            _ => message(Type::Acknowledgement, Code::CONTENT, id, &token),
        };
        let from = match bytes.next() % 4 {
            0 => Self::peer(bytes),
            _ => to,
        };
        if bytes.index(4) == 0 {
            let at = bytes.index(datagram.len());
            datagram[at] ^= bytes.next();
        }
        self.receive(from, &datagram);
    }

    fn receive_bytes(&mut self, bytes: &mut Bytes<'_>) {
        let from = Self::peer(bytes);
        let length = usize::from(bytes.next());
        let datagram = bytes.take(length);
        self.receive(from, datagram);
    }

    pub(super) fn receive(&mut self, from: Address, bytes: &[u8]) {
        self.arrivals = self.arrivals.wrapping_mul(5).wrapping_add(1);
        let address = self.arrivals.checked_rem(self.addresses).map(|host| Ipv4Addr::new(192, 0, 2, host).into());
        self.checker.local = address;
        self.checker.received(self.now, from, bytes);
        let mut datagram = Datagram::new(from, bytes);
        datagram.local = address;
        let input = Input::Datagram(datagram);
        self.endpoint.handle(self.now, input).expect("scripts poll after every operation");
    }

    /// Any answer is a violation.
    fn receive_multicast(&mut self, bytes: &mut Bytes<'_>) {
        let from = Self::peer(bytes);
        let ty = bytes.choose(&[Type::Confirmable, Type::NonConfirmable]);
        let datagram = message(ty, bytes.choose(&METHODS), MessageId(0x7000), &Token::EMPTY);
        let mut datagram = Datagram::new(from, &datagram);
        datagram.multicast = true;
        let before = self.endpoint.occupancy();
        self.endpoint.handle(self.now, Input::Datagram(datagram)).expect("scripts poll after every operation");
        assert_eq!(self.endpoint.occupancy(), before, "a group's datagram leaves no trace");
    }

    fn supersede(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.exchanges.len());
        let Some(&id) = self.exchanges.get(index) else { return };
        let body = Body::builder().payload(vec![b'z'; usize::from(bytes.next())]).build().expect("no options");
        let response = Response::new(bytes.choose(&RESPONSES), body);
        if self.endpoint.supersede(id, response).is_ok() {
            self.checker.superseded(id);
        }
    }

    fn report_unreachable(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.sent.len());
        let sent = self.sent.iter().rev().nth(index).cloned();
        let (peer, quoted) = sent.unwrap_or_default();
        let length = usize::from(bytes.next()).min(quoted.len());
        let input = Input::Unreachable { peer, quoted: (bytes.index(4) != 0).then_some(&quoted[..length]) };
        self.endpoint.handle(self.now, input).expect("scripts poll after every operation");
    }

    fn something_rare(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.next() {
            what if what % 2 == 0 => self.endpoint.reset_path(self.now, &Self::peer(bytes)),
            0xc0.. => self.supersede(bytes),
            0xa0.. => self.receive_multicast(bytes),
            0x40.. => self.receive_block(bytes),
            _ => match self.endpoint.poll(self.now, &mut self.buffer) {
                Output::Wait(_) => {}
                output => panic!("nothing was due, but {output:?} came"),
            },
        }
    }

    fn receive_block(&mut self, bytes: &mut Bytes<'_>) {
        let num = bytes.choose(&[0, 1, 2, 3, Block::MAX_NUM]);
        let size = bytes.choose(&[BlockSize::B16, BlockSize::B64, BlockSize::B128]);
        let (more, payload) = (bytes.next().is_multiple_of(2), [b'b'; 128]);
        let length = bytes.choose(&[size.bytes(), 1, 0, 17]);
        let index = bytes.index(1 + self.sent.len());
        let answered = self.sent.iter().rev().nth(index).cloned();
        let (from, number, ty, code, id, token) = match &answered {
            None => {
                let from = Self::peer(bytes);
                let number = bytes.choose(&[OptionNumber::BLOCK1, OptionNumber::BLOCK2]);
                let (ty, id) = (bytes.choose(&[Type::Confirmable, Type::NonConfirmable]), bytes.next() % 8);
                (from, number, ty, bytes.choose(&METHODS), MessageId(id.into()), Token::EMPTY)
            }
            Some((from, sent)) => {
                let sent = Message::decode_extended(sent).expect("what was sent is well-formed");
                let number = bytes.choose(&[OptionNumber::BLOCK2, OptionNumber::BLOCK1]);
                let code = bytes.choose(&[Code::CONTENT, Code::CONTINUE, Code::REQUEST_ENTITY_TOO_LARGE]);
                (*from, number, Type::Acknowledgement, code, sent.id(), sent.token())
            }
        };
        // The application's response to a request for a block beyond its body would get another
        // code.
        let num = if code.is_request() && number == OptionNumber::BLOCK2 { 0 } else { num };
        let mut datagram = vec![0; 200 + token.encoded_len()];
        let length = Encoder::new(&mut datagram, ty, code, id, &token)
            .and_then(|mut encoder| {
                encoder.option(number, Block { num, more, size }.encode().as_slice())?;
                encoder.payload(&payload[..length]).map(|encoder| encoder.finish())
            })
            .expect("room for a block");
        self.receive(from, &datagram[..length]);
    }

    fn settle(&mut self) {
        loop {
            match self.endpoint.poll(self.now, &mut self.buffer) {
                Output::Transmit(transmit) => {
                    let bytes = self.buffer[..transmit.len].to_vec();
                    self.checker.transmitted(self.now, &transmit, &bytes);
                    let message = Message::decode_extended(&bytes).expect("checked above");
                    let is_due = |due: &mut (Asked, Code)| {
                        let (Asked { from, local, ref token, .. }, code) = *due;
                        // A block-wise body without a free place is replaced by 5.03.
                        let replaced = code.is_success() && message.code() == Code::SERVICE_UNAVAILABLE;
                        let is_code = message.code() == code || replaced;
                        is_code && (transmit.to, transmit.local, &message.token()) == (from, local, token)
                    };
                    self.due.take_if(is_due);
                    self.sent.push((transmit.to, bytes));
                }
                Output::Event(event) => {
                    self.checker.event(self.now, &event);
                    if let Event::Request { id, from, message } = event {
                        let (local, token) = (self.checker.local, message.token());
                        let (content, unwanted) = (message.content(), NoResponse::of(&message.content()));
                        let wanted = [OptionNumber::BLOCK2, OptionNumber::Q_BLOCK2]
                            .map(|number| content.block(number).ok().flatten());
                        let in_the_middle = wanted.into_iter().flatten().any(|block| block.num > 0);
                        self.requests.push(Asked { id, from, local, token, unwanted, in_the_middle });
                    }
                }
                Output::Wait(wake) => {
                    self.wake = wake;
                    let due = self.due.as_ref().map(|(_, code)| code);
                    assert_eq!(due, None, "a response did not leave: {:?}", self.endpoint.stats());
                    return self.checker.settled(self.now, &self.endpoint, wake);
                }
            }
        }
    }

    fn finish(mut self) {
        self.end_streams();
        for asked in std::mem::take(&mut self.requests) {
            self.endpoint.ignore(self.now, asked.id);
        }
        self.end_observation();
        self.settle();
        while let Some(wake) = self.wake {
            self.advance_to(wake);
        }
        self.checker.finish();
        let left = self.endpoint.occupancy();
        assert_eq!((left.exchanges, left.incoming, left.responses, left.queued), (0, 0, 0, 0), "{left:?}");
        assert_eq!((left.timers, left.outputs), (0, 0), "{left:?}");
        assert_eq!((left.observers, left.subscriptions), (0, 0), "{left:?}");
        assert_eq!((left.transfers, left.assemblies, left.representations, left.body_bytes), (0, 0, 0, 0), "{left:?}");
        assert_eq!((left.streams, left.over_paths), (0, 0), "{left:?}");
        assert_eq!((left.deduplication_entries, left.deduplication_bytes), (0, 0), "{left:?}");
        self.every_peer_is_let_go();
    }

    /// All peers can be evicted after their lifetime, hence are not held.
    fn every_peer_is_let_go(&mut self) {
        let (lifetime, peers) = (self.checker.retention(), self.checker.limits().peers);
        if self.now + lifetime >= Instant::FAR_FUTURE {
            return;
        }
        self.now += lifetime;
        for peer in 0..peers as Address {
            let body = Body::EMPTY;
            let exchange = self.endpoint.request(self.now, 1_000 + peer, Request::new(Code::GET, body));
            assert!(self.endpoint.cancel(self.now, exchange.expect("all places for peers are free")));
        }
    }
}

fn message(ty: Type, code: Code, id: MessageId, token: &Token) -> Vec<u8> {
    let mut bytes = vec![0; 4 + token.encoded_len()];
    let token = if code.is_empty() { &Token::EMPTY } else { token };
    let length = Encoder::new(&mut bytes, ty, code, id, token).expect("room for a header").finish();
    bytes.truncate(length);
    bytes
}
