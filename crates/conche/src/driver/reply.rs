//! Where the outcome of an exchange is put for whoever waits for it: a channel for one value, whose memory is used again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::handle::{ExchangeError, Outcome};

/// How an exchange ended.
pub(super) type Ended = Result<Outcome, ExchangeError>;

/// Memory that is kept for outcomes to come. Of a burst of more exchanges the others have some of their own.
const SPARE: usize = 1024;

/// Makes channels, with memory of those that are over.
#[derive(Debug, Default)]
pub(super) struct Replies {
    spare: Mutex<Vec<Arc<Slot>>>,
}

/// What both ends of a channel share.
#[derive(Debug, Default)]
struct Slot(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ended: Option<Ended>,
    waker: Option<Waker>,
    /// One of the ends is gone.
    closed: bool,
}

/// The end of whoever tells the outcome.
#[derive(Debug)]
pub(super) struct Reply(Arc<Slot>);

/// The end of whoever waits for it.
#[derive(Debug)]
pub(super) struct Awaited(Arc<Slot>);

impl Replies {
    pub(super) fn open(&self) -> (Reply, Awaited) {
        let slot = self.lock().pop().unwrap_or_default();
        (Reply(Arc::clone(&slot)), Awaited(slot))
    }

    /// Takes memory back, unless the other end still has it.
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

    /// Somebody who waits and is to wake up.
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
    /// Nobody waits any more.
    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Tells the outcome. If nobody waits for it any more, that is no error.
    pub(super) fn send(self, ended: Ended) {
        let waker = self.0.close(Some(ended));
        // So that the one who wakes up finds the memory free.
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
    /// The outcome; that the driver stopped if it went without telling one.
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

    /// Nobody waits any more.
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
