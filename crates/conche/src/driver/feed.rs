//! [`Feed`]: from a driver to whoever observes something elsewhere. It holds one state, the newest: what comes in a hurry
//! takes no room, and who is slow misses what is out of date.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use conche_proto::codec::OwnedMessage;
use conche_proto::{RequestError, SubscriptionEnd};
use tokio::time::Instant;

use super::Sender;

/// The end of a feed from which news are taken.
#[derive(Debug, Default)]
pub(crate) struct Feed(Arc<Mutex<Inner>>);

/// The end into which a driver gives them. It says so when it is dropped, as with its driver.
#[derive(Debug)]
pub(crate) struct Teller(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    newest: Option<State>,
    end: Option<End>,
    waker: Option<Waker>,
}

/// Something new of what is observed.
#[derive(Debug)]
pub(crate) enum News {
    State(State),
    End(End),
}

/// A state of what is observed.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) from: Sender,
    pub(crate) message: OwnedMessage,
    /// When it came: it may be taken much later.
    pub(crate) received: Instant,
}

/// Why nothing more will come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// The observation is over.
    Over(SubscriptionEnd),
    /// It could not be registered again.
    Refused(RequestError),
    /// The session through which it came is over.
    #[cfg_attr(not(feature = "dtls"), expect(dead_code, reason = "there are no sessions"))]
    SessionOver,
    /// The driver is gone.
    Stopped,
}

impl Feed {
    pub(crate) fn teller(&self) -> Teller {
        Teller(Arc::clone(&self.0))
    }

    /// What is new. After the end nothing but the end is.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<News> {
        let mut inner = lock(&self.0);
        if let Some(state) = inner.newest.take() {
            return Poll::Ready(News::State(state));
        }
        match inner.end {
            Some(end) => Poll::Ready(News::End(end)),
            None => {
                inner.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Teller {
    /// A new state, in the place of one that nobody has taken yet.
    pub(super) fn tell(&self, from: Sender, message: OwnedMessage) {
        let state = State { from, message, received: Instant::now() };
        self.change(|inner| inner.newest = Some(state));
    }

    pub(super) fn end(&self, reason: SubscriptionEnd) {
        self.change(|inner| inner.end = Some(End::Over(reason)));
    }

    /// It cannot be registered again.
    pub(super) fn refuse(&self, refusal: RequestError) {
        self.change(|inner| inner.end = Some(End::Refused(refusal)));
    }

    /// Nothing more comes through this session.
    #[cfg(feature = "dtls")]
    pub(super) fn lose_session(&self) {
        self.change(|inner| inner.end = Some(End::SessionOver));
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let waker = {
            let mut inner = lock(&self.0);
            change(&mut inner);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.change(|inner| {
            inner.end.get_or_insert(End::Stopped);
        });
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}
