//! [`Flows`]: no byte of a streamed body is lost, duplicated or mixed up.

use std::collections::{BTreeSet, HashMap, HashSet};

use conche_proto::codec::{Block, Message, OptionNumber, OwnedMessage};
use conche_proto::{Event, ExchangeId, IncompleteBody, RequestId};

use super::Address;

#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Offset of the next received block.
    requests: HashMap<RequestId, usize>,
    responses: HashMap<ExchangeId, usize>,
    /// Sent bodies, and the ETag that identifies those of responses.
    leaving: HashMap<IncompleteBody, Leaving>,
    by_tag: HashMap<[u8; 3], IncompleteBody>,
    over: HashSet<RequestId>,
    /// The endpoint may send responses that no operation opened.
    pub(super) answers: bool,
    came: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Leaving {
    tag: u8,
    supplied: usize,
    whole: bool,
}

pub(super) fn byte(tag: u8, at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ tag
}

pub(super) fn piece(tag: u8, from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|at| byte(tag, at)).collect()
}

impl Flows {
    pub(super) fn next_tag(&self) -> [u8; 3] {
        let [low, high, ..] = self.by_tag.len().to_le_bytes();
        [0x5a, high, low]
    }

    pub(super) fn began(&mut self, body: IncompleteBody, etag: Option<[u8; 3]>, supplied: usize) {
        let tag = self.next_body();
        self.leaving.insert(body, Leaving { tag, supplied, whole: false });
        if let Some(etag) = etag {
            self.by_tag.insert(etag, body);
        }
    }

    pub(super) fn next_body(&self) -> u8 {
        self.leaving.len() as u8
    }

    pub(super) fn next_piece(&self, body: IncompleteBody, length: usize) -> Vec<u8> {
        self.leaving.get(&body).map_or_else(Vec::new, |leaving| piece(leaving.tag, leaving.supplied, length))
    }

    pub(super) fn supplied(&mut self, body: IncompleteBody, bytes: usize, last: bool, taken: bool) {
        if taken {
            let leaving = self.leaving.get_mut(&body).expect("only what began is taken");
            assert!(!leaving.whole, "{body:?} goes on after its end");
            (leaving.supplied, leaving.whole) = (leaving.supplied + bytes, last);
        }
    }

    /// The body of this request or of its response is streamed.
    pub(super) fn has(&self, request: RequestId) -> bool {
        self.requests.contains_key(&request) || self.leaving.contains_key(&IncompleteBody::Response(request))
    }

    pub(super) fn exchanges(&self) -> BTreeSet<ExchangeId> {
        let leaving = self.leaving.keys().filter_map(|body| match body {
            IncompleteBody::Request(exchange) => Some(*exchange),
            IncompleteBody::Response(_) => None,
        });
        self.responses.keys().copied().chain(leaving).collect()
    }

    /// Other responses start with the first block.
    pub(super) fn expects(&mut self, exchange: ExchangeId) {
        self.responses.insert(exchange, 0);
    }

    pub(super) fn received(&mut self, message: &Message<'_>) {
        self.came.clear();
        self.came.extend_from_slice(message.payload());
    }

    /// The payload must be the supplied part of the body at this offset.
    pub(super) fn transmitted(&self, exchange: Option<ExchangeId>, message: &Message<'_>) {
        let (body, number) = match message.option(OptionNumber::ETAG).and_then(|etag| <[u8; 3]>::try_from(etag).ok()) {
            Some(etag) if message.code().is_success() => (self.by_tag.get(&etag).copied(), OptionNumber::BLOCK2),
            _ if message.code().is_request() => (exchange.map(IncompleteBody::Request), OptionNumber::BLOCK1),
            _ => return,
        };
        let Some(leaving) = body.and_then(|body| self.leaving.get(&body)) else { return };
        let block = message.block(number).expect("endpoints send no reserved sizes");
        // After the upload, blocks of the response are requested without its body.
        let Some(block) = block.or(message.code().is_response().then_some(WHOLE)) else { return };
        let (begin, payload) = (block.offset(), message.payload());
        let end = begin + payload.len();
        assert!(end <= leaving.supplied, "{message}: {end} bytes of {leaving:?}");
        assert_eq!(payload, piece(leaving.tag, begin, payload.len()), "{message} of {leaving:?}");
        assert_eq!(block.more, !(leaving.whole && end == leaving.supplied), "{message} of {leaving:?}");
        assert!(!block.more || payload.len() == block.size.bytes(), "{message}");
    }

    pub(super) fn event(&mut self, event: &Event<Address>) {
        match event {
            Event::Request { id, message, .. }
                if of(message, OptionNumber::BLOCK1).is_some_and(|block| block.num == 0 && block.more) =>
            {
                self.answers = true;
                self.requests.insert(*id, message.payload().len());
            }
            Event::Part { request, message, last } => {
                assert!(!self.over.contains(request), "a block of {request:?}, which is over");
                let block = of(message, OptionNumber::BLOCK1).expect("it is a block");
                let next = self.requests.get_mut(request).expect("it began with a block");
                assert_eq!((block.offset(), *last), (*next, !block.more), "{message:?}");
                *next += message.payload().len();
                assert_eq!(message.payload(), self.came);
            }
            Event::Block { exchange, message, .. } => {
                let block = of(message, OptionNumber::BLOCK2).expect("it is a block");
                assert!(block.more, "the last block is the response");
                self.block_came(*exchange, message, block);
            }
            Event::Response { exchange, message, .. } if self.responses.contains_key(exchange) => {
                if let Some(block) = of(message, OptionNumber::BLOCK2).filter(|_| message.code().is_success()) {
                    self.block_came(*exchange, message, block);
                }
                self.responses.remove(exchange);
            }
            Event::Wanted { body, bytes } => {
                let leaving = self.leaving.get(body);
                assert!(leaving.is_none_or(|leaving| !leaving.whole) && *bytes > 0, "{bytes} bytes of {leaving:?}");
            }
            Event::StreamOver { request, .. } => {
                assert!(self.over.insert(*request), "{request:?} was over");
            }
            _ => {}
        }
    }

    fn block_came(&mut self, exchange: ExchangeId, message: &OwnedMessage, block: Block) {
        let next = self.responses.entry(exchange).or_default();
        assert_eq!(block.offset(), *next, "{message:?}");
        *next += message.payload().len();
        assert_eq!(message.payload(), self.came);
    }
}

const WHOLE: Block = Block { num: 0, more: false, size: conche_proto::codec::BlockSize::B1024 };

fn of(message: &OwnedMessage, number: OptionNumber) -> Option<Block> {
    message.content().block(number).ok().flatten()
}
