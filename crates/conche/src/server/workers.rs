//! The drivers of a server: one on the caller's runtime, or several, each with its own thread,
//! runtime, socket and endpoint.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::task::Poll;
use std::thread;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::{AbortHandle, JoinHandle};

use super::{Router, Stopped};
use crate::builder::{Served, Setup, SharedSocket, Started};
use crate::driver::{Handle, ShutdownBarrier};
use crate::error::StartError;
use crate::socket::{Binding, Role, Socket, could_have_alone};

#[derive(Debug)]
pub(super) struct Workers {
    first: Handle,
    others: Vec<Handle>,
    tasks: Vec<WorkerTask>,
}

/// A driver's task, whose end any number of callers may await.
#[derive(Debug)]
struct WorkerTask {
    abort: AbortHandle,
    ended: Shared<BoxFuture<'static, Result<(), Stopped>>>,
}

impl From<JoinHandle<()>> for WorkerTask {
    fn from(task: JoinHandle<()>) -> Self {
        let abort = task.abort_handle();
        Self { abort, ended: task.map(|ended| ended.map_err(Stopped::from)).boxed().shared() }
    }
}

impl Drop for WorkerTask {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl Workers {
    pub(super) fn one(setup: &Setup, binding: &Binding, served: Served<Router>) -> Result<Self, StartError> {
        let (first, task) = setup.start_server(binding, served)?;
        Ok(Self { first, others: Vec::new(), tasks: vec![task.into()] })
    }

    pub(super) fn several(
        setup: &Setup,
        address: SocketAddr,
        mut served: Served<Router>,
        count: usize,
    ) -> Result<Self, StartError> {
        setup.validate()?;
        let mut setup = setup.clone();
        let limits = &mut setup.settings.config.limits;
        *limits = limits.divided(count);
        #[cfg(feature = "dtls")]
        setup.settings.security.divide(count);
        served.handlers.max = served.handlers.max.div_ceil(count);
        // Another server at this address would silently receive part of the clients.
        could_have_alone(address, setup.settings.interface.as_deref())?;
        // Opening a socket makes the kernel redistribute clients: a duplicate could arrive at
        // another socket than its original. All are therefore open before any serves, and discard
        // datagrams received until then.
        let first = WorkerSlot::open(&setup, address)?;
        let address = first.socket.local();
        let others = (1..count).map(|_| WorkerSlot::open(&setup, address)).collect::<io::Result<Vec<_>>>()?;
        others.iter().chain([&first]).for_each(|slot| slot.socket.forget_arrived());
        let barrier = ShutdownBarrier::default();
        let start = |index, slot: WorkerSlot| {
            let WorkerSlot { socket, runtime } = slot;
            runtime.start(&setup, index, SharedSocket { socket, barrier: barrier.clone() }, served.clone())
        };
        let (first, task) = start(0, first)?;
        // From here on, an error drops and stops the running drivers.
        let mut workers = Self { first, others: Vec::new(), tasks: vec![task.into()] };
        for (index, slot) in (1..).zip(others) {
            let (handle, task) = start(index, slot)?;
            workers.others.push(handle);
            workers.tasks.push(task.into());
        }
        // A remaining clone would keep the shutdown barrier closed.
        drop(barrier);
        Ok(workers)
    }

    pub(super) fn first(&self) -> &Handle {
        &self.first
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = &Handle> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Waits until all have ended, or one has failed.
    pub(super) async fn ended(&self) -> Result<(), Stopped> {
        let mut running: Vec<_> = self.tasks.iter().map(|task| task.ended.clone()).collect();
        poll_fn(|context| {
            let mut ended = Ok(());
            running.retain_mut(|task| match task.poll_unpin(context) {
                Poll::Ready(outcome) => {
                    if ended.is_ok() {
                        ended = outcome;
                    }
                    false
                }
                Poll::Pending => true,
            });
            if ended.is_err() || running.is_empty() { Poll::Ready(ended) } else { Poll::Pending }
        })
        .await
    }

    /// Waits until all have ended, also those that failed.
    pub(super) fn all_ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let running: Vec<_> = self.tasks.iter().map(|task| task.ended.clone()).collect();
        async move {
            for task in running {
                let _ = task.await;
            }
        }
    }
}

struct WorkerSlot {
    socket: Socket,
    runtime: WorkerRuntime,
}

impl WorkerSlot {
    fn open(setup: &Setup, address: SocketAddr) -> io::Result<Self> {
        let runtime = WorkerRuntime(Some(Builder::new_current_thread().enable_all().build()?));
        let socket = {
            let _entered = runtime.enter();
            setup.open(&Binding::OneOfSeveral(address), Role::Server)?
        };
        Ok(Self { socket, runtime })
    }
}

/// A runtime that can be dropped on a thread of another runtime, unlike [`Runtime`].
struct WorkerRuntime(Option<Runtime>);

impl WorkerRuntime {
    fn enter(&self) -> Option<EnterGuard<'_>> {
        self.0.as_ref().map(Runtime::enter)
    }

    fn start(
        self,
        setup: &Setup,
        index: usize,
        on: SharedSocket,
        served: Served<Router>,
    ) -> Result<Started, StartError> {
        let started = {
            let _entered = self.enter();
            setup.drive_server(on, served)?
        };
        let handle = started.0.clone();
        let run = move || self.run(&handle);
        thread::Builder::new().name(format!("conche-{index}")).spawn(run)?;
        Ok(started)
    }

    fn run(&self, driver: &Handle) {
        if let Some(runtime) = &self.0 {
            runtime.block_on(driver.stopped());
        }
    }
}

impl Drop for WorkerRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_whose_address_is_taken_is_an_error_on_a_runtime_as_well() {
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("the loopback can be bound");
        let address = taken.local_addr().expect("it is bound");
        assert!(WorkerSlot::open(&crate::Server::builder().setup().0, address).is_err());
    }
}
