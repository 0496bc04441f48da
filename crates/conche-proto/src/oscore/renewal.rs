//! Renewal of keys with random numbers of both ends, if neither stores its used numbers (RFC 8613
//! appendix B.2).
//!
//! ```text
//!   client                                                        server
//!   request, keys of R1          kid context: R1       ->  authentic, maybe a replay: not stored
//!   new keys                     <-  kid context: R2       4.01, keys of R2 || R1
//!   request, keys of R2 || R3    kid context: R2 || R3 ->  R2 was offered recently: new keys
//! ```
//!
//! The ID context takes these values in turn. During the renewal, the kid context is an encoded
//! CBOR byte string; after an answer, it is R2 || R3 itself. R2 consists of a random number, the
//! time and a MAC, which the server verifies without storing it. Each offer has its own time and is
//! void after a later one was accepted. Keys thus never repeat, and a replayed request only gets
//! another offer, useless without the keys.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::time::Duration;

use conche_cc::Instant;
use rand_core::RngCore;

use super::context::Sequence;
use super::contexts::CHALLENGE_LIFETIME;
use super::protect::{Key, Plain, Seal, Sealed};
use super::{Binding, Context, ContextId, Contexts, Credentials, OptionValue, PartialIv, Refused, Start};
use crate::codec::{Body, Code};
use crate::echo::Freshness;

const RANDOM: usize = 8;
const OFFER: usize = RANDOM + Freshness::LENGTH;
/// In bytes: two of our offers, with some room.
const LONGEST: usize = 96;

#[derive(Debug)]
pub(super) struct Renewal {
    credentials: Credentials,
    state: State,
    /// Time of the last accepted offer; earlier ones are void.
    taken: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Lost,
    /// Proposed by this end, and carried by each request.
    Proposed,
    /// Offered and accepted by this end; carried by each request until the other end proves that it
    /// has the keys.
    Offered,
    /// Both ends have the keys.
    Agreed,
}

impl State {
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
    /// Maximum length of the ID context during renewal, in bytes.
    pub(crate) const LONGEST_RENEWED: usize = 3 + LONGEST + RANDOM;

    /// Returns `true` if the keys are renewed when either end has lost them.
    #[must_use]
    pub const fn is_renewed(&self) -> bool {
        self.renewal.is_some()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.renewal.as_ref().is_some_and(|renewal| renewal.state == State::Lost)
    }

    pub(crate) fn has_keys_of(&self, binding: &Binding) -> bool {
        self.epoch == binding.epoch()
    }

    pub(super) fn is_proposal(&self) -> bool {
        self.renewal.as_ref().is_some_and(|renewal| renewal.state == State::Proposed)
    }

    pub(super) fn told_id_context(&self) -> Option<Cow<'_, [u8]>> {
        let id_context = self.id_context()?;
        let is_open = self.renewal.as_ref().is_some_and(|renewal| renewal.state.is_open());
        Some(if is_open { wrapped(id_context).into() } else { id_context.into() })
    }

    pub(super) fn confirm(&mut self) {
        if let Some(renewal) = self.renewal.as_mut().filter(|renewal| renewal.state.is_open()) {
            renewal.state = State::Agreed;
        }
    }

    fn with_id_context(&self, id_context: &[&[u8]]) -> Option<Self> {
        let Renewal { credentials, .. } = self.renewal.as_deref()?;
        let id_context = Some(id_context.concat().into_boxed_slice());
        Self::derive(&Credentials { id_context, ..credentials.clone() }, Start::First).ok()
    }
}

impl Contexts {
    pub(super) fn propose(&mut self, id: ContextId) {
        if self.get(id).is_some_and(Context::is_lost) {
            let r1 = self.random_number();
            let derived = self.get(id).and_then(|context| context.with_id_context(&[&r1]));
            self.adopt(id, derived, State::Proposed, 0);
        }
    }

    /// Reports that the other end may have lost this request's keys. The next request proposes new
    /// keys, unless one has since. Returns `false` if keys cannot be renewed.
    pub fn lost(&mut self, binding: &Binding) -> bool {
        let Some(context) = self.get_mut(binding.context()) else { return false };
        let Some(renewal) = &mut context.renewal else { return false };
        if context.epoch == binding.epoch() {
            renewal.state = State::Lost;
        }
        true
    }

    /// Handles a request with an unknown kid context: a proposal or an accepted offer.
    pub(super) fn renew(
        &mut self,
        now: Instant,
        id: ContextId,
        sealed: &Sealed<'_>,
        number: PartialIv,
        told: &[u8],
    ) -> Result<(), Refused> {
        let context = self.get(id).ok_or(Refused::UnknownContext)?;
        let agreed = context.renewal.as_ref().is_some_and(|renewal| renewal.state == State::Agreed);
        if agreed && context.id_context() == Some(told) {
            // The client does not know yet that both ends have the keys.
            return Ok(());
        }
        let derived = context.with_id_context(&[told]).ok_or(Refused::UnknownContext)?;
        let (kid, epoch) = (context.recipient_id(), context.epoch);
        let key = Key { request: (kid, number), counted: (kid, number) };
        if !derived.open(sealed, key, &mut self.workspace.text)?.code().is_request() {
            return Err(Refused::Forged);
        }
        let Some(offered) = self.offered_at(now, id, told) else {
            let binding = Binding::new(id, epoch, kid, number, false);
            return Err(Refused::Proposed { binding, id_context: told.into() });
        };
        // The offer used number 0, if the client repeats its random number.
        self.adopt(id, Some(derived), State::Agreed, 1);
        if let Some(renewal) = self.get_mut(id).and_then(|context| context.renewal.as_mut()) {
            renewal.taken = Some(offered);
        }
        Ok(())
    }

    /// Returns the answer to a request with proposed keys: an offer with this end's half of the
    /// keys.
    pub(super) fn offer(&mut self, now: Instant, binding: &Binding, proposed: &[u8]) -> Option<(Code, Body)> {
        let random = self.random_number();
        self.last_offer = now.max(self.last_offer + Duration::from_nanos(1));
        let challenge = self.freshness.challenge(self.last_offer, &(binding.context(), random));
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

    /// Adopts the keys of an offer; the request must be repeated.
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
        self.adopt(id, derived, State::Offered, 0);
        Err(Refused::Renewed)
    }

    /// Returns the time of offer R2, if recent and after the last accepted one.
    fn offered_at(&self, now: Instant, id: ContextId, told: &[u8]) -> Option<Instant> {
        let (offer, [_, ..]) = told.split_first_chunk::<OFFER>()? else { return None };
        let (random, challenge) = offer.split_first_chunk::<RANDOM>()?;
        let made = self.freshness.made_at(&(id, *random), challenge).ok()?;
        let taken = self.get(id).and_then(|context| context.renewal.as_ref()?.taken);
        (now.since(made) <= CHALLENGE_LIFETIME && taken.is_none_or(|taken| made > taken)).then_some(made)
    }

    /// Replaces the keys. Exchanges with the previous keys end.
    fn adopt(&mut self, id: ContextId, derived: Option<Context>, state: State, first: u64) {
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

fn wrapped(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(2 + bytes.len());
    // Writing to memory cannot fail.
    let _ = minicbor::Encoder::new(&mut encoded).bytes(bytes);
    encoded
}

/// `None` for a byte string that is malformed, empty, or longer than the renewal needs.
pub(super) fn unwrapped(encoded: &[u8]) -> Option<&[u8]> {
    let mut decoder = minicbor::Decoder::new(encoded);
    let bytes = decoder.bytes().ok()?;
    (decoder.position() == encoded.len() && (1..=LONGEST).contains(&bytes.len())).then_some(bytes)
}
