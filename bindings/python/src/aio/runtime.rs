//! The thread that runs all clients and servers of the process, with a tokio runtime.

use std::collections::HashMap;
use std::future::Future;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::queue::{Outbox, Outcome};

type Job = Box<dyn FnOnce() + Send>;

/// Jobs taken from the channel at once.
const BATCH: usize = 256;

struct Runtime {
    jobs: mpsc::UnboundedSender<Job>,
    next_key: AtomicU64,
    tasks: Arc<Tasks>,
    process: u32,
}

/// Running tasks by their keys.
#[derive(Default)]
struct Tasks(Mutex<HashMap<u64, AbortHandle>>);

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, AbortHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static RUNTIME: LazyLock<Result<Runtime, String>> = LazyLock::new(start);

fn start() -> Result<Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot be started: {error}"))?;
    let (jobs, mut waiting) = mpsc::unbounded_channel::<Job>();
    let run = move || {
        runtime.block_on(async move {
            let mut batch = Vec::with_capacity(BATCH);
            while waiting.recv_many(&mut batch, BATCH).await > 0 {
                batch.drain(..).for_each(|job| job());
            }
        });
    };
    thread::Builder::new()
        .name("conche".to_owned())
        .spawn(run)
        .map_err(|error| format!("the thread of the runtime cannot be started: {error}"))?;
    Ok(Runtime { jobs, next_key: AtomicU64::new(0), tasks: Arc::default(), process: process::id() })
}

fn runtime() -> PyResult<&'static Runtime> {
    let runtime = RUNTIME.as_ref().map_err(|text| PyRuntimeError::new_err(text.clone()))?;
    if runtime.process != process::id() {
        return Err(PyRuntimeError::new_err(
            "conche.aio was used before this process was forked, and its thread was not copied: start processes with \
             multiprocessing's method \"spawn\" or \"forkserver\"",
        ));
    }
    Ok(runtime)
}

/// Runs a future on the runtime's thread, and returns the key under which its outcome appears in
/// the queue.
pub fn spawn(outbox: Outbox, task: impl Future<Output = Outcome> + Send + 'static) -> PyResult<u64> {
    let runtime = runtime()?;
    let key = runtime.next_key.fetch_add(1, Ordering::Relaxed);
    let tasks = Arc::clone(&runtime.tasks);
    let running = Running { key, outbox, tasks: Arc::clone(&tasks) };
    submit(runtime, move || {
        let task = tokio::spawn(async move {
            let running = running;
            let outcome = task.await;
            running.outbox.push(running.key, outcome);
        });
        // The task begins after this job, on the same thread.
        tasks.lock().insert(key, task.abort_handle());
    })?;
    Ok(key)
}

/// Cancels a task, if it still runs.
pub fn cancel(key: u64) -> PyResult<()> {
    let runtime = runtime()?;
    let tasks = Arc::clone(&runtime.tasks);
    submit(runtime, move || {
        let task = tasks.lock().remove(&key);
        if let Some(task) = task {
            task.abort();
        }
    })
}

/// Runs a function on the runtime's thread, such as one that drops a value there. Does nothing
/// after a fork.
pub fn run(function: impl FnOnce() + Send + 'static) {
    if let Ok(runtime) = runtime() {
        let _ = submit(runtime, function);
    }
}

/// Returns a key that no task has.
pub fn new_key() -> PyResult<u64> {
    Ok(runtime()?.next_key.fetch_add(1, Ordering::Relaxed))
}

fn submit(runtime: &Runtime, job: impl FnOnce() + Send + 'static) -> PyResult<()> {
    runtime.jobs.send(Box::new(job)).map_err(|_| PyRuntimeError::new_err("the thread of conche.aio has ended"))
}

/// Forgets the task when it ends.
struct Running {
    key: u64,
    outbox: Outbox,
    tasks: Arc<Tasks>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.lock().remove(&self.key);
        if thread::panicking() {
            self.outbox.push(self.key, Outcome::bug());
        }
    }
}
