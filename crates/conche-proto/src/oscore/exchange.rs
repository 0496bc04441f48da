//! [`Contexts`] at work: requests and responses, out and in (RFC 8613 §8).

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

/// So many contexts are tried of those whose other end has the ID that a request names without an ID context
/// (RFC 8613 §3.3, §12.2).
const MOST_TRIED: usize = 4;

impl Contexts {
    /// Protects a request with this inner code, and these inner options and payload (RFC 8613 §8.1). Each transmission of a
    /// request is the same outer message; a request that is made anew is protected anew.
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

    /// Checks a request that has an OSCORE option, and says what was asked (RFC 8613 §8.2). Outer block-wise transfer is to
    /// be undone before.
    ///
    /// # Errors
    ///
    /// [`Refused`], and nothing but the answer to it is to follow from the request: see [`refusal`](Self::refusal).
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

    /// A context that a request with this `kid` can be of: the one with its ID context, and without such the one that has
    /// none before all others.
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
        // It is authentic from here on.
        let binding = Binding::new((id, context.epoch), kid, number, false);
        context.confirm();
        if !context.sequence.is_stored() {
            // After a power cut now this end would begin with the same window once more.
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

    /// Returns the answer to a request that was refused: outer code, options and payload (RFC 8613
    /// §8.2, appendix B.1.2). `None` if nothing can be protected at the time, or if too many
    /// requests with old numbers have asked for a challenge: 32 get one at once, and then one each
    /// second.
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

    /// Protects a response to the request of this binding, with this inner code, and these inner options and payload
    /// (RFC 8613 §8.3). A body with Observe is a notification.
    ///
    /// The first response takes the request's number, as long as the window still tells that none did; all others take
    /// numbers of their own.
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

    /// Checks a response that has an OSCORE option against the request that it came for, and says what was answered
    /// (RFC 8613 §8.4). Outer block-wise transfer is to be undone before.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the response is as if it had not come.
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

/// What Observe can hold (RFC 8613 §4.1.3.5.2).
fn lower_24_bits(number: u64) -> u32 {
    let [low, middle, high, ..] = number.to_le_bytes();
    u32::from_le_bytes([low, middle, high, 0])
}
