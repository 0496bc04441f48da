//! A response for humans, for pipes and for programs.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use conche::client::Response;
use conche::codec::Escaped;
use conche::{Code, OptionNumber};
use serde::Serialize;

use crate::formats;

/// The payload as it is; on a terminal, which no server shall control, with a newline at its end.
pub fn payload(payload: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() && !payload.is_empty() {
        writeln!(out, "{}", for_terminal(payload))?;
    } else {
        out.write_all(payload)?;
    }
    out.flush()
}

/// A text with its lines and tabs, and what else could control a terminal escaped; what is no text in hexadecimal.
fn for_terminal(payload: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(payload) else { return hexadecimal(payload) };
    let cells = |line: &str| line.split('\t').map(|cell| Escaped(cell).to_string()).collect::<Vec<_>>().join("\t");
    text.lines().map(cells).collect::<Vec<_>>().join("\n")
}

/// What came back and how the exchange went, on standard error.
pub fn describe(response: &Response) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let message = response.message().view();
    writeln!(out, "< {:?} from {}, {} bytes", response.code(), response.from(), response.payload().len())?;
    for option in message.options() {
        writeln!(out, "<   {}: {}", option.number, value(option.number, option.value))?;
    }
    let course = response.course();
    writeln!(
        out,
        "* acknowledged after {:.1?}, {} retransmissions, queued for {:.1?}, RTO {:.1?}",
        response.acknowledged_after(),
        response.retransmissions(),
        course.queued,
        course.timeout,
    )
}

/// An option's value: a number, text or bytes, as its definition says.
fn value(number: OptionNumber, value: &[u8]) -> String {
    use conche::codec::OptionFormat as Format;
    match number.spec().map(|spec| spec.format) {
        Some(Format::Uint) => {
            let uint = conche::codec::decode_uint(value).unwrap_or_default();
            match formats::name(uint) {
                Some(name) if matches!(number, OptionNumber::CONTENT_FORMAT | OptionNumber::ACCEPT) => {
                    format!("{uint} ({name})")
                }
                _ => uint.to_string(),
            }
        }
        Some(Format::String) => format!("{:?}", String::from_utf8_lossy(value)),
        Some(Format::Empty) => String::new(),
        _ => hexadecimal(value),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    method: &'a str,
    uri: &'a str,
    from: String,
    code: String,
    options: Vec<JsonOption>,
    /// The payload, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    /// The payload in hexadecimal, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_hex: Option<String>,
    acknowledged_after_ms: f64,
    elapsed_ms: f64,
    queued_ms: f64,
    retransmissions: u16,
}

#[derive(Serialize)]
struct JsonOption {
    number: u16,
    name: String,
    value: String,
}

/// One object on standard output.
pub fn json(method: Code, uri: &str, response: &Response) -> anyhow::Result<()> {
    let message = response.message().view();
    let options = message.options().map(|option| JsonOption {
        number: option.number.0,
        name: option.number.to_string(),
        value: value(option.number, option.value),
    });
    let course = response.course();
    let text = response.text();
    let json = Json {
        schema: 1,
        method: method.description().unwrap_or_default(),
        uri,
        from: response.from().to_string(),
        code: response.code().to_string(),
        options: options.collect(),
        payload_hex: text.is_err().then(|| hexadecimal(response.payload())),
        payload: text.ok(),
        acknowledged_after_ms: milliseconds(response.acknowledged_after()),
        elapsed_ms: milliseconds(course.elapsed),
        queued_ms: milliseconds(course.queued),
        retransmissions: response.retransmissions(),
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{}", escaped_json(&serde_json::to_string(&json)?))?;
    Ok(out.flush()?)
}

/// Writes the control characters that JSON would have as they are (DEL and C1) like the others.
fn escaped_json(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut text, character| {
        match character.is_control() {
            true => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => text.push(character),
        }
        text
    })
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_controls_no_terminal() {
        assert_eq!(for_terminal(b"one\ttwo\r\n\x1b[2Jthree\n"), "one\ttwo\n\\u{1b}[2Jthree");
        assert_eq!(for_terminal("\u{9b}2J".as_bytes()), "\\u{9b}2J");
        assert_eq!(for_terminal(b"\xff\x1b"), "0xff1b");
        let json = serde_json::to_string("\x1b \x7f \u{9b} \u{fc}").expect("a string");
        assert_eq!(escaped_json(&json), "\"\\u001b \\u007f \\u009b \u{fc}\"");
    }
}
