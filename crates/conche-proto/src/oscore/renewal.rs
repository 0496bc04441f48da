//! Contexts that are derived anew with random numbers of both ends, as neither remembers what it has used (RFC 8613 appendix B.2).
//!
//! ```text
//!   client                                                                    server
//!   request 1, keys of R1               kid context: R1       ->  it is authentic, and may be old: nothing is kept of it
//!   new keys                            <-  kid context: R2       4.01, keys of R2 || R1
//!   the request again, keys of R2 || R3   kid context: R2 || R3 ->  R2 was offered a short time ago: new keys
//! ```
//!
//! The ID context takes these values in turn. A kid context of this exchange is the encoding of a CBOR byte string; once the client has heard
//! an answer, it is R2 || R3 as it is. The server makes R2 so that it knows it again without having kept it: a random number, the time, and a MAC. It
//! takes one of those that it offered, and then none that it offered before; so no keys are ever agreed on twice, and a replayed
//! request gets another offer, which means nothing to whoever has no key.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use rand_core::RngCore;

use super::protect::{Plain, Seal};
use super::sequence::Sequence;
use super::unprotect::{Key, Sealed};
use super::{Binding, Context, ContextId, Contexts, Credentials, OptionValue, PartialIv, Refused, Start};
use crate::codec::{Body, Code};
use crate::echo::Freshness;
use conche_cc::Instant;

/// Bytes of a random number.
const RANDOM: usize = 8;
/// Bytes of the R2 that we offer.
const OFFER: usize = RANDOM + Freshness::LENGTH;
/// Bytes of what the other end proposes or offers, at most: what we offer before what we have offered, with room.
const LONGEST: usize = 96;

/// What a context is derived anew with.
#[derive(Debug)]
pub(super) struct Renewal {
    credentials: Credentials,
    state: State,
    /// What was offered until then is void.
    taken: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There are no keys.
    Lost,
    /// There are those that this end proposes, with which the other end takes no request. It is told so with each request.
    Proposed,
    /// There are those of an offer that this end has taken. It is told so with each request until the other end shows that it has them.
    Offered,
    /// Both ends have them.
    Agreed,
}

impl State {
    /// The other end has not shown that it has the keys.
    const fn is_open(self) -> bool {
        matches!(self, Self::Proposed | Self::Offered)
    }
}

impl Renewal {
    pub(super) fn new(credentials: &Credentials) -> Self {
        Self { credentials: credentials.clone(), state: State::Lost, taken: None }
    }
}

impl Context {
    /// Bytes that a request tells of the ID context at most, where that is renewed.
    pub(crate) const LONGEST_RENEWED: usize = 3 + LONGEST + RANDOM;

    /// It is derived anew, with random numbers, whenever one of its ends has forgotten it.
    #[must_use]
    pub const fn is_renewed(&self) -> bool {
        self.renewal.is_some()
    }

    /// There are no keys that could be used.
    pub(super) fn is_lost(&self) -> bool {
        self.renewal.as_ref().is_some_and(|renewal| renewal.state == State::Lost)
    }

    /// The keys are those that a request was protected with.
    pub(crate) fn has_keys_of(&self, binding: &Binding) -> bool {
        self.epoch == binding.epoch()
    }

    /// The keys are known to this end alone, so that nobody can have taken a request with them.
    pub(super) fn is_proposal(&self) -> bool {
        self.renewal.as_ref().is_some_and(|renewal| renewal.state == State::Proposed)
    }

    /// What a request tells of the ID context.
    pub(super) fn told_id_context(&self) -> Option<Cow<'_, [u8]>> {
        let id_context = self.id_context()?;
        let is_open = self.renewal.as_ref().is_some_and(|renewal| renewal.state.is_open());
        Some(if is_open { wrapped(id_context).into() } else { id_context.into() })
    }

    /// The other end has shown that it has these keys.
    pub(super) fn confirm(&mut self) {
        if let Some(renewal) = self.renewal.as_mut().filter(|renewal| renewal.state.is_open()) {
            renewal.state = State::Agreed;
        }
    }

    /// The keys of another ID context.
    fn with_id_context(&self, id_context: &[&[u8]]) -> Option<Self> {
        let Renewal { credentials, .. } = self.renewal.as_deref()?;
        let id_context = Some(id_context.concat().into_boxed_slice());
        Self::derive(&Credentials { id_context, ..credentials.clone() }, Start::First).ok()
    }
}

impl Contexts {
    /// Proposes keys, if there are none that could be used.
    pub(super) fn propose(&mut self, id: ContextId) {
        if self.get(id).is_some_and(Context::is_lost) {
            let r1 = self.random_number();
            let derived = self.get(id).and_then(|context| context.with_id_context(&[&r1]));
            self.adopt(id, derived, (State::Proposed, 0));
        }
    }

    /// The other end may have lost the keys of this request of ours: others are proposed with the next one, if that has not happened since.
    /// `false` if there are no others.
    pub fn lost(&mut self, binding: &Binding) -> bool {
        let Some(context) = self.get_mut(binding.context()) else { return false };
        let Some(renewal) = &mut context.renewal else { return false };
        if context.epoch == binding.epoch() {
            renewal.state = State::Lost;
        }
        true
    }

    /// A request whose kid context is none that is known: what it proposes, or was offered.
    pub(super) fn renew(
        &mut self,
        now: Instant,
        id: ContextId,
        sealed: &Sealed<'_>,
        (number, told): (PartialIv, &[u8]),
    ) -> Result<(), Refused> {
        let context = self.get(id).ok_or(Refused::UnknownContext)?;
        let agreed = context.renewal.as_ref().is_some_and(|renewal| renewal.state == State::Agreed);
        if agreed && context.id_context() == Some(told) {
            // The client has not heard yet that both ends have them.
            return Ok(());
        }
        let derived = context.with_id_context(&[told]).ok_or(Refused::UnknownContext)?;
        let (kid, epoch) = (context.recipient_id(), context.epoch);
        let key = Key { request: (kid, number), counted: (kid, number) };
        if !derived.open(sealed, key, &mut self.workspace.text)?.code().is_request() {
            return Err(Refused::Forged);
        }
        // It is authentic from here on.
        if !self.is_offered(now, id, told) {
            let binding = Binding::new((id, epoch), kid, number, false);
            return Err(Refused::Proposed { binding, id_context: told.into() });
        }
        // The number 0 of such keys was that of the offer, if the client's random numbers are none.
        self.adopt(id, Some(derived), (State::Agreed, 1));
        if let Some(renewal) = self.get_mut(id).and_then(|context| context.renewal.as_mut()) {
            renewal.taken = Some(now);
        }
        Ok(())
    }

    /// What answers a request that proposes keys: others, of which one half is ours. Nothing is kept of them.
    pub(super) fn offer(&mut self, now: Instant, binding: &Binding, proposed: &[u8]) -> Option<(Code, Body)> {
        let random = self.random_number();
        let challenge = self.freshness.challenge(now, &(binding.context(), random));
        let offer = [&random[..], &challenge].concat();
        let derived = self.get(binding.context())?.with_id_context(&[&offer, proposed])?;
        let number = PartialIv::new(0)?;
        let nothing = Body::EMPTY;
        let plain = Plain::new(Code::UNAUTHORIZED, &nothing, None).ok()?;
        let (code, kid_context) = (plain.outer_code(), wrapped(&offer));
        let told = OptionValue { number: Some(number), kid_context: Some(&kid_context), kid: None };
        let seal = Seal { request: binding.request(), counted: (derived.sender_id(), number), told };
        Some((code, derived.seal(plain, seal).ok()?))
    }

    /// A response to a request that proposed keys may be an offer: then there are other keys, and the request is to be made again with them.
    pub(super) fn take_offer(&mut self, binding: &Binding, sealed: &Sealed<'_>) -> Result<(), Refused> {
        let id = binding.context();
        let context = self.get(id).ok_or(Refused::UnknownContext)?;
        if context.epoch != binding.epoch() {
            return Err(if binding.is_proposal() { Refused::Renewed } else { Refused::Outdated });
        }
        let is_open = context.renewal.as_ref().is_some_and(|renewal| renewal.state.is_open());
        let offer = sealed.option.kid_context.filter(|_| is_open).and_then(unwrapped);
        let (Some(offer), Some(proposed)) = (offer, context.id_context()) else { return Ok(()) };
        let derived = context.with_id_context(&[offer, proposed]).ok_or(Refused::Malformed)?;
        let counted = sealed.option.number.map_or(binding.request(), |number| (context.recipient_id(), number));
        let key = Key { request: binding.request(), counted };
        if !derived.open(sealed, key, &mut self.workspace.text)?.code().is_response() {
            return Err(Refused::Forged);
        }
        let r3 = self.random_number();
        let derived = self.get(id).and_then(|context| context.with_id_context(&[offer, &r3]));
        self.adopt(id, derived, (State::Offered, 0));
        Err(Refused::Renewed)
    }

    /// R2 is one that was offered a short time ago, after the last that was taken.
    fn is_offered(&self, now: Instant, id: ContextId, told: &[u8]) -> bool {
        let Some((offer, [_, ..])) = told.split_first_chunk::<OFFER>() else { return false };
        let Some((random, challenge)) = offer.split_first_chunk::<RANDOM>() else { return false };
        let Ok(age) = self.freshness.check(now, &(id, *random), challenge) else { return false };
        let offered = now.as_millis().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let taken = self.get(id).and_then(|context| context.renewal.as_ref()?.taken);
        taken.is_none_or(|taken| offered > taken.as_millis())
    }

    /// Goes on with other keys, of which nothing but these first numbers was used. What went on with those before does not.
    fn adopt(&mut self, id: ContextId, derived: Option<Context>, (state, first): (State, u64)) {
        let (Some(context), Some(derived)) = (self.get_mut(id), derived) else { return };
        let mut renewal = context.renewal.take();
        if let Some(renewal) = &mut renewal {
            renewal.state = state;
        }
        let epoch = context.epoch.wrapping_add(1);
        *context = Context { renewal, epoch, sequence: Sequence::volatile(first), ..derived };
        self.index_again(id);
    }

    fn random_number(&mut self) -> [u8; RANDOM] {
        self.random.next_u64().to_be_bytes()
    }
}

/// A CBOR byte string (RFC 8949 §3.1, major type 2).
fn wrapped(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(2 + bytes.len());
    // Memory takes everything.
    let _ = minicbor::Encoder::new(&mut encoded).bytes(bytes);
    encoded
}

/// What such a string holds, if it is one, all of it, and no longer than what this exchange needs.
pub(super) fn unwrapped(encoded: &[u8]) -> Option<&[u8]> {
    let mut decoder = minicbor::Decoder::new(encoded);
    let bytes = decoder.bytes().ok()?;
    (decoder.position() == encoded.len() && (1..=LONGEST).contains(&bytes.len())).then_some(bytes)
}
