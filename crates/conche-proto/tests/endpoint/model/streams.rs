//! Script operations on streamed bodies.

use conche_proto::codec::{Block, BlockSize, Body, Code, Message, MessageId, OptionNumber, Token, Type};
use conche_proto::{IncompleteBody, RemainingBody, Request, Response};

use super::flows::piece;
use super::script::{Bytes, Machine, PEERS, RELIABILITIES};

/// The method of requests that the application streams, if it streams at all.
pub(super) const STREAMED: Code = Code::PUT;

const PIECES: [usize; 8] = [16, 64, 17, 0, 1, 15, 33, 200];

#[derive(Debug, Default)]
pub(super) struct Streaming {
    unfinished: Vec<IncompleteBody>,
    uploads: [u32; PEERS as usize],
    messages: u16,
}

impl Streaming {
    /// Other operations test duplicates.
    fn next_id(&mut self) -> MessageId {
        self.messages = self.messages.wrapping_add(1) % 0x1000;
        MessageId(0x2000 | self.messages)
    }
}

impl Machine {
    pub(super) fn stream(&mut self, what: u8, bytes: &mut Bytes<'_>) {
        match what % 8 {
            0 => self.take_part(bytes),
            1 => self.take_block(bytes),
            2 => self.supply(bytes),
            3 => self.request_in_parts(bytes),
            4 => self.respond_in_parts(bytes),
            5 => self.receive_part(bytes),
            6 => self.receive_turn(bytes),
            _ => self.receive_ask(bytes),
        }
    }

    pub(super) fn end_streams(&mut self) {
        for exchange in self.checker.flows.exchanges() {
            let was_open = self.endpoint.cancel(self.now, exchange);
            self.checker.cancelled(exchange, was_open);
        }
    }

    fn take_part(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.requests.len());
        let Some(asked) = self.requests.iter().rev().nth(index).cloned() else { return };
        if let Ok(answer) = self.endpoint.continue_request(self.now, asked.id) {
            assert!(self.checker.flows.has(asked.id) && !self.answered.contains(&asked.id), "{:?}", asked.id);
            if let Some(exchange) = answer {
                self.checker.opened(self.now, exchange, asked.from, None);
                self.exchanges.push(exchange);
            }
        }
    }

    fn take_block(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.exchanges.len());
        let Some(&exchange) = self.exchanges.iter().rev().nth(index) else { return };
        if self.endpoint.fetch_next(self.now, exchange) {
            self.checker.goes_on(self.now, exchange);
            assert!(!self.endpoint.fetch_next(self.now, exchange), "{exchange:?} waits twice");
        }
    }

    fn supply(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.streaming.unfinished.len());
        let Some(&body) = self.streaming.unfinished.iter().rev().nth(index) else { return };
        let piece = self.checker.flows.next_piece(body, bytes.choose(&PIECES));
        let (length, last) = (piece.len(), bytes.next().is_multiple_of(8));
        let taken = self.endpoint.supply(self.now, body, piece.into(), last).is_ok();
        self.checker.flows.supplied(body, length, last, taken);
        if let (IncompleteBody::Request(exchange), true) = (body, taken) {
            self.checker.goes_on(self.now, exchange);
        }
    }

    fn request_in_parts(&mut self, bytes: &mut Bytes<'_>) {
        let to = Self::peer(bytes);
        let (how, begun) = (bytes.next(), bytes.choose(&[65, 17, 16, 0, 200]));
        let rest = (how & 1 != 0).then(|| RemainingBody { size: (how & 2 != 0).then_some(300) });
        let (streamed, tag) = (rest.is_none() || how & 4 != 0, self.checker.flows.next_body());
        let code = bytes.choose(&[Code::PUT, Code::GET, Code::FETCH, Code::POST]);
        let body = Body::builder().path("/p").payload(piece(tag, 0, begun)).build().expect("a legal path");
        let reliability = bytes.choose(&RELIABILITIES);
        let request = Request { reliability, rest, streamed, ..Request::new(code, body) };
        let Ok(exchange) = self.endpoint.request(self.now, to, request) else { return };
        self.checker.opened(self.now, exchange, to, None);
        self.exchanges.push(exchange);
        if streamed {
            self.checker.flows.expects(exchange);
        }
        if rest.is_some() {
            let body = IncompleteBody::Request(exchange);
            self.checker.flows.began(body, None, begun);
            self.streaming.unfinished.push(body);
        }
    }

    fn respond_in_parts(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.requests.len());
        let Some(asked) = self.requests.iter().rev().nth(index).cloned() else { return };
        let (etag, tag) = (self.checker.flows.next_tag(), self.checker.flows.next_body());
        let begun = bytes.choose(&[0, 0, 1, 16, 64, 100]);
        let body = Body::builder().option(OptionNumber::ETAG, &etag).payload(piece(tag, 0, begun));
        let response = Response::new(Code::CONTENT, body.build().expect("legal options"));
        let rest = RemainingBody { size: bytes.choose(&[None, Some(200)]) };
        let whether = self.endpoint.respond_in_parts(self.now, asked.id, response, rest);
        self.checker.flows.answers |= whether.is_ok();
        if let Ok(true) = whether {
            assert!(!self.answered.contains(&asked.id), "{:?} is answered twice", asked.id);
            let body = IncompleteBody::Response(asked.id);
            self.checker.flows.began(body, Some(etag), begun);
            self.streaming.unfinished.push(body);
        }
    }

    /// Mostly the next block of a peer's body.
    fn receive_part(&mut self, bytes: &mut Bytes<'_>) {
        let from = Self::peer(bytes);
        let next = &mut self.streaming.uploads[from as usize];
        let num = match bytes.next() % 16 {
            0 => 0,
            1 => next.saturating_sub(1),
            2 => *next + 1,
            _ => *next,
        };
        *next = num + 1;
        let (more, size) = (!bytes.next().is_multiple_of(8), BlockSize::B16);
        let length = if more { 16 } else { bytes.index(17) };
        let block = Block { num, more, size };
        let body = Body::builder().option(OptionNumber::BLOCK1, block.encode().as_slice()).payload(piece(
            0,
            block.offset(),
            length,
        ));
        let ty = bytes.choose(&[Type::Confirmable, Type::Confirmable, Type::NonConfirmable]);
        let id = self.streaming.next_id();
        self.receive_body(from, (ty, STREAMED, id, Token::from([9; 8])), &body.build().expect("legal options"));
    }

    fn receive_turn(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.sent.len());
        let Some((to, sent)) = self.sent.iter().rev().nth(index).cloned() else { return };
        let sent = Message::decode_extended(&sent).expect("what was sent is well-formed");
        if !sent.code().is_request() {
            return;
        }
        let of = |number| sent.block(number).ok().flatten();
        let block1: Option<Block> = of(OptionNumber::BLOCK1);
        let mut body = Body::builder();
        if let Some(block) = block1 {
            let size = if bytes.next().is_multiple_of(8) { BlockSize::B16 } else { block.size };
            body = body.option(OptionNumber::BLOCK1, Block { size, ..block }.encode().as_slice());
        }
        let code = match block1 {
            Some(block) if block.more => Code::CONTINUE,
            _ => {
                let asked = of(OptionNumber::BLOCK2).unwrap_or(Block { num: 0, more: false, size: BlockSize::B16 });
                let more = !bytes.next().is_multiple_of(8);
                let length = if more { asked.size.bytes() } else { bytes.index(17) };
                let block = Block { more, ..asked };
                body = body.option(OptionNumber::BLOCK2, block.encode().as_slice()).payload(piece(
                    1,
                    block.offset(),
                    length.min(100),
                ));
                Code::CONTENT
            }
        };
        let piggybacked = sent.ty() == Type::Confirmable && !bytes.next().is_multiple_of(4);
        let (ty, id) = match piggybacked {
            true => (Type::Acknowledgement, sent.id()),
            false => (bytes.choose(&[Type::NonConfirmable, Type::Confirmable]), self.streaming.next_id()),
        };
        self.receive_body(to, (ty, code, id, sent.token()), &body.build().expect("legal options"));
    }

    fn receive_ask(&mut self, bytes: &mut Bytes<'_>) {
        let index = bytes.index(self.sent.len());
        let answered = self.sent.iter().rev().nth(index).cloned();
        let of = |sent: &[u8]| {
            let message = Message::decode_extended(sent).expect("what was sent is well-formed");
            message.block(OptionNumber::BLOCK2).ok()?.filter(|_| message.code().is_response())
        };
        let (from, block) = match answered.and_then(|(to, sent)| Some((to, of(&sent)?))) {
            Some((to, last)) => (to, Block { num: last.num + bytes.choose(&[1, 1, 1, 0, 2]), more: false, ..last }),
            None => (Self::peer(bytes), Block { num: 0, more: false, size: BlockSize::B16 }),
        };
        let body = Body::builder().option(OptionNumber::BLOCK2, block.encode().as_slice());
        let ty = bytes.choose(&[Type::Confirmable, Type::Confirmable, Type::NonConfirmable]);
        let id = self.streaming.next_id();
        self.receive_body(from, (ty, Code::GET, id, Token::from([9; 8])), &body.build().expect("legal options"));
    }
}
