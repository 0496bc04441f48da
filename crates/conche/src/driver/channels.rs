//! Channels between a driver and its callers: [`OutcomeSender`], a reusable one-shot channel, and
//! [`NotifyOne`], a wake-up of the driver.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::commands::{ExchangeError, Outcome};

pub(super) type ExchangeResult = Result<Outcome, ExchangeError>;

/// Slots kept for reuse.
const SPARE: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct OutcomeChannels {
    spare: Mutex<Vec<Arc<Slot>>>,
}

#[derive(Debug, Default)]
struct Slot(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ended: Option<ExchangeResult>,
    waker: Option<Waker>,
    closed: bool,
}

#[derive(Debug)]
pub(super) struct OutcomeSender(Arc<Slot>);

#[derive(Debug)]
pub(super) struct OutcomeReceiver(Arc<Slot>);

impl OutcomeChannels {
    pub(super) fn open(&self) -> (OutcomeSender, OutcomeReceiver) {
        let slot = self.lock().pop().unwrap_or_default();
        (OutcomeSender(Arc::clone(&slot)), OutcomeReceiver(slot))
    }

    /// Reclaims memory that the other end no longer uses.
    pub(super) fn take_back(&self, OutcomeReceiver(slot): &mut OutcomeReceiver) {
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

    fn close(&self, ended: Option<ExchangeResult>) -> Option<Waker> {
        let mut state = self.lock();
        state.closed = true;
        if ended.is_some() {
            state.ended = ended;
        }
        state.waker.take()
    }
}

impl OutcomeSender {
    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    pub(super) fn send(self, ended: ExchangeResult) {
        let waker = self.0.close(Some(ended));
        // Frees the memory before the receiver wakes up.
        drop(self);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for OutcomeSender {
    fn drop(&mut self) {
        if let Some(waker) = self.0.close(None) {
            waker.wake();
        }
    }
}

impl OutcomeReceiver {
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<ExchangeResult> {
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

/// Wakes its one waiting task. Earlier notifications count as one.
///
/// The driver waits for two of these per loop turn, in 310 instructions instead of the 780 of
/// [`tokio::sync::Notify`], where each wait joins a list.
#[derive(Debug, Default)]
pub(crate) struct NotifyOne(Mutex<Notification>);

#[derive(Debug, Default)]
struct Notification {
    notified: bool,
    waiting: Option<Waker>,
}

impl NotifyOne {
    pub(crate) fn notify(&self) {
        let waiting = {
            let mut state = self.lock();
            state.notified = true;
            state.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    pub(crate) async fn notified(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let Notification { notified, waiting } = &mut *self.lock();
        if std::mem::take(notified) {
            return Poll::Ready(());
        }
        match waiting {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Notification> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(awaited: &OutcomeReceiver) -> Poll<ExchangeResult> {
        awaited.poll(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_memory_of_a_channel_is_that_of_the_last_one_that_is_over() {
        let channels = OutcomeChannels::default();
        let (sender, mut awaited) = channels.open();
        let first = Arc::as_ptr(&awaited.0);
        assert!(poll(&awaited).is_pending());
        channels.take_back(&mut awaited);
        assert!(channels.lock().is_empty(), "the other end has it");
        sender.send(Err(ExchangeError::Stopped));
        assert!(poll(&awaited).is_ready());
        channels.take_back(&mut awaited);
        drop(awaited);
        let (sender, awaited) = channels.open();
        assert_eq!(Arc::as_ptr(&awaited.0), first);
        assert!(poll(&awaited).is_pending() && !sender.is_closed(), "nothing is left of what it was");
    }

    #[test]
    fn an_end_that_is_gone_is_seen_from_the_other() {
        let channels = OutcomeChannels::default();
        let (sender, awaited) = channels.open();
        awaited.close();
        assert!(sender.is_closed());
        let (sender, awaited) = channels.open();
        drop(sender);
        assert!(matches!(poll(&awaited), Poll::Ready(Err(ExchangeError::Stopped))));
    }

    use std::sync::Arc;

    use tokio::task::{spawn, yield_now};

    #[tokio::test]
    async fn a_notification_wakes_the_task_that_waits_and_is_kept_for_one_that_waits_later() {
        let signal = Arc::new(NotifyOne::default());
        signal.notify();
        signal.notify();
        signal.notified().await;
        let waiting = spawn({
            let signal = Arc::clone(&signal);
            async move { signal.notified().await }
        });
        yield_now().await;
        assert!(!waiting.is_finished(), "two notifications are one");
        signal.notify();
        waiting.await.expect("it is woken");
    }
}
