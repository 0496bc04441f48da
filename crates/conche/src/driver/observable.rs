//! [`Observable`]: a resource whose changes are passed to the drivers that serve it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::notify_one::NotifyOne;

/// A resource that clients may observe. `R` is its service's response.
#[derive(Debug)]
pub(crate) struct Observable<R> {
    id: u64,
    observers: AtomicUsize,
    /// Mailboxes of the drivers that serve the resource.
    mailboxes: Mutex<Vec<Weak<Mailbox<R>>>>,
}

impl<R> Default for Observable<R> {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), observers: AtomicUsize::new(0), mailboxes: Mutex::default() }
    }
}

impl<R> Observable<R> {
    /// Returns a number that no other resource has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of observers.
    pub(crate) fn observers(&self) -> usize {
        self.observers.load(Ordering::Relaxed)
    }

    /// Updates the number of observers of a topic from `before` to `after`.
    pub(super) fn count(&self, before: usize, after: usize) {
        if after >= before {
            self.observers.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.observers.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Also delivers future changes to this mailbox.
    pub(crate) fn attach(&self, mailbox: &Arc<Mailbox<R>>) {
        let mut mailboxes = locked(&self.mailboxes);
        mailboxes.retain(|other| other.strong_count() > 0);
        if !mailboxes.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(mailbox))) {
            mailboxes.push(Arc::downgrade(mailbox));
        }
    }

    /// Changes the pending actions of each driver.
    pub(crate) fn change(&self, change: impl Fn(&mut Changes<R>)) {
        for mailbox in locked(&self.mailboxes).iter().filter_map(Weak::upgrade) {
            change(locked(&mailbox.changes).entry(self.id).or_default());
            mailbox.some.notify();
        }
    }
}

/// Changes that a driver has not processed yet, merged per resource.
#[derive(Debug)]
pub(crate) struct Mailbox<R> {
    changes: Mutex<HashMap<u64, Changes<R>>>,
    some: NotifyOne,
}

impl<R> Default for Mailbox<R> {
    fn default() -> Self {
        Self { changes: Mutex::default(), some: NotifyOne::default() }
    }
}

impl<R> Mailbox<R> {
    /// Waits until the mailbox may hold changes.
    pub(super) async fn some(&self) {
        self.some.notified().await;
    }

    pub(crate) fn take(&self) -> HashMap<u64, Changes<R>> {
        std::mem::take(&mut *locked(&self.changes))
    }
}

/// Pending actions for the observers of a resource, in this order.
#[derive(Debug)]
pub(crate) struct Changes<R> {
    /// Forget the present observers.
    pub(crate) dismiss: bool,
    /// Send them this response.
    pub(crate) send: Option<R>,
    /// Call the service for them.
    pub(crate) call: Calls,
}

/// The calls of the service for the new state.
#[derive(Debug, Default)]
pub(crate) enum Calls {
    #[default]
    None,
    Paths(BTreeSet<String>),
    All,
}

/// Maximum number of paths; beyond it the service is called for all. Bounds the memory of rapid
/// changes.
pub(crate) const MAX_PATHS: usize = 1024;

impl<R> Default for Changes<R> {
    fn default() -> Self {
        Self { dismiss: false, send: None, call: Calls::None }
    }
}

impl<R> Changes<R> {
    /// The service's responses supersede the one to be sent.
    pub(crate) fn call_for_all(&mut self) {
        self.send = None;
        self.call = Calls::All;
    }

    pub(crate) fn call_for(&mut self, path: &str) {
        match &mut self.call {
            Calls::All => {}
            Calls::Paths(paths) if paths.len() >= MAX_PATHS => self.call = Calls::All,
            Calls::Paths(paths) => drop(paths.insert(path.to_owned())),
            Calls::None => self.call = Calls::Paths(BTreeSet::from([path.to_owned()])),
        }
    }

    /// The response supersedes earlier ones, and the service's.
    pub(crate) fn send(&mut self, response: R) {
        *self = Self { dismiss: self.dismiss, send: Some(response), call: Calls::None };
    }

    pub(crate) fn dismiss(&mut self) {
        *self = Self { dismiss: true, ..Self::default() };
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
