//! [`Streamer`]: an application that streams bodies.

use std::time::Duration;

use bytes::Bytes;
use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use conche_proto::{
    Endpoint, Event, ExchangeId, IncompleteBody, Instant, RemainingBody, RequestId, Response, StreamEnd,
};

use crate::model::Address;

/// Accepts received blocks and supplies requested ones, after a delay. A server's `/in` receives a
/// body, its `/out` sends one.
#[derive(Debug, Default)]
pub struct Streamer {
    pub delay: Duration,
    pub body: Vec<u8>,
    /// 0 for the requested size.
    pub piece: usize,
    /// An error follows after this many bytes.
    pub breaks_at: Option<usize>,
    /// 4.13 follows after this many bytes.
    pub refuses_at: Option<usize>,
    pub etag: Option<Vec<u8>>,
    pub came: Vec<u8>,
    pub blocks: usize,
    pub over: Vec<StreamEnd>,
    /// The most bytes requested at once.
    pub wanted: usize,
    pub supplied: usize,
    pub later: Vec<(Instant, Action)>,
}

#[derive(Clone, Copy, Debug)]
pub enum Action {
    Fetch(ExchangeId),
    Continue(RequestId),
    Answer(RequestId, Code),
    Supply(IncompleteBody, usize),
}

impl Streamer {
    pub fn with(body: Vec<u8>) -> Self {
        Self { body, ..Self::default() }
    }

    pub fn wants(path: &str) -> bool {
        path == "/in"
    }

    pub fn event(&mut self, now: Instant, endpoint: &mut Endpoint<Address, AnyController>, event: &Event<Address>) {
        let action = match event {
            Event::Request { id, message, .. } if message.uri_path() == "/out" => {
                return self.respond(now, endpoint, *id);
            }
            Event::Request { id, message, .. } => {
                self.came.clear();
                let block = message.content().block(OptionNumber::BLOCK1).expect("legal");
                self.part(*id, message, !block.is_some_and(|block| block.more))
            }
            Event::Part { request, message, last } => self.part(*request, message, *last),
            Event::Block { exchange, message, .. } => {
                self.take(message);
                Action::Fetch(*exchange)
            }
            Event::Response { message, .. } => return self.take(message),
            Event::Wanted { body, bytes } => {
                self.wanted = self.wanted.max(*bytes);
                Action::Supply(*body, *bytes)
            }
            Event::StreamOver { reason, .. } => return self.over.push(*reason),
            _ => return,
        };
        if self.delay.is_zero() {
            self.perform(now, endpoint, action);
        } else {
            self.later.push((now + self.delay, action));
        }
    }

    pub fn next(&self) -> Option<Instant> {
        self.later.iter().map(|(at, _)| *at).min()
    }

    pub fn due(&mut self, now: Instant, endpoint: &mut Endpoint<Address, AnyController>) {
        for (_, action) in self.later.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            self.perform(now, endpoint, action);
        }
    }

    pub fn piece(&mut self, wanted: usize) -> (Bytes, bool) {
        let bytes = if self.piece == 0 { wanted } else { self.piece };
        let end = (self.supplied + bytes).min(self.body.len());
        let piece = Bytes::copy_from_slice(&self.body[self.supplied..end]);
        self.supplied = end;
        (piece, end == self.body.len())
    }

    fn take(&mut self, message: &OwnedMessage) {
        self.came.extend_from_slice(message.payload());
        self.blocks += 1;
    }

    fn part(&mut self, id: RequestId, message: &OwnedMessage, last: bool) -> Action {
        self.take(message);
        match self.refuses_at {
            Some(most) if self.came.len() > most => Action::Answer(id, Code::REQUEST_ENTITY_TOO_LARGE),
            _ if last => Action::Answer(id, Code::CHANGED),
            _ => Action::Continue(id),
        }
    }

    fn respond(&mut self, now: Instant, endpoint: &mut Endpoint<Address, AnyController>, id: RequestId) {
        self.supplied = 0;
        let body = match &self.etag {
            Some(etag) => Body::builder().option(OptionNumber::ETAG, etag).build().expect("legal"),
            None => Body::EMPTY,
        };
        let size = u32::try_from(self.body.len()).ok();
        let begun = endpoint.respond_in_parts(now, id, Response::new(Code::CONTENT, body), RemainingBody { size });
        if begun.is_err() {
            endpoint.respond(now, id, Response::new(Code::SERVICE_UNAVAILABLE, Body::EMPTY)).expect("it waits");
        }
    }

    // Ended transfers need nothing.
    fn perform(&mut self, now: Instant, endpoint: &mut Endpoint<Address, AnyController>, action: Action) {
        match action {
            Action::Fetch(exchange) => {
                endpoint.fetch_next(now, exchange);
            }
            Action::Continue(request) => {
                let _ = endpoint.continue_request(now, request);
            }
            Action::Answer(request, code) => {
                let _ = endpoint.respond(now, request, Response::new(code, Body::EMPTY));
            }
            Action::Supply(IncompleteBody::Response(request), _)
                if self.breaks_at.is_some_and(|at| self.supplied >= at) =>
            {
                let error = Response::new(Code::INTERNAL_SERVER_ERROR, Body::EMPTY);
                let _ = endpoint.respond(now, request, error);
            }
            Action::Supply(body, wanted) => {
                let (piece, last) = self.piece(wanted);
                let _ = endpoint.supply(now, body, piece, last);
            }
        }
    }
}
