//! [`Contexts`]: all security contexts of an endpoint, found by ID or by the sender named in a
//! request.

use alloc::collections::VecDeque;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use thiserror::Error;

use super::unprotect::Workspace;
use super::{Context, EndId, PartialIv, ProtectError, Reserve};
use crate::echo::Freshness;
use crate::hash::Keyed;
use crate::store::{Arena, Index};
use conche_cc::Instant;

/// Lifetime of a challenge: the maximum duration of the client's Confirmable request
/// (MAX_TRANSMIT_WAIT, RFC 7252 §4.8.2).
pub(super) const CHALLENGE_LIFETIME: Duration = Duration::from_secs(93);

/// Identifies a context of an endpoint; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId {
    place: u32,
    /// Number of the insertion.
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
    pub(super) arena: Arena<Entry>,
    /// By ID and ID context of the other end.
    by_names: Index,
    /// By the other end's ID, which may be all that a request contains.
    by_id: Index,
    /// By sender key material.
    by_sender: Index,
    hash: Keyed,
    pub(super) freshness: Freshness,
    /// Time of the last offer of renewed keys. Each offer is later than the one before, even if the
    /// clock stands still.
    pub(super) last_offer: Instant,
    most: usize,
    inserted: u32,
    /// Reservations not yet polled by the application: at most one per context.
    asking: VecDeque<Reserve>,
    pub(super) workspace: Workspace,
    /// For renewed keys.
    pub(super) random: ChaCha8Rng,
}

/// The hashes by which a context is found.
struct Hashes {
    names: u64,
    id: u64,
}

/// The sender key material of a context, for hashing.
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
    /// Returns the place of the context in the arena.
    pub(super) const fn place(self) -> u32 {
        self.place
    }
}

impl Contexts {
    /// Creates an empty set for at most `most` contexts. Challenges and hash keys are derived from
    /// the secret `seed`, which real endpoints draw from the operating system.
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

    /// Adds a context. It protects nothing and accepts no request before numbers are reserved: see
    /// [`poll_reserve`](Self::poll_reserve).
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

    /// Updates the index after a change of ID context and keys.
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

    /// Returns a context with this ID of the other end, except `others`.
    pub(super) fn find_other(&self, recipient_id: EndId, others: &[ContextId]) -> Option<ContextId> {
        let hash = self.hashes(recipient_id, None).id;
        let place = self.by_id.peek(&self.arena, hash, |Entry { context, generation }| {
            context.recipient_id() == recipient_id && others.iter().all(|other| other.generation != *generation)
        });
        self.named(place?)
    }

    fn named(&self, place: u32) -> Option<ContextId> {
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

    /// Returns the next reservation to store, each once. To be polled after each insertion and
    /// after each operation that protects.
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

    /// Reports that a reservation could not be stored: it is requested again when the context is
    /// next used.
    pub fn not_reserved(&mut self, context: ContextId) {
        if let Some(context) = self.get_mut(context) {
            context.sequence.not_reserved();
        }
    }

    /// Returns `true` if nothing can be protected until a reservation is stored. Requests a failed
    /// reservation again.
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

/// AbandonReason a context was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InsertError {
    /// The maximum number of contexts is reached.
    #[error("there are as many security contexts as there may be")]
    Full,
    /// Another context has the same ID and ID context of the other end.
    #[error("there is a security context with the same recipient ID and ID context")]
    Duplicate,
    /// Another context has the same sender key and Common IV. Each counts its own messages, so
    /// nonces would repeat (RFC 8613 §3.3).
    #[error(
        "there is a security context with the same master secret, salt, ID context and sender ID: each needs another sender ID, or secret"
    )]
    SameSender,
}
