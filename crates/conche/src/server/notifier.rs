//! [`Notifier`]: notifies observers of a resource of changes (RFC 7641).

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Response;
use crate::notify_one::NotifyOne;

/// Notifies the observers of a resource of changes (RFC 7641).
/// [`observed_by`](super::Resource::observed_by) makes a [`Resource`](super::Resource) observable;
/// the code that changes the resource keeps a clone of the notifier, for example in the router's
/// state.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use conche::server::{Notifier, get};
/// use conche::{Client, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (count, notifier) = (Arc::new(AtomicU32::new(0)), Notifier::new());
/// let shown = Arc::clone(&count);
/// let read = get(move || { let shown = Arc::clone(&shown); async move { shown.load(Ordering::Relaxed).to_string() } });
/// let server = Server::builder().route("/count", read.observed_by(&notifier)).bind("127.0.0.1:0").await?;
///
/// let mut counts = Client::new().observe(format!("coap://{}/count", server.local_addr()));
/// assert_eq!(counts.next().await.ok_or("a first state")??.text()?, "0");
/// count.store(7, Ordering::Relaxed);
/// notifier.notify();
/// assert_eq!(counts.next().await.ok_or("a change")??.text()?, "7");
/// # Ok(())
/// # }
/// ```
///
/// # Cost of a change
///
/// The handler of GET or FETCH runs once for all observers of the same path, query, Accept and
/// payload. Its response is encoded once, and sent to each observer when congestion control
/// permits; a slow observer skips outdated states and receives the latest. Rapid changes run the
/// handler again only after it has finished. A few handlers run at a time, and requests are served
/// in between. Clients of one prefix hold at most half of
/// [`Limits::topics`](crate::Limits::topics); registrations beyond are answered without Observe.
///
/// For the handler, [`Peer`](super::Peer) is one of the observers, and conditions and ETags of
/// requests are omitted. There is no [`Identity`](crate::security::Identity): authorization happens
/// at registration, and [`Request::is_for_observers`](super::Request::is_for_observers) lets a
/// layer recognise such a run. An error response is the last notification: it ends the
/// observations.
///
/// The methods return at once, and may be called from anywhere, including handlers of the resource.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u64,
    observers: AtomicUsize,
    /// Mailboxes of the servers whose resources use this notifier.
    mailboxes: Mutex<Vec<Weak<Mailbox>>>,
}

impl Default for Shared {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), observers: AtomicUsize::new(0), mailboxes: Mutex::default() }
    }
}

impl Notifier {
    /// Returns a notifier without a resource.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports a change: the handlers run, and their responses are sent to all observers.
    pub fn notify(&self) {
        self.change(Changes::ask_all);
    }

    /// Reports a change of the resource at this path, for a notifier of a route with captures. The
    /// path is written as in a URI: percent-encoded where necessary, without a query.
    pub fn notify_path(&self, path: &str) {
        self.change(|changes| changes.ask(path));
    }

    /// Sends this response to all observers, whatever their request, without running a handler. An
    /// error ends the observations.
    pub fn send(&self, response: Response) {
        self.change(|changes| *changes = Changes { send: Some(response.clone()), ..Changes::none(changes.dismiss) });
    }

    /// Forgets all observers without notifying them, as a restart would. They may register again
    /// when nothing arrives for longer than the last Max-Age.
    pub fn dismiss(&self) {
        self.change(|changes| *changes = Changes::none(true));
    }

    /// Returns the number of observers.
    #[must_use]
    pub fn observers(&self) -> usize {
        self.0.observers.load(Ordering::Relaxed)
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Updates the number of observers of a resource from `before` to `after`.
    pub(crate) fn count(&self, before: usize, after: usize) {
        if after >= before {
            self.0.observers.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.0.observers.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Also delivers future changes to this mailbox.
    pub(crate) fn attach(&self, mailbox: &Arc<Mailbox>) {
        let mut mailboxes = locked(&self.0.mailboxes);
        mailboxes.retain(|other| other.strong_count() > 0);
        if !mailboxes.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(mailbox))) {
            mailboxes.push(Arc::downgrade(mailbox));
        }
    }

    fn change(&self, change: impl Fn(&mut Changes)) {
        for mailbox in locked(&self.0.mailboxes).iter().filter_map(Weak::upgrade) {
            change(locked(&mailbox.changes).entry(self.0.id).or_default());
            mailbox.some.notify();
        }
    }
}

/// Changes that a server has not processed yet, merged per notifier.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    changes: Mutex<HashMap<u64, Changes>>,
    some: NotifyOne,
}

impl Mailbox {
    /// Waits until the mailbox may hold changes.
    pub(crate) async fn some(&self) {
        self.some.notified().await;
    }

    pub(crate) fn take(&self) -> HashMap<u64, Changes> {
        std::mem::take(&mut *locked(&self.changes))
    }
}

/// Pending actions for the observers of a notifier, in this order.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Forget the present observers.
    pub(crate) dismiss: bool,
    /// Send them this response.
    pub(crate) send: Option<Response>,
    pub(crate) ask: Ask,
}

/// The handlers to run for the new state.
#[derive(Debug, Default)]
pub(crate) enum Ask {
    #[default]
    None,
    Paths(BTreeSet<String>),
    All,
}

/// Maximum number of paths; beyond it all handlers run. Bounds the memory of rapid changes.
const MAX_PATHS: usize = 1024;

impl Changes {
    fn none(dismiss: bool) -> Self {
        Self { dismiss, ..Self::default() }
    }

    /// The handlers' responses supersede the one to be sent.
    fn ask_all(&mut self) {
        self.send = None;
        self.ask = Ask::All;
    }

    fn ask(&mut self, path: &str) {
        match &mut self.ask {
            Ask::All => {}
            Ask::Paths(paths) if paths.len() >= MAX_PATHS => self.ask = Ask::All,
            Ask::Paths(paths) => drop(paths.insert(path.to_owned())),
            Ask::None => self.ask = Ask::Paths(BTreeSet::from([path.to_owned()])),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use conche_proto::codec::Code;

    use super::*;

    /// Returns the pending changes after these calls.
    fn left(calls: impl FnOnce(&Notifier)) -> Changes {
        let (notifier, mailbox) = (Notifier::new(), Arc::new(Mailbox::default()));
        notifier.attach(&mailbox);
        notifier.attach(&mailbox);
        calls(&notifier);
        let mut changes = mailbox.take();
        assert_eq!(changes.len(), 1);
        changes.remove(&notifier.id()).expect("something is left to do")
    }

    #[test]
    fn what_is_told_in_a_hurry_is_done_once_and_the_last_word_counts() {
        let text = |text: &str| Response::new(Code::CONTENT).text(text);
        let asked = left(|notifier| {
            notifier.send(text("old"));
            notifier.notify();
            notifier.notify_path("/a");
        });
        assert!(asked.send.is_none() && matches!(asked.ask, Ask::All) && !asked.dismiss, "{asked:?}");
        let sent = left(|notifier| {
            notifier.notify();
            notifier.send(text("old"));
            notifier.send(text("new"));
        });
        assert_eq!(sent.send.as_ref().map(Response::payload_bytes), Some(&b"new"[..]));
        assert!(matches!(sent.ask, Ask::None), "{sent:?}");
        let dismissed = left(|notifier| {
            notifier.notify();
            notifier.dismiss();
        });
        assert!(dismissed.dismiss && dismissed.send.is_none() && matches!(dismissed.ask, Ask::None), "{dismissed:?}");
    }

    #[test]
    fn paths_are_told_apart_up_to_a_number() {
        let few = left(|notifier| ["/b", "/a", "/b"].into_iter().for_each(|path| notifier.notify_path(path)));
        assert!(matches!(&few.ask, Ask::Paths(paths) if paths.iter().eq(["/a", "/b"])), "{few:?}");
        let many = left(|notifier| (0..=MAX_PATHS).for_each(|path| notifier.notify_path(&format!("/{path}"))));
        assert!(matches!(many.ask, Ask::All), "{many:?}");
    }
}
