//! [`Keys`]: credentials of one end, and where the numbers that it uses are kept.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conche_proto::oscore::{Context, Credentials, CredentialsError, ReplayWindow, Reserve, Start};
use thiserror::Error;

use super::{Identity, Keeper, OpenError};

/// So many numbers are kept as used before the first one is, so that they last until the store has kept more.
const AHEAD: u64 = 256;

/// Where numbers are kept that may have been used.
///
/// Its methods may block: all but the first call run on a thread for that.
pub trait NumberStore: fmt::Debug + Send + Sync + 'static {
    /// Keeps that all numbers below `up_to` may have been used, and returns when that will survive a power cut. The next program
    /// begins with [`Start::Restarted`] at the last `up_to`.
    ///
    /// # Errors
    /// If it will not. Then none of these numbers is used, and it is asked again.
    fn reserve(&self, up_to: u64) -> io::Result<()>;

    /// At an orderly end: keeps that no number from `next` on was used, and which requests came. The next program may begin with
    /// [`Start::Resumed`], if this is removed from where it is kept before it does. By default nothing of it is kept.
    ///
    /// # Errors
    /// If it was not kept. What was [reserved](Self::reserve) still is.
    fn finish(&self, next: u64, window: Option<ReplayWindow>) -> io::Result<()> {
        let _ = (next, window);
        Ok(())
    }
}

/// Numbers of credentials that nobody uses after this run.
#[derive(Debug)]
struct ThisRun;

impl NumberStore for ThisRun {
    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// The credentials of one end for one peer, and where their numbers are kept. A clone is the same keys.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    credentials: Credentials,
    store: Box<dyn NumberStore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How the next socket begins that has them.
    start: Start,
    leased: bool,
}

impl Keys {
    /// Credentials whose numbers begin with `start`, and are kept there.
    ///
    /// # Errors
    /// If the credentials are not legal.
    pub fn new(credentials: Credentials, start: Start, store: impl NumberStore) -> Result<Self, CredentialsError> {
        credentials.check()?;
        let state = Mutex::new(State { start, leased: false });
        Ok(Self(Arc::new(Shared { credentials, store: Box::new(store), state })))
    }

    /// Credentials that were made for this run of the program and are used by no other one, before or after it.
    ///
    /// # Errors
    /// If the credentials are not legal.
    pub fn for_this_run(credentials: Credentials) -> Result<Self, CredentialsError> {
        Self::new(credentials, Start::First, ThisRun)
    }

    /// The credentials of a file, or of a directory, whose numbers are kept beside it: those of [`Keeper::open`].
    ///
    /// # Errors
    /// As [`Keeper::open`] and [`Keeper::start`].
    pub fn open(path: impl AsRef<Path>) -> Result<Vec<Self>, OpenError> {
        Keeper::open(path)?.into_iter().map(Self::kept).collect()
    }

    /// The credentials of a keeper that has made no context yet.
    ///
    /// # Errors
    /// As [`Keeper::start`].
    pub fn kept(mut keeper: Keeper) -> Result<Self, OpenError> {
        let start = keeper.begin()?;
        let state = Mutex::new(State { start, leased: false });
        // They were checked when they were opened.
        Ok(Self(Arc::new(Shared { credentials: keeper.credentials().clone(), store: Box::new(keeper), state })))
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a socket cannot have keys.
#[derive(Debug, Error)]
pub(crate) enum LeaseError {
    #[error("another socket has these keys: their numbers would be used twice")]
    InUse,
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("the numbers of the keys cannot be kept: {0}")]
    Store(io::Error),
}

/// Keys, as long as one socket has them. If it comes to its end in an orderly way, it [gives](Self::end) them back; otherwise all
/// numbers that it could have used count as used.
#[derive(Debug)]
pub(crate) struct Lease {
    keys: Keys,
    /// Numbers below this may have been used.
    reserved: u64,
    ended: Option<Start>,
}

impl Lease {
    /// Takes the keys, with a context for as many numbers as are kept as used by then.
    pub(crate) fn take(keys: &Keys) -> Result<(Self, Context, u64), LeaseError> {
        let mut state = keys.state();
        if state.leased {
            return Err(LeaseError::InUse);
        }
        let context = Context::derive(&keys.0.credentials, state.start)?;
        let reserved = context.next_number().saturating_add(AHEAD);
        keys.0.store.reserve(reserved).map_err(LeaseError::Store)?;
        state.leased = true;
        Ok((Self { keys: keys.clone(), reserved, ended: None }, context, reserved))
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Keeps what is to be reserved. It may block, and so is to run elsewhere.
    pub(crate) fn reserve(&mut self, reserve: Reserve) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        // Even if nobody hears that it was kept.
        self.reserved = self.reserved.max(reserve.up_to);
        let shared = Arc::clone(&self.keys.0);
        move || shared.store.reserve(reserve.up_to)
    }

    /// Gives the keys back, with their context as it was last.
    pub(crate) fn end(mut self, context: &Context) -> io::Result<()> {
        let (next, window) = (context.next_number(), context.window());
        self.ended = Some(match window {
            Some(window) => Start::Resumed { next, window },
            None => Start::Restarted { next },
        });
        self.keys.0.store.finish(next, window)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.keys.state();
        state.start = self.ended.unwrap_or(Start::Restarted { next: self.reserved });
        state.leased = false;
    }
}
