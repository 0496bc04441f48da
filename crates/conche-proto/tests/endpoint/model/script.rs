//! Scripts: bytes read as operations on an endpoint, on its clock and on its network. Every byte string is a script.

use std::time::Duration;

use conche_proto::cc::any::ALL;
use conche_proto::cc::{AnyController, Controller};
use conche_proto::codec::{Body, Code, Encoder, Message, MessageId, Token, Type, encode_empty};
use conche_proto::{
    Endpoint, EndpointConfig, Envelope, Event, ExchangeId, Input, Instant, Limits, Output, Reliability, Request,
    RequestId, Response, ResponseLimit, TransmissionParameters,
};

use super::Address;
use super::checker::Checker;

/// Runs a script: whatever it does, nothing panics, the checker finds nothing, and in the end every exchange is over.
pub fn run(script: &[u8]) {
    let mut bytes = Bytes(script);
    let mut machine = Machine::new(&mut bytes);
    while !bytes.0.is_empty() {
        machine.operate(&mut bytes);
        machine.settle();
    }
    machine.finish();
}

/// The rest of a script; zeros follow its end.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn next(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn index(&mut self, of: usize) -> usize {
        usize::from(self.next()) % of.max(1)
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// An endpoint, what watches over it, and what operations can refer to.
struct Machine {
    endpoint: Endpoint<Address, AnyController>,
    checker: Checker,
    now: Instant,
    wake: Option<Instant>,
    buffer: [u8; MESSAGE_BYTES],
    exchanges: Vec<ExchangeId>,
    requests: Vec<(RequestId, Address)>,
    sent: Vec<(Address, Vec<u8>)>,
}

const MESSAGE_BYTES: usize = 200;
const PEERS: u8 = 6;
const RELIABILITIES: [Reliability; 3] =
    [Reliability::Confirmable, Reliability::NonConfirmable, Reliability::NeverConfirmable];
const METHODS: [Code; 5] = [Code::GET, Code::POST, Code::PUT, Code::DELETE, Code(31)];

impl Machine {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let named = ALL[bytes.index(ALL.len())];
        let controller = named.controller();
        let nstart = 1 + u16::from(bytes.next() % 4);
        let transmission = TransmissionParameters {
            nstart: if controller.measures_rtt() { nstart } else { 1 },
            max_retransmit: bytes.choose(&[4, 0, 1, 9, 255]),
            ..TransmissionParameters::default()
        };
        let limits = Limits {
            peers: 4,
            queue_per_peer: 3,
            queue: 6,
            exchanges: 12,
            incoming: 8,
            deduplication_bytes: bytes.choose(&[64 << 20, 16 << 10, 0]),
            message_bytes: MESSAGE_BYTES,
            outputs: 16,
        };
        let config = EndpointConfig {
            response_timeout: bytes.choose(&[None, Some(Duration::from_secs(9))]),
            envelope: bytes.choose(&[Envelope::default, || Envelope::open(Duration::from_secs(32))])(),
            token_length: bytes.choose(&[8, 4, 1, 0]),
            response_limit: bytes.choose(&[None, Some(ResponseLimit { per_second: 1, burst: 3 })]),
            transmission,
            limits,
            ..EndpointConfig::default()
        };
        let mut checker = Checker::new(&config);
        // BDP-CoAP paces retransmissions too, so gaps may shrink though timeouts do not.
        checker.backoff_shows &= !named.name.starts_with("bdp");
        let endpoint = Endpoint::new(config, controller, [bytes.next(); 32]).expect("legal parameters");
        let start = bytes.choose(&[Instant::ZERO, Instant::FAR_FUTURE - Duration::from_secs(1_000)]);
        Self {
            endpoint,
            checker,
            now: start,
            wake: None,
            buffer: [0; MESSAGE_BYTES],
            exchanges: Vec::new(),
            requests: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn operate(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.next() % 16 {
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
            _ => self.reset_path_or_poll_early(bytes),
        }
    }

    /// The clock goes on, and the endpoint is polled when it wants to be.
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

    /// The clock jumps, and nobody was polled meanwhile.
    fn jump(&mut self, bytes: &mut Bytes<'_>) {
        self.checker.punctual = false;
        self.now += bytes.choose(&[1, 60, 300, 3_600, 86_400].map(Duration::from_secs));
    }

    fn peer(bytes: &mut Bytes<'_>) -> Address {
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

    /// Answers a request, perhaps for the second time.
    fn respond(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.requests.len());
        let Some(&(id, from)) = self.requests.get(index) else { return };
        let body = Body::builder().payload(vec![b'y'; usize::from(bytes.next())]).build().expect("no options");
        let reliability = bytes.choose(&[None, Some(0), Some(1), Some(2)]).map(|index: usize| RELIABILITIES[index]);
        let code = bytes.choose(&[Code::CONTENT, Code::NOT_FOUND, Code::GET]);
        if let Ok(Some(exchange)) = self.endpoint.respond(self.now, id, Response { code, body, reliability }) {
            self.checker.opened(self.now, exchange, from, None);
            self.exchanges.push(exchange);
        }
    }

    fn postpone(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.requests.len());
        let Some(&(id, _)) = self.requests.get(index) else { return };
        match bytes.next() % 2 {
            0 => self.endpoint.acknowledge(self.now, id).unwrap_or_default(),
            _ => self.endpoint.ignore(self.now, id),
        }
    }

    fn receive_request(&mut self, bytes: &mut Bytes<'_>) {
        let from = Self::peer(bytes);
        let ty = bytes.choose(&[Type::Confirmable, Type::NonConfirmable]);
        let (code, id) = (bytes.choose(&METHODS), MessageId(u16::from(bytes.next() % 8)));
        let length = bytes.index(9);
        let token = Token::new(bytes.take(length)).unwrap_or_default();
        self.receive(from, &message(ty, code, id, &token));
    }

    /// Something that answers, or nearly answers, what the endpoint sent.
    fn receive_answer(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.sent.len());
        let Some((to, sent)) = self.sent.iter().rev().nth(index).cloned() else { return };
        let sent = Message::decode(&sent).expect("what was sent is well-formed");
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

    fn receive(&mut self, from: Address, bytes: &[u8]) {
        self.checker.received(from, bytes);
        self.endpoint.handle(self.now, Input::datagram(from, bytes)).expect("scripts poll after every operation");
    }

    fn report_unreachable(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.sent.len());
        let sent = self.sent.iter().rev().nth(index).cloned();
        let (peer, quoted) = sent.unwrap_or_default();
        let length = usize::from(bytes.next()).min(quoted.len());
        let input = Input::Unreachable { peer, quoted: (bytes.index(4) != 0).then_some(&quoted[..length]) };
        self.endpoint.handle(self.now, input).expect("scripts poll after every operation");
    }

    fn reset_path_or_poll_early(&mut self, bytes: &mut Bytes<'_>) {
        if bytes.index(2) == 0 {
            return self.endpoint.reset_path(self.now, &Self::peer(bytes));
        }
        match self.endpoint.poll(self.now, &mut self.buffer) {
            Output::Wait(_) => {}
            output => panic!("nothing was due, but {output:?} came"),
        }
    }

    /// Polls until the endpoint waits.
    fn settle(&mut self) {
        loop {
            match self.endpoint.poll(self.now, &mut self.buffer) {
                Output::Transmit(transmit) => {
                    let bytes = self.buffer[..transmit.len].to_vec();
                    self.checker.transmitted(self.now, &transmit, &bytes);
                    self.sent.push((transmit.to, bytes));
                }
                Output::Event(event) => {
                    self.checker.event(self.now, &event);
                    if let Event::Request { id, from, .. } = event {
                        self.requests.push((id, from));
                    }
                }
                Output::Wait(wake) => {
                    self.wake = wake;
                    return self.checker.settled(self.now, &self.endpoint, wake);
                }
            }
        }
    }

    /// Lets time pass until nothing is left to do.
    fn finish(mut self) {
        for (request, _) in std::mem::take(&mut self.requests) {
            self.endpoint.ignore(self.now, request);
        }
        self.settle();
        while let Some(wake) = self.wake {
            self.advance_to(wake);
        }
        self.checker.finish();
        let left = self.endpoint.occupancy();
        assert_eq!((left.exchanges, left.incoming, left.timers, left.outputs), (0, 0, 0, 0), "{left:?}");
        assert_eq!((left.deduplication_entries, left.deduplication_bytes), (0, 0), "{left:?}");
    }
}

/// A message without options and payload.
fn message(ty: Type, code: Code, id: MessageId, token: &Token) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    let token = if code.is_empty() { Token::EMPTY } else { *token };
    let length = Encoder::new(&mut bytes, ty, code, id, &token).expect("room for a header").finish();
    bytes.truncate(length);
    bytes
}
