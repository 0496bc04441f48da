//! [`Feed`]: delivers states from a driver to an observation. It holds only the newest state, so
//! bursts take no memory and a slow reader skips outdated states.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use conche_proto::codec::OwnedMessage;
use conche_proto::{RequestError, SubscriptionEnd};
use tokio::time::Instant;

use super::Sender;

/// The receiving end of a feed.
#[derive(Debug, Default)]
pub(crate) struct Feed(Arc<Mutex<Inner>>);

/// The driver's end of a feed. Dropping it ends the feed.
#[derive(Debug)]
pub(crate) struct FeedSender(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    newest: Option<State>,
    end: Option<End>,
    waker: Option<Waker>,
}

/// News of an observation.
#[derive(Debug)]
pub(crate) enum News {
    State(State),
    End(End),
}

/// A state of the observed resource.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) from: Sender,
    pub(crate) message: OwnedMessage,
    /// Time of arrival; it may be read much later.
    pub(crate) received: Instant,
}

/// Why a feed ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Over(SubscriptionEnd),
    /// It could not be registered again.
    Refused(RequestError),
    #[cfg_attr(not(feature = "dtls"), expect(dead_code, reason = "there are no sessions"))]
    SessionOver,
    Stopped,
}

impl Feed {
    pub(crate) fn sender(&self) -> FeedSender {
        FeedSender(Arc::clone(&self.0))
    }

    /// Polls for news. After the end, returns only the end.
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

impl FeedSender {
    /// Sets a new state, replacing one that was not read yet.
    pub(super) fn send(&self, from: Sender, message: OwnedMessage) {
        let state = State { from, message, received: Instant::now() };
        self.change(|inner| inner.newest = Some(state));
    }

    pub(super) fn end(&self, reason: SubscriptionEnd) {
        self.change(|inner| inner.end = Some(End::Over(reason)));
    }

    /// Ends the feed: the observation cannot be registered again.
    pub(super) fn refuse(&self, refusal: RequestError) {
        self.change(|inner| inner.end = Some(End::Refused(refusal)));
    }

    /// Ends the feed: its session is over.
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

impl Drop for FeedSender {
    fn drop(&mut self) {
        self.change(|inner| {
            inner.end.get_or_insert(End::Stopped);
        });
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}
