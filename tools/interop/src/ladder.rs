//! Ladders: the expected messages, one line each.
//!
//! ```text
//! > CON GET Uri-Path=separate token       from the client to the server
//! < ACK 0.00                              from the server to the client
//! x< CON 2.05 payload                     the same, but lost on its way
//! xx< CON 2.05                            where a step loses: each such datagram, not only the first
//! < CON 2.05 payload=separate again       the same bytes as a message before
//! ```
//!
//! Direction, type and code (`A|B` for either, `*` for any) precede words that must all hold:
//! `Name=value` an option with that value, `Name` one with any, `payload`, `payload=text`,
//! `payload~text` (contains it), `token`, `token=0a0b`, `again`; a `!` negates a word. A block
//! option's value is `NUM/M/SIZE`.

use std::fmt;

use anyhow::{Context, Result, bail};
use conche_proto::codec::{Code, Message, OptionNumber, RawOption, Type, decode_uint};

use crate::tap::Captured;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    text: String,
    direction: Direction,
    lost: bool,
    each: bool,
    types: Vec<String>,
    codes: Vec<String>,
    words: Vec<String>,
}

impl Line {
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
        let arrow = words.next().unwrap_or_default();
        let direction = match arrow.trim_start_matches('x') {
            ">" => Direction::ToServer,
            "<" => Direction::ToClient,
            _ => bail!("{text:?}: a line begins with >, <, x>, x<, xx> or xx<"),
        };
        let mut alternatives = |what: &str| {
            let word = words.next().with_context(|| format!("{text:?}: {what} is missing"))?;
            anyhow::Ok(word.split('|').map(str::to_owned).collect())
        };
        let (types, codes) = (alternatives("the type")?, alternatives("the code")?);
        let (lost, each) = (arrow.starts_with('x'), arrow.starts_with("xx"));
        Ok(Self { text: text.to_owned(), direction, lost, each, types, codes, words: words.collect() })
    }

    pub fn is_about_each(&self) -> bool {
        self.each
    }

    /// `before` are the earlier datagrams.
    pub fn fits(&self, captured: &Captured, before: &[Captured]) -> bool {
        let Ok(message) = Message::decode(&captured.bytes) else { return false };
        let any_of = |alternatives: &[String], actual: &str| {
            alternatives.iter().any(|alternative| alternative == "*" || alternative == actual)
        };
        self.direction == captured.direction
            && self.lost == captured.lost
            && any_of(&self.types, &message.ty().to_string())
            && any_of(&self.codes, &code(&message))
            && self.words.iter().all(|word| match word.strip_prefix('!') {
                Some(word) => !holds(word, &message, captured, before),
                None => holds(word, &message, captured, before),
            })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the first unmatched line: each must match a datagram after that of the previous line.
pub fn missing<'a>(ladder: &'a [Line], captured: &[Captured]) -> Option<&'a Line> {
    let mut at = 0;
    ladder.iter().find(|line| {
        let found = (at..captured.len()).find(|&i| line.fits(&captured[i], &captured[..i]));
        at = found.map_or(at, |found| found + 1);
        found.is_none()
    })
}

fn holds(word: &str, message: &Message<'_>, captured: &Captured, before: &[Captured]) -> bool {
    match word {
        "payload" => return !message.payload().is_empty(),
        "token" => return !message.token().is_empty(),
        "again" => {
            return before.iter().any(|other| other.direction == captured.direction && other.bytes == captured.bytes);
        }
        _ => {}
    }
    if let Some(text) = word.strip_prefix("payload~") {
        return String::from_utf8_lossy(message.payload()).contains(text);
    }
    match word.split_once('=') {
        Some(("payload", text)) => message.payload() == text.as_bytes(),
        Some(("token", digits)) => message.token().to_string() == digits,
        Some(_) => message.options().any(|option| describe(&option) == word),
        None => message.options().any(|option| option.number.to_string() == word),
    }
}

fn code(message: &Message<'_>) -> String {
    let code = message.code();
    match code.description() {
        Some(method) if code.is_request() => method.to_owned(),
        _ => format!("{code:?}"),
    }
}

fn describe(option: &RawOption<'_>) -> String {
    match (option.number, decode_uint(option.value)) {
        (OptionNumber::BLOCK1 | OptionNumber::BLOCK2, Some(value)) => {
            format!("{}={}/{}/{}", option.number, value >> 4, value >> 3 & 1, 16 << (value & 7))
        }
        _ => option.to_string(),
    }
}

pub fn transcript(captured: &[Captured]) -> String {
    let mut text = String::new();
    for Captured { direction, lost, bytes } in captured {
        text += if *lost { "      x" } else { "       " };
        text += if *direction == Direction::ToServer { "> " } else { "< " };
        text += &match Message::decode(bytes) {
            Ok(message) => message.to_string(),
            Err(error) => format!("malformed: {error}"),
        };
        text += "\n";
    }
    text
}

/// Finds the first message that is always wrong: malformed, an Acknowledgement or Reset without a
/// matching message ID of the other endpoint, or a Reset that neither a line of the ladder allows
/// nor a ping explains (RFC 7252 §4.3).
pub fn irregularity(captured: &[Captured], ladder: &[Line]) -> Option<String> {
    let allows_resets = ladder.iter().any(|line| line.types.iter().any(|ty| ty == "RST" || ty == "*"));
    let decoded: Vec<_> = captured.iter().map(|captured| (captured, Message::decode(&captured.bytes))).collect();
    for (at, (captured, decoded_message)) in decoded.iter().enumerate() {
        let message = match decoded_message {
            Ok(message) => message,
            Err(error) => return Some(format!("a datagram is malformed: {error}")),
        };
        let before = decoded[..at].iter().filter(|(other, _)| other.direction != captured.direction);
        let opposite = before.filter_map(|(_, message)| message.as_ref().ok());
        let mut answered = opposite.filter(|other| other.id() == message.id()).peekable();
        match message.ty() {
            Type::Acknowledgement | Type::Reset if answered.peek().is_none() => {
                return Some(format!("it answers no message: {message}"));
            }
            Type::Reset if !allows_resets && !answered.any(is_ping) => {
                return Some(format!("an unexpected Reset: {message}"));
            }
            _ => {}
        }
    }
    None
}

fn is_ping(message: &Message<'_>) -> bool {
    message.ty() == Type::Confirmable && message.code() == Code::EMPTY
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CON GET [1] token=0a Uri-Path=test, and its piggybacked response.
    fn exchange() -> [Captured; 2] {
        let captured = |direction, bytes: &[u8]| Captured { direction, lost: false, bytes: bytes.to_vec() };
        [
            captured(Direction::ToServer, b"\x41\x01\x00\x01\x0a\xb4test"),
            captured(Direction::ToClient, b"\x61\x45\x00\x01\x0a\xc0\xffhello"),
        ]
    }

    fn ladder(lines: &[&str]) -> Vec<Line> {
        lines.iter().map(|line| Line::parse(line).expect("a line")).collect()
    }

    #[test]
    fn a_ladder_is_fitted_in_its_order_only() {
        let (request, response) = ("> CON GET Uri-Path=test token=0a", "< ACK|CON 2.05 payload=hello Content-Format=0");
        assert_eq!(missing(&ladder(&[request, response]), &exchange()), None);
        let reversed = ladder(&[response, request]);
        assert_eq!(missing(&reversed, &exchange()), Some(&reversed[1]));
    }

    #[test]
    fn every_word_must_hold() {
        for (line, fits) in [
            ("> * GET", true),
            ("> NON GET", false),
            ("> CON PUT", false),
            ("x> CON GET", false),
            ("> CON GET !Accept", true),
            ("> CON GET Accept", false),
            ("> CON GET !token", false),
            ("> CON GET again", false),
        ] {
            assert_eq!(missing(&ladder(&[line]), &exchange()).is_none(), fits, "{line}");
        }
        assert!(Line::parse("CON GET").is_err() && Line::parse("> CON").is_err());
    }

    #[test]
    fn answers_to_nothing_are_irregular() {
        let [request, response] = exchange();
        assert_eq!(irregularity(&[request.clone(), response.clone()], &[]), None);
        assert!(irregularity(&[response], &[]).is_some());
        let reset = Captured { direction: Direction::ToClient, lost: false, bytes: b"\x70\x00\x00\x01".to_vec() };
        assert!(irregularity(&[request.clone(), reset.clone()], &[]).is_some());
        assert_eq!(irregularity(&[request, reset], &ladder(&["< RST 0.00"])), None);
    }

    #[test]
    fn a_reset_that_answers_a_ping_is_regular_in_every_case() {
        let captured = |direction, bytes: &[u8]| Captured { direction, lost: false, bytes: bytes.to_vec() };
        let ping = captured(Direction::ToClient, b"\x40\x00\x00\x07");
        let reset = captured(Direction::ToServer, b"\x70\x00\x00\x07");
        assert_eq!(irregularity(&[ping.clone(), reset.clone()], &[]), None);
        let other = captured(Direction::ToServer, b"\x70\x00\x00\x08");
        assert!(irregularity(&[ping, other], &[]).is_some());
        assert!(irregularity(&[reset], &[]).is_some());
    }
}
