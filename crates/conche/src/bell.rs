//! [`Bell`]: wakes up the one task that waits for it. Waiting leaves nothing behind that would have to be taken back, so that a task that
//! waits for much else as well does so at little cost.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether it has rung since somebody heard it, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Bell(Mutex<(bool, Option<Waker>)>);

impl Bell {
    /// Wakes up who waits, or who waits next.
    pub(crate) fn ring(&self) {
        let waiting = {
            let mut state = self.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Waits until it rings, unless it has rung since this was last the case.
    pub(crate) async fn rung(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let (rung, waiting) = &mut *self.lock();
        if std::mem::take(rung) {
            return Poll::Ready(());
        }
        match waiting {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::{spawn, yield_now};

    use super::*;

    #[tokio::test]
    async fn a_ring_wakes_up_who_waits_and_is_not_lost_on_who_comes_later() {
        let bell = Arc::new(Bell::default());
        bell.ring();
        bell.ring();
        bell.rung().await;
        let waiting = spawn({
            let bell = Arc::clone(&bell);
            async move { bell.rung().await }
        });
        yield_now().await;
        assert!(!waiting.is_finished(), "it was heard already");
        bell.ring();
        waiting.await.expect("it is woken up");
    }
}
