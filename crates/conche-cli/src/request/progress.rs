//! Progress messages on standard error while a request has no response.
//!
//! A [`Layer`] takes the state of the exchange from `tracing` events, and [`Progress::run`] prints
//! each state that lasts.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conche::codec::Message;
use conche::{EndpointConfig, OptionNumber};
use indicatif::{BinaryBytes, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use tokio::time::{Instant, sleep};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::trace::{self, TracedDatagram};

/// Most exchanges end sooner.
const STATE_INTERVAL: Duration = Duration::from_secs(3);

/// Unless the transfer goes to a file.
const LONG: Duration = Duration::from_secs(2);

const STEP: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<ExchangeState>>);

#[derive(Clone, Copy, Debug, Default)]
struct ExchangeState {
    state: State,
    sent: Option<Instant>,
    since: Option<Instant>,
    transfer: Option<Transfer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressMessage {
    Waiting(String),
    Transferring(Transfer),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Queued,
    /// Acknowledgement or response.
    Sent,
    /// Response.
    Acknowledged {
        after: Duration,
    },
    Unreachable,
}

impl Progress {
    pub async fn run(&self, limit: Limit, mut print: impl FnMut(ProgressMessage)) -> Infallible {
        let start = Instant::now();
        let mut reported = None;
        loop {
            sleep(STEP).await;
            let ExchangeState { state, since, transfer, .. } = self.exchange();
            let is_long = since.unwrap_or(start).elapsed() >= STATE_INTERVAL;
            // The limit applies to one message.
            if let Some(transfer) = transfer {
                if start.elapsed() >= limit.bar_after {
                    print(ProgressMessage::Transferring(transfer));
                }
            } else if is_long && reported.replace(state) != Some(state) {
                print(ProgressMessage::Waiting(format!("{state} ({limit})")));
            }
        }
    }

    fn exchange(&self) -> ExchangeState {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_datagram(&self, sent: bool, datagram: &[u8]) {
        let mut exchange = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.transfer = Transfer::after(exchange.transfer, sent, datagram);
    }

    fn handle_message(&self, message: &str, now: Instant) {
        let mut exchange = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match message {
            "sent" => {
                exchange.sent = Some(now);
                State::Sent
            }
            "acknowledged; the response follows" => {
                State::Acknowledged { after: exchange.sent.map(|sent| now - sent).unwrap_or_default() }
            }
            "the network reports the peer unreachable" => State::Unreachable,
            _ => return,
        };
        if state != exchange.state {
            *exchange = ExchangeState { state, since: Some(now), ..*exchange };
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

#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub asked: Option<Duration>,
    pub protocol: Duration,
    pub bar_after: Duration,
}

impl Limit {
    /// A transfer `to_file` shows its progress at once.
    pub fn of(asked: Option<Duration>, to_file: bool) -> Self {
        let protocol = EndpointConfig::default().transmission.exchange_lifetime();
        Self { asked, protocol, bar_after: if to_file { Duration::ZERO } else { LONG } }
    }
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
            let TracedDatagram { sent, datagram, .. } = TracedDatagram::of(event);
            self.record_datagram(sent, &datagram);
        } else {
            event.record(&mut MessageField(self));
        }
    }
}

struct MessageField<'a>(&'a Progress);

impl Visit for MessageField<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.handle_message(&format!("{value:?}"), Instant::now());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub direction: Direction,
    /// Bytes sent or received.
    pub done: u64,
    /// Total bytes, if known.
    pub total: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Out,
    In,
}

impl Transfer {
    pub fn after(before: Option<Self>, sent: bool, datagram: &[u8]) -> Option<Self> {
        let Ok(message) = Message::decode_extended(datagram) else { return before };
        let (direction, block, size) = match sent {
            true => (Direction::Out, OptionNumber::BLOCK1, OptionNumber::SIZE1),
            false => (Direction::In, OptionNumber::BLOCK2, OptionNumber::SIZE2),
        };
        let content = message.content();
        let Ok(Some(block)) = content.block(block) else { return before };
        let offset = u64::from(block.num) * u64::try_from(block.size.bytes()).unwrap_or_default();
        let done = offset + u64::try_from(message.payload().len()).unwrap_or_default();
        let known = before.filter(|before| before.direction == direction).and_then(|before| before.total);
        let total = if block.more { content.uint(size).map(u64::from).or(known) } else { Some(done) };
        // A retransmission does not reduce the progress.
        let furthest = before.filter(|before| before.direction == direction).map_or(0, |before| before.done);
        Some(Self { direction, done: done.max(furthest), total })
    }
}

/// A progress bar, if standard error is a terminal.
#[derive(Debug, Default)]
pub struct Bar(Option<VisibleBar>);

#[derive(Debug)]
struct VisibleBar {
    bar: ProgressBar,
    since: Instant,
    before: u64,
}

impl Bar {
    pub fn show(&mut self, Transfer { direction, done, total }: Transfer) {
        let VisibleBar { bar, since, before } = self.0.get_or_insert_with(|| VisibleBar {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
                .with_finish(ProgressFinish::AndClear),
            since: Instant::now(),
            before: done,
        });
        let template = match total {
            Some(_) => "{prefix} {bytes} of {total_bytes} [{bar:30}] {msg}",
            None => "{prefix} {bytes} {msg}",
        };
        match total {
            Some(total) => bar.set_length(total),
            None => bar.unset_length(),
        }
        bar.set_position(done);
        bar.set_prefix(match direction {
            Direction::Out => "sending",
            Direction::In => "receiving",
        });
        let millis = since.elapsed().as_millis();
        let rate = (u128::from(done.saturating_sub(*before)) * 1000).checked_div(millis);
        if let Some(rate) = rate.filter(|&rate| rate > 0) {
            bar.set_message(format!("{}/s", BinaryBytes(rate.try_into().unwrap_or(u64::MAX))));
        }
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.tick();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep_until;

    use super::*;

    const LIMIT: Limit = Limit { asked: None, protocol: Duration::from_secs(247), bar_after: LONG };

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
    async fn each_lasting_state_is_reported_once() {
        let lines = reported(&[(0, "sent"), (2000, "retransmitted"), (4000, ACKNOWLEDGED), (4001, ACKNOWLEDGED)]).await;
        let expected = [
            "sent; waiting for an acknowledgement or the response (up to 247s; -B limits it)",
            "acknowledged after 4.0s; waiting for the response (up to 247s; -B limits it)",
        ];
        assert_eq!(lines, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn short_states_are_not_reported() {
        let lines = reported(&[(0, "sent"), (12, ACKNOWLEDGED)]).await;
        assert_eq!(lines, ["acknowledged after 12.0ms; waiting for the response (up to 247s; -B limits it)"]);
        assert_eq!(
            reported(&[]).await,
            ["not sent yet: waiting for the name's address or for its turn (up to 247s; -B limits it)"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_is_reported_after_two_seconds_in_place_of_the_limit() {
        let progress = Progress::default();
        // 2.05 with the first of several blocks of 16 bytes.
        progress.record_datagram(false, b"\x60\x45\x00\x01\xd1\x0a\x08\xff0123456789abcdef");
        let transfer = Transfer { direction: Direction::In, done: 16, total: None };
        let reported = messages_of(progress, &[(0, "sent")]).await;
        assert!(reported.iter().all(|reported| *reported == ProgressMessage::Transferring(transfer)), "{reported:?}");
        assert!((16..=17).contains(&reported.len()), "{}", reported.len());
    }

    #[test]
    fn the_earlier_limit_is_reported() {
        let limit = |seconds| Limit { asked: Some(Duration::from_secs(seconds)), ..LIMIT }.to_string();
        assert_eq!(limit(10), "at most 10s in all");
        assert_eq!(limit(1000), "up to 247s; -B limits it");
    }

    fn block(sent: bool, num: u8, more: bool) -> Vec<u8> {
        let value = num << 4 | u8::from(more) << 3;
        let head = match sent {
            true => vec![0x40, 3, 0, num, 0xd1, 27 - 13, value, 0xd1, 60 - 27 - 13, 100],
            false => vec![0x60, 0x45, 0, num, 0xd1, 23 - 13, value],
        };
        [head, vec![0xff], vec![0; if more { 16 } else { 4 }]].concat()
    }

    #[test]
    fn blocks_tell_how_much_has_gone_each_way() {
        let mut transfer = None;
        for (sent, num, more, direction, done, total) in [
            (true, 0, true, Direction::Out, 16, Some(100)),
            (true, 2, true, Direction::Out, 48, Some(100)),
            (true, 1, true, Direction::Out, 48, Some(100)),
            (true, 6, false, Direction::Out, 100, Some(100)),
            (false, 0, true, Direction::In, 16, None),
            (false, 1, false, Direction::In, 20, Some(20)),
        ] {
            transfer = Transfer::after(transfer, sent, &block(sent, num, more));
            assert_eq!(transfer, Some(Transfer { direction, done, total }));
        }
    }

    #[test]
    fn a_datagram_without_a_block_does_not_change_the_progress() {
        assert_eq!(Transfer::after(None, true, b"\x40\x01\x00\x01\xb4test"), None);
        assert_eq!(Transfer::after(None, false, b"nonsense"), None);
    }
}
