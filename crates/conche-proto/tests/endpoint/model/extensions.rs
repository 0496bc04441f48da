//! Script operations beyond RFC 7252: RFC 7641 in both roles, RFC 7959, and RFC 7967.

use std::time::Duration;

use conche_proto::codec::{
    Block, BlockSize, Body, BodyBuilder, Code, Encoder, Message, MessageId, OptionNumber, Token, Type,
};
use conche_proto::{Request, Response};

use super::Address;
use super::script::{Bytes, METHODS, Machine, RELIABILITIES};

const ANSWERS: [Code; 8] = [
    Code::CONTENT,
    Code::CONTINUE,
    Code::CHANGED,
    Code::VALID,
    Code::REQUEST_ENTITY_INCOMPLETE,
    Code::REQUEST_ENTITY_TOO_LARGE,
    Code::NOT_FOUND,
    Code::SERVICE_UNAVAILABLE,
];

/// Body lengths around block size, message size and limit.
const LENGTHS: [usize; 10] = [0, 1, 15, 16, 17, 64, 150, 257, 600, 601];

impl Machine {
    pub(super) fn observe_or_send_blocks(&mut self, what: u8, bytes: &mut Bytes<'_>) {
        match what % 12 {
            0 => self.subscribe(bytes),
            1 => self.subscribe_again_or_no_more(bytes),
            2 => self.observe(bytes),
            3 => self.notify(bytes),
            4 => self.dismiss(bytes),
            5 => self.request_with_options(bytes),
            6 => self.respond_at_length(bytes),
            7 | 8 => self.receive_request_with_options(bytes),
            _ => self.receive_answer_with_options(bytes),
        }
    }

    pub(super) fn end_observation(&mut self) {
        for subscription in std::mem::take(&mut self.subscriptions) {
            let was_open = self.endpoint.forget(self.now, subscription);
            self.checker.unsubscribed(subscription, was_open);
        }
        for observer in std::mem::take(&mut self.observers) {
            let was_there = self.endpoint.dismiss(self.now, observer);
            self.checker.dismissed(observer, was_there);
        }
    }

    fn subscribe(&mut self, bytes: &mut Bytes<'_>) {
        let to = Self::peer(bytes);
        let body = Body::builder().path("/o").build().expect("a legal path");
        let timeout = bytes.choose(&[None, Some(Duration::from_secs(3))]);
        let code = bytes.choose(&[Code::GET, Code::FETCH, Code::POST]);
        let request = Request { timeout, reliability: bytes.choose(&RELIABILITIES), ..Request::new(code, body) };
        if let Ok((exchange, subscription)) = self.endpoint.subscribe(self.now, to, request) {
            self.checker.opened(self.now, exchange, to, timeout);
            self.checker.subscribed(subscription, exchange);
            self.exchanges.push(exchange);
            self.subscriptions.push(subscription);
        }
    }

    fn subscribe_again_or_no_more(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.subscriptions.len());
        let Some(&subscription) = self.subscriptions.get(index) else { return };
        match bytes.next() % 4 {
            0 => {
                let to = self.checker.subscribed_to(subscription);
                if let Ok(exchange) = self.endpoint.unsubscribe(self.now, subscription) {
                    self.checker.unsubscribed(subscription, true);
                    self.checker.opened(self.now, exchange, to.expect("it is not over"), None);
                    self.exchanges.push(exchange);
                }
            }
            1 => {
                let was_open = self.endpoint.forget(self.now, subscription);
                self.checker.unsubscribed(subscription, was_open);
            }
            _ => {
                let registered = self.endpoint.reregister(self.now, subscription);
                assert!(registered.is_err() || self.checker.subscribed_to(subscription).is_some());
            }
        }
    }

    fn observe(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.requests.len());
        let Some(asked) = self.requests.get(index) else { return };
        let topic = u64::from(bytes.next() % 3);
        if let Some(observer) = self.endpoint.observe(self.now, asked.id, topic) {
            self.checker.observed(observer, asked.from, topic);
            self.observers.push(observer);
        }
    }

    fn notify(&mut self, bytes: &mut Bytes<'_>) {
        let topic = u64::from(bytes.next() % 3);
        let code = bytes.choose(&[Code::CONTENT, Code::CONTENT, Code::CONTENT, Code::NOT_FOUND, Code::GET]);
        let reliability = bytes.choose(&[None, Some(0), Some(1), Some(2)]).map(|index: usize| RELIABILITIES[index]);
        let response = Response { reliability, ..Response::new(code, body(bytes)) };
        let observers = self.endpoint.observers(topic);
        self.checker.notified();
        if let Ok(told) = self.endpoint.notify(self.now, topic, response) {
            assert_eq!(told, observers);
        }
    }

    fn dismiss(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.observers.len());
        let Some(&observer) = self.observers.get(index) else { return };
        let was_there = self.endpoint.dismiss(self.now, observer);
        self.checker.dismissed(observer, was_there);
    }

    fn request_with_options(&mut self, bytes: &mut Bytes<'_>) {
        let to = Self::peer(bytes);
        let payload = vec![b'x'; bytes.choose(&LENGTHS)];
        let builder = hostile(Body::builder().path("/t"), bytes).payload(payload);
        let Ok(body) = builder.build() else { return };
        let token = match bytes.next() % 8 {
            0 => Some(Token::EMPTY),
            1 => Some(self.checker.lengthened(Token::from([7; 8]))),
            _ => None,
        };
        let code = bytes.choose(&[Code::GET, Code::FETCH, Code::PUT, Code::POST]);
        let reliability = bytes.choose(&RELIABILITIES);
        let whole = !bytes.next().is_multiple_of(4);
        let request = Request { reliability, token, whole, ..Request::new(code, body) };
        if let Ok(id) = self.endpoint.request(self.now, to, request) {
            self.checker.opened(self.now, id, to, None);
            self.exchanges.push(id);
        }
    }

    fn respond_at_length(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.requests.len());
        if let Some(asked) = self.requests.get(index).cloned() {
            let body = body(bytes);
            self.respond_with(asked, body, bytes);
        }
    }

    fn receive_request_with_options(&mut self, bytes: &mut Bytes<'_>) {
        let from = Self::peer(bytes);
        let ty = bytes.choose(&[Type::Confirmable, Type::NonConfirmable]);
        let code = bytes.choose(&[Code::GET, Code::FETCH, Code::PUT, METHODS[1]]);
        let id = MessageId(u16::from(bytes.next() % 16));
        let token = self.checker.lengthened([Token::EMPTY, Token::from([7; 8])][bytes.index(2)].clone());
        self.receive_with_options(from, (ty, code, id, token), bytes);
    }

    fn receive_answer_with_options(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.sent.len());
        let Some((to, sent)) = self.sent.iter().rev().nth(index).cloned() else { return };
        let sent = Message::decode_extended(&sent).expect("what was sent is well-formed");
        let ty = bytes.choose(&[Type::Acknowledgement, Type::Confirmable, Type::NonConfirmable]);
        let id = if ty == Type::Acknowledgement { sent.id() } else { MessageId(0x5000 | u16::from(bytes.next())) };
        let code = bytes.choose(&ANSWERS);
        self.receive_with_options(to, (ty, code, id, sent.token()), bytes);
    }

    fn receive_with_options(&mut self, from: Address, head: (Type, Code, MessageId, Token), bytes: &mut Bytes<'_>) {
        let (ty, code, id, token) = head;
        let builder = hostile(Body::builder(), bytes);
        let length = match bytes.next() % 4 {
            // As long as its block option requires.
            0 => bytes.choose(&LENGTHS),
            _ => block_bytes(&builder),
        };
        let Ok(body) = builder.payload(vec![b'b'; length]).build() else { return };
        let mut datagram = vec![0; 4 + token.encoded_len() + body.len()];
        let length = Encoder::new(&mut datagram, ty, code, id, &token)
            .and_then(|mut encoder| encoder.body(&body).map(|encoder| encoder.finish()))
            .expect("room for all of it");
        self.receive(from, &datagram[..length]);
    }
}

fn body(bytes: &mut Bytes<'_>) -> Body {
    let length = bytes.choose(&LENGTHS);
    let mut builder = Body::builder();
    if bytes.next().is_multiple_of(4) {
        builder = builder.option(OptionNumber::ETAG, b"e");
    }
    builder.payload(vec![b'y'; length]).build().expect("legal options")
}

fn hostile(mut builder: BodyBuilder, bytes: &mut Bytes<'_>) -> BodyBuilder {
    let which = bytes.next();
    let has = |bit: u8| which & 1 << bit != 0;
    for (bit, number) in [(0, OptionNumber::BLOCK1), (1, OptionNumber::BLOCK2)] {
        if has(bit) {
            let num = bytes.choose(&[0, 0, 1, 2, 3, 4, 9, Block::MAX_NUM]);
            let rest = bytes.next();
            // Includes the reserved size exponent 7.
            let value = num << 4 | u32::from(rest & 0xf);
            builder = builder.uint(number, value);
        }
    }
    if has(2) {
        let value = bytes.choose(&[0, 1, 2, 3, 0xff_ffff, u32::MAX]);
        builder = builder.uint(OptionNumber::OBSERVE, value);
    }
    if has(3) {
        let number = bytes.choose(&[OptionNumber::SIZE1, OptionNumber::SIZE2]);
        let value = bytes.choose(&[0, 16, 600, 601, u32::MAX]);
        builder = builder.uint(number, value);
    }
    if has(4) {
        let tags: [&[u8]; 3] = [b"e", b"f", b"longertg"];
        let tag = bytes.choose(&tags);
        builder = builder.option(OptionNumber::ETAG, tag);
    }
    if has(5) {
        builder = builder.uint(OptionNumber::NO_RESPONSE, u32::from(bytes.next() & 0x1f));
    }
    if has(6) {
        builder = builder.uint(OptionNumber::MAX_AGE, bytes.choose(&[0, 1, 60, u32::MAX]));
    }
    if has(7) {
        let tags: [&[u8]; 2] = [b"", b"r"];
        let tag = bytes.choose(&tags);
        builder = builder.option(OptionNumber::REQUEST_TAG, tag);
    }
    builder
}

/// Unless this is the last block.
fn block_bytes(builder: &BodyBuilder) -> usize {
    let value = [OptionNumber::BLOCK1, OptionNumber::BLOCK2].into_iter().find_map(|number| builder.value(number));
    value.and_then(|value| Block::decode(value).ok()).map_or(5, |block| block.size.min(BlockSize::B256).bytes())
}
