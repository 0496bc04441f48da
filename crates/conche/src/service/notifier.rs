//! [`Notifier`]: notifies observers (RFC 7641).

use std::sync::Arc;

use super::Response;
use crate::driver::{Changes, Observable};

/// Notifies a resource's observers of changes (RFC 7641).
/// [`observed_by`](super::Resource::observed_by) makes a [`Resource`](super::Resource) observable;
/// its writer keeps a clone of the notifier.
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
/// permits; a slow observer skips outdated states. Changes while the handler runs cause one more
/// run. Clients of one prefix hold at most half of [`Limits::topics`](crate::Limits::topics);
/// further registrations are answered without Observe.
///
/// The handler's [`Peer`](super::Peer) is one of the observers, without conditions, ETags and
/// [`Identity`](crate::security::Identity): authorization happens at registration, and
/// [`Request::is_for_observers`](super::Request::is_for_observers) identifies such a run. An error
/// response is the last notification.
///
/// The methods return at once.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Arc<Observable<Response>>);

impl Notifier {
    /// Returns a notifier without a resource.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports a change: the handlers run, and all observers receive their responses.
    pub fn notify(&self) {
        self.0.change(Changes::call_for_all);
    }

    /// Reports a change at this percent-encoded path without a query, for a route with captures.
    pub fn notify_path(&self, path: &str) {
        self.0.change(|changes| changes.call_for(path));
    }

    /// Sends this response to all observers instead of running a handler. An error ends the
    /// observations.
    pub fn send(&self, response: Response) {
        self.0.change(|changes| changes.send(response.clone()));
    }

    /// Forgets all observers without a message. They register again when nothing arrives for longer
    /// than the last Max-Age.
    pub fn dismiss(&self) {
        self.0.change(Changes::dismiss);
    }

    #[must_use]
    /// Returns the number of observers.
    pub fn observers(&self) -> usize {
        self.0.observers()
    }

    pub(in crate::service) fn observable(&self) -> &Arc<Observable<Response>> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use conche_proto::codec::Code;

    use super::*;
    use crate::driver::{Calls, MAX_PATHS, Mailbox};

    fn left(calls: impl FnOnce(&Notifier)) -> Changes<Response> {
        let (notifier, mailbox) = (Notifier::new(), Arc::new(Mailbox::default()));
        notifier.0.attach(&mailbox);
        notifier.0.attach(&mailbox);
        calls(&notifier);
        let mut changes = mailbox.take();
        assert_eq!(changes.len(), 1);
        changes.remove(&notifier.0.id()).expect("something is left to do")
    }

    #[test]
    fn pending_notifier_commands_are_merged_and_the_last_one_wins() {
        let text = |text: &str| Response::new(Code::CONTENT).text(text);
        let asked = left(|notifier| {
            notifier.send(text("old"));
            notifier.notify();
            notifier.notify_path("/a");
        });
        assert!(asked.send.is_none() && matches!(asked.call, Calls::All) && !asked.dismiss, "{asked:?}");
        let sent = left(|notifier| {
            notifier.notify();
            notifier.send(text("old"));
            notifier.send(text("new"));
        });
        assert_eq!(sent.send.as_ref().map(Response::payload_bytes), Some(&b"new"[..]));
        assert!(matches!(sent.call, Calls::None), "{sent:?}");
        let dismissed = left(|notifier| {
            notifier.notify();
            notifier.dismiss();
        });
        assert!(
            dismissed.dismiss && dismissed.send.is_none() && matches!(dismissed.call, Calls::None),
            "{dismissed:?}"
        );
    }

    #[test]
    fn notified_paths_are_kept_apart_up_to_a_limit() {
        let few = left(|notifier| ["/b", "/a", "/b"].into_iter().for_each(|path| notifier.notify_path(path)));
        assert!(matches!(&few.call, Calls::Paths(paths) if paths.iter().eq(["/a", "/b"])), "{few:?}");
        let many = left(|notifier| (0..=MAX_PATHS).for_each(|path| notifier.notify_path(&format!("/{path}"))));
        assert!(matches!(many.call, Calls::All), "{many:?}");
    }
}
