//! [`Notifier`]: tells observers of a resource that it has changed (RFC 7641).

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Response;
use crate::bell::Bell;

/// Tells those who observe a resource that it has changed (RFC 7641). A [`Resource`](super::Resource) is observed by clients
/// once it is [`observed_by`](super::Resource::observed_by) a notifier; who changes what the resource shows keeps a clone,
/// as in the state of its router.
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
/// # What a change costs
///
/// The handler of GET or FETCH runs once for all observers of the same path, query, Accept and
/// payload. Its answer is encoded once, and each observer is sent it when the path to it has room,
/// under congestion control; a slow observer misses states that are out of date, and gets the last
/// one. Changes in a hurry run the handler again only when it has ended. Handlers run a few at a
/// time, and requests are served in between. One prefix of clients opens at most half of
/// [`Limits::topics`](crate::Limits::topics); registrations beyond are answered without Observe.
///
/// [`Peer`](super::Peer) is then one of those who observe, and conditions and ETags of requests are left out. There is no
/// [`Identity`](crate::security::Identity): who may observe is decided when a client registers, and
/// [`Request::is_for_observers`](super::Request::is_for_observers) tells a layer that this has been done. An answer that is an error is the
/// last notification: it ends the observations.
///
/// The methods return at once, and may be called from anywhere, in handlers of the resource, too.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u64,
    observers: AtomicUsize,
    /// Of the servers that have resources with it.
    mailboxes: Mutex<Vec<Weak<Mailbox>>>,
}

impl Default for Shared {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), observers: AtomicUsize::new(0), mailboxes: Mutex::default() }
    }
}

impl Notifier {
    /// A notifier of no resource yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What this notifies of has changed: the handlers run, and what they answer is sent to all observers.
    pub fn notify(&self) {
        self.change(Changes::ask_all);
    }

    /// The same for the resource with this path, where one notifier is for a route with captures. The path is written as in
    /// a URI: percent-encoded where necessary, and without a query.
    pub fn notify_path(&self, path: &str) {
        self.change(|changes| changes.ask(path));
    }

    /// All observers are sent this response, whatever they asked for, and no handler runs. An error is the last that they
    /// hear: it ends the observations.
    pub fn send(&self, response: Response) {
        self.change(|changes| *changes = Changes { send: Some(response.clone()), ..Changes::none(changes.dismiss) });
    }

    /// Forgets all observers, without a word to them, as a restart would. They may find out when nothing has come for
    /// longer than the last Max-Age, and register again.
    pub fn dismiss(&self) {
        self.change(|changes| *changes = Changes::none(true));
    }

    /// How many observe what this notifies of.
    #[must_use]
    pub fn observers(&self) -> usize {
        self.0.observers.load(Ordering::Relaxed)
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// There were so many observers of something, and now there are so many.
    pub(crate) fn count(&self, before: usize, after: usize) {
        if after >= before {
            self.0.observers.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.0.observers.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// From now on changes are put into this mailbox, too.
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
            mailbox.some.ring();
        }
    }
}

/// What notifiers have told a server that it has not looked at yet: for each of them no more than what is still to be done.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    changes: Mutex<HashMap<u64, Changes>>,
    some: Bell,
}

impl Mailbox {
    /// Waits until there may be something.
    pub(crate) async fn some(&self) {
        self.some.rung().await;
    }

    pub(crate) fn take(&self) -> HashMap<u64, Changes> {
        std::mem::take(&mut *locked(&self.changes))
    }
}

/// What is to be done for the observers of a notifier, in this order.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Forget those that there were.
    pub(crate) dismiss: bool,
    /// Tell them this.
    pub(crate) send: Option<Response>,
    pub(crate) ask: Ask,
}

/// Which handlers are to be asked for the new state.
#[derive(Debug, Default)]
pub(crate) enum Ask {
    #[default]
    None,
    Paths(BTreeSet<String>),
    All,
}

/// Beyond so many paths all are asked: what a program tells in a hurry must not fill the memory.
const MOST_PATHS: usize = 1024;

impl Changes {
    fn none(dismiss: bool) -> Self {
        Self { dismiss, ..Self::default() }
    }

    /// The answers come after what was to be sent, and supersede it.
    fn ask_all(&mut self) {
        self.send = None;
        self.ask = Ask::All;
    }

    fn ask(&mut self, path: &str) {
        match &mut self.ask {
            Ask::All => {}
            Ask::Paths(paths) if paths.len() >= MOST_PATHS => self.ask = Ask::All,
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

    /// What is left to do after these calls.
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
        let many = left(|notifier| (0..=MOST_PATHS).for_each(|path| notifier.notify_path(&format!("/{path}"))));
        assert!(matches!(many.ask, Ask::All), "{many:?}");
    }
}
