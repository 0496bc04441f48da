//! Observable demonstration resources (RFC 7641), which change periodically.
//!
//! | resource | what it does | test cases |
//! |---|---|---|
//! | `/obs` | changes every 5 s and by PUT, gone after DELETE; Confirmable | OBS 01, 04-10 |
//! | `/obs-non` | as `/obs`, with Non-confirmable notifications | OBS 02, 03 |
//! | `/obs-large` | exceeds a message | BLOCK 06, OBS 11-13 |
//! | `/obs-reset` | POST removes all observers, as a restart would | OBS 04 |
//! | `/obs-pumping` | changes 20 times per second, too often for most paths | OBS 14, 15 |

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use conche::server::{Notifier, Request, Resource, Response, Router, State, get};
use conche::{Code, ContentFormat, Reliability};

/// Period of most resources.
const CHANGE: Duration = Duration::from_secs(5);

const PUMPING: Duration = Duration::from_millis(50);

/// More than one block of 1024 bytes.
const FILLER: &str = "A state that does not fit into a message comes in blocks. ";

/// Must be called within a runtime.
pub fn router() -> Router {
    let resource = |path: &str, shown: ObservedKind, period: Duration| {
        let changing = Arc::new(ObservedResource { shown, notifier: Notifier::new(), content: Mutex::default() });
        tokio::spawn(keep_changing(Arc::downgrade(&changing), period));
        let resource: Resource<Arc<ObservedResource>> = match shown {
            ObservedKind::Resettable => get(read).post(reset),
            ObservedKind::Confirmable | ObservedKind::NonConfirmable => get(read).put(write).delete(remove),
            ObservedKind::Large | ObservedKind::Pumping => get(read),
        };
        (path.to_owned(), resource.observed_by(&changing.notifier).with_state(changing))
    };
    [
        resource("/obs", ObservedKind::Confirmable, CHANGE),
        resource("/obs-non", ObservedKind::NonConfirmable, CHANGE),
        resource("/obs-large", ObservedKind::Large, CHANGE),
        resource("/obs-reset", ObservedKind::Resettable, CHANGE),
        resource("/obs-pumping", ObservedKind::Pumping, PUMPING),
    ]
    .into_iter()
    .fold(Router::new(), |router, (path, resource)| router.route(&path, resource))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservedKind {
    Confirmable,
    NonConfirmable,
    Large,
    Resettable,
    Pumping,
}

#[derive(Debug)]
struct ObservedResource {
    shown: ObservedKind,
    notifier: Notifier,
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    changes: u64,
    /// A PUT lasts until the next periodic change.
    written: Option<WrittenContent>,
}

#[derive(Debug)]
enum WrittenContent {
    Document(ContentFormat, Vec<u8>),
    Removed,
}

impl ObservedResource {
    fn locked(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes the resource periodically while a server holds it.
async fn keep_changing(changing: Weak<ObservedResource>, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let Some(changing) = changing.upgrade() else { return };
        {
            let mut content = changing.locked();
            // A removed resource stays removed until a client writes it.
            if matches!(content.written, Some(WrittenContent::Removed)) {
                continue;
            }
            *content = Content { changes: content.changes + 1, written: None };
        }
        changing.notifier.notify();
    }
}

async fn read(State(changing): State<Arc<ObservedResource>>) -> Response {
    let content = changing.locked();
    let text = ContentFormat::TEXT_PLAIN;
    let (format, payload) = match &content.written {
        Some(WrittenContent::Removed) => return Response::new(Code::NOT_FOUND),
        Some(WrittenContent::Document(format, document)) => (*format, document.clone()),
        None if changing.shown == ObservedKind::Large => {
            (text, format!("{}\n{}", content.changes, FILLER.repeat(40)).into())
        }
        None => (text, content.changes.to_string().into()),
    };
    let reliability = match changing.shown {
        ObservedKind::Confirmable | ObservedKind::Large | ObservedKind::Resettable => Reliability::Confirmable,
        ObservedKind::NonConfirmable | ObservedKind::Pumping => Reliability::NonConfirmable,
    };
    Response::new(Code::CONTENT).payload(format, payload).max_age(CHANGE).reliability(reliability)
}

/// Another Content-Format ends all observations with 4.06 (RFC 7641 §4.2, TD_COAP_OBS_08).
async fn write(State(changing): State<Arc<ObservedResource>>, request: Request) -> Code {
    let format = request.content_format().unwrap_or(ContentFormat::TEXT_PLAIN);
    let written = WrittenContent::Document(format, request.payload().to_vec());
    let before = changing.locked().written.replace(written);
    changing.notifier.notify();
    if matches!(before, Some(WrittenContent::Removed)) { Code::CREATED } else { Code::CHANGED }
}

/// Ends all observations with 4.04 (RFC 7641 §4.2, TD_COAP_OBS_07).
async fn remove(State(changing): State<Arc<ObservedResource>>) -> Code {
    changing.locked().written = Some(WrittenContent::Removed);
    changing.notifier.notify();
    Code::DELETED
}

async fn reset(State(changing): State<Arc<ObservedResource>>) -> Code {
    changing.notifier.dismiss();
    Code::CHANGED
}

#[cfg(test)]
mod tests {
    use conche::{Client, Server};

    use super::*;

    // TD_COAP_OBS_01, 07, 09
    #[tokio::test(start_paused = true)]
    async fn observers_are_notified_of_changes_by_time_put_and_delete() {
        let server = Server::builder().router(router()).bind("127.0.0.1:0").await.expect("it starts");
        let uri = format!("coap://{}/obs", server.local_addr());
        let client = Client::new();
        let mut observation = client.observe(&uri);
        for expected in ["0", "1", "2"] {
            let state = observation.next().await.expect("it goes on").expect("a state");
            assert_eq!(state.text(), Ok(expected));
        }
        client.put(&uri).payload(ContentFormat::TEXT_PLAIN, "mine").await.expect("a response");
        let state = observation.next().await.expect("it goes on").expect("a state");
        assert_eq!(state.text(), Ok("mine"));
        client.delete(&uri).await.expect("a response");
        let state = observation.next().await.expect("it goes on").expect("a state");
        assert_eq!(state.code(), Code::NOT_FOUND);
        assert!(observation.next().await.is_none());
        tokio::time::sleep(2 * CHANGE).await;
        assert_eq!(client.get(&uri).await.expect("a response").code(), Code::NOT_FOUND, "it stays removed");
        let written = client.put(&uri).payload(ContentFormat::TEXT_PLAIN, "anew").await.expect("a response");
        assert_eq!(written.code(), Code::CREATED);
        assert_eq!(client.get(&uri).await.expect("a response").text(), Ok("anew"));
    }

    // TD_COAP_OBS_08
    #[tokio::test(start_paused = true)]
    async fn a_representation_in_another_format_ends_observations_with_4_06() {
        let server = Server::builder().router(router()).bind("127.0.0.1:0").await.expect("it starts");
        let uri = format!("coap://{}/obs", server.local_addr());
        let client = Client::new();
        let mut observation = client.observe(&uri);
        observation.next().await.expect("it goes on").expect("a state");
        client.put(&uri).payload(ContentFormat::CBOR, vec![0xa0]).await.expect("a response");
        let state = observation.next().await.expect("it goes on").expect("a state");
        assert_eq!(state.code(), Code::NOT_ACCEPTABLE);
        assert!(observation.next().await.is_none());
        let read = client.get(&uri).await.expect("a response");
        assert_eq!((read.code(), read.content_format()), (Code::CONTENT, Some(ContentFormat::CBOR)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_state_comes_whole_and_a_reset_one_comes_again() {
        let server = Server::builder().router(router()).bind("127.0.0.1:0").await.expect("it starts");
        let client = Client::new();
        let mut large = client.observe(format!("coap://{}/obs-large", server.local_addr()));
        for _ in 0..2 {
            let state = large.next().await.expect("it goes on").expect("a state");
            assert!(state.payload().len() > 2000, "{} bytes", state.payload().len());
        }
        let uri = format!("coap://{}/obs-reset", server.local_addr());
        let mut observation = client.observe(&uri);
        observation.next().await.expect("it goes on").expect("a state");
        client.post(&uri).await.expect("a response").successful().expect("it may be reset");
        observation.next().await.expect("it goes on").expect("it registers again");
    }
}
