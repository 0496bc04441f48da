//! OSCORE (RFC 8613) in the endpoint: the message layer sees outer messages only, client and server
//! see inner ones.
//!
//! ```text
//! in:   deduplication ──outer──> unprotected ──inner──> options, blocks, observation, application
//! out:  application, blocks, observation ──inner──> protected once ──outer──> queue, replies
//! ```
//!
//! All transmissions of a message are the same bytes.
//!
//! Combined EDHOC and OSCORE requests: message_3 and the first protected request in one message
//! (RFC 9668).
//!
//! ```text
//! in:   option EDHOC ─message_3─> application ─context─> the rest is an ordinary protected request
//! out:  first protected request of a context ─prepend message_3─> queue, retransmission
//! ```
//!
//! A duplicate of it gets the same answer. The application runs EDHOC itself.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Layers;
use crate::PeerKey;
use crate::codec::{Body, BuildError, Code, Message, OptionNumber, Overhead, OwnedMessage};
use crate::error::RequestError;
use crate::event::Event;
use crate::oscore::{
    Binding, Context, ContextId, Contexts, EndId, InsertError, ProtectError, Protected, Reserve, kid_of,
};
use crate::security::Security;
use crate::transport::{ExchangeIndex, Failure, Opening};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

pub(crate) struct Protection {
    pub(crate) contexts: Contexts,
    pub(crate) refused: u64,
    pub(crate) agree: Option<Box<Agree>>,
    /// For each context, the message_3 that the next request must carry.
    pub(crate) before: Vec<(ContextId, Vec<u8>)>,
}

/// Processes message_3 for the request's `kid`, which is our connection identifier (C_R), and adds
/// the resulting context; `Err`: the response to send instead.
pub type Agree = dyn FnMut(Instant, EndId, &[u8], &mut Add<'_>) -> Result<(), (Code, Body)> + Send + Sync;

/// Adds a context, like [`Endpoint::add_context`](crate::Endpoint::add_context).
pub type Add<'a> = dyn FnMut(Context) -> Result<ContextId, InsertError> + 'a;

/// Splits off the first item, an encoded byte string; the rest is not empty.
fn divided(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut decoder = minicbor::Decoder::new(payload);
    decoder.bytes().ok()?;
    payload.split_at_checked(decoder.position()).filter(|(_, rest)| !rest.is_empty())
}

impl<P: PeerKey, C: Controller> Layers<P, C> {
    pub(crate) fn add_context(&mut self, context: Context) -> Result<ContextId, InsertError> {
        let id = self.protection_mut().contexts.insert(context)?;
        self.ask_to_reserve();
        Ok(id)
    }

    pub(crate) fn protection_mut(&mut self) -> &mut Protection {
        let random = &mut self.transport.random;
        self.protection.get_or_insert_with(|| {
            let mut seed = [0; 32];
            random.fill_bytes(&mut seed);
            let contexts = Contexts::new(usize::MAX, seed);
            Box::new(Protection { contexts, refused: 0, agree: None, before: Vec::new() })
        })
    }

    pub(crate) fn remove_context(&mut self, id: ContextId) -> Option<Context> {
        let protection = self.protection.as_deref_mut()?;
        protection.before.retain(|(context, _)| *context != id);
        protection.contexts.remove(id)
    }

    #[must_use]
    pub(crate) fn find_context(&self, recipient_id: EndId, id_context: Option<&[u8]>) -> Option<ContextId> {
        self.protected()?.contexts.find(recipient_id, id_context)
    }

    #[must_use]
    pub(crate) fn context(&self, id: ContextId) -> Option<&Context> {
        self.protected()?.contexts.get(id)
    }

    pub(crate) fn reserved(&mut self, reserve: Reserve) {
        if let Some(protection) = self.protection.as_deref_mut() {
            protection.contexts.reserved(reserve);
            self.ask_to_reserve();
        }
    }

    pub(crate) fn not_reserved(&mut self, context: ContextId) {
        if let Some(protection) = self.protection.as_deref_mut() {
            protection.contexts.not_reserved(context);
        }
    }

    pub(crate) fn waits_for_numbers(&mut self, context: ContextId) -> bool {
        let Some(protection) = self.protection.as_deref_mut() else { return false };
        let waits = protection.contexts.waits_for_numbers(context);
        self.ask_to_reserve();
        waits
    }

    #[must_use]
    pub(crate) fn refused_protection(&self) -> u64 {
        self.protected().map_or(0, |protection| protection.refused)
    }

    #[inline]
    pub(crate) fn has_contexts(&self) -> bool {
        self.protected().is_some()
    }

    #[inline]
    pub(crate) fn protected(&self) -> Option<&Protection> {
        self.protection.as_deref()
    }

    pub(crate) fn count_refused(&mut self) {
        if let Some(protection) = self.protection.as_deref_mut() {
            protection.refused += 1;
        }
    }

    pub(crate) fn ask_to_reserve(&mut self) {
        while let Some(reserve) =
            self.protection.as_deref_mut().and_then(|protection| protection.contexts.poll_reserve())
        {
            self.announce(Event::Reserve(reserve));
        }
    }

    pub(crate) fn security_with(&self, id: ContextId) -> Security {
        let id_context = |context: &Context| match context.is_renewed() {
            true => Context::LONGEST_RENEWED,
            false => context.id_context().map_or(0, |id_context| 1 + id_context.len()),
        };
        let names = |context: &Context| context.sender_id().as_slice().len() + id_context(context);
        Security::with(id, self.context(id).map_or(0, names) + self.bytes_before(id))
    }

    pub(crate) fn protect_opening_with(
        &mut self,
        context: ContextId,
        opening: &mut Opening,
    ) -> Result<(), RequestError> {
        let Protected { code, body, binding } =
            self.protect_request(context, opening.code, &opening.body).map_err(RequestError::NotProtected)?;
        let inner = core::mem::replace(&mut opening.body, body);
        opening.security.bind(binding, opening.code, inner);
        opening.code = code;
        let (bytes, limit) = (opening.bytes(), self.transport.config.limits.message_bytes);
        if bytes > limit { Err(RequestError::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    pub(crate) fn protect_next_with(
        &mut self,
        context: ContextId,
        index: ExchangeIndex,
        body: Body,
    ) -> Result<Body, Failure> {
        let exchange = self.transport.exchanges.get(index);
        let overhead = self.transport.config.longest_overhead(&exchange.token);
        let (inner_code, inner) = (exchange.unprotected().0, body);
        let Protected { code, body, binding } =
            self.protect_request(context, inner_code, &inner).map_err(Failure::NotProtected)?;
        let exchange = self.transport.exchanges.get_mut(index);
        exchange.security.bind(binding, inner_code, inner);
        exchange.content.code = code;
        let fits = overhead.fits(&body, self.transport.config.limits.message_bytes);
        if fits { Ok(body) } else { Err(Failure::NotProtected(ProtectError::TooLong)) }
    }

    pub(crate) fn protect_request(
        &mut self,
        context: ContextId,
        code: Code,
        body: &Body,
    ) -> Result<Protected, ProtectError> {
        let protection = self.protection.as_deref_mut().ok_or(ProtectError::UnknownContext)?;
        let protected = protection.contexts.protect_request(context, code, body);
        self.ask_to_reserve();
        let Protected { code, body, binding } = protected?;
        let body = self.with_message_3(context, body).map_err(|_| ProtectError::TooLong)?;
        Ok(Protected { code, body, binding })
    }

    /// Returns `None` if the context is gone or the message is too long.
    pub(crate) fn protect_response(
        &mut self,
        binding: &Binding,
        overhead: Overhead,
        code: Code,
        body: &Body,
    ) -> Option<(Code, Body)> {
        let protected = self.protection.as_deref_mut()?.contexts.protect_response(binding, code, body);
        self.ask_to_reserve();
        let protected = protected.ok()?;
        let fits = overhead.fits(&protected.body, self.transport.config.limits.message_bytes);
        fits.then_some((protected.code, protected.body))
    }

    /// Returns `true` if the context is gone, or has other keys than those that protected the
    /// request.
    pub(crate) fn has_lost_context(&self, context: ContextId, security: &Security) -> bool {
        let has_other_keys =
            |context: &Context| security.binding().is_some_and(|binding| !context.has_keys_of(binding));
        self.context(context).is_none_or(has_other_keys)
    }

    pub(crate) fn agree_on_keys(&mut self, agree: Box<Agree>) {
        self.protection_mut().agree = Some(agree);
    }

    pub(crate) fn send_message_3(&mut self, context: ContextId, message_3: Vec<u8>) {
        self.protection_mut().before.push((context, message_3));
    }

    /// Returns the additional size of the next request with a context, beyond its protection.
    pub(crate) fn bytes_before(&self, context: ContextId) -> usize {
        let protection = self.protected();
        let before = protection.and_then(|protection| protection.before.iter().find(|(of, _)| *of == context));
        // The option has no value; its number may lengthen the header of another option.
        before.map_or(0, |(_, message_3)| 2 + message_3.len())
    }

    pub(crate) fn with_message_3(&mut self, context: ContextId, body: Body) -> Result<Body, BuildError> {
        let Some(protection) = self.protection.as_deref_mut() else { return Ok(body) };
        let Some(at) = protection.before.iter().position(|(of, _)| *of == context) else { return Ok(body) };
        let (_, mut payload) = protection.before.swap_remove(at);
        payload.extend_from_slice(body.payload_slice());
        body.to_builder().option(OptionNumber::EDHOC, &[]).payload(payload).build()
    }

    /// Adds the context that results from message_3; returns the remaining request.
    pub(crate) fn agreed(&mut self, message: &Message<'_>) -> Result<OwnedMessage, (Code, Body)> {
        let protection = self.protection.as_deref_mut();
        let both = protection.and_then(|protection| Some((protection.agree.as_mut()?, &mut protection.contexts)));
        let (agree, contexts) = both.ok_or((Code::BAD_OPTION, Body::EMPTY))?;
        let malformed = || (Code::BAD_REQUEST, Body::EMPTY);
        let c_r = kid_of(message).ok_or_else(malformed)?;
        let (message_3, rest) = divided(message.payload()).ok_or_else(malformed)?;
        agree(self.now, c_r, message_3, &mut |context| contexts.insert(context))?;
        self.ask_to_reserve();
        let unexpected = || (Code::INTERNAL_SERVER_ERROR, Body::EMPTY);
        let options = message.options().filter(|option| option.number != OptionNumber::EDHOC);
        let body = Body::builder().options(options).payload(rest.to_vec()).build().map_err(|_| unexpected())?;
        OwnedMessage::encode(message.ty(), message.code(), message.id(), &message.token(), &body).ok_or_else(unexpected)
    }
}
