//! Progress messages on standard error while a request has no response, so that the program does
//! not seem to hang.
//!
//! The client reports an exchange by `tracing` events. A [`Layer`] keeps the latest state, and
//! [`Progress::run`] prints each state once, after the user has waited for a few seconds.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::transfer::Transfer;
use crate::trace::{self, Traced};

/// Minimum duration of a state before it is printed. Most exchanges end sooner.
const STATE_INTERVAL: Duration = Duration::from_secs(3);

/// Minimum duration of a transfer before its progress is shown.
const LONG: Duration = Duration::from_secs(2);

const STEP: Duration = Duration::from_millis(500);

/// The state of the open exchange.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Course>>);

#[derive(Clone, Copy, Debug, Default)]
struct Course {
    state: State,
    sent: Option<Instant>,
    since: Option<Instant>,
    transfer: Option<Transfer>,
}

/// A progress message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressMessage {
    /// State that lasts.
    Waiting(String),
    /// Progress of a block-wise transfer.
    Transferring(Transfer),
}

/// The event that the exchange waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The first transmission: the name is being resolved, or the request is queued.
    #[default]
    Queued,
    /// An acknowledgement or response.
    Sent,
    /// The response.
    Acknowledged { after: Duration },
    /// An acknowledgement or response, although an ICMP error predicts none.
    Unreachable,
}

impl Progress {
    /// Prints each state that lasts for [`STATE_INTERVAL`], and the progress of transfers. Never
    /// returns.
    pub async fn run(&self, limit: Limit, mut say: impl FnMut(ProgressMessage)) -> Infallible {
        let start = Instant::now();
        let mut reported = None;
        loop {
            sleep(STEP).await;
            let Course { state, since, transfer, .. } = self.course();
            let is_long = since.unwrap_or(start).elapsed() >= STATE_INTERVAL;
            // The limit applies to one message; each block of a transfer has its own.
            if let Some(transfer) = transfer {
                if start.elapsed() >= LONG {
                    say(ProgressMessage::Transferring(transfer));
                }
            } else if is_long && reported.replace(state) != Some(state) {
                say(ProgressMessage::Waiting(format!("{state} ({limit})")));
            }
        }
    }

    fn course(&self) -> Course {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, sent: bool, datagram: &[u8]) {
        let mut course = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        course.transfer = Transfer::after(course.transfer, sent, datagram);
    }

    fn handle_message(&self, message: &str, now: Instant) {
        let mut course = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match message {
            "sent" => {
                course.sent = Some(now);
                State::Sent
            }
            "acknowledged; the response follows" => {
                State::Acknowledged { after: course.sent.map(|sent| now - sent).unwrap_or_default() }
            }
            "the network reports the peer unreachable" => State::Unreachable,
            _ => return,
        };
        if state != course.state {
            *course = Course { state, since: Some(now), ..*course };
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued => f.write_str("not sent yet: waiting for the name's address or for its turn"),
            Self::Sent => f.write_str("sent; waiting for an acknowledgement or the response"),
            Self::Acknowledged { after } => write!(f, "acknowledged after {after:.1?}; waiting for the response"),
            Self::Unreachable => f.write_str("the peer is reported unreachable; going on to retransmit"),
        }
    }
}

/// The maximum wait.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Limit from the command line.
    pub asked: Option<Duration>,
    /// Limit of the protocol.
    pub protocol: Duration,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.asked {
            Some(limit) if limit < self.protocol => write!(f, "at most {limit:?} in all"),
            _ => write!(f, "up to {:?}; -B limits it", self.protocol),
        }
    }
}

impl<S: Subscriber> Layer<S> for Progress {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == trace::TARGET {
            let Traced { sent, datagram, .. } = Traced::of(event);
            self.see(sent, &datagram);
        } else {
            event.record(&mut Listener(self));
        }
    }
}

/// Finds the message among an event's fields.
struct Listener<'a>(&'a Progress);

impl Visit for Listener<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.handle_message(&format!("{value:?}"), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep_until;

    use super::super::transfer::Direction;
    use super::*;

    const LIMIT: Limit = Limit { asked: None, protocol: Duration::from_secs(247) };

    /// Returns the messages printed within ten seconds if these events occur at these times.
    async fn reported(messages: &[(u64, &str)]) -> Vec<String> {
        let reported = messages_of(Progress::default(), messages).await.into_iter().map(|reported| match reported {
            ProgressMessage::Waiting(line) => line,
            ProgressMessage::Transferring(transfer) => format!("{transfer:?}"),
        });
        reported.collect()
    }

    async fn messages_of(progress: Progress, messages: &[(u64, &str)]) -> Vec<ProgressMessage> {
        let mut reported = Vec::new();
        let start = Instant::now();
        let listen = async {
            for (at, message) in messages {
                sleep_until(start + Duration::from_millis(*at)).await;
                progress.handle_message(message, Instant::now());
            }
            sleep_until(start + Duration::from_secs(10)).await;
        };
        tokio::select! {
            never = progress.run(LIMIT, |what| reported.push(what)) => match never {},
            () = listen => {}
        }
        reported
    }

    const ACKNOWLEDGED: &str = "acknowledged; the response follows";

    #[tokio::test(start_paused = true)]
    async fn each_state_is_told_once_when_it_has_lasted() {
        let lines = reported(&[(0, "sent"), (2000, "retransmitted"), (4000, ACKNOWLEDGED), (4001, ACKNOWLEDGED)]).await;
        let expected = [
            "sent; waiting for an acknowledgement or the response (up to 247s; -B limits it)",
            "acknowledged after 4.0s; waiting for the response (up to 247s; -B limits it)",
        ];
        assert_eq!(lines, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn states_that_pass_soon_are_not_told() {
        let lines = reported(&[(0, "sent"), (12, ACKNOWLEDGED)]).await;
        assert_eq!(lines, ["acknowledged after 12.0ms; waiting for the response (up to 247s; -B limits it)"]);
        assert_eq!(
            reported(&[]).await,
            ["not sent yet: waiting for the name's address or for its turn (up to 247s; -B limits it)"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_is_told_of_after_two_seconds_instead_of_the_limit_of_one_message() {
        let progress = Progress::default();
        // 2.05 with the first of several blocks of 16 bytes.
        progress.see(false, b"\x60\x45\x00\x01\xd1\x0a\x08\xff0123456789abcdef");
        let transfer = Transfer { direction: Direction::In, done: 16, total: None };
        let reported = messages_of(progress, &[(0, "sent")]).await;
        // Every half second of the ten seconds except the first two.
        assert!(reported.iter().all(|reported| *reported == ProgressMessage::Transferring(transfer)), "{reported:?}");
        assert!((16..=17).contains(&reported.len()), "{}", reported.len());
    }

    #[test]
    fn the_limit_that_comes_first_is_told() {
        let limit = |seconds| Limit { asked: Some(Duration::from_secs(seconds)), ..LIMIT }.to_string();
        assert_eq!(limit(10), "at most 10s in all");
        assert_eq!(limit(1000), "up to 247s; -B limits it");
    }
}
