//! Where block-wise transfer (RFC 7959) meets the endpoint: bodies that are cut up and put together, in both roles.

use alloc::boxed::Box;

use super::leaving::What;
use super::outbox::Source;
use super::receive::Arrival;
use super::respond::OBSERVE_BYTES;
use super::{Endpoint, Event, NotifyError, RequestError, RespondError};
use crate::PeerKey;
use crate::blockwise::{
    Asked, Bounds, Key, Missing, NoBlock, Part, Representation, Representations, Rules, Step, Transfer, Trouble,
};
use crate::codec::{Block, BlockSize, Body, Code, Message, OptionNumber, OwnedMessage, Token};
use crate::config::SharedConfig;
use crate::exchange::{Content, Exchange, Failure, Opening, Response, Transferring, Work};
use crate::incoming::Waiting;
use crate::observe::Notification;
use crate::security::Security;
use crate::shares::Group;
use crate::store::Seldom;
use conche_cc::{Controller, Instant};

impl Seldom for Representations {
    type Recipe = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self::new(Bounds::NONE) }
    }

    fn make(config: &SharedConfig) -> Self {
        Self::new(bounds(config))
    }
}

/// The bounds of what is kept of peers' transfers.
pub(super) fn bounds(config: &SharedConfig) -> Bounds {
    let (limits, transmission) = (&config.limits, &config.transmission);
    Bounds {
        per_peer: limits.transfers_per_peer,
        total: limits.transfers,
        bytes: limits.assembly_bytes,
        body_bytes: limits.body_bytes,
        idle: config.times().exchange_lifetime,
        longest: config.transfer_lifetime,
        // Two copies in a row were lost: 1.5 (1 + 2) times ACK_TIMEOUT.
        stale: transmission.ack_timeout.saturating_mul(9) / 2,
    }
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// For a request whose messages have no longer tokens than this one and those that the endpoint chooses. Transfers
    /// reckon with a token of eight bytes, and so with as much less of a message as there is more of a token.
    pub(super) fn transfer_rules(&self, token: &Token, security: &Security) -> Rules {
        let (config, limits) = (&self.config, &self.config.limits);
        let longest = token.encoded_len().max(config.longest_own_token());
        let beside = longest.saturating_sub(Token::MAX_LENGTH) + security.request_bytes();
        let message_bytes = limits.message_bytes.saturating_sub(beside);
        Rules { block_size: config.block_size, message_bytes, body_bytes: limits.body_bytes }
    }

    /// Whether a message goes out as it is: all but those that are too large, if no smaller blocks are wished for.
    pub(super) fn goes_whole(&self, beside: usize, body: &Body) -> bool {
        let smallest_cut = match self.config.block_size {
            BlockSize::B1024 => usize::MAX,
            size => size.bytes(),
        };
        let bytes = 4 + beside + body.len();
        bytes <= self.config.limits.message_bytes && body.len() <= smallest_cut
    }

    /// Drops bodies that nobody has asked for or gone on with for long; when to look again.
    pub(super) fn purge_bodies(&mut self, now: Instant) -> Option<Instant> {
        let assemblies = self.parts.made().and_then(|parts| parts.assemblies.purge(now));
        let representations = self.representations.made().and_then(|representations| representations.purge(now));
        let in_sets = self.sets.as_mut().and_then(|sets| sets.purge(now));
        let streams = self.parts.made().and_then(|parts| parts.streams.purge(now));
        [assemblies, representations, in_sets, streams].into_iter().flatten().min()
    }

    /// Bytes of all bodies that are not complete or not all asked for.
    pub(super) fn body_bytes(&self) -> usize {
        let in_sets = self.sets.as_ref().map_or(0, |sets| sets.bytes());
        let kept = self.parts.assemblies.contexts().bytes() + self.representations.contexts().bytes() + in_sets;
        kept + self.exchanges.transfer_bytes()
    }

    // ---- as a client ----

    /// Cuts a request that does not go out as it is, and asks for blocks of the configured size in advance.
    #[inline]
    pub(super) fn cut_request(&self, opening: &mut Opening, tagged: bool) -> Result<(), RequestError> {
        let smallest = self.config.block_size != BlockSize::B1024;
        if !opening.whole || (!smallest && opening.bytes() <= self.config.limits.message_bytes) {
            return Ok(());
        }
        let content = opening.body.content(opening.code);
        let has = |number| content.is_some_and(|content| content.option(number).is_some());
        let (by_hand, wanted) = (has(OptionNumber::BLOCK1), has(OptionNumber::BLOCK2));
        let payload = content.map_or(0, |content| content.payload().len());
        let limit = self.config.limits.body_bytes;
        let too_large = opening.bytes() > self.config.limits.message_bytes;
        if !by_hand && payload > 0 && (too_large || payload > self.config.block_size.bytes()) {
            if payload > limit {
                return Err(RequestError::BodyTooLarge { bytes: payload, limit });
            }
            self.tag_body(opening, tagged);
            let mut transfer = Transfer::new(opening.code, &opening.body).telling(opening.streamed);
            // If not even the smallest block fits, the message is refused for its size.
            if let Some(first) = transfer.begin(&self.transfer_rules(&opening.token, &opening.security)) {
                opening.body = first;
                opening.transfer = Some(Box::new(Transferring::new(Work::Blocks(transfer))));
            }
        } else if smallest && opening.code.is_safe() && !wanted && !by_hand {
            // Early negotiation (RFC 7959 §2.4).
            let block = Block { num: 0, more: false, size: self.config.block_size };
            let payload = opening.body.payload();
            let body = opening.body.rewritten(|_| true, &[(OptionNumber::BLOCK2, block.encode())], &payload);
            let beside = 4 + opening.token.encoded_len() + opening.security.request_bytes();
            if beside + body.len() <= self.config.limits.message_bytes {
                opening.body = body;
            }
        }
        Ok(())
    }

    /// The blocks of a body that is protected, or that is to be tagged, are told from those of all others: whoever holds one of them back cannot
    /// put it into another body (RFC 9175 §3.5.1).
    pub(super) fn tag_body(&self, opening: &mut Opening, tagged: bool) {
        if (tagged || !opening.security.is_plain()) && opening.body.option(OptionNumber::REQUEST_TAG).is_none() {
            let tag = self.hash.hash(&self.stats.exchanges).to_be_bytes();
            opening.body = opening.body.with_request_tag(&tag);
        }
    }

    /// A response that was matched: the message to deliver, or `None` if the exchange goes on or has failed.
    #[inline]
    pub(super) fn follow(&mut self, now: Instant, index: u32, response: &Message<'_>) -> Option<OwnedMessage> {
        let exchange = self.exchanges.get(index);
        let begins = exchange.whole && Transfer::is_begun_by(response);
        let (code, body) = exchange.said();
        if exchange.transfer.is_none() && (!begins || asks_for_one_block(body, code)) {
            return Some(OwnedMessage::from(*response));
        }
        self.follow_blocks(now, index, response)
    }

    /// The transfer that an exchange is, or may be, since it takes more than one message. `None` if its application asks for single blocks.
    #[cfg(feature = "oscore")]
    pub(super) fn work_of(&mut self, index: u32) -> Option<Box<Transferring>> {
        let taken = self.exchanges.take_transfer(index);
        let exchange = self.exchanges.get(index);
        let (code, body) = exchange.said();
        let may = exchange.whole && !asks_for_one_block(body, code);
        taken.or_else(|| may.then(|| begun_by(exchange)))
    }

    /// The same for a response that concerns blocks.
    fn follow_blocks(&mut self, now: Instant, index: u32, response: &Message<'_>) -> Option<OwnedMessage> {
        let taken = self.exchanges.take_transfer(index);
        let mut transfer = taken.unwrap_or_else(|| begun_by(self.exchanges.get(index)));
        let exchange = self.exchanges.get(index);
        let rules = self.transfer_rules(&exchange.token, &exchange.security);
        let step = match &mut transfer.work {
            Work::Blocks(transfer) => transfer.answer(response, &rules),
            Work::Sets(_) | Work::Kept(..) => Step::AsItIs,
        };
        let message = match step {
            Step::Done(whole) => Some(whole),
            Step::AsItIs => Some(OwnedMessage::from(*response)),
            Step::Told => {
                let (exchange, from, course) = self.exchanges.told(now, &self.peers, index);
                let course = transfer.course(now, course);
                self.announce(Event::Block { exchange, from, message: OwnedMessage::from(*response), course });
                self.take_step(now, index, transfer, step);
                return None;
            }
            step => {
                self.take_step(now, index, transfer, step);
                return None;
            }
        };
        self.exchanges.put_back(index, transfer);
        message
    }

    /// A transfer goes on, waits for the application, or fails.
    pub(super) fn take_step(&mut self, now: Instant, index: u32, transfer: Box<Transferring>, step: Step) {
        let peer = self.exchanges.get(index).peer;
        let reason = match step {
            Step::Next(body) if self.fits_all_transfers(&transfer) => {
                let body = match self.protect_next(index, body) {
                    Ok(body) => body,
                    Err(reason) => {
                        self.exchanges.put_back(index, transfer);
                        return self.fail(now, index, reason);
                    }
                };
                let token = self.choose_token(now, peer, false).ok().map(|chosen| chosen.token);
                self.exchanges.go_on(now, &mut self.peers, index, (transfer, body), token);
                let exchange = self.exchanges.get(index).id(index);
                self.tell_wanted(exchange);
                return self.admit_waiting(now, peer);
            }
            Step::Told | Step::Awaited => {
                self.exchanges.pause(now, &mut self.peers, index, transfer);
                let exchange = self.exchanges.get(index).id(index);
                self.tell_wanted(exchange);
                return self.admit_waiting(now, peer);
            }
            Step::Failed(trouble) => failure_of(trouble),
            Step::Next(_) | Step::Done(_) | Step::AsItIs => Failure::BodyTooLarge,
        };
        self.exchanges.put_back(index, transfer);
        self.fail(now, index, reason);
    }

    /// There is room for what the transfers of all requests hold.
    pub(super) fn fits_all_transfers(&self, transfer: &Transferring) -> bool {
        let bytes = self.exchanges.transfer_bytes().saturating_add(transfer.growth());
        transfer.growth() == 0 || bytes <= self.config.limits.assembly_bytes
    }

    // ---- as a server ----

    /// A request that is about blocks. `None` if it has been answered; else it is for the application, all at once.
    pub(super) fn receive_block(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
    ) -> Option<Whole> {
        let key = self.key(arrival.hash, arrival.source, asked);
        if let Some(block) = asked.block1() {
            let (content, largest) = (message.content(), self.config.block_size);
            match self.parts.assemblies.receive(now, key, arrival.group, &content, block, largest) {
                Part::Whole => return Some(Whole::AsItIs),
                Part::Last => return Some(Whole::Joined(key)),
                Part::Kept(block) => {
                    let options = Body::EMPTY.rewritten(|_| true, &[(OptionNumber::BLOCK1, block.encode())], b"");
                    self.answer_remembered(now, arrival, message, Code::CONTINUE, &options);
                }
                Part::Refused(code) => {
                    let why = match code {
                        Code::REQUEST_ENTITY_INCOMPLETE => "a block before this one is missing: begin anew",
                        Code::REQUEST_ENTITY_TOO_LARGE => "the body is too large",
                        Code::BAD_REQUEST => "the payload is not as long as the block's size says",
                        _ => "",
                    };
                    self.stats.overloaded += u64::from(code == Code::SERVICE_UNAVAILABLE);
                    self.refuse(now, arrival, message, (code, why));
                }
            }
            return None;
        }
        let Some(block) = asked.block2().filter(|block| block.num > 0) else { return Some(Whole::AsItIs) };
        let (wanted, limit) = (self.config.block_size, self.config.limits.message_bytes);
        let others = 4 + message.encoded_token_len() + arrival.security.response_bytes();
        let key = self.kept_key(key, message);
        let Some(kept) = self.representations.get(now, key) else {
            return self.not_kept(now, arrival, message);
        };
        let code = kept.code;
        match kept.block(Some(block), None, Some(wanted), others, limit) {
            // Nothing has to be remembered: a copy finds the same block.
            Ok(cut) => self.answer_at_once(now, arrival, message, code, &cut.body),
            Err(NoBlock::Missing(Missing::Gone)) => {
                self.refuse(now, arrival, message, (Code::REQUEST_ENTITY_INCOMPLETE, IN_ORDER));
            }
            Err(_) => self.refuse(now, arrival, message, (Code::BAD_REQUEST, BEYOND)),
        }
        None
    }

    /// Under which key the response is kept of which this request asks for more.
    pub(super) fn kept_key(&mut self, key: Key, message: &Message<'_>) -> Key {
        let repeats = message.code() == Code::FETCH && message.payload().is_empty();
        if repeats { self.representations.contexts().fetched(key) } else { key }
    }

    /// A response of which a block is asked for is not kept any more: the application is asked again, unless that would have
    /// another effect.
    pub(super) fn not_kept(&mut self, now: Instant, arrival: &Arrival<P>, message: &Message<'_>) -> Option<Whole> {
        if message.code().is_safe() {
            return Some(Whole::AsItIs);
        }
        self.refuse(now, arrival, message, (Code::REQUEST_ENTITY_INCOMPLETE, "this response is not kept any more"));
        None
    }

    /// In which blocks a message would have fitted that is too large; `None` if it is not its payload that makes it so.
    pub(super) fn smaller_block(&self, message: &Message<'_>, security: &Security) -> Option<Block> {
        let (bytes, payload) = (message.as_bytes().len(), message.payload().len());
        let limits = &self.config.limits;
        // With Block1, Size1 and a token of the full length.
        let others = bytes - payload + Token::MAX_LENGTH + 5 + 6 + security.request_bytes();
        let size = BlockSize::fitting(limits.message_bytes.checked_sub(others)?)?.min(self.config.block_size);
        let cut = bytes > limits.message_bytes && payload > size.bytes() && payload <= limits.body_bytes;
        cut.then_some(Block { num: 0, more: false, size })
    }

    /// The request whose last block this is.
    pub(super) fn joined(&mut self, key: Key, message: &Message<'_>) -> Option<OwnedMessage> {
        let joined = self.parts.assemblies.complete(key, &message.content())?;
        joined.finish(message.header(), &message.token())
    }

    /// Who gets the response to this request. Beside its body that has a token and other things of so many bytes.
    pub(super) fn recipient(&self, waiting: &Waiting<P>, beside: usize) -> Recipient {
        let source = Source { from: waiting.from, local: waiting.local, copy: None };
        let key = self.key(self.peers.hash(&waiting.from), source, &waiting.asked);
        Recipient { key, group: waiting.group, asked: waiting.asked, beside }
    }

    /// A response as the peer gets it: all of it, or the block that it wants, of which the rest is kept.
    pub(super) fn cut_response(
        &mut self,
        now: Instant,
        to: &Recipient,
        response: Response,
    ) -> Result<Response, RespondError> {
        let code = response.code;
        let content = response.body.content(code);
        if content.is_some_and(|content| content.option(OptionNumber::BLOCK2).is_some()) {
            // The application cuts by itself.
            return Ok(response);
        }
        // Errors are no part of what was asked for: they go in blocks if they have to.
        if code.is_success() && to.asked.response_in_sets().is_some() {
            return self.cut_response_for_sets(now, to, response);
        }
        let mut whole = Representation::new(code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &self.config.limits);
        let goes_whole = self.goes_whole(to.beside, &response.body);
        if bytes > limits.body_bytes && !goes_whole {
            return Err(RespondError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        let (block1, block2) = (to.asked.block1(), to.asked.block2());
        // Errors, and what has no body, are no blocks of what was asked for.
        let block2 = block2.filter(|_| code.is_success() && code != Code::VALID && (bytes > 0 || !goes_whole));
        let wanted = block2.map_or(BlockSize::B1024, |block| block.size).min(self.config.block_size);
        if bytes > wanted.bytes() || !goes_whole {
            let hash = self.hash;
            whole.tag(|payload| hash.hash(&payload).to_be_bytes());
        }
        let others = 4 + to.beside;
        // A body that was not asked for in blocks and fits into a message stays whole.
        let largest = if goes_whole && block2.is_none() { None } else { Some(self.config.block_size) };
        match whole.block(block2, block1, largest, others, limits.message_bytes) {
            Ok(cut) => {
                if cut.block.is_some() {
                    self.representations.keep(now, to.key, to.group, whole);
                } else {
                    self.representations.forget(to.key);
                }
                Ok(Response { body: cut.body, ..response })
            }
            Err(NoBlock::Missing(_)) => {
                let body = Body::builder().payload(BEYOND).build().unwrap_or_default();
                Ok(Response { code: Code::BAD_REQUEST, body, ..response })
            }
            Err(NoBlock::NoRoom) => Ok(response),
        }
    }

    /// A notification that can be sent: with an ETag for its blocks, if it has to be cut for everybody.
    pub(super) fn notifiable(&self, response: Response) -> Result<Response, NotifyError> {
        let beside = self.config.longest_accepted_token() + OBSERVE_BYTES + self.most_protection();
        if self.goes_whole(beside, &response.body) {
            return Ok(response);
        }
        let mut whole = Representation::new(response.code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &self.config.limits);
        if bytes > limits.body_bytes {
            return Err(NotifyError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        whole.tag(|payload| self.hash.hash(&payload).to_be_bytes());
        let (beside, limit) = (4 + beside, limits.message_bytes);
        match whole.block(None, None, Some(self.config.block_size), beside, limit) {
            Ok(_) => Ok(Response { body: whole.into_body(), ..response }),
            Err(_) => Err(NotifyError::TooLarge { bytes: beside + response.body.len(), limit }),
        }
    }

    /// A notification as an observer gets it: all of it, or the first block in the size that it asked for. The rest is kept
    /// for it like that of any response, in place of the state before (RFC 7959 §2.6); what is told beside it is to follow in sets,
    /// if the observer asked for that.
    pub(super) fn cut_notification(&mut self, now: Instant, notification: Notification) -> (Content, Option<What>) {
        let Notification { place, group, asked, security, content, .. } = notification;
        let beside = place.token.encoded_len() + security.response_bytes();
        let (code, payload) = (content.code, content.body.payload());
        let wanted = asked.response_in_sets().or(asked.block2());
        let fits = wanted.is_none_or(|block| payload.len() <= block.size.bytes());
        if fits && self.goes_whole(beside, &content.body) {
            return (content, None);
        }
        let sequence = content.body.content(code).and_then(|content| content.uint(OptionNumber::OBSERVE));
        let body = content.body.rewritten(|number| number != OptionNumber::OBSERVE, &[], &payload);
        let source = Source { from: self.peers.get(place.peer).key, local: place.local, copy: None };
        let key = self.key(self.peers.hash(&source.from), source, &asked);
        let to = Recipient { key, group, asked, beside: beside + OBSERVE_BYTES };
        // Its size was looked at when the application handed it over.
        let Ok(cut) = self.cut_response(now, &to, Response::new(code, body)) else { return (content, None) };
        let rest = self.behind_first(now, &to, sequence, &cut);
        let body = sequence.map(|sequence| cut.body.with_uint(OptionNumber::OBSERVE, sequence));
        (Content { code, body: body.unwrap_or(cut.body) }, rest)
    }

    /// Stands for whom a body belongs to and what it is the body of.
    pub(super) fn key(&self, from: u64, source: Source<P>, asked: &Asked) -> Key {
        let local = source.local.map_or(0, |local| self.hash.hash(&local));
        Key { from, what: asked.what ^ local }
    }
}

/// Whom a response is for, as far as its blocks go.
pub(super) struct Recipient {
    pub(super) key: Key,
    pub(super) group: Group,
    pub(super) asked: Asked,
    /// The bytes of the token and what else is beside the body.
    pub(super) beside: usize,
}

/// What a failed transfer is told as.
pub(super) const fn failure_of(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Changed => Failure::BodyChanged,
        Trouble::TooLarge => Failure::BodyTooLarge,
        Trouble::Unacceptable => Failure::UnacceptableResponse,
    }
}

/// Of a body that is made while it is asked for, RFC 7959 §2.9.2 has the code nearest to this: blocks that did not come "in the
/// order required by the server".
pub(super) const IN_ORDER: &str = "this body is served from its beginning, one block after the other";

pub(super) const BEYOND: &str = "the body ends before this block";

/// How a request with blocks goes to the application.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whole {
    /// As it came.
    AsItIs,
    /// Put together from the blocks of this body and itself.
    Joined(Key),
    /// Put together from the sets of this body.
    Received(Key),
}

/// The transfer that begins with the request of an exchange.
fn begun_by<C: Controller>(exchange: &Exchange<C>) -> Box<Transferring> {
    let (code, body) = exchange.said();
    Box::new(Transferring::new(Work::Blocks(Transfer::new(code, body).telling(exchange.streamed))))
}

/// The application itself asks for a block in the middle, or sends one.
fn asks_for_one_block(body: &Body, code: Code) -> bool {
    body.content(code).is_some_and(|content| {
        content.option(OptionNumber::BLOCK1).is_some()
            || content.block(OptionNumber::BLOCK2).ok().flatten().is_some_and(|block| block.num > 0)
    })
}
