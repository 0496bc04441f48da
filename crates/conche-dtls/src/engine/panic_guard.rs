//! [`PanicGuard`]: a panic of an engine ends its own association and no other.
//!
//! An engine parses a peer's input with other crates' code. A panic must not end other peers'
//! sessions: it is caught, the perhaps inconsistent engine dropped, and later calls fail with
//! [`Failure::Panicked`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Engine, Failure, Step};

#[derive(Debug)]
pub(crate) struct PanicGuard<E>(Option<E>);

impl<E: Engine> PanicGuard<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self(Some(engine))
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut E) -> Result<T, Failure>) -> Result<T, Failure> {
        let engine = self.0.as_mut().ok_or(Failure::Panicked)?;
        let result = catch_panic(|| call(engine));
        if result.as_ref().is_err_and(|failure| *failure == Failure::Panicked) {
            let broken = self.0.take();
            // Dropping may panic, too.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
        }
        result
    }
}

/// Runs code on a peer's input; panics return [`Failure::Panicked`].
pub(crate) fn catch_panic<T>(serve: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or(Err(Failure::Panicked))
}

impl<E: Engine> Engine for PanicGuard<E> {
    fn receive(&mut self, record: &[u8]) -> Result<(), Failure> {
        self.call(|engine| engine.receive(record))
    }

    fn repeat(&mut self) -> Result<(), Failure> {
        self.call(Engine::repeat)
    }

    fn poll(&mut self, buffer: &mut [u8]) -> Result<Step, Failure> {
        self.call(|engine| engine.poll(buffer))
    }

    fn send(&mut self, plaintext: &[u8]) -> Result<(), Failure> {
        self.call(|engine| engine.send(plaintext))
    }

    /// After a panic the next [`poll`](Engine::poll) fails, without a close_notify.
    fn close(&mut self) {
        let _ = self.call(|engine| {
            engine.close();
            Ok(())
        });
    }

    fn identity(&self) -> Option<&[u8]> {
        self.0.as_ref()?.identity()
    }
}
