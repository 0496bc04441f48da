//! [`Reply`]: a reusable one-shot channel for the outcome of an exchange.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::handle::{ExchangeError, Outcome};

/// Outcome of an exchange.
pub(super) type Ended = Result<Outcome, ExchangeError>;

/// Maximum number of slots kept for reuse. Larger bursts allocate.
const SPARE: usize = 1024;

/// Makes channels, reusing the memory of earlier ones.
#[derive(Debug, Default)]
pub(super) struct Replies {
    spare: Mutex<Vec<Arc<Slot>>>,
}

/// State shared by both ends of a channel.
#[derive(Debug, Default)]
struct Slot(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ended: Option<Ended>,
    waker: Option<Waker>,
    /// Whether one end is gone.
    closed: bool,
}

/// The sending end.
#[derive(Debug)]
pub(super) struct Reply(Arc<Slot>);

/// The receiving end.
#[derive(Debug)]
pub(super) struct Awaited(Arc<Slot>);

impl Replies {
    pub(super) fn open(&self) -> (Reply, Awaited) {
        let slot = self.lock().pop().unwrap_or_default();
        (Reply(Arc::clone(&slot)), Awaited(slot))
    }

    /// Takes memory back, unless the other end still uses it.
    pub(super) fn take_back(&self, Awaited(slot): &mut Awaited) {
        let Some(Slot(state)) = Arc::get_mut(slot) else { return };
        *state.get_mut().unwrap_or_else(PoisonError::into_inner) = State::default();
        let mut spare = self.lock();
        if spare.len() < SPARE {
            spare.push(Arc::clone(slot));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the channel, and returns the waiting receiver's waker.
    fn close(&self, ended: Option<Ended>) -> Option<Waker> {
        let mut state = self.lock();
        state.closed = true;
        if ended.is_some() {
            state.ended = ended;
        }
        state.waker.take()
    }
}

impl Reply {
    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Sends the outcome. A missing receiver is not an error.
    pub(super) fn send(self, ended: Ended) {
        let waker = self.0.close(Some(ended));
        // Frees the memory before the receiver wakes up.
        drop(self);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(waker) = self.0.close(None) {
            waker.wake();
        }
    }
}

impl Awaited {
    /// Polls for the outcome; `Stopped` if the driver was dropped without sending one.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Ended> {
        let mut state = self.0.lock();
        if let Some(ended) = state.ended.take() {
            return Poll::Ready(ended);
        }
        if state.closed {
            return Poll::Ready(Err(ExchangeError::Stopped));
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    pub(super) fn close(&self) {
        self.0.lock().closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(awaited: &Awaited) -> Poll<Ended> {
        awaited.poll(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_memory_of_a_channel_is_that_of_the_last_one_that_is_over() {
        let replies = Replies::default();
        let (reply, mut awaited) = replies.open();
        let first = Arc::as_ptr(&awaited.0);
        assert!(poll(&awaited).is_pending());
        replies.take_back(&mut awaited);
        assert!(replies.lock().is_empty(), "the other end has it");
        reply.send(Err(ExchangeError::Stopped));
        assert!(poll(&awaited).is_ready());
        replies.take_back(&mut awaited);
        drop(awaited);
        let (reply, awaited) = replies.open();
        assert_eq!(Arc::as_ptr(&awaited.0), first);
        assert!(poll(&awaited).is_pending() && !reply.is_closed(), "nothing is left of what it was");
    }

    #[test]
    fn an_end_that_is_gone_is_seen_from_the_other() {
        let replies = Replies::default();
        let (reply, awaited) = replies.open();
        awaited.close();
        assert!(reply.is_closed());
        let (reply, awaited) = replies.open();
        drop(reply);
        assert!(matches!(poll(&awaited), Poll::Ready(Err(ExchangeError::Stopped))));
    }
}
