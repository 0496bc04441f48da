//! Actions of a client, as cases write them: `CON GET /test Accept=0`, `ping`, `stop get`, `off`,
//! `wait`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use conche_proto::codec::{OptionFormat, OptionNumber, encode_uint};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// With an Observe option of value 0, it also observes.
    Request(Request),
    Ping,
    Stop(Stop),
    Off,
    Wait,
}

/// How to cancel an observation (RFC 7641 §3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A GET with Observe=1.
    Get,
    /// A Reset to the next notification.
    Reset,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub confirmable: bool,
    pub method: String,
    /// Path and query, from the `/` on.
    pub path: String,
    pub options: Vec<(OptionNumber, Vec<u8>)>,
    pub payload: Vec<u8>,
    /// `None` lets the client choose.
    pub token: Option<Vec<u8>>,
}

impl Action {
    /// `$name` is a value kept by an earlier step.
    pub fn parse(text: &str, kept: &BTreeMap<String, Vec<u8>>) -> Result<Self> {
        let words: Vec<_> = text.split(' ').collect();
        Ok(match words[..] {
            ["ping"] => Self::Ping,
            ["wait"] => Self::Wait,
            ["off"] => Self::Off,
            ["stop", "get"] => Self::Stop(Stop::Get),
            ["stop", "reset"] => Self::Stop(Stop::Reset),
            [reliability @ ("CON" | "NON"), method, path, ref rest @ ..] => {
                let confirmable = reliability == "CON";
                let (method, path) = (method.to_owned(), path.to_owned());
                let mut request = Request { confirmable, method, path, ..Request::default() };
                for word in rest {
                    add(&mut request, word, kept).with_context(|| format!("{text:?}: {word}"))?;
                }
                Self::Request(request)
            }
            _ => bail!(
                "{text:?} is no action: CON METHOD PATH, NON METHOD PATH, ping, stop get, stop reset, off, wait are"
            ),
        })
    }
}

/// Parses `Name=value`, `Name` or `#65001=0x01`.
pub fn option(word: &str, kept: &BTreeMap<String, Vec<u8>>) -> Result<(OptionNumber, Vec<u8>)> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let number = number(name).with_context(|| format!("there is no option {name}"))?;
    let value = match value.strip_prefix('$') {
        Some(name) => kept.get(name).with_context(|| format!("nothing was kept as {name}"))?.clone(),
        None => encode(number, value).context("the value is not as the option's format asks")?,
    };
    Ok((number, value))
}

fn add(request: &mut Request, word: &str, kept: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "payload" => request.payload = body(value).unwrap_or_else(|| value.as_bytes().to_vec()),
        "token" => request.token = Some(hexadecimal(value).context("hexadecimal digits were expected")?),
        _ => request.options.push(option(word, kept)?),
    }
    Ok(())
}

/// `@N`: the first N bytes of the large text of every server.
pub fn body(text: &str) -> Option<Vec<u8>> {
    let length = text.strip_prefix('@')?.parse().ok()?;
    Some(b"0123456789abcdef".iter().copied().cycle().take(length).collect())
}

/// Finds an option by name, or as `#2049`.
pub fn number(name: &str) -> Option<OptionNumber> {
    match name.strip_prefix('#') {
        Some(digits) => digits.parse().ok().map(OptionNumber),
        None => (0..=u16::MAX).map(OptionNumber).find(|number| number.spec().is_some_and(|spec| spec.name == name)),
    }
}

fn encode(number: OptionNumber, text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("0x") {
        return hexadecimal(digits);
    }
    match number.spec().map(|spec| spec.format) {
        Some(OptionFormat::Uint) => Some(encode_uint(uint(text)?).as_slice().to_vec()),
        _ => Some(text.as_bytes().to_vec()),
    }
}

/// Parses a number, or a block as `NUM/M/SIZE`.
fn uint(text: &str) -> Option<u32> {
    let numbers: Option<Vec<u32>> = text.split('/').map(|part| part.parse().ok()).collect();
    match numbers?[..] {
        [number] => Some(number),
        [number, more @ 0..=1, size] => Some(number << 4 | more << 3 | size.checked_ilog2()?.checked_sub(4)?),
        _ => None,
    }
}

pub fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_options_in_the_form_that_their_format_asks_for() {
        let kept = BTreeMap::from([("tag".to_owned(), vec![7])]);
        let action =
            Action::parse("NON PUT /a?b ETag=$tag Block1=2/1/64 Accept=0 #65001=0x0a payload=@3 token=0b", &kept);
        let expected = Request {
            confirmable: false,
            method: "PUT".to_owned(),
            path: "/a?b".to_owned(),
            options: vec![
                (OptionNumber::ETAG, vec![7]),
                (OptionNumber::BLOCK1, vec![0x2a]),
                (OptionNumber::ACCEPT, vec![]),
                (OptionNumber(65001), vec![0x0a]),
            ],
            payload: b"012".to_vec(),
            token: Some(vec![0x0b]),
        };
        assert_eq!(action.expect("an action"), Action::Request(expected));
    }

    #[test]
    fn malformed_actions_are_refused() {
        for text in
            ["", "GET /test", "stop", "CON GET /test ETag=$none", "CON GET /test Nonsense=1", "CON GET / Accept=x"]
        {
            assert!(Action::parse(text, &BTreeMap::new()).is_err(), "{text}");
        }
    }
}
