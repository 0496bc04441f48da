//! [`Observation`]: the states of a resource, one at a time.

use std::sync::Arc;

use pyo3::prelude::*;
use tokio::sync::{Mutex, Notify};

use super::message::{Failure, Received};
use super::queue::{Outcome, Queue};
use super::runtime;

/// An observation (RFC 7641).
#[pyclass(frozen, module = "conche._conche")]
pub struct Observation(Arc<Shared>);

struct Shared {
    /// `None` after it was closed.
    observation: Mutex<Option<conche::client::Observation>>,
    /// Makes a task that waits for a state release the lock.
    closing: Notify,
}

impl Observation {
    pub fn new(observation: conche::client::Observation) -> Self {
        Self(Arc::new(Shared { observation: Mutex::new(Some(observation)), closing: Notify::new() }))
    }
}

impl Shared {
    async fn next(&self) -> Outcome {
        let mut observation = self.observation.lock().await;
        let Some(observation) = observation.as_mut() else { return Outcome::End };
        let next = tokio::select! {
            next = observation.next() => next,
            () = self.closing.notified() => None,
        };
        match next {
            Some(Ok(response)) => Outcome::Received(Received::from(response)),
            Some(Err(error)) => Outcome::Failed(Failure::from(error)),
            None => Outcome::End,
        }
    }
}

#[pymethods]
impl Observation {
    /// Waits for the next state: its key receives a response, a failure, or `None` at the end.
    fn next(&self, queue: &Queue) -> PyResult<u64> {
        let shared = Arc::clone(&self.0);
        runtime::spawn(queue.outbox(), async move { shared.next().await })
    }

    /// Deregisters: its key receives `None` when the server has responded, or a failure.
    fn close(&self, queue: &Queue) -> PyResult<u64> {
        let shared = Arc::clone(&self.0);
        runtime::spawn(queue.outbox(), async move {
            shared.closing.notify_waiters();
            let observation = shared.observation.lock().await.take();
            match observation {
                Some(observation) => observation
                    .cancel()
                    .await
                    .map_or_else(|error| Outcome::Failed(Failure::from(error)), |()| Outcome::Done),
                None => Outcome::Done,
            }
        })
    }
}

/// Dropping an observation notifies the server, which the runtime's thread does.
impl Drop for Observation {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.0);
        runtime::run(move || drop(shared));
    }
}
