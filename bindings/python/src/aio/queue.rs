//! [`Queue`]: results for an event loop, which a socket pair wakes up.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use super::message::{Failure, Received};
use super::server::{Call, Server};

/// The result of a task, or a message to a server.
pub enum Outcome {
    Received(Received),
    Failed(Failure),
    Done,
    Serving(Server),
    /// A request for the server of the key.
    Call(Call),
    /// The request of this key needs no response any more.
    Abandoned,
    /// The end of an observation.
    End,
    Metrics(String),
}

impl Outcome {
    /// For a task that panicked.
    pub fn bug() -> Self {
        Self::Failed(Failure::new("bug", "a task of conche.aio panicked, which is a bug: please report it", true))
    }
}

/// Results for one event loop, in the order in which they arrived.
#[pyclass(frozen, module = "conche._conche")]
pub struct Queue {
    shared: Arc<Shared>,
    reader: UnixStream,
}

struct Shared {
    items: Mutex<Vec<(u64, Outcome)>>,
    writer: UnixStream,
}

impl Shared {
    fn items(&self) -> MutexGuard<'_, Vec<(u64, Outcome)>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending end of a [`Queue`].
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

impl Outbox {
    /// Appends a result, and wakes the event loop up unless it already has to come.
    pub fn push(&self, key: u64, outcome: Outcome) {
        let was_empty = {
            let mut items = self.0.items();
            items.push((key, outcome));
            items.len() == 1
        };
        if was_empty {
            // A full socket wakes it up as well.
            let _ = (&self.0.writer).write(&[0]);
        }
    }
}

impl Queue {
    pub fn outbox(&self) -> Outbox {
        Outbox(Arc::clone(&self.shared))
    }
}

#[pymethods]
impl Queue {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { shared: Arc::new(Shared { items: Mutex::default(), writer }), reader })
    }

    /// The file descriptor that is readable while there are results.
    fn fileno(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Takes all results: pairs of a key and a value.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<(u64, Py<PyAny>)>> {
        // Read before the results are taken: a later result wakes the loop up again.
        let mut bytes = [0; 64];
        while matches!((&self.reader).read(&mut bytes), Ok(read) if read == bytes.len()) {}
        let items = std::mem::take(&mut *self.shared.items());
        items.into_iter().map(|(key, outcome)| Ok((key, object(py, outcome)?))).collect()
    }
}

fn object(py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
    match outcome {
        Outcome::Received(value) => value.into_py_any(py),
        Outcome::Failed(value) => value.into_py_any(py),
        Outcome::Serving(value) => value.into_py_any(py),
        Outcome::Call(value) => value.into_py_any(py),
        Outcome::Metrics(value) => value.into_py_any(py),
        Outcome::Abandoned => false.into_py_any(py),
        Outcome::Done | Outcome::End => Ok(py.None()),
    }
}
