//! Received requests on their way to the application (RFC 7252 §4.5, §5.2), and their options.

use alloc::format;
use alloc::string::String;
use core::num::NonZeroU16;

use super::Server;
use super::blockwise::Delivery;
use super::pending_requests::{BodyStorage, PendingRequest, RequestKind, ResponseRules};
use crate::PeerKey;
use crate::blockwise::{BlockOptions, Full};
use crate::codec::{Block, Code, Message, NoResponse, OptionNumber, OwnedMessage, RawOption, Token, Type};
use crate::config::SourceValidation;
use crate::event::Event;
use crate::hash::Fingerprint;
use crate::layers::Layers;
#[cfg(feature = "oscore")]
use crate::oscore::Refused;
use crate::security::Security;
use crate::shares::Group;
use crate::store::Compact;
use crate::transport::{PeerIndex, Received, Remembered, Reply, RequestId, Sender, Source};
use conche_cc::Controller;

#[derive(Clone, Debug)]
pub(crate) struct Arrival<P> {
    pub(crate) source: Source<P>,
    pub(crate) hash: u64,
    /// In the deduplication table.
    pub(crate) fingerprint: Fingerprint,
    pub(crate) group: Group,
    /// In bytes; `None` without limit.
    pub(crate) allowance: Option<NonZeroU16>,
    pub(crate) kind: RequestKind,
    /// Also of the answer.
    pub(crate) security: Security,
}

/// A received request, with the message unprotected.
pub(crate) struct ReceivedRequest<'a, P> {
    pub(crate) arrival: &'a Arrival<P>,
    pub(crate) message: &'a Message<'a>,
}

impl<P> Clone for ReceivedRequest<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for ReceivedRequest<'_, P> {}

pub(crate) struct Resources {
    peer: Option<Compact<PeerIndex>>,
    remembered: Option<Remembered>,
}

impl<P: PeerKey> Arrival<P> {
    #[inline]
    pub(super) fn pending(
        &self,
        message: &Message<'_>,
        options: &RequestOptions,
        taken: Resources,
    ) -> PendingRequest<P> {
        let Source { from, local } = self.source;
        PendingRequest {
            from,
            local,
            id: message.id(),
            token: message.token(),
            generation: 0,
            kind: self.kind,
            peer: taken.peer,
            remembered: taken.remembered,
            group: self.group,
            requested: options.requested,
            allowance: self.allowance,
            rules: ResponseRules::new(options.unwanted, options.storage),
        }
    }
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Handles a new request, a duplicate (RFC 7252 §4.5), or one to be refused. An accepted
    /// request has room for its response, without a time limit.
    #[inline]
    pub(crate) fn receive_request(&mut self, layers: &mut Layers<P, C>, sender: &Sender<P>, message: &Message<'_>) {
        let &Sender { source, hash, peer, validated } = sender;
        let limiter = layers.transport.limiters.as_mut().and_then(|limiters| limiters.requests.as_mut());
        if limiter.is_some_and(|limiter| !limiter.admits(layers.now, Group::of(hash))) {
            layers.transport.stats.limited += 1;
            return;
        }
        let allowance = if validated { None } else { self.allowance(layers, &source, hash, message) };
        let fingerprint = layers.transport.fingerprint(source, hash, message);
        if self.is_held(layers, hash, fingerprint, allowance) {
            return;
        }
        if let Some(remembered) = layers.transport.received.find(layers.now, fingerprint) {
            return layers.transport.receive_duplicate(source, message, remembered, allowance);
        }
        if message.ty() == Type::NonConfirmable
            && peer.is_some_and(|peer| layers.transport.lacks_ids(layers.now, peer, message))
        {
            layers.transport.stats.overloaded += 1;
            return;
        }
        let kind =
            if message.ty() == Type::Confirmable { RequestKind::Confirmable } else { RequestKind::NonConfirmable };
        let (group, security) = (layers.transport.group_of(&source.from, hash), Security::PLAIN);
        let arrival = Arrival { source, hash, fingerprint, group, allowance, kind, security };
        #[cfg(feature = "oscore")]
        if message.option(OptionNumber::OSCORE).is_some() && layers.has_contexts() {
            return self.receive_protected(layers, arrival, message);
        }
        self.receive_arrived(layers, ReceivedRequest { arrival: &arrival, message });
    }

    /// Handles a request that is not a duplicate, after unprotecting it.
    #[inline]
    pub(super) fn receive_arrived(&mut self, layers: &mut Layers<P, C>, received: ReceivedRequest<'_, P>) {
        let ReceivedRequest { arrival, message } = received;
        let acceptable = self.acceptable(layers, message, &arrival.security);
        let options = match &acceptable {
            Ok(options) => options,
            Err((code, diagnostic)) => return self.refuse(layers, received, *code, diagnostic),
        };
        if self.challenges(layers, received, &options.requested) {
            return;
        }
        let mut whole = Delivery::Unchanged;
        if options.requested.is_in_bursts() {
            match self.receive_burst_request(layers, received, &options.requested) {
                Some(delivered) => whole = delivered,
                None => return,
            }
        } else if !options.requested.is_plain() {
            if self.receive_of_stream(layers, received, *options) {
                return;
            }
            match self.receive_block(layers, received, &options.requested) {
                Some(delivered) => whole = delivered,
                None => return,
            }
        }
        let with_place = match self.representations.created() {
            Some(_) => self.with_place(layers, arrival, *options),
            None => Ok(*options),
        };
        let taken_in = match with_place {
            Ok(options) => self.take_in(layers, received, &options),
            Err(Full) => None,
        };
        let Some(id) = taken_in else {
            layers.transport.stats.overloaded += 1;
            if let Delivery::Received(key) = whole {
                self.drop_upload(key);
            }
            return self.refuse(layers, received, Code::SERVICE_UNAVAILABLE, "");
        };
        if self.has_observers() {
            self.observation_renewed(layers, id, message);
        }
        layers.transport.stats.requests_received += 1;
        let message = match whole {
            Delivery::Unchanged => None,
            Delivery::JoinedBody(key) => self.joined(key, message),
            Delivery::Received(key) => self.received_in_bursts(key, message),
        }
        .unwrap_or_else(|| OwnedMessage::pooled(*message, &mut layers.pool));
        layers.announce(Event::Request { id, from: arrival.source.from, message });
    }

    /// Checks the room for the response, holds the peer's state if necessary, and remembers the
    /// request. Only idempotent requests may be accepted without being remembered.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
        options: &RequestOptions,
    ) -> Option<RequestId> {
        let ReceivedRequest { arrival, message } = received;
        let places = Token::places_of(message.token_bytes().len());
        if !self.pending_requests.admits(arrival.group, places, layers.transport.config.limits.incoming) {
            return None;
        }
        let taken = self.take_in_place(layers, received)?;
        let id = self.pending_requests.insert(layers.now, || arrival.pending(message, options, taken))?;
        self.pending_requests.protect(id, &arrival.security);
        Some(id)
    }

    /// Accepts a request that has its place. Inlined, so that the result stays in registers.
    #[inline(always)]
    pub(super) fn take_in_place(
        &mut self,
        layers: &mut Layers<P, C>,
        received: ReceivedRequest<'_, P>,
    ) -> Option<Resources> {
        let ReceivedRequest { arrival, message } = received;
        let &Arrival { source, fingerprint, group, .. } = arrival;
        let confirmable = message.ty() == Type::Confirmable;
        let idempotent = if message.code().is_idempotent() { Ok(()) } else { Err(group) };
        let reply = if confirmable { Reply::Pending } else { Reply::Silence };
        let peer = if confirmable { None } else { Some(self.open_peer(layers, source.from, group).ok()?) };
        let remembered =
            layers.transport.remember(layers.now, Received { fingerprint, confirmable, idempotent }, reply);
        if remembered.is_none() && idempotent.is_err() {
            return None;
        }
        if let Some(peer) = peer {
            layers.transport.peers.hold(peer);
            if layers.transport.config.source_validation != SourceValidation::Off && arrival.allowance.is_none() {
                layers.transport.peers.validated(peer);
            }
        }
        Some(Resources { peer: peer.and_then(Compact::of), remembered })
    }

    /// Unprotects a request. If that fails, an unprotected error is sent, which reveals nothing.
    #[cfg(feature = "oscore")]
    fn receive_protected(&mut self, layers: &mut Layers<P, C>, arrival: Arrival<P>, message: &Message<'_>) {
        if message.option(OptionNumber::EDHOC).is_some() {
            return self.receive_combined(layers, arrival, message);
        }
        let Some(protection) = layers.protection.as_deref_mut() else { return };
        match protection.contexts.unprotect_request(layers.now, message, &mut layers.pool) {
            Ok(unprotected) => {
                let (inner, security) = (unprotected.message, Security::by(unprotected.binding));
                let mut arrival = Arrival { security, ..arrival };
                if arrival.allowance.is_some() {
                    if inner.option(OptionNumber::ECHO).is_some() {
                        // The Echo option that proves the address is in the inner message.
                        arrival.allowance = self.allowance(layers, &arrival.source, arrival.hash, &inner.view());
                    }
                    arrival.allowance = arrival.allowance.map(|allowance| {
                        let protection = u16::try_from(arrival.security.response_bytes()).unwrap_or(u16::MAX);
                        NonZeroU16::new(allowance.get().saturating_sub(protection)).unwrap_or(NonZeroU16::MIN)
                    });
                }
                self.receive_arrived(layers, ReceivedRequest { arrival: &arrival, message: &inner.view() });
            }
            Err(refused) => {
                protection.refused += 1;
                let answer = protection.contexts.refusal(layers.now, &refused);
                layers.ask_to_reserve();
                // A Non-confirmable request is ignored, since a response would need state, unless
                // its sender needs the reason to continue.
                let tells =
                    matches!(refused, Refused::NotFresh(_) | Refused::Proposed { .. } | Refused::UnknownContext);
                let requested = tells || message.ty() == Type::Confirmable;
                if let Some((code, body)) = answer.filter(|_| requested) {
                    self.answer_at_once(layers, ReceivedRequest { arrival: &arrival, message }, code, &body);
                }
            }
        }
    }

    /// Handles a request with the options OSCORE and EDHOC.
    #[cfg(feature = "oscore")]
    fn receive_combined(&mut self, layers: &mut Layers<P, C>, arrival: Arrival<P>, message: &Message<'_>) {
        match layers.agreed(message) {
            Ok(rest) => self.receive_protected(layers, arrival, &rest.view()),
            Err((code, body)) => {
                layers.count_refused();
                // A refused Non-confirmable request is treated as lost, like other protected ones.
                if message.ty() == Type::Confirmable {
                    self.answer_at_once(layers, ReceivedRequest { arrival: &arrival, message }, code, &body);
                }
            }
        }
    }

    /// Returns the evaluated options of a request, or the error to respond with.
    #[inline]
    pub(super) fn acceptable(
        &self,
        layers: &Layers<P, C>,
        message: &Message<'_>,
        security: &Security,
    ) -> Result<RequestOptions, (Code, String)> {
        if message.as_bytes().len() > layers.transport.config.limits.message_bytes {
            let limit = layers.transport.config.limits.message_bytes;
            return Err((Code::REQUEST_ENTITY_TOO_LARGE, format!("messages of up to {limit} bytes are accepted")));
        }
        let longest = layers.transport.config.longest_accepted_token();
        if message.token_bytes().len() > longest {
            return Err((Code::BAD_REQUEST, format!("tokens of up to {longest} bytes are accepted")));
        }
        let mut found =
            OptionsPass { in_bursts: self.q_block.is_some(), plain: security.is_plain(), ..OptionsPass::default() };
        let passed = message.pass_acceptable(&layers.transport.config.known_options, |option| found.pass(option));
        if let Err(option) = passed {
            return Err((Code::BAD_OPTION, format!("critical option {} is unknown or malformed", option.0)));
        }
        if let Some((code, why)) = found.refusal {
            return Err((code, why.into()));
        }
        let unwanted = if found.no_response { NoResponse::of(message) } else { NoResponse::NOTHING };
        let mut requested = found.requested;
        requested.identity = self.identity(layers, message, found.apart) ^ self.secured(layers, security);
        if message.code() == Code::FETCH {
            let payload = Some(message.payload()).filter(|payload| !payload.is_empty());
            requested.fetches(payload.map(|payload| layers.transport.hash.digest(Code::FETCH.0, payload)));
        }
        let storage = if message.code().is_safe() { BodyStorage::IfRoom } else { BodyStorage::Once };
        Ok(RequestOptions { requested, unwanted, storage })
    }

    /// Bodies of one context are separate from those of others and of unprotected requests.
    #[inline]
    fn secured(&self, layers: &Layers<P, C>, security: &Security) -> u64 {
        security.context().map_or(0, |context| layers.transport.hash.hash(&context))
    }

    /// Hashes the code and the options that identify a body, so that requests for its blocks have
    /// equal hashes. Most requests have no [others](OptionsPass::apart), and their encoded options
    /// are hashed directly.
    #[inline]
    pub(crate) fn identity(&self, layers: &Layers<P, C>, message: &Message<'_>, has_apart: bool) -> u64 {
        match has_apart {
            false => layers.transport.hash.digest(message.code().0, message.encoded_options()),
            true => layers
                .transport
                .hash
                .digest(message.code().0, &message.options_without(OptionNumber::may_differ_between_blocks)),
        }
    }
}

type Refusal = (Code, &'static str);

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOptions {
    pub(crate) requested: BlockOptions,
    pub(crate) unwanted: NoResponse,
    pub(crate) storage: BodyStorage,
}

#[derive(Default)]
struct OptionsPass {
    in_bursts: bool,
    plain: bool,
    requested: BlockOptions,
    /// The request has options that do not identify the body.
    apart: bool,
    no_response: bool,
    refusal: Option<Refusal>,
}

impl OptionsPass {
    #[inline]
    fn pass(&mut self, option: RawOption<'_>) {
        self.apart |= option.number.may_differ_between_blocks();
        match option.number {
            OptionNumber::PROXY_URI | OptionNumber::PROXY_SCHEME => {
                self.refusal = self.refusal.or(Some((Code::PROXYING_NOT_SUPPORTED, "this is no proxy")));
            }
            number @ (OptionNumber::BLOCK1 | OptionNumber::BLOCK2) => self.pass_block(number, option.value),
            OptionNumber::Q_BLOCK1 | OptionNumber::Q_BLOCK2 if !self.plain => {
                self.refusal = self.refusal.or(Some((Code::BAD_OPTION, "Q-Block does not go with OSCORE here")));
            }
            number @ (OptionNumber::Q_BLOCK1 | OptionNumber::Q_BLOCK2) if self.in_bursts => {
                self.pass_block(number, option.value);
            }
            OptionNumber::NO_RESPONSE => self.no_response = true,
            _ => {}
        }
    }

    /// Evaluates a block option; of several Q-Block2 options, only the first.
    fn pass_block(&mut self, number: OptionNumber, value: &[u8]) {
        // RFC 7959 §2.2: the reserved size "MUST lead to a 4.00".
        const RESERVED: Refusal = (Code::BAD_REQUEST, "the size exponent 7 of blocks is reserved");
        const MIXED: Refusal = (Code::BAD_OPTION, "Block and Q-Block options do not go together");
        match Block::decode(value) {
            Err(_) => self.refusal = self.refusal.or(Some(RESERVED)),
            Ok(_) if self.requested.would_mix(number) => self.refusal = self.refusal.or(Some(MIXED)),
            Ok(_) if number == OptionNumber::Q_BLOCK2 && self.requested.q_block2().is_some() => {}
            Ok(block) => self.requested.set(number, block),
        }
    }
}
