//! `-v`: path state, and every message sent and received, as text on standard error.
//!
//! ```text
//! * known of the path to 127.0.0.1:5683, 12 s ago: a round trip takes 1.204ms ± 310µs, …
//! > 0.001 s  CON GET [0x3a4b] token 8f21a09c to 127.0.0.1:5683, 21 bytes
//! >   Uri-Path: "test"
//! < 0.002 s  ACK 2.05 Content [0x3a4b] token 8f21a09c from 127.0.0.1:5683, 25 bytes
//! <   Content-Format: 0 (text/plain; charset=utf-8)
//! <   payload: "hello" (5 bytes)
//! ```

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use conche::codec::{Message, Type};
use conche::{Code, OptionNumber};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::show::{escape, option_value, payload_summary};

/// Maximum number of path segments in a line.
const MOST_SEGMENTS: usize = 8;

/// Target of message events.
pub const TARGET: &str = "conche::message";

/// Target of events with the path state before the first message.
pub const PATHS: &str = "conche::path";

/// Target of events with ICMP errors.
pub const UNREACHABLE: &str = "conche::unreachable";

static UNREACHABLE_KIND: Mutex<Option<io::ErrorKind>> = Mutex::new(None);

/// Returns the kind of the last ICMP error, if the operating system reports it.
pub fn unreachable_kind() -> Option<io::ErrorKind> {
    *UNREACHABLE_KIND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the kind of ICMP errors.
#[derive(Debug)]
pub struct UnreachableKind;

impl<S: Subscriber> Layer<S> for UnreachableKind {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut KindField);
    }
}

struct KindField;

impl Visit for KindField {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "kind" {
            return;
        }
        use io::ErrorKind as Kind;
        let text = format!("{value:?}");
        let known = [Kind::ConnectionRefused, Kind::HostUnreachable, Kind::NetworkUnreachable, Kind::PermissionDenied];
        *UNREACHABLE_KIND.lock().unwrap_or_else(PoisonError::into_inner) =
            known.into_iter().find(|kind| kind.to_string() == text);
    }
}

#[derive(Debug)]
pub struct Trace {
    start: Instant,
}

impl Trace {
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl<S: Subscriber> Layer<S> for Trace {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let text = match event.metadata().target() {
            PATHS => PathState::of(event).describe(),
            _ => TracedDatagram::of(event).describe(self.start.elapsed()),
        };
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

#[derive(Debug, Default)]
struct PathState {
    peer: String,
    srtt: String,
    rttvar: String,
    copies: f64,
    age_s: u64,
}

impl Visit for PathState {
    fn record_f64(&mut self, _: &Field, value: f64) {
        self.copies = value;
    }

    fn record_u64(&mut self, _: &Field, value: u64) {
        self.age_s = value;
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = match field.name() {
            "peer" => &mut self.peer,
            "srtt" => &mut self.srtt,
            "rttvar" => &mut self.rttvar,
            _ => return,
        };
        *text = format!("{value:?}");
    }
}

impl PathState {
    fn of(event: &Event<'_>) -> Self {
        let mut state = Self::default();
        event.record(&mut state);
        state
    }

    fn describe(&self) -> String {
        let Self { peer, srtt, rttvar, copies, age_s } = self;
        format!(
            "* known of the path to {peer}, {age_s} s ago: a round trip takes {srtt} ± {rttvar}, with {copies:.2} copies beyond the first\n"
        )
    }
}

#[derive(Debug, Default)]
pub struct TracedDatagram {
    pub sent: bool,
    peer: String,
    attempt: u64,
    pub datagram: Vec<u8>,
}

impl Visit for TracedDatagram {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "attempt" {
            self.attempt = value;
        }
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        if field.name() == "datagram" {
            self.datagram = value.to_vec();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "peer" => self.peer = format!("{value:?}"),
            "message" => self.sent = format!("{value:?}") == "sent",
            _ => {}
        }
    }
}

impl TracedDatagram {
    pub fn of(event: &Event<'_>) -> Self {
        let mut traced = Self::default();
        event.record(&mut traced);
        traced
    }

    fn describe(&self, at: Duration) -> String {
        let (arrow, preposition) = if self.sent { ('>', "to") } else { ('<', "from") };
        let mut text = format!("{arrow} {:.3} s  ", at.as_secs_f64());
        let decoded = Message::decode_extended(&self.datagram);
        match &decoded {
            Ok(message) => text.push_str(&opening(message)),
            Err(_) => text.push_str("a malformed message"),
        }
        let length = self.datagram.len();
        // Writing to a String cannot fail.
        let _ = write!(text, " {preposition} {}, {length} byte{}", self.peer, if length == 1 { "" } else { "s" });
        if self.attempt > 0 {
            let _ = write!(text, ", retransmission {}", self.attempt);
        }
        text.push('\n');
        match &decoded {
            Ok(message) => {
                for option in message.options() {
                    let value = option_value(option.number, option.value);
                    let colon = if value.is_empty() { "" } else { ": " };
                    let _ = writeln!(text, "{arrow}   {}{colon}{value}", option.number);
                }
                if !message.payload().is_empty() {
                    let _ = writeln!(text, "{arrow}   payload: {}", payload_summary(message.payload()));
                }
            }
            Err(error) => {
                let _ = writeln!(text, "{arrow}   {error}");
                let _ = writeln!(text, "{arrow}   bytes: {}", payload_summary(&self.datagram));
            }
        }
        text
    }
}

/// Returns a datagram's type, code, message ID and path, as in `CON GET [0x3a4b] /test`, or the kind
/// of another one.
pub fn line(datagram: &[u8]) -> String {
    let Ok(message) = Message::decode_extended(datagram) else { return other(datagram).to_owned() };
    let mut text = head(&message);
    let mut separator = " /";
    for (number, segment) in message.options().filter(|option| option.number == OptionNumber::URI_PATH).enumerate() {
        if number == MOST_SEGMENTS {
            text.push_str("/…");
            break;
        }
        let _ = write!(text, "{separator}{}", escape(&String::from_utf8_lossy(segment.value)));
        separator = "/";
    }
    text
}

/// Names a datagram that is no CoAP message, if it has a DTLS record (RFC 6347 §4.1).
const fn other(datagram: &[u8]) -> &'static str {
    match datagram {
        [20, 0xfe, ..] => "DTLS ChangeCipherSpec",
        [21, 0xfe, ..] => "DTLS alert",
        [22, 0xfe, ..] => "DTLS handshake",
        [23, 0xfe, ..] => "DTLS application data",
        _ => "no CoAP message",
    }
}

fn opening(message: &Message<'_>) -> String {
    let mut text = head(message);
    if !message.token().is_empty() {
        let _ = write!(text, " token {}", message.token());
    }
    text
}

fn head(message: &Message<'_>) -> String {
    let code = match (message.code(), message.ty()) {
        (Code::EMPTY, Type::Confirmable) => "Empty (a ping)".to_owned(),
        (Code::EMPTY, _) => "Empty".to_owned(),
        (code, _) => code.to_string(),
    };
    format!("{} {code} [{}]", message.ty(), message.id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(sent: bool, attempt: u64, datagram: &[u8]) -> String {
        let peer = "192.0.2.1:5683".to_owned();
        TracedDatagram { sent, peer, attempt, datagram: datagram.to_vec() }.describe(Duration::from_millis(1500))
    }

    #[test]
    fn a_message_is_shown_with_its_options_and_payload() {
        assert_eq!(
            describe(true, 2, b"\x42\x01\x12\x34\x0a\x0b\xb4test\x61\x32"),
            "> 1.500 s  CON GET [0x1234] token 0a0b to 192.0.2.1:5683, 13 bytes, retransmission 2\n\
             >   Uri-Path: \"test\"\n\
             >   Accept: 50 (application/json)\n"
        );
        assert_eq!(
            describe(false, 0, b"\x60\x45\x12\x34\xc0\xff\x1b[m"),
            "< 1.500 s  ACK 2.05 Content [0x1234] from 192.0.2.1:5683, 9 bytes\n\
             <   Content-Format: 0 (text/plain; charset=utf-8)\n\
             <   payload: \"\\u{1b}[m\" (3 bytes)\n"
        );
    }

    #[test]
    fn a_line_has_the_path() {
        assert_eq!(line(b"\x42\x01\x12\x34\x0a\x0b\xb4test\x01a"), "CON GET [0x1234] /test/a");
        assert_eq!(line(b"\x60\x45\x12\x34"), "ACK 2.05 Content [0x1234]");
        assert_eq!(line(b"\x16\xfe\xfd\0"), "DTLS handshake");
        assert_eq!(line(b"\x16"), "no CoAP message");
        let long = line(&[&b"\x40\x01\x12\x34\xb1\x1b"[..], &b"\x01b".repeat(20)].concat());
        assert_eq!(long, "CON GET [0x1234] /\\u{1b}/b/b/b/b/b/b/b/…");
    }

    #[test]
    fn empty_and_malformed_messages_are_named() {
        assert!(describe(true, 0, b"\x40\0\0\x01").contains("CON Empty (a ping) [0x0001] to"));
        assert!(describe(false, 0, b"\x70\0\0\x01").contains("RST Empty [0x0001] from"));
        assert_eq!(
            describe(false, 0, b"\x40"),
            "< 1.500 s  a malformed message from 192.0.2.1:5683, 1 byte\n\
             <   the datagram is shorter than the 4-byte header\n\
             <   bytes: \"@\" (1 byte)\n"
        );
    }
}
