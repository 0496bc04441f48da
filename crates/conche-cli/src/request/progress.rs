//! What to say on standard error while nothing comes back: a silent minute looks like a program that hangs.
//!
//! The client tells of an exchange by `tracing` events; a [`Layer`] keeps what they say last, and [`Progress::tell`] puts
//! it into words once the user has waited for some seconds, each state once.

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

/// How long a state lasts before it is told. Most exchanges are over by then.
const PATIENCE: Duration = Duration::from_secs(3);

/// After which a transfer is told of that is still under way.
const LONG: Duration = Duration::from_secs(2);

/// How often it is looked at.
const STEP: Duration = Duration::from_millis(500);

/// What is known of the exchange that is under way.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Course>>);

#[derive(Clone, Copy, Debug, Default)]
struct Course {
    state: State,
    /// When the first copy left.
    sent: Option<Instant>,
    /// When it came to be in this state.
    since: Option<Instant>,
    transfer: Option<Transfer>,
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// What is waited for.
    Waiting(String),
    /// How far a body is that goes block by block.
    Transferring(Transfer),
}

/// What the user waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The first copy's departure: for the resolver, or for its turn.
    #[default]
    Queued,
    /// An acknowledgement or response.
    Sent,
    /// The response.
    Acknowledged { after: Duration },
    /// An acknowledgement or response, although an ICMP error says that there will be none.
    Unreachable,
}

impl Progress {
    /// Never ends; says what the state is when it has lasted for [`PATIENCE`], and of a transfer how far it is.
    pub async fn tell(&self, limit: Limit, mut say: impl FnMut(Told)) -> Infallible {
        let start = Instant::now();
        let mut told = None;
        loop {
            sleep(STEP).await;
            let Course { state, since, transfer, .. } = self.course();
            let is_long = since.unwrap_or(start).elapsed() >= PATIENCE;
            // The limit is that of one message: a transfer has a new one with each block.
            if let Some(transfer) = transfer {
                if start.elapsed() >= LONG {
                    say(Told::Transferring(transfer));
                }
            } else if is_long && told.replace(state) != Some(state) {
                say(Told::Waiting(format!("{state} ({limit})")));
            }
        }
    }

    fn course(&self) -> Course {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a datagram.
    fn see(&self, sent: bool, datagram: &[u8]) {
        let mut course = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        course.transfer = Transfer::after(course.transfer, sent, datagram);
    }

    /// Takes in an event of the client.
    fn hear(&self, message: &str, now: Instant) {
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

/// How long the user may have to wait at most.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// What the user asked for.
    pub asked: Option<Duration>,
    /// What the protocol allows.
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
            self.0.hear(&format!("{value:?}"), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep_until;

    use super::super::transfer::Direction;
    use super::*;

    const LIMIT: Limit = Limit { asked: None, protocol: Duration::from_secs(247) };

    /// What is told within ten seconds if these messages come at these times.
    async fn told(messages: &[(u64, &str)]) -> Vec<String> {
        let told = told_of(Progress::default(), messages).await.into_iter().map(|told| match told {
            Told::Waiting(line) => line,
            Told::Transferring(transfer) => format!("{transfer:?}"),
        });
        told.collect()
    }

    async fn told_of(progress: Progress, messages: &[(u64, &str)]) -> Vec<Told> {
        let mut told = Vec::new();
        let start = Instant::now();
        let listen = async {
            for (at, message) in messages {
                sleep_until(start + Duration::from_millis(*at)).await;
                progress.hear(message, Instant::now());
            }
            sleep_until(start + Duration::from_secs(10)).await;
        };
        tokio::select! {
            never = progress.tell(LIMIT, |what| told.push(what)) => match never {},
            () = listen => {}
        }
        told
    }

    const ACKNOWLEDGED: &str = "acknowledged; the response follows";

    #[tokio::test(start_paused = true)]
    async fn each_state_is_told_once_when_it_has_lasted() {
        let lines = told(&[(0, "sent"), (2000, "retransmitted"), (4000, ACKNOWLEDGED), (4001, ACKNOWLEDGED)]).await;
        let expected = [
            "sent; waiting for an acknowledgement or the response (up to 247s; -B limits it)",
            "acknowledged after 4.0s; waiting for the response (up to 247s; -B limits it)",
        ];
        assert_eq!(lines, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn states_that_pass_soon_are_not_told() {
        let lines = told(&[(0, "sent"), (12, ACKNOWLEDGED)]).await;
        assert_eq!(lines, ["acknowledged after 12.0ms; waiting for the response (up to 247s; -B limits it)"]);
        assert_eq!(
            told(&[]).await,
            ["not sent yet: waiting for the name's address or for its turn (up to 247s; -B limits it)"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_is_told_of_after_two_seconds_instead_of_the_limit_of_one_message() {
        let progress = Progress::default();
        // 2.05 with the first of several blocks of 16 bytes.
        progress.see(false, b"\x60\x45\x00\x01\xd1\x0a\x08\xff0123456789abcdef");
        let transfer = Transfer { direction: Direction::In, done: 16, total: None };
        let told = told_of(progress, &[(0, "sent")]).await;
        // Of ten seconds all but the first two, each half second.
        assert!(told.iter().all(|told| *told == Told::Transferring(transfer)), "{told:?}");
        assert!((16..=17).contains(&told.len()), "{}", told.len());
    }

    #[test]
    fn the_limit_that_comes_first_is_told() {
        let limit = |seconds| Limit { asked: Some(Duration::from_secs(seconds)), ..LIMIT }.to_string();
        assert_eq!(limit(10), "at most 10s in all");
        assert_eq!(limit(1000), "up to 247s; -B limits it");
    }
}
