//! [`Keys`]: one end's credentials with their number store, and the [`Identity`] of the peer.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use conche_proto::codec::Hexadecimal;
use conche_proto::oscore::{Context, Credentials, CredentialsError, EndId, InsertError, ReplayWindow, Reserve, Start};
use thiserror::Error;
use tokio::sync::watch;

use super::{Keeper, OpenError};

/// Numbers reserved ahead, to last until the next reservation is stored.
const AHEAD: u64 = 256;

/// Persistent store of used sequence numbers.
///
/// The methods may block: they run on a blocking thread, except when a socket takes the keys.
pub trait NumberStore: fmt::Debug + Send + Sync + 'static {
    /// Returns the result of the last [`reserve`](Self::reserve) or [`finish`](Self::finish):
    /// [`Start::Restarted`] at the `up_to` of `reserve`; [`Start::Resumed`] after `finish`, or
    /// `Restarted` at its `next` without a window; [`Start::First`] if neither was ever called, on
    /// any machine. Called once, before the first reservation.
    ///
    /// # Errors
    /// If the state is unknown. Nothing is protected then.
    fn load(&self) -> io::Result<Start>;

    /// Stores that all numbers below `up_to` may have been used, and returns once this survives a
    /// power cut. Must atomically invalidate the state of [`finish`](Self::finish): restoring it
    /// would repeat numbers and accept old requests as new.
    ///
    /// # Errors
    /// If the store fails. No number is used then, and the call is repeated.
    fn reserve(&self, up_to: u64) -> io::Result<()>;

    /// Stores, at an orderly end, that no number from `next` on was used, and the received window,
    /// until the next [`reserve`](Self::reserve). By default does nothing: all reserved numbers
    /// count as used.
    ///
    /// # Errors
    /// If the store fails. The last [reservation](Self::reserve) then still applies.
    fn finish(&self, next: u64, window: Option<ReplayWindow>) -> io::Result<()> {
        let _ = (next, window);
        Ok(())
    }
}

/// Store of keys that begin anew with each run.
#[derive(Debug)]
struct NoStore(Start);

impl NumberStore for NoStore {
    fn load(&self) -> io::Result<Start> {
        Ok(self.0)
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// One end's credentials for one peer, with their number store. Clones are the same keys.
///
/// Only one set of keys with the same master secret, salt, ID context and sender ID may be in use:
/// equal numbers would protect different messages, which reveals both. A server with one secret for
/// all clients needs another ID or ID context toward each.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    credentials: Credentials,
    store: Box<dyn NumberStore>,
    /// A late, lower reservation must not replace a higher one.
    kept: Mutex<StoredState>,
    state: Mutex<State>,
    given_back: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct StoredState {
    /// Numbers below this are stored as used.
    up_to: u64,
    /// The store holds the last socket's final state, so late reservations of that socket are
    /// ignored.
    finished: bool,
}

impl Shared {
    fn begin(&self, up_to: u64) -> io::Result<()> {
        self.kept().finished = false;
        self.reserve(up_to)
    }

    fn reserve(&self, up_to: u64) -> io::Result<()> {
        let mut kept = self.kept();
        if up_to > kept.up_to && !kept.finished {
            self.store.reserve(up_to)?;
            kept.up_to = up_to;
        }
        Ok(())
    }

    fn finish(&self, next: u64, window: Option<ReplayWindow>) -> io::Result<()> {
        let mut kept = self.kept();
        self.store.finish(next, window)?;
        *kept = StoredState { up_to: next, finished: true };
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, StoredState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State {
    /// Start of the next socket; `None` before the store was read.
    start: Option<Start>,
    leased: bool,
}

impl Keys {
    /// Returns keys whose numbers continue at [`NumberStore::load`] of this store. Create keys once
    /// per credentials, and clone them.
    ///
    /// # Errors
    /// If the credentials are invalid.
    pub fn new(credentials: Credentials, store: impl NumberStore) -> Result<Self, CredentialsError> {
        credentials.check()?;
        Ok(Self::of(credentials, None, Box::new(store)))
    }

    /// Returns keys for credentials that no other run of the program and no other keys use.
    ///
    /// # Errors
    /// If the credentials are invalid.
    pub fn for_this_run(credentials: Credentials) -> Result<Self, CredentialsError> {
        Self::new(credentials, NoStore(Start::First))
    }

    /// Returns keys that both ends derive anew after each start, without stored state (RFC 8613
    /// appendix B.2).
    ///
    /// The first request takes one more round trip, as does an idempotent one after a restart of
    /// the server; others then fail with
    /// [`Failure::NotAuthenticated`](crate::Failure::NotAuthenticated). The peer must use the same
    /// mode.
    ///
    /// # Errors
    /// If the credentials are invalid.
    pub fn rekeyed(credentials: Credentials) -> Result<Self, CredentialsError> {
        Self::new(credentials, NoStore(Start::Anew))
    }

    /// Opens credentials with [`Keeper::open`], with numbers stored beside them.
    ///
    /// # Errors
    /// As for [`Keeper::open`] and [`Keeper::start`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::from_keeper(Keeper::open(path)?)
    }

    /// Returns the keys of a keeper that has not started a context.
    ///
    /// # Errors
    /// As for [`Keeper::start`].
    pub fn from_keeper(mut keeper: Keeper) -> Result<Self, OpenError> {
        let start = keeper.begin()?;
        Ok(Self::of(keeper.credentials().clone(), Some(start), Box::new(keeper)))
    }

    fn of(credentials: Credentials, start: Option<Start>, store: Box<dyn NumberStore>) -> Self {
        let state = Mutex::new(State { start, leased: false });
        Self(Arc::new(Shared { credentials, store, kept: Mutex::default(), state, given_back: watch::Sender::new(()) }))
    }

    /// Returns the identity of the peer.
    #[must_use]
    pub fn peer(&self) -> Identity {
        let Credentials { recipient_id, id_context, .. } = &self.0.credentials;
        Identity::new(*recipient_id, id_context.as_deref())
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Completes when no socket has the keys. Another socket may take them first.
    pub(crate) fn given_back(&self) -> impl Future<Output = ()> + Send + use<> {
        let state = self.state();
        let mut given_back = self.0.given_back.subscribe();
        if !state.leased {
            given_back.mark_changed();
        }
        async move {
            let _ = given_back.changed().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reason why a socket cannot use keys.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeysError {
    /// Another client or server uses them, or the same client for the other IP version.
    #[error("another socket has these keys: their numbers would be used twice")]
    InUse,
    /// Other keys of this program have the same sender.
    #[error(
        "other keys that are in use have the same master secret, salt, ID context and sender ID: numbers would be used twice"
    )]
    SameSender,
    /// The credentials are invalid.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The [`NumberStore`] failed.
    #[error("the numbers of the keys cannot be kept: {0}")]
    Store(io::Error),
    /// The socket has too many keys, or cannot distinguish others from these.
    #[error(transparent)]
    Insert(#[from] InsertError),
}

/// A socket's exclusive use of keys. [`end`](Self::end) returns them; otherwise all reserved
/// numbers count as used.
#[derive(Debug)]
pub(crate) struct Lease {
    keys: Keys,
    /// Numbers below this may have been used.
    reserved: u64,
    ended: Option<Start>,
    /// Whether each use derives new keys (appendix B.2) and stores nothing.
    is_anew: bool,
    sender: Option<SenderInUse>,
}

impl Lease {
    pub(crate) fn take(keys: &Keys) -> Result<(Self, Context, u64), KeysError> {
        let mut state = keys.state();
        if state.leased {
            return Err(KeysError::InUse);
        }
        let start = match state.start {
            Some(start) => start,
            None => *state.start.insert(keys.0.store.load().map_err(KeysError::Store)?),
        };
        let context = Context::derive(&keys.0.credentials, start)?;
        let sender = SenderInUse::new(&context).ok_or(KeysError::SameSender)?;
        state.leased = true;
        drop(state);
        let reserved = context.next_number().saturating_add(AHEAD);
        // A failed reservation leaves the state unchanged.
        let mut lease = Self {
            keys: keys.clone(),
            reserved,
            ended: Some(start),
            is_anew: start == Start::Anew,
            sender: Some(sender),
        };
        keys.0.begin(reserved).map_err(KeysError::Store)?;
        lease.ended = None;
        Ok((lease, context, reserved))
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns a function that may block.
    pub(crate) fn reserve(&mut self, reserve: Reserve) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        // The numbers count even if no result arrives.
        self.reserved = self.reserved.max(reserve.up_to);
        let shared = Arc::clone(&self.keys.0);
        move || shared.reserve(reserve.up_to)
    }

    pub(crate) fn end(mut self, context: &Context) -> io::Result<()> {
        let (next, window) = (context.next_number(), context.window());
        if self.is_anew {
            return Ok(());
        }
        self.ended = Some(match window {
            Some(window) => Start::Resumed { next, window },
            None => Start::Restarted { next },
        });
        self.keys.0.finish(next, window)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Before the keys are reported as free.
        self.sender = None;
        let mut state = self.keys.state();
        let start = self.ended.unwrap_or(Start::Restarted { next: self.reserved });
        state.start = Some(if self.is_anew { Start::Anew } else { start });
        state.leased = false;
        self.keys.0.given_back.send_replace(());
    }
}

/// The sender of a protected request: the client's name in the [`Keys`].
///
/// As a handler argument it refuses unprotected requests with 4.01. The program authorizes the
/// sender.
///
/// ```
/// use conche::oscore::Identity;
/// use conche::server::{Router, put};
///
/// async fn unlock(who: Identity) {
///     println!("{who} unlocks the door");
/// }
///
/// let router: Router = Router::new().route("/door", put(unlock));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    id: EndId,
    id_context: Option<Arc<[u8]>>,
}

impl Identity {
    pub(super) fn new(id: EndId, id_context: Option<&[u8]>) -> Self {
        Self { id, id_context: id_context.map(Arc::from) }
    }

    /// Returns the client's ID: the recipient ID of the keys.
    #[must_use]
    pub fn id(&self) -> EndId {
        self.id
    }

    /// Returns the ID context of the keys, if any.
    #[must_use]
    pub fn id_context(&self) -> Option<&[u8]> {
        self.id_context.as_deref()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hexadecimal(self.id.as_slice()).fmt(f)?;
        match &self.id_context {
            Some(id_context) => write!(f, "@{}", Hexadecimal(id_context)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

/// Hashes of the senders in use, with a random key. A collision (probability 2^-64) refuses a
/// sender.
static IN_USE: LazyLock<(RandomState, Mutex<HashSet<u64>>)> = LazyLock::new(Default::default);

/// Exclusive use of a sender key and its nonces in this program, until drop (RFC 8613 §3.3).
#[derive(Debug)]
pub(super) struct SenderInUse(u64);

impl SenderInUse {
    /// Returns `None` if the sender is in use.
    pub(super) fn new(context: &Context) -> Option<Self> {
        let mut hasher = IN_USE.0.build_hasher();
        context.hash_sender(&mut hasher);
        let hash = hasher.finish();
        // Not `then_some`: dropping its eager value would remove the other's entry.
        in_use().insert(hash).then(|| Self(hash))
    }
}

impl Drop for SenderInUse {
    fn drop(&mut self) {
        in_use().remove(&self.0);
    }
}

fn in_use() -> MutexGuard<'static, HashSet<u64>> {
    IN_USE.1.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conche_proto::oscore::EndId;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Clone, Debug, Default)]
    struct MemoryStore(Arc<AtomicU64>);

    impl NumberStore for MemoryStore {
        fn load(&self) -> io::Result<Start> {
            let next = self.0.load(Ordering::SeqCst);
            Ok(if next == 0 { Start::First } else { Start::Restarted { next } })
        }

        fn reserve(&self, up_to: u64) -> io::Result<()> {
            self.0.store(up_to, Ordering::SeqCst);
            Ok(())
        }

        fn finish(&self, next: u64, _: Option<ReplayWindow>) -> io::Result<()> {
            self.reserve(next)
        }
    }

    fn keys(secret: &[u8; 16], store: impl NumberStore) -> Keys {
        let [own, other] = [b"a", b"b"].map(|id| EndId::new(id).expect("short"));
        Keys::new(Credentials::new(*secret, own, other), store).expect("legal credentials")
    }

    fn id(context: Context) -> conche_proto::oscore::ContextId {
        conche_proto::oscore::Contexts::new(1, [1; 32]).insert(context).expect("room")
    }

    #[test]
    fn a_late_write_does_not_overwrite_the_final_state() {
        let slate = MemoryStore::default();
        let keys = keys(b"of the first one", slate.clone());
        let (mut lease, context, _) = Lease::take(&keys).expect("nobody has them");
        let (_, other, _) =
            Lease::take(&self::keys(b"of somebody else", MemoryStore::default())).expect("nobody has them");
        let late = lease.reserve(Reserve { context: id(other), up_to: 300 });
        lease.end(&context).expect("it works");
        late().expect("nothing is kept");
        assert_eq!(slate.0.load(Ordering::SeqCst), 0, "no number was used");
        let (_lease, context, reserved) = Lease::take(&keys).expect("it is free");
        assert_eq!((context.next_number(), slate.0.load(Ordering::SeqCst)), (0, reserved));
    }

    #[test]
    fn keys_whose_numbers_cannot_be_kept_are_free_and_as_they_were() {
        #[derive(Debug)]
        struct Once(AtomicU64);
        impl NumberStore for Once {
            fn load(&self) -> io::Result<Start> {
                Ok(Start::First)
            }

            fn reserve(&self, _: u64) -> io::Result<()> {
                if self.0.fetch_add(1, Ordering::SeqCst) == 0 { Err(io::Error::other("full")) } else { Ok(()) }
            }
        }
        let keys = keys(b"16 random bytes.", Once(AtomicU64::new(0)));
        assert!(matches!(Lease::take(&keys), Err(KeysError::Store(_))));
        assert_eq!(Lease::take(&keys).expect("it is free").1.next_number(), 0);
    }

    #[test]
    fn a_late_write_never_lowers_the_stored_number_of_a_later_lease() {
        let slate = MemoryStore::default();
        let keys = keys(b"kept on a slate.", slate.clone());
        let kept = || slate.0.load(Ordering::SeqCst);

        let (mut lease, context, reserved) = Lease::take(&keys).expect("nobody has them");
        assert!(matches!(Lease::take(&keys), Err(KeysError::InUse)));
        assert_eq!((kept(), reserved), (AHEAD, AHEAD));
        // The store is still writing when the socket is dropped without an orderly end.
        let late = lease.reserve(Reserve { context: id(context), up_to: 300 });
        drop(lease);
        let (lease, context, reserved) = Lease::take(&keys).expect("it is free");
        assert_eq!((context.next_number(), reserved), (300, 300 + AHEAD), "all that could have been used was");
        late().expect("it works");
        assert_eq!(kept(), reserved);

        lease.end(&context).expect("it works");
        assert_eq!(kept(), 300);
        let (_lease, context, reserved) = Lease::take(&keys).expect("it is free");
        assert_eq!((context.next_number(), kept()), (300, reserved));
    }
}
