//! Sending the bodies of responses block by block.

use alloc::boxed::Box;

use bytes::Bytes;
use rand_core::RngCore;

use crate::PeerKey;
use crate::blockwise::{Claim, Key, Missing, NoBlock, Representation};
use crate::codec::{Block, Body, Code, Message, Overhead};
use crate::error::RespondError;
use crate::event::{Event, NotWanted, StreamEnd, Unfinished};
use crate::exchange::{Response, Rest};
use crate::incoming::{Came, RequestId};
use crate::layers::Layers;
use crate::server::Server;
use crate::server::blocks::{BEYOND, IN_ORDER};
use crate::server::options::Said;
use crate::server::receive::Arrival;
use crate::server::streams::table::{Leaving, Phase, Stream};
use conche_cc::{Controller, Instant};

fn diagnosed(code: Code, why: &'static str) -> Response {
    Response::new(code, Body::builder().payload(why).build().unwrap_or_default())
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Responds with a body whose payload is only the start, or empty.
    pub(crate) fn respond_in_parts(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        request: RequestId,
        response: Response,
        rest: Rest,
    ) -> Result<bool, RespondError> {
        let waiting = self.open_message(request).ok_or(RespondError::NotPending)?;
        self.check_code(&response)?;
        if waiting.is_to_group() {
            return Err(RespondError::ToGroup);
        }
        if Self::is_unwanted(&waiting, &response) {
            self.ignore(layers, now, request);
            return Ok(false);
        }
        let refusal = match waiting.asked.block2() {
            _ if waiting.asked.q_block2().is_some() => Some(Response::new(Code::BAD_OPTION, Body::EMPTY)),
            Some(block) if block.num > 0 => Some(diagnosed(Code::REQUEST_ENTITY_INCOMPLETE, IN_ORDER)),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.respond(layers, now, request, refusal).map(|_| false);
        }
        let mut whole = Representation::beginning(response.code, &response.body, rest.size);
        let tag = layers.transport.random.next_u64().to_be_bytes();
        whole.tag(|_| tag);
        let key = self.recipient(layers, &waiting, Overhead::of(&waiting.token)).key;
        let phase = Phase::Leaving(Box::new(Leaving::new(whole, layers.transport.config.block_size)));
        match self.parts.streams.find(now, key) {
            Some(stream) if stream.request == request => stream.phase = phase,
            before => {
                let limit = layers.transport.config.limits.transfers;
                if !self.incoming.admits(waiting.group, waiting.token.places(), layers.transport.config.limits.incoming)
                {
                    return Err(RespondError::TooManyStreams { limit });
                }
                if before.is_some() {
                    self.end_stream(layers, now, key, StreamEnd::BegunAnew);
                }
                let stream = Stream { request, phase };
                let entered = self.parts.streams.contexts.insert(now, key, waiting.group, (stream, 0), Claim::SHARE);
                entered.map_err(|_| RespondError::TooManyStreams { limit })?;
                self.incoming.keep_place(request);
            }
        }
        if waiting.asked.block1().is_some_and(|block| block.more) {
            self.incoming.answer_whole(request);
        }
        self.unregister(layers, now, request);
        self.representations.forget(key);
        self.serve(layers, now, key);
        Ok(true)
    }

    /// Receives a request for a block of a response. Returns `false` if no response in parts has
    /// this key.
    pub(crate) fn receive_ask(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        said: Said,
        (key, block): (Key, Block),
    ) -> bool {
        let repeats = message.code() == Code::FETCH && message.payload().is_empty();
        let key = if repeats { self.parts.streams.contexts.fetched(key) } else { key };
        let others = Overhead::of_response_to(message).with(arrival.security.response_bytes());
        let (largest, limit) = (layers.transport.config.block_size, layers.transport.config.limits.message_bytes);
        let Some(stream) = self.parts.streams.find(now, key) else { return false };
        let request = stream.request;
        let leaving = match &mut stream.phase {
            Phase::Coming(_) => return false,
            Phase::Answered(_) => {
                self.answer_late(layers, now, arrival, message, said, key);
                return true;
            }
            Phase::Leaving(leaving) => leaving,
        };
        let code = leaving.whole.code;
        match leaving.cut(Some(block), None, largest, (others, limit)) {
            Ok(cut) => {
                // No reply is stored: a duplicate gets the same block.
                self.answer_at_once(layers, now, arrival, message, code, &cut.body);
                self.release(layers, now, request);
                match cut.block.is_some_and(|block| block.more) {
                    true => self.tell_wanted_of(layers, now, key),
                    false => self.finish(layers, now, key),
                }
            }
            Err(NoBlock::Missing(Missing::Later(_))) => {
                self.reopen(layers, now, request, (arrival, message, said));
                self.tell_wanted_of(layers, now, key);
            }
            Err(NoBlock::Missing(Missing::Gone)) => {
                self.refuse(layers, now, arrival, message, (Code::REQUEST_ENTITY_INCOMPLETE, IN_ORDER));
            }
            Err(_) => self.refuse(layers, now, arrival, message, (Code::BAD_REQUEST, BEYOND)),
        }
        true
    }

    /// Supplies more of the body of a response.
    pub(crate) fn supply_response(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        request: RequestId,
        more: Bytes,
        last: bool,
    ) -> Result<(), NotWanted> {
        let key = self.stream_of(layers, request).ok_or(NotWanted)?;
        // Data from the application does not show that the client is still there.
        let taken = match self.parts.streams.contexts.peek_mut(key).map(|stream| &mut stream.phase) {
            Some(Phase::Leaving(leaving)) => leaving.whole.outflow().supply(more, last),
            _ => false,
        };
        if !taken {
            return Err(NotWanted);
        }
        self.serve(layers, now, key);
        Ok(())
    }

    /// Sends the next block of a response, if the client waits for it and it was supplied.
    pub(crate) fn serve(&mut self, layers: &mut Layers<P, C>, now: Instant, key: Key) {
        let (largest, limit) = (layers.transport.config.block_size, layers.transport.config.limits.message_bytes);
        let Some(stream) = self.parts.made().and_then(|parts| parts.streams.find(now, key)) else { return };
        let (request, Phase::Leaving(leaving)) = (stream.request, &mut stream.phase) else { return };
        let open = self.incoming.get(request).filter(|waiting| waiting.came != Came::Between);
        let Some(waiting) = open else { return self.tell_wanted_of(layers, now, key) };
        let protection = self.incoming.security(request).response_bytes();
        let (asked, others) = (&waiting.asked, Overhead::of(&waiting.token).with(protection));
        let code = leaving.whole.code;
        match leaving.cut(asked.block2(), asked.block1(), largest, (others, limit)) {
            Ok(cut) if cut.block.is_some_and(|block| block.more) => {
                self.answer_part(layers, now, request, Response::new(code, cut.body));
                self.tell_wanted_of(layers, now, key);
            }
            Ok(cut) => {
                self.answer_part(layers, now, request, Response::new(code, cut.body));
                self.finish(layers, now, key);
            }
            Err(NoBlock::Missing(Missing::Later(_))) => self.tell_wanted_of(layers, now, key),
            Err(NoBlock::NoRoom | NoBlock::Missing(_)) => {
                let code = Code::INTERNAL_SERVER_ERROR;
                self.answer_part(layers, now, request, Response::new(code, Body::EMPTY));
                self.end_stream(layers, now, key, StreamEnd::TooLarge);
            }
        }
    }

    pub(crate) fn tell_wanted_of(&mut self, layers: &mut Layers<P, C>, now: Instant, key: Key) {
        let Some(stream) = self.parts.streams.find(now, key) else { return };
        let body = Unfinished::Response(stream.request);
        if let Phase::Leaving(leaving) = &mut stream.phase
            && let Some(bytes) = leaving.wants()
        {
            layers.announce(Event::Wanted { body, bytes });
        }
    }

    /// Handles that the last block of a response was sent. It can be requested again like that of
    /// any response.
    pub(crate) fn finish(&mut self, layers: &mut Layers<P, C>, now: Instant, key: Key) {
        let Some(stream) = self.parts.streams.contexts.remove(key) else { return };
        let group = self.incoming.get(stream.request).map(|waiting| waiting.group);
        if let (Phase::Leaving(leaving), Some(group)) = (stream.phase, group)
            && leaving.served > 0
        {
            // If the table is full, a repeated request for the last block goes to the application.
            let claim = Claim::Share(self.incoming.reserved());
            let _ = self.representations.keep(now, key, group, leaving.whole, claim);
            self.representations.finish(key);
        }
        self.give_up_place(layers, now, stream.request);
    }
}
