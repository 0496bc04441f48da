//! Renders a response for terminals, pipes and programs.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use conche::client::Response;
use conche::{Code, Reliability};
use serde::Serialize;

use crate::{hexadecimal, json, show};

pub fn payload(response: &Response) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(show::pretty_payload(response.content_format(), response.payload()).as_bytes())?;
    } else {
        out.write_all(response.payload())?;
    }
    out.flush()
}

pub fn end_line(response: &Response) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() && !response.payload().ends_with(b"\n") {
        out.write_all(b"\n")?;
    }
    out.flush()
}

pub fn raw(payload: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(payload)?;
    out.flush()
}

/// The code, and a created resource's location.
pub fn happened(response: &Response) -> Option<String> {
    if response.code() == Code::CONTENT {
        return None;
    }
    Some(match response.location() {
        None => response.code().to_string(),
        Some(location) => format!("{} at {}", response.code(), show::escape(&location)),
    })
}

pub fn course(response: &Response, reliability: Reliability) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let course = response.course();
    let retransmissions = match response.retransmissions() {
        0 => "no retransmission".to_owned(),
        1 => "1 retransmission".to_owned(),
        several => format!("{several} retransmissions"),
    };
    let answered = match course.acknowledged_after {
        Some(after) if reliability == Reliability::Confirmable && after < course.elapsed => {
            format!("acknowledged after {after:.1?}, response after {:.1?}", course.elapsed)
        }
        _ => format!("response after {:.1?}", course.elapsed),
    };
    let messages = match course.messages {
        0 | 1 => String::new(),
        several => format!("; {several} messages, since not all fits into one"),
    };
    let waited = match course.queued {
        short if short < Duration::from_millis(1) => String::new(),
        long => format!(", waited {long:.1?} for its turn"),
    };
    writeln!(out, "* {answered}; {retransmissions}{waited}{messages}")?;
    if reliability == Reliability::Confirmable && !course.timeout.is_zero() {
        writeln!(
            out,
            "* retransmission timeout (RTO) of the last copy: {:.1?} without an answer would have sent another",
            course.timeout
        )?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    method: &'a str,
    uri: &'a str,
    /// Since the start, for each state of an observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_s: Option<f64>,
    from: String,
    code: String,
    options: Vec<JsonOption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_format: Option<JsonFormat>,
    /// The file that holds the payload, in place of `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_hex: Option<String>,
    /// `None` for a notification, which has no exchange of its own.
    #[serde(flatten)]
    course: Option<JsonCourse>,
}

#[derive(Serialize)]
struct JsonCourse {
    acknowledged_after_ms: f64,
    elapsed_ms: f64,
    queued_ms: f64,
    retransmissions: u32,
}

#[derive(Serialize)]
struct JsonFormat {
    number: u16,
    /// Media type and coding, if registered.
    name: Option<&'static str>,
}

#[derive(Serialize)]
struct JsonOption {
    number: u16,
    name: String,
    value: String,
}

/// Prints a response. `output` is the file that holds its payload.
pub fn json(
    method: Code,
    uri: &str,
    time: Option<Duration>,
    response: &Response,
    output: Option<&Path>,
) -> io::Result<()> {
    let message = response.message().view();
    let options = message.options().map(|option| JsonOption {
        number: option.number.0,
        name: option.number.to_string(),
        value: show::option_value(option.number, option.value),
    });
    let course = response.course();
    let text = response.text();
    let json = Json {
        schema: 1,
        method: method.description().unwrap_or_default(),
        uri,
        time_s: time.map(|time| microseconds(time) / 1e6),
        from: response.from().to_string(),
        code: format!("{:?}", response.code()),
        options: options.collect(),
        content_format: response
            .content_format()
            .map(|format| JsonFormat { number: format.0, name: format.media_type() }),
        output: output.map(Path::to_string_lossy),
        payload_hex: (text.is_err() && output.is_none()).then(|| hexadecimal::encode(response.payload())),
        payload: text.ok().filter(|_| output.is_none()),
        course: (!course.elapsed.is_zero()).then(|| JsonCourse {
            acknowledged_after_ms: milliseconds(response.acknowledged_after()),
            elapsed_ms: milliseconds(course.elapsed),
            queued_ms: milliseconds(course.queued),
            retransmissions: response.retransmissions(),
        }),
    };
    json::print(&json)
}

/// A whole number.
fn microseconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round()
}

fn milliseconds(span: Duration) -> f64 {
    microseconds(span) / 1e3
}
