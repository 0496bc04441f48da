//! Protects and unprotects requests and responses (RFC 8613 §8).

use alloc::boxed::Box;

use conche_cc::Instant;
use smallvec::SmallVec;

use super::challenges::{Challenge, Challenges};
use super::contexts::Entry;
use super::protect::{Plain, Seal};
use super::proxy_uri::Divided;
use super::renewal::unwrapped;
use super::unprotect::{Key, Sealed, merged};
use super::window::Arrivals;
use super::{
    Binding, ContextId, Contexts, EndId, OptionValue, PartialIv, ProtectError, Protected, ProtectedResponse, Refused,
    ReplayWindow, Unprotected, UnprotectedResponse,
};
use crate::codec::{Body, Code, Message, MessagePool, OptionNumber, encode_uint};

/// Maximum number of contexts tried for a request that names its sender without an ID context
/// (RFC 8613 §3.3, §12.2).
const MOST_TRIED: usize = 4;

impl Contexts {
    /// Protects a request with this inner code, options and payload (RFC 8613 §8.1).
    /// Retransmissions send the same outer message; a repeated request is protected again.
    ///
    /// # Errors
    ///
    /// [`ProtectError`].
    pub fn protect_request(&mut self, id: ContextId, code: Code, body: &Body) -> Result<Protected, ProtectError> {
        let divided = Divided::of(body)?;
        let plain = Plain::new(code, body, divided.as_ref())?;
        self.propose(id);
        let number = self.take_number(id)?;
        let context = self.get(id).ok_or(ProtectError::UnknownContext)?;
        let kid = context.sender_id();
        let binding = Binding::new((id, context.epoch), kid, number, plain.observes()).proposing(context.is_proposal());
        let code = plain.outer_code();
        let kid_context = context.told_id_context();
        let told = OptionValue { number: Some(number), kid_context: kid_context.as_deref(), kid: Some(kid.as_slice()) };
        let body = context.seal(plain, Seal { request: (kid, number), counted: (kid, number), told })?;
        Ok(Protected { code, body, binding })
    }

    /// Verifies and decrypts a request with an OSCORE option (RFC 8613 §8.2). Outer block-wise
    /// transfer must be complete.
    ///
    /// # Errors
    ///
    /// [`Refused`]. The request must have no effect other than its answer: see
    /// [`refusal`](Self::refusal).
    pub fn unprotect_request(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        pool: &mut MessagePool,
    ) -> Result<Unprotected, Refused> {
        let sealed = Sealed::new(*message)?;
        let OptionValue { number: Some(number), kid: Some(kid), kid_context } = sealed.option else {
            return Err(Refused::Malformed);
        };
        let kid = EndId::new(kid).ok_or(Refused::UnknownContext)?;
        let mut tried: SmallVec<[ContextId; MOST_TRIED]> = SmallVec::new();
        let mut refused = None;
        while tried.len() < MOST_TRIED
            && let Some(id) = self.next_to_try(kid, kid_context, &tried)
        {
            match self.unprotect_with(id, now, &sealed, number, pool) {
                Err(error @ (Refused::Forged | Refused::Replayed)) => refused = refused.or(Some(error)),
                result => return result,
            }
            tried.push(id);
        }
        if let Some(told) = kid_context.and_then(unwrapped).filter(|_| tried.is_empty()) {
            while tried.len() < MOST_TRIED
                && let Some(id) = self.find_other(kid, &tried)
            {
                match self.renew(now, id, &sealed, (number, told)) {
                    Ok(()) => return self.unprotect_with(id, now, &sealed, number, pool),
                    Err(Refused::Forged | Refused::UnknownContext) => tried.push(id),
                    Err(refused) => return Err(refused),
                }
            }
        }
        Err(refused.unwrap_or(Refused::UnknownContext))
    }

    /// Returns the next context to try for a request with this `kid`: the one with its ID context;
    /// for a request without one, first the context without an ID context.
    fn next_to_try(&self, kid: EndId, kid_context: Option<&[u8]>, tried: &[ContextId]) -> Option<ContextId> {
        if tried.is_empty()
            && let Some(exact) = self.find(kid, kid_context)
        {
            return Some(exact);
        }
        if kid_context.is_some() {
            return None;
        }
        self.find_other(kid, tried)
    }

    fn unprotect_with(
        &mut self,
        id: ContextId,
        now: Instant,
        sealed: &Sealed<'_>,
        number: PartialIv,
        pool: &mut MessagePool,
    ) -> Result<Unprotected, Refused> {
        let Self { arena, workspace, freshness, .. } = self;
        let Entry { context, .. } = arena.get_mut(id.place()).ok_or(Refused::UnknownContext)?;
        if context.arrivals.as_ref().is_some_and(|arrivals| !arrivals.is_new(number.number())) {
            return Err(Refused::Replayed);
        }
        if context.is_lost() {
            return Err(Refused::UnknownContext);
        }
        let kid = context.recipient_id();
        let inner =
            context.open(sealed, Key { request: (kid, number), counted: (kid, number) }, &mut workspace.text)?;
        if !inner.code().is_request() {
            return Err(Refused::Forged);
        }
        // The request is authentic.
        let binding = Binding::new((id, context.epoch), kid, number, false);
        context.confirm();
        if !context.sequence.is_stored() {
            // After a power failure, this end would start with the same window again.
            return Err(Refused::NotFresh(binding));
        }
        match &mut context.arrivals {
            Some(arrivals) => arrivals.insert(number.number()),
            None => {
                let echo = inner.option(OptionNumber::ECHO).unwrap_or_default();
                if freshness.check(now, &id, echo).is_err() {
                    return Err(Refused::NotFresh(binding));
                }
                context.arrivals = Some(Arrivals::new(ReplayWindow::up_to(number.number()), context.window_size));
                context.challenges = None;
            }
        }
        let message = merged(sealed.message(), &inner, None, &mut workspace.message, pool).ok_or(Refused::Forged)?;
        Ok(Unprotected { message, binding })
    }

    /// Returns outer code, options and payload of the answer to a refused request (RFC 8613 §8.2,
    /// appendix B.1.2). `None` if nothing can be protected now, or if too many requests with old
    /// numbers caused challenges: 32 are answered at once, then one per second.
    pub fn refusal(&mut self, now: Instant, refused: &Refused) -> Option<(Code, Body)> {
        let binding = match refused {
            Refused::NotFresh(binding) => binding,
            Refused::Proposed { binding, id_context } => return self.offer(now, binding, id_context),
            refused => return refused.unprotected_answer(),
        };
        let (id, number) = (binding.context(), binding.number());
        match Challenges::admit(self.get_mut(id)?.challenges.as_deref_mut(), now, number) {
            Challenge::New => {}
            Challenge::Repeated(code, body) => return Some((code, body)),
            Challenge::None => return None,
        }
        let echo = self.freshness.challenge(now, &id);
        let challenge = Body::builder().option(OptionNumber::ECHO, &echo).build().ok()?;
        let response = self.protect_response(binding, Code::UNAUTHORIZED, &challenge).ok()?;
        let answer = (response.code, response.body);
        let context = self.get_mut(id)?;
        let before = context.challenges.take().map(|before| *before);
        context.challenges = Some(Box::new(Challenges::note(before, now, number, answer.clone())));
        Some(answer)
    }

    /// Protects a response to the request of this binding, with this inner code, options and
    /// payload (RFC 8613 §8.3). A body with Observe is a notification.
    ///
    /// The first response uses the request's number, if the window still shows that none did; all
    /// others use numbers of their own.
    ///
    /// # Errors
    ///
    /// [`ProtectError`].
    pub fn protect_response(
        &mut self,
        binding: &Binding,
        code: Code,
        body: &Body,
    ) -> Result<ProtectedResponse, ProtectError> {
        let plain = Plain::new(code, body, None)?;
        let context = self.get_mut(binding.context()).ok_or(ProtectError::UnknownContext)?;
        if context.epoch != binding.epoch() {
            return Err(ProtectError::UnknownContext);
        }
        let (request, sender_id) = (binding.request(), context.sender_id());
        if request.0 == sender_id {
            return Err(ProtectError::OwnRequest);
        }
        let takes_number = context.arrivals.as_mut().is_some_and(|arrivals| arrivals.take(binding.number()));
        let (counted, told) = if takes_number {
            (request, OptionValue::default())
        } else {
            let number = self.take_number(binding.context())?;
            ((sender_id, number), OptionValue { number: Some(number), ..OptionValue::default() })
        };
        let context = self.get(binding.context()).ok_or(ProtectError::UnknownContext)?;
        let code = plain.outer_code();
        let body = context.seal(plain, Seal { request, counted, told })?;
        Ok(ProtectedResponse { code, body })
    }

    /// Verifies and decrypts a response with an OSCORE option to the request of this binding
    /// (RFC 8613 §8.4). Outer block-wise transfer must be complete.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the response must be ignored.
    pub fn unprotect_response(
        &mut self,
        binding: &mut Binding,
        message: &Message<'_>,
        pool: &mut MessagePool,
    ) -> Result<UnprotectedResponse, Refused> {
        let sealed = Sealed::new(*message)?;
        self.take_offer(binding, &sealed)?;
        let context = self.get(binding.context()).ok_or(Refused::UnknownContext)?;
        let number = sealed.option.number;
        let counted = number.map_or(binding.request(), |number| (context.recipient_id(), number));
        let Self { arena, workspace, .. } = self;
        let Entry { context, .. } = arena.get_mut(binding.context().place()).ok_or(Refused::UnknownContext)?;
        let inner = context.open(&sealed, Key { request: binding.request(), counted }, &mut workspace.text)?;
        let is_notification = inner.options().any(|option| option.number == OptionNumber::OBSERVE);
        if !inner.code().is_response() || is_notification && !binding.observes() {
            return Err(Refused::Forged);
        }
        context.confirm();
        let number = number.map(PartialIv::number);
        binding.take(number)?;
        let order = encode_uint(number.map_or(0, lower_24_bits));
        let message = merged(message, &inner, Some(order.as_slice()), &mut workspace.message, pool);
        Ok(UnprotectedResponse { message: message.ok_or(Refused::Forged)?, number })
    }
}

/// The part of a number that fits into Observe (RFC 8613 §4.1.3.5.2).
fn lower_24_bits(number: u64) -> u32 {
    let [low, middle, high, ..] = number.to_le_bytes();
    u32::from_le_bytes([low, middle, high, 0])
}
