//! [`Contexts`]: the security contexts of an endpoint (RFC 8613 §8).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use conche_cc::Instant;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use smallvec::SmallVec;
use thiserror::Error;

use super::protect::{Key, Plain, Seal, Sealed, SplitProxyUri, Workspace, merged};
use super::renewal::unwrapped;
use super::window::Arrivals;
use super::{
    Binding, Context, EndId, OptionValue, PartialIv, ProtectError, Protected, ProtectedResponse, Refused, ReplayWindow,
    Reserve, Unprotected, UnprotectedResponse,
};
use crate::codec::{Body, Code, Message, MessagePool, OptionNumber, encode_uint};
use crate::echo::Freshness;
use crate::hash::Keyed;
use crate::store::{Arena, Index, index_type};

/// Lifetime of a challenge: MAX_TRANSMIT_WAIT of the client's request (RFC 7252 §4.8.2).
pub(super) const CHALLENGE_LIFETIME: Duration = Duration::from_secs(93);

index_type!(pub(super) ContextIndex);

/// Identifies a context of an endpoint; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId {
    place: ContextIndex,
    generation: u32,
}

/// The security contexts of an endpoint, up to a maximum number.
///
/// ```
/// use conche_proto::Instant;
/// use conche_proto::codec::{Body, Code, Message, MessageId, MessagePool, OwnedMessage, Token, Type};
/// use conche_proto::oscore::{Context, Contexts, Credentials, EndId, Start};
///
/// let [c, s] = [b"C", b"S"].map(|id| EndId::new(id).expect("short"));
/// let mut ends = [(c, s), (s, c)].map(|(sender, recipient)| {
///     let credentials = Credentials::new(*b"16 random bytes.", sender, recipient);
///     let context = Context::derive(&credentials, Start::First).expect("legal credentials");
///     // The seed comes from the operating system.
///     let mut contexts = Contexts::new(16, [7; 32]);
///     let id = contexts.insert(context).expect("room");
///     // What is reserved is stored before this.
///     while let Some(reserve) = contexts.poll_reserve() {
///         contexts.reserved(reserve);
///     }
///     (contexts, id)
/// });
/// let [(client, id), (server, _)] = &mut ends;
/// let (now, pool) = (Instant::ZERO, &mut MessagePool::new());
///
/// let body = Body::builder().path("/light").build()?;
/// let mut request = client.protect_request(*id, Code::GET, &body)?;
/// let token = Token::from(*b"8 bytes!");
/// let datagram = OwnedMessage::encode(Type::Confirmable, request.code, MessageId(1), &token, &request.body).expect("legal");
///
/// let asked = server.unprotect_request(now, &datagram.view(), pool)?;
/// assert_eq!((asked.message.code(), asked.message.uri_path().as_str()), (Code::GET, "/light"));
/// let on = Body::builder().payload("on").build()?;
/// let response = server.protect_response(&asked.binding, Code::CONTENT, &on)?;
/// let datagram =
///     OwnedMessage::encode(Type::Acknowledgement, response.code, MessageId(1), &token, &response.body).expect("legal");
///
/// let answer = client.unprotect_response(&mut request.binding, &datagram.view(), pool)?;
/// assert_eq!((answer.message.code(), answer.message.payload()), (Code::CONTENT, &b"on"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Contexts {
    pub(super) arena: Arena<Entry, ContextIndex>,
    /// By ID and ID context of the other end.
    by_names: Index<ContextIndex>,
    /// By the other end's ID, for requests without an ID context.
    by_id: Index<ContextIndex>,
    by_sender: Index<ContextIndex>,
    hash: Keyed,
    pub(super) freshness: Freshness,
    /// Time of the last offer of renewed keys; increases even if the clock stands still.
    pub(super) last_offer: Instant,
    most: usize,
    inserted: u32,
    /// Reservations not yet polled: at most one per context.
    asking: VecDeque<Reserve>,
    pub(super) workspace: Workspace,
    pub(super) random: ChaCha8Rng,
}

struct Hashes {
    names: u64,
    id: u64,
}

struct Sender<'a>(&'a Context);

impl Hash for Sender<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash_sender(state);
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) generation: u32,
    pub(super) context: Context,
}

impl ContextId {
    pub(super) const fn place(self) -> ContextIndex {
        self.place
    }
}

impl Contexts {
    /// Creates a set for at most `most` contexts. Challenges and hash keys derive from the secret
    /// `seed`, drawn from the operating system.
    #[must_use]
    pub fn new(most: usize, seed: [u8; 32]) -> Self {
        let mut random = ChaCha8Rng::from_seed(seed);
        let mut key = [0; 16];
        random.fill_bytes(&mut key);
        let hash = Keyed::new(&mut random);
        Self {
            arena: Arena::new(),
            by_names: Index::new(),
            by_id: Index::new(),
            by_sender: Index::new(),
            hash,
            random,
            freshness: Freshness::new(key, CHALLENGE_LIFETIME),
            last_offer: Instant::ZERO,
            most,
            inserted: 0,
            asking: VecDeque::new(),
            workspace: Workspace::default(),
        }
    }

    /// Adds a context. It protects and accepts nothing before numbers are
    /// [reserved](Self::poll_reserve).
    ///
    /// # Errors
    ///
    /// [`InsertError`].
    pub fn insert(&mut self, context: Context) -> Result<ContextId, InsertError> {
        if self.find(context.recipient_id(), context.id_context()).is_some() {
            return Err(InsertError::Duplicate);
        }
        let sender = self.hash.hash(&Sender(&context));
        if self.by_sender.peek(&self.arena, sender, |entry| entry.context.sends_as(&context)).is_some() {
            return Err(InsertError::SameSender);
        }
        let generation =
            self.inserted.checked_add(1).filter(|_| self.arena.len() < self.most).ok_or(InsertError::Full)?;
        let hashes = self.hashes(context.recipient_id(), context.id_context());
        let place = self.arena.insert(Entry { generation, context }).ok_or(InsertError::Full)?;
        self.inserted = generation;
        self.by_names.insert(hashes.names, place);
        self.by_id.insert(hashes.id, place);
        self.by_sender.insert(sender, place);
        let id = ContextId { place, generation };
        self.ask(id);
        Ok(id)
    }

    pub(super) fn index_again(&mut self, id: ContextId) {
        let Some(context) = self.get(id) else { return };
        let names = self.hashes(context.recipient_id(), context.id_context()).names;
        let sender = self.hash.hash(&Sender(context));
        self.by_names.remove(id.place);
        self.by_names.insert(names, id.place);
        self.by_sender.remove(id.place);
        self.by_sender.insert(sender, id.place);
    }

    /// Removes a context.
    pub fn remove(&mut self, id: ContextId) -> Option<Context> {
        self.get(id)?;
        self.by_names.remove(id.place);
        self.by_id.remove(id.place);
        self.by_sender.remove(id.place);
        self.asking.retain(|reserve| reserve.context != id);
        self.arena.take(id.place).map(|entry| entry.context)
    }

    /// Returns a context.
    #[must_use]
    pub fn get(&self, id: ContextId) -> Option<&Context> {
        self.arena.get(id.place).filter(|entry| entry.generation == id.generation).map(|entry| &entry.context)
    }

    pub(super) fn get_mut(&mut self, id: ContextId) -> Option<&mut Context> {
        let entry = self.arena.get_mut(id.place).filter(|entry| entry.generation == id.generation)?;
        Some(&mut entry.context)
    }

    /// Returns the context with this ID and ID context of the other end.
    #[must_use]
    pub fn find(&self, recipient_id: EndId, id_context: Option<&[u8]>) -> Option<ContextId> {
        let hash = self.hashes(recipient_id, id_context).names;
        let place = self.by_names.peek(&self.arena, hash, |Entry { context, .. }| {
            context.recipient_id() == recipient_id && context.id_context() == id_context
        });
        self.named(place?)
    }

    pub(super) fn find_other(&self, recipient_id: EndId, others: &[ContextId]) -> Option<ContextId> {
        let hash = self.hashes(recipient_id, None).id;
        let place = self.by_id.peek(&self.arena, hash, |Entry { context, generation }| {
            context.recipient_id() == recipient_id && others.iter().all(|other| other.generation != *generation)
        });
        self.named(place?)
    }

    fn named(&self, place: ContextIndex) -> Option<ContextId> {
        Some(ContextId { place, generation: self.arena.get(place)?.generation })
    }

    fn hashes(&self, recipient_id: EndId, id_context: Option<&[u8]>) -> Hashes {
        Hashes { names: self.hash.hash(&(recipient_id, id_context)), id: self.hash.hash(&recipient_id) }
    }

    /// Returns the number of contexts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arena.len()
    }

    /// Returns `true` if there are no contexts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the next reservation to store. Poll after insertions and after operations that
    /// protect.
    pub fn poll_reserve(&mut self) -> Option<Reserve> {
        self.asking.pop_front()
    }

    /// Confirms that a reservation is stored.
    pub fn reserved(&mut self, reserve: Reserve) {
        if let Some(context) = self.get_mut(reserve.context) {
            context.sequence.reserved(reserve.up_to);
            self.ask(reserve.context);
        }
    }

    /// Reports that a reservation could not be stored; the next use of the context repeats it.
    pub fn not_reserved(&mut self, context: ContextId) {
        if let Some(context) = self.get_mut(context) {
            context.sequence.not_reserved();
        }
    }

    /// Returns `true` if nothing can be protected until a reservation is stored; repeats a failed
    /// one.
    pub fn waits_for_numbers(&mut self, context: ContextId) -> bool {
        self.ask(context);
        self.get(context).is_some_and(|context| context.sequence.waits())
    }

    pub(super) fn take_number(&mut self, id: ContextId) -> Result<PartialIv, ProtectError> {
        let taken = self.get_mut(id).ok_or(ProtectError::UnknownContext)?.sequence.take();
        self.ask(id);
        taken
    }

    fn ask(&mut self, id: ContextId) {
        if let Some(up_to) = self.get_mut(id).and_then(|context| context.sequence.ask()) {
            self.asking.push_back(Reserve { context: id, up_to });
        }
    }
}

/// Reason why a context was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InsertError {
    /// The maximum number of contexts is reached.
    #[error("the limit of security contexts is reached")]
    Full,
    /// Another context has the same IDs of the other end.
    #[error("there is a security context with the same recipient ID and ID context")]
    Duplicate,
    /// Another context has the same sender key and Common IV: nonces would repeat (RFC 8613 §3.3).
    #[error(
        "there is a security context with the same master secret, salt, ID context and sender ID: each needs another sender ID, or secret"
    )]
    SameSender,
}

/// Maximum number of contexts tried for a request without an ID context (RFC 8613 §3.3, §12.2).
const MOST_TRIED: usize = 4;

impl Contexts {
    /// Protects a request (RFC 8613 §8.1). Retransmit the same outer message; protect a repeated
    /// request again.
    ///
    /// # Errors
    ///
    /// [`ProtectError`].
    pub fn protect_request(&mut self, id: ContextId, code: Code, body: &Body) -> Result<Protected, ProtectError> {
        let divided = SplitProxyUri::of(body)?;
        let plain = Plain::new(code, body, divided.as_ref())?;
        self.propose(id);
        let number = self.take_number(id)?;
        let context = self.get(id).ok_or(ProtectError::UnknownContext)?;
        let kid = context.sender_id();
        let binding = Binding::new(id, context.epoch, kid, number, plain.observes()).proposing(context.is_proposal());
        let code = plain.outer_code();
        let kid_context = context.told_id_context();
        let told = OptionValue { number: Some(number), kid_context: kid_context.as_deref(), kid: Some(kid.as_slice()) };
        let body = context.seal(plain, Seal { request: (kid, number), counted: (kid, number), told })?;
        Ok(Protected { code, body, binding })
    }

    /// Verifies and decrypts a request with an OSCORE option (RFC 8613 §8.2), reassembled from
    /// outer blocks.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the request has no effect but its [answer](Self::refusal).
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
                match self.renew(now, id, &sealed, number, told) {
                    Ok(()) => return self.unprotect_with(id, now, &sealed, number, pool),
                    Err(Refused::Forged | Refused::UnknownContext) => tried.push(id),
                    Err(refused) => return Err(refused),
                }
            }
        }
        Err(refused.unwrap_or(Refused::UnknownContext))
    }

    /// Returns the next context to try: with the request's ID context or, if it has none, first the
    /// context without one.
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
        let binding = Binding::new(id, context.epoch, kid, number, false);
        context.confirm();
        if !context.sequence.is_stored() {
            // A power failure would restore the same window.
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

    /// Returns the answer to a refused request (RFC 8613 §8.2, appendix B.1.2). `None` if nothing
    /// can be protected now, or beyond the limit of challenges for old numbers: 32 at once, then
    /// one per second.
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
        let context = self.get_mut(id)?;
        let before = context.challenges.take().map(|before| *before);
        context.challenges = Some(Box::new(Challenges::note(before, now, number, response.clone())));
        Some((response.code, response.body))
    }

    /// Protects a response to this binding's request (RFC 8613 §8.3). A body with Observe is a
    /// notification.
    ///
    /// The first response uses the request's number if the window still shows that it is unused;
    /// all others use their own numbers.
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

    /// Verifies and decrypts a response to this binding's request (RFC 8613 §8.4), reassembled from
    /// outer blocks.
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

/// RFC 8613 §4.1.3.5.2.
fn lower_24_bits(number: u64) -> u32 {
    let [low, middle, high, ..] = number.to_le_bytes();
    u32::from_le_bytes([low, middle, high, 0])
}

/// Challenges for older requests: at once, then one per second.
const OTHERS: u16 = 32;

/// Half the lifetime of an Echo value.
const REPEATED_FOR: Duration = Duration::from_secs(46);

/// The Echo challenges of a context without a replay window (RFC 8613 appendix B.1.2), which any
/// replayed request causes.
///
/// A request with the largest number yet is challenged: the client's next requests exceed all
/// replayed ones. A duplicate of it gets the same bytes, which uses no number. Other requests share
/// a rate limit.
#[derive(Debug)]
pub(super) struct Challenges {
    newest: u64,
    at: Instant,
    answer: ProtectedResponse,
    others: u16,
    counted: Instant,
}

/// The answer to a possibly replayed request.
#[derive(Debug)]
pub(super) enum Challenge {
    New,
    Repeated(Code, Body),
    None,
}

impl Challenges {
    pub(super) fn admit(challenges: Option<&mut Self>, now: Instant, number: u64) -> Challenge {
        let Some(challenges) = challenges else { return Challenge::New };
        if number > challenges.newest {
            return Challenge::New;
        }
        if number == challenges.newest && now.since(challenges.at) < REPEATED_FOR {
            let ProtectedResponse { code, body } = challenges.answer.clone();
            return Challenge::Repeated(code, body);
        }
        let seconds = now.since(challenges.counted).as_secs();
        if seconds > 0 {
            let more = u16::try_from(seconds).unwrap_or(OTHERS);
            challenges.others = challenges.others.saturating_add(more).min(OTHERS);
            challenges.counted = now;
        }
        match challenges.others.checked_sub(1) {
            Some(left) => {
                challenges.others = left;
                Challenge::New
            }
            None => Challenge::None,
        }
    }

    pub(super) fn note(before: Option<Self>, now: Instant, number: u64, answer: ProtectedResponse) -> Self {
        match before {
            Some(before) if number < before.newest => before,
            before => {
                let (others, counted) = before.map_or((OTHERS, now), |before| (before.others, before.counted));
                Self { newest: number, at: now, answer, others, counted }
            }
        }
    }
}
