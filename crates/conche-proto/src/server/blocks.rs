//! Responses that are cut into blocks (RFC 7959) and stored for requests for their other blocks.

use core::time::Duration;

use crate::PeerKey;
use crate::blockwise::{Asked, Bounds, Claim, Full, Key, NoBlock, Representation, Representations};
use crate::codec::{
    BLOCK_BYTES, Block, BlockSize, Body, Code, Message, OBSERVE_BYTES, OptionNumber, Overhead, SIZE_BYTES, Token,
};
use crate::config::SharedConfig;
use crate::error::{NotifyError, RespondError};
use crate::exchange::{Content, Response};
use crate::incoming::{Keeping, Waiting};
use crate::layers::Layers;
use crate::observe::Notification;
use crate::security::Security;
use crate::server::Server;
use crate::server::q_block::StoredResponse;
use crate::shares::Group;
use crate::store::Seldom;
use crate::transport::Source;
use conche_cc::{Controller, Instant};

impl Seldom for Representations {
    type Recipe = SharedConfig;

    fn empty<'a>() -> &'a Self {
        const { &Self::new(Bounds::NONE) }
    }

    fn make(config: &SharedConfig) -> Self {
        // A client asks for the second block within a round trip, and within 1.5 times ACK_TIMEOUT
        // more if the first was lost. A peer that begins a download may give up another one for it.
        let unused_stale = config.transmission.ack_timeout.saturating_mul(2);
        Self::new(Bounds { unused_stale, own_stale: Duration::ZERO, ..bounds(config) })
    }
}

/// Returns the bounds for the state of peers' transfers.
pub(crate) fn bounds(config: &SharedConfig) -> Bounds {
    let (limits, transmission) = (&config.limits, &config.transmission);
    // Two consecutive transmissions were lost: 1.5 (1 + 2) times ACK_TIMEOUT.
    let stale = transmission.ack_timeout.saturating_mul(9) / 2;
    Bounds {
        per_peer: limits.transfers_per_peer,
        total: limits.transfers,
        bytes: limits.assembly_bytes,
        body_bytes: limits.body_bytes,
        idle: config.times().exchange_lifetime,
        longest: config.transfer_lifetime,
        stale,
        unused_stale: stale,
        own_stale: stale,
    }
}

/// The recipient of a response and of its blocks.
pub(crate) struct Recipient {
    pub(crate) key: Key,
    pub(crate) group: Group,
    pub(crate) asked: Asked,
    /// The overhead of the message around its body.
    pub(crate) beside: Overhead,
    /// The claim of its body to a place; `None` for a notification and for a response to a group
    /// request, which are never refused.
    pub(crate) keeping: Option<Keeping>,
}

/// For a body that is generated while it is fetched, RFC 7959 §2.9.2 has the closest code: blocks
/// that did not come "in the order required by the server".
pub(crate) const IN_ORDER: &str = "this body is served from its beginning, one block after the other";

pub(crate) const BEYOND: &str = "the body ends before this block";

pub(crate) const TOO_LARGE: &str = "the body is too large";

/// How a request with blocks is passed to the application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delivery {
    /// As received.
    AsItIs,
    /// Reassembled from the blocks of this body and the message itself.
    Joined(Key),
    /// Reassembled from the sets of this body.
    Received(Key),
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Keeps a response whose first block is sent, so that `to` can request the other blocks.
    /// Returns `Err` with the response to send instead if the table is full.
    pub(super) fn keep(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        to: &Recipient,
        whole: Representation,
    ) -> Result<(), Response> {
        let success = whole.code.is_success();
        let claim = match to.keeping {
            Some(Keeping::Reserved) => Claim::Reserved,
            Some(Keeping::Once) => Claim::Irreplaceable(self.incoming.reserved()),
            Some(Keeping::IfRoom) | None => Claim::Share(self.incoming.reserved()),
        };
        let kept = self.representations.keep(now, to.key, to.group, whole, claim);
        let can_be_repeated = matches!(to.keeping, Some(Keeping::IfRoom | Keeping::Reserved));
        if kept == Err(Full) && can_be_repeated && success {
            layers.transport.stats.overloaded += 1;
            return Err(Response::new(Code::SERVICE_UNAVAILABLE, layers.transport.config.try_later()));
        }
        Ok(())
    }

    /// Returns the key of the kept response that this request asks for more of.
    pub(super) fn kept_key(&mut self, key: Key, message: &Message<'_>) -> Key {
        let repeats = message.code() == Code::FETCH && message.payload().is_empty();
        if repeats { self.representations.contexts().fetched(key) } else { key }
    }

    /// Returns the block size in which a message that is too large would have fitted. `None` if the
    /// payload is not the cause.
    pub(super) fn smaller_block(
        &self,
        layers: &Layers<P, C>,
        message: &Message<'_>,
        security: &Security,
    ) -> Option<Block> {
        let (bytes, payload) = (message.as_bytes().len(), message.payload().len());
        let limits = &layers.transport.config.limits;
        // Includes Block1, Size1 and a token of the maximum length.
        let others = bytes - payload + Token::MAX_LENGTH + BLOCK_BYTES + SIZE_BYTES + security.request_bytes();
        let size =
            BlockSize::fitting(limits.message_bytes.checked_sub(others)?)?.min(layers.transport.config.block_size);
        let cut = bytes > limits.message_bytes && payload > size.bytes() && payload <= limits.body_bytes;
        cut.then_some(Block { num: 0, more: false, size })
    }

    /// Returns the recipient of the response to this request; `beside` is the overhead of that
    /// response.
    pub(super) fn recipient(&self, layers: &Layers<P, C>, waiting: &Waiting<P>, beside: Overhead) -> Recipient {
        let source = Source { from: waiting.from, local: waiting.local };
        let key = self.key(layers, layers.transport.peers.hash(&waiting.from), source, &waiting.asked);
        let keeping = Some(waiting.rules.keeping()).filter(|_| !waiting.is_to_group());
        Recipient { key, group: waiting.group, asked: waiting.asked, beside, keeping }
    }

    /// Returns the response as the peer gets it: complete, or the requested block with the rest
    /// kept.
    pub(super) fn cut_response(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        to: &Recipient,
        response: Response,
    ) -> Result<Response, RespondError> {
        let code = response.code;
        let content = response.body.content(code);
        if content.is_some_and(|content| content.option(OptionNumber::BLOCK2).is_some()) {
            // The application handles blocks itself.
            return Ok(response);
        }
        // Errors are not part of the requested body; they are cut into blocks only if they must be.
        if code.is_success() && code != Code::VALID && to.asked.response_in_sets().is_some() {
            return self.cut_response_for_sets(layers, now, to, response);
        }
        let mut whole = Representation::new(code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &layers.transport.config.limits);
        let goes_whole = layers.transport.config.goes_whole(to.beside, &response.body);
        if bytes > limits.body_bytes && !goes_whole {
            return Err(RespondError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        let (block1, block2) = (to.asked.block1(), to.asked.block2());
        // Errors and responses without a body are not blocks of the requested body.
        let block2 = block2.filter(|_| code.is_success() && code != Code::VALID && (bytes > 0 || !goes_whole));
        let wanted = block2.map_or(BlockSize::B1024, |block| block.size).min(layers.transport.config.block_size);
        if bytes > wanted.bytes() || !goes_whole {
            let hash = layers.transport.hash;
            whole.tag(|payload| hash.hash(&payload).to_be_bytes());
        }
        // A body that fits into a message stays whole unless blocks were requested.
        let largest = if goes_whole && block2.is_none() { None } else { Some(layers.transport.config.block_size) };
        match whole.block(block2, block1, largest, to.beside, limits.message_bytes) {
            Ok(cut) => {
                if cut.block.is_some() {
                    if let Err(refusal) = self.keep(layers, now, to, whole) {
                        return Ok(refusal);
                    }
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

    /// Cuts a response to its first block of 16 bytes, and keeps the body for the others. `None` if
    /// the response is not the beginning of a body.
    pub(super) fn smallest_first_block(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        waiting: &Waiting<P>,
        response: &Response,
    ) -> Option<Response> {
        const SMALLEST: BlockSize = BlockSize::B16;
        let code = response.code;
        let to = self.recipient(layers, waiting, Overhead::of(&waiting.token));
        if !code.is_success() || code == Code::VALID || to.asked.response_in_sets().is_some() {
            return None;
        }
        let (block1, limit) = (to.asked.block1(), layers.transport.config.limits.message_bytes);
        let first = Some(Block { num: 0, more: false, size: SMALLEST });
        let cut = |whole: &Representation| whole.block(first, block1, Some(SMALLEST), to.beside, limit).ok();
        let body = match response.body.content(code)?.block(OptionNumber::BLOCK2).ok()? {
            // It was cut before, and the body is kept.
            Some(block) if block.num == 0 => cut(self.representations.get(now, to.key)?)?.body,
            Some(_) => return None,
            None => {
                let (hash, mut whole) = (layers.transport.hash, Representation::new(code, &response.body));
                whole.tag(|payload| hash.hash(&payload).to_be_bytes());
                let body = cut(&whole)?.body;
                self.keep(layers, now, &to, whole).ok()?;
                body
            }
        };
        Some(Response { body, ..response.clone() })
    }

    /// Returns a notification that can be sent, with an ETag for its blocks if it has to be cut for
    /// every observer.
    pub(super) fn notifiable(&self, layers: &Layers<P, C>, response: Response) -> Result<Response, NotifyError> {
        let longest_token = Overhead::of_token_length(layers.transport.config.longest_accepted_token());
        let beside = longest_token.with(OBSERVE_BYTES).with(layers.most_protection());
        if layers.transport.config.goes_whole(beside, &response.body) {
            return Ok(response);
        }
        let mut whole = Representation::new(response.code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &layers.transport.config.limits);
        if bytes > limits.body_bytes {
            return Err(NotifyError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        whole.tag(|payload| layers.transport.hash.hash(&payload).to_be_bytes());
        let limit = limits.message_bytes;
        match whole.block(None, None, Some(layers.transport.config.block_size), beside, limit) {
            Ok(_) => Ok(Response { body: whole.into_body(), ..response }),
            Err(_) => Err(NotifyError::TooLarge { bytes: beside.message(&response.body), limit }),
        }
    }

    /// Returns the notification as an observer gets it: complete, or the first block in the
    /// requested size. The rest is kept like that of any response, in place of the previous state
    /// (RFC 7959 §2.6). If the observer uses Q-Block2, also returns the blocks that follow in sets.
    pub(super) fn cut_notification(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        notification: Notification,
    ) -> (Content, Option<StoredResponse>) {
        let Notification { place, group, asked, security, content, .. } = notification;
        let beside = Overhead::of(&place.token).with(security.response_bytes());
        let (code, payload) = (content.code, content.body.payload());
        let wanted = asked.response_in_sets().or(asked.block2());
        let fits = wanted.is_none_or(|block| payload.len() <= block.size.bytes());
        if fits && layers.transport.config.goes_whole(beside, &content.body) {
            return (content, None);
        }
        let sequence = content.body.content(code).and_then(|content| content.uint(OptionNumber::OBSERVE));
        let body = content.body.rewritten(|number| number != OptionNumber::OBSERVE, &[], &payload);
        let source = Source { from: layers.transport.peers.get(place.peer).key, local: place.local };
        let key = self.key(layers, layers.transport.peers.hash(&source.from), source, &asked);
        let to = Recipient { key, group, asked, beside: beside.with(OBSERVE_BYTES), keeping: None };
        // The size was checked when the application passed the notification.
        let Ok(cut) = self.cut_response(layers, now, &to, Response::new(code, body)) else { return (content, None) };
        let rest = self.behind_first(now, &to, sequence, &cut);
        let body = sequence.map(|sequence| cut.body.with_uint(OptionNumber::OBSERVE, sequence));
        (Content { code, body: body.unwrap_or(cut.body) }, rest)
    }

    /// Returns the key of a body, from its owner and the request that it belongs to.
    pub(crate) fn key(&self, layers: &Layers<P, C>, from: u64, source: Source<P>, asked: &Asked) -> Key {
        let local = source.local.map_or(0, |local| layers.transport.hash.hash(&local));
        Key { from, what: asked.what ^ local }
    }

    /// Cuts a response to its first block for a client that supports Q-Block2, or to the block that
    /// it requests. The rest is kept.
    fn cut_response_for_sets(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        to: &Recipient,
        response: Response,
    ) -> Result<Response, RespondError> {
        let code = response.code;
        let block = to.asked.response_in_sets();
        if to.asked.q_block2().is_none() && layers.transport.config.goes_whole(to.beside, &response.body) {
            // No smaller blocks were requested.
            self.representations.forget(to.key);
            return Ok(response);
        }
        let mut whole = Representation::new(code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &layers.transport.config.limits);
        let (Some(block), others) = (block, to.beside) else { return Ok(response) };
        if bytes > limits.body_bytes {
            return Err(RespondError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        let hash = layers.transport.hash;
        whole.tag(|payload| hash.hash(&payload).to_be_bytes());
        let Some(size) =
            whole.size_in_sets(block.size.min(layers.transport.config.block_size), others, limits.message_bytes)
        else {
            return Ok(response);
        };
        if bytes <= size.bytes() && block.num == 0 {
            // The block is the complete body.
            self.representations.forget(to.key);
            return Ok(response);
        }
        match whole.block_of_set(block.num, size, others, limits.message_bytes) {
            Some(body) => match self.keep(layers, now, to, whole) {
                Ok(()) => Ok(Response { body, ..response }),
                Err(refusal) => Ok(refusal),
            },
            None => {
                let body = Body::builder().payload(BEYOND).build().unwrap_or_default();
                Ok(Response { code: Code::BAD_REQUEST, body, ..response })
            }
        }
    }

    /// Returns the rest to be sent in bursts after a first block: everything after it, if whole
    /// states were requested.
    fn behind_first(
        &mut self,
        now: Instant,
        to: &Recipient,
        sequence: Option<u32>,
        cut: &Response,
    ) -> Option<StoredResponse> {
        let asked = to.asked.response_in_sets().filter(|asked| asked.more)?;
        let block = cut.body.content(cut.code)?.block(OptionNumber::Q_BLOCK2).ok()?.filter(|block| block.more)?;
        let kept = self.representations.get(now, to.key)?;
        let (bytes, mark) = (kept.payload().len(), kept.mark());
        let block = Block { more: asked.more, ..block };
        Some(StoredResponse { key: to.key, mark, bytes, block, sequence })
    }
}
