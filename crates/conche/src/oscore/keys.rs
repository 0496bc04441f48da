//! [`Keys`]: credentials of one end, and where the numbers that it uses are kept.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conche_proto::oscore::{Context, Credentials, CredentialsError, InsertError, ReplayWindow, Reserve, Start};
use thiserror::Error;
use tokio::sync::watch;

use super::senders::SenderInUse;
use super::{Identity, Keeper, OpenError};

/// So many numbers are kept as used before the first one is, so that they last until the store has kept more.
const AHEAD: u64 = 256;

/// Where numbers are kept that may have been used.
///
/// Its methods may block: all calls but those with which a socket takes the keys run on a thread for that.
pub trait NumberStore: fmt::Debug + Send + Sync + 'static {
    /// The last of [`reserve`](Self::reserve) and [`finish`](Self::finish) that was called. [`Start::Restarted`] at its
    /// `up_to`, if that was `reserve`; after `finish` [`Start::Resumed`], or `Restarted` at its `next` without a window;
    /// [`Start::First`] if neither ever was, on any machine. It is asked once, before the first number is reserved.
    ///
    /// # Errors
    /// If that is not known. Then nothing is protected.
    fn kept(&self) -> io::Result<Start>;

    /// Keeps that all numbers below `up_to` may have been used, and returns when that will survive a power cut. In one step with that it
    /// voids what [`finish`](Self::finish) kept: were it found again, numbers would be used twice and old requests be taken as new.
    ///
    /// # Errors
    /// If it will not. Then none of these numbers is used, and it is asked again.
    fn reserve(&self, up_to: u64) -> io::Result<()>;

    /// At an orderly end: keeps that no number from `next` on was used, and which requests came, until the next
    /// [`reserve`](Self::reserve). By default nothing of it is kept, and what was reserved counts as used.
    ///
    /// # Errors
    /// If it was not kept. What was [reserved](Self::reserve) still is.
    fn finish(&self, next: u64, window: Option<ReplayWindow>) -> io::Result<()> {
        let _ = (next, window);
        Ok(())
    }
}

/// Nothing is kept, as each run begins so.
#[derive(Debug)]
struct Nowhere(Start);

impl NumberStore for Nowhere {
    fn kept(&self) -> io::Result<Start> {
        Ok(self.0)
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// The credentials of one end for one peer, and where their numbers are kept. A clone is the same keys.
///
/// Of keys that have master secret, salt, ID context and sender ID in common, only one can be in use in a program at a time: they would
/// protect different messages with the same numbers, and each of them would tell what the other one is about. A server with one secret for all
/// clients gives itself another ID, or an ID context, toward each.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    credentials: Credentials,
    store: Box<dyn NumberStore>,
    /// It is locked while the store works, so that what is asked for earlier, and kept later, does not take the place of more.
    kept: Mutex<Kept>,
    state: Mutex<State>,
    /// Told when a socket has given them back.
    given_back: watch::Sender<()>,
}

/// What a store holds.
#[derive(Debug, Default)]
struct Kept {
    /// Numbers below this are kept as used.
    up_to: u64,
    /// It is what a socket has used at its end, until the next one begins: what that socket asked for before comes too late.
    finished: bool,
}

impl Shared {
    /// Keeps that numbers below this may have been used, by a socket that begins.
    fn begin(&self, up_to: u64) -> io::Result<()> {
        self.kept().finished = false;
        self.reserve(up_to)
    }

    /// Keeps that numbers below this may have been used.
    fn reserve(&self, up_to: u64) -> io::Result<()> {
        let mut kept = self.kept();
        if up_to > kept.up_to && !kept.finished {
            self.store.reserve(up_to)?;
            kept.up_to = up_to;
        }
        Ok(())
    }

    /// Keeps that no number from here on was used.
    fn finish(&self, next: u64, window: Option<ReplayWindow>) -> io::Result<()> {
        let mut kept = self.kept();
        self.store.finish(next, window)?;
        *kept = Kept { up_to: next, finished: true };
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State {
    /// How the next socket begins that has them; `None` before the store was asked.
    start: Option<Start>,
    leased: bool,
}

impl Keys {
    /// Credentials whose numbers are kept there, and begin where [`NumberStore::kept`] says. There are no two keys of the same
    /// credentials: their clones are used together.
    ///
    /// # Errors
    /// If the credentials are not legal.
    pub fn new(credentials: Credentials, store: impl NumberStore) -> Result<Self, CredentialsError> {
        credentials.check()?;
        Ok(Self::of(credentials, None, Box::new(store)))
    }

    /// Credentials that were made for this run of the program and are used by no other one, before or after it, nor by other keys
    /// of this one.
    ///
    /// # Errors
    /// If the credentials are not legal.
    pub fn for_this_run(credentials: Credentials) -> Result<Self, CredentialsError> {
        Self::new(credentials, Nowhere(Start::First))
    }

    /// Credentials of which both ends make other keys after each start, so that nothing has to be kept (RFC 8613 appendix B.2). The first
    /// request takes a round trip more, and so does one whose server has started anew, if it may be executed twice; another one then fails with
    /// [`Failure::NotAuthenticated`](crate::Failure::NotAuthenticated). The peer has to do the same.
    ///
    /// # Errors
    /// If the credentials are not legal.
    pub fn anew(credentials: Credentials) -> Result<Self, CredentialsError> {
        Self::new(credentials, Nowhere(Start::Anew))
    }

    /// The credentials of a file, or of a directory, whose numbers are kept beside it: those of [`Keeper::open`].
    ///
    /// # Errors
    /// As [`Keeper::open`] and [`Keeper::start`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::kept(Keeper::open(path)?)
    }

    /// The credentials of a keeper that has made no context yet.
    ///
    /// # Errors
    /// As [`Keeper::start`].
    pub fn kept(mut keeper: Keeper) -> Result<Self, OpenError> {
        let start = keeper.begin()?;
        // They were checked when they were opened.
        Ok(Self::of(keeper.credentials().clone(), Some(start), Box::new(keeper)))
    }

    fn of(credentials: Credentials, start: Option<Start>, store: Box<dyn NumberStore>) -> Self {
        let state = Mutex::new(State { start, leased: false });
        Self(Arc::new(Shared { credentials, store, kept: Mutex::default(), state, given_back: watch::Sender::new(()) }))
    }

    /// Who the other end is.
    #[must_use]
    pub fn peer(&self) -> Identity {
        let Credentials { recipient_id, id_context, .. } = &self.0.credentials;
        Identity::new(*recipient_id, id_context.as_deref())
    }

    /// They are the same ones.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Ends when no socket has them, which another one may change at once.
    pub(crate) fn given_back(&self) -> impl Future<Output = ()> + Send + use<> {
        let state = self.state();
        let mut given_back = self.0.given_back.subscribe();
        if !state.leased {
            given_back.mark_changed();
        }
        async move {
            // An error says that nobody has these keys any more.
            let _ = given_back.changed().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a socket cannot use keys.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeysError {
    /// Another client or server has them, or the same client for the other IP version.
    #[error("another socket has these keys: their numbers would be used twice")]
    InUse,
    /// Other keys of this program have the same sender.
    #[error(
        "other keys that are in use have the same master secret, salt, ID context and sender ID: numbers would be used twice"
    )]
    SameSender,
    /// They are not legal.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Their [`NumberStore`] does not work.
    #[error("the numbers of the keys cannot be kept: {0}")]
    Store(io::Error),
    /// The socket has other keys that cannot be told from them, or too many.
    #[error(transparent)]
    Insert(#[from] InsertError),
}

/// Keys, as long as one socket has them. If it comes to its end in an orderly way, it [gives](Self::end) them back; otherwise all
/// numbers that it could have used count as used.
#[derive(Debug)]
pub(crate) struct Lease {
    keys: Keys,
    /// Numbers below this may have been used.
    reserved: u64,
    ended: Option<Start>,
    /// Nothing of it is kept.
    is_anew: bool,
    sender: Option<SenderInUse>,
}

impl Lease {
    /// Takes the keys, with a context for as many numbers as are kept as used by then.
    pub(crate) fn take(keys: &Keys) -> Result<(Self, Context, u64), KeysError> {
        let mut state = keys.state();
        if state.leased {
            return Err(KeysError::InUse);
        }
        let start = match state.start {
            Some(start) => start,
            None => *state.start.insert(keys.0.store.kept().map_err(KeysError::Store)?),
        };
        let context = Context::derive(&keys.0.credentials, start)?;
        let sender = SenderInUse::new(&context).ok_or(KeysError::SameSender)?;
        state.leased = true;
        drop(state);
        let reserved = context.next_number().saturating_add(AHEAD);
        // If the numbers are not kept it is as it was.
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

    /// Keeps what is to be reserved. It may block, and so is to run elsewhere.
    pub(crate) fn reserve(&mut self, reserve: Reserve) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        // Even if nobody hears that it was kept.
        self.reserved = self.reserved.max(reserve.up_to);
        let shared = Arc::clone(&self.keys.0);
        move || shared.reserve(reserve.up_to)
    }

    /// Gives the keys back, with their context as it was last. It may block.
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
        // Before anybody hears that they are free.
        self.sender = None;
        let mut state = self.keys.state();
        let start = self.ended.unwrap_or(Start::Restarted { next: self.reserved });
        state.start = Some(if self.is_anew { Start::Anew } else { start });
        state.leased = false;
        self.keys.0.given_back.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conche_proto::oscore::EndId;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// What a file would hold.
    #[derive(Clone, Debug, Default)]
    struct Slate(Arc<AtomicU64>);

    impl NumberStore for Slate {
        fn kept(&self) -> io::Result<Start> {
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

    /// Keys of one test alone: others of the program may not have the same at the same time.
    fn keys(secret: &[u8; 16], store: impl NumberStore) -> Keys {
        let [own, other] = [b"a", b"b"].map(|id| EndId::new(id).expect("short"));
        Keys::new(Credentials::new(*secret, own, other), store).expect("legal credentials")
    }

    /// Some context of somebody.
    fn id(context: Context) -> conche_proto::oscore::ContextId {
        conche_proto::oscore::Contexts::new(1, [1; 32]).insert(context).expect("room")
    }

    #[test]
    fn what_is_kept_after_the_end_does_not_take_the_place_of_the_end() {
        let slate = Slate::default();
        let keys = keys(b"of the first one", slate.clone());
        let (mut lease, context, _) = Lease::take(&keys).expect("nobody has them");
        let (_, other, _) = Lease::take(&self::keys(b"of somebody else", Slate::default())).expect("nobody has them");
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
            fn kept(&self) -> io::Result<Start> {
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
    fn what_is_kept_late_takes_the_place_of_no_more_whoever_has_the_keys_by_then() {
        let slate = Slate::default();
        let keys = keys(b"kept on a slate.", slate.clone());
        let kept = || slate.0.load(Ordering::SeqCst);

        let (mut lease, context, reserved) = Lease::take(&keys).expect("nobody has them");
        assert!(matches!(Lease::take(&keys), Err(KeysError::InUse)));
        assert_eq!((kept(), reserved), (AHEAD, AHEAD));
        // It is on its way to the disk when the socket is gone without a word.
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
