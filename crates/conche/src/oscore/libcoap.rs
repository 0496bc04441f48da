//! libcoap's configuration file, coap_oscore_conf(5).
//!
//! Each line is `keyword,encoding,value`; empty lines and those that begin with `#` are skipped.
//! `replay_window` is its size. `ssn_freq` and `rfc8613_b_1_2` have no effect: numbers are reserved
//! many at a time, and Echo always synchronises an unknown window.

use std::path::Path;

use thiserror::Error;

use super::{Aead, Credentials, EndId, Hkdf, OpenError, Secret};

/// Also returns whether each start derives new keys (`rfc8613_b_2`).
pub(super) fn parse(file: &Path, text: &str) -> Result<(Credentials, bool), OpenError> {
    let mut read = ParsedFile::default();
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        read.line(line).map_err(|error| OpenError::wrong(file, Some(number), error.to_string()))?;
    }
    let missing = |keyword: &str| OpenError::wrong(file, None, format!("there is no {keyword}"));
    let secret = read.secret.ok_or_else(|| missing("master_secret"))?;
    let sender_id = read.sender_id.ok_or_else(|| missing("sender_id"))?;
    let recipient_id = read.recipient_id.ok_or_else(|| missing("recipient_id"))?;
    let credentials = Credentials {
        master_salt: read.salt.unwrap_or_default(),
        id_context: read.id_context.map(Vec::into_boxed_slice),
        aead: read.aead.unwrap_or_default(),
        hkdf: read.hkdf.unwrap_or_default(),
        replay_window: read.replay_window.unwrap_or(Credentials::LARGEST_WINDOW),
        ..Credentials::new(secret, sender_id, recipient_id)
    };
    Ok((credentials, read.anew.unwrap_or_default()))
}

#[derive(Default)]
struct ParsedFile {
    secret: Option<Secret>,
    salt: Option<Vec<u8>>,
    id_context: Option<Vec<u8>>,
    sender_id: Option<EndId>,
    recipient_id: Option<EndId>,
    aead: Option<Aead>,
    hkdf: Option<Hkdf>,
    anew: Option<bool>,
    replay_window: Option<u16>,
}

#[derive(Debug, Error)]
enum LineError<'a> {
    #[error("a line is keyword,encoding,value")]
    Parts,
    #[error("{0} is not supported")]
    Keyword(&'a str),
    #[error("{0} was given before")]
    Repeated(&'a str),
    #[error(
        "recipient_id was given before: several recipients would share the key of this end, and its numbers; give each a \
         file with another sender_id or id_context"
    )]
    SeveralRecipients,
    #[error("the encoding is {encoding}: {expected} is right here")]
    Encoding { encoding: &'a str, expected: &'static str },
    #[error("the value is not ASCII")]
    Ascii,
    #[error("the value must be an even number of hexadecimal digits")]
    Hexadecimal,
    #[error("{0} is no integer")]
    Integer(&'a str),
    #[error("bool,true or bool,false is right here")]
    Boolean,
    #[error("an ID of {0} bytes: {max} at most", max = EndId::LONGEST)]
    Id(usize),
    #[error("the algorithm {0} is not supported")]
    Algorithm(&'a str),
    #[error("replay_window must be 1 to {max}", max = Credentials::LARGEST_WINDOW)]
    Window,
}

impl ParsedFile {
    fn line<'a>(&mut self, line: &'a str) -> Result<(), LineError<'a>> {
        let mut parts = line.splitn(3, ',');
        let (Some(keyword), Some(encoding), Some(value)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(LineError::Parts);
        };
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        match keyword {
            "master_secret" => once(keyword, &mut self.secret, bytes(encoding, value)?.into()),
            "master_salt" => once(keyword, &mut self.salt, bytes(encoding, value)?),
            "id_context" => once(keyword, &mut self.id_context, bytes(encoding, value)?),
            "sender_id" => once(keyword, &mut self.sender_id, id(encoding, value)?),
            "recipient_id" => {
                once(keyword, &mut self.recipient_id, id(encoding, value)?).map_err(|_| LineError::SeveralRecipients)
            }
            "aead_alg" => {
                let known = |number| Aead::from_number(number).ok_or(LineError::Algorithm(value));
                once(keyword, &mut self.aead, known(number(encoding, value, aead_named)?)?)
            }
            "hkdf_alg" => {
                let known = |number| Hkdf::from_number(number).ok_or(LineError::Algorithm(value));
                once(keyword, &mut self.hkdf, known(number(encoding, value, hkdf_named)?)?)
            }
            "replay_window" => {
                let size = number(encoding, value, |_| None)?;
                let size = u16::try_from(size).ok().filter(|size| (1..=Credentials::LARGEST_WINDOW).contains(size));
                let size = size.ok_or(LineError::Window)?;
                once(keyword, &mut self.replay_window, size)
            }
            "ssn_freq" => number(encoding, value, |_| None).map(|_| ()),
            "rfc8613_b_1_2" => boolean(encoding, value).map(|_| ()),
            "rfc8613_b_2" => once(keyword, &mut self.anew, boolean(encoding, value)?),
            _ => Err(LineError::Keyword(keyword)),
        }
    }
}

fn once<'a, T>(keyword: &'a str, place: &mut Option<T>, value: T) -> Result<(), LineError<'a>> {
    match place.replace(value) {
        Some(_) => Err(LineError::Repeated(keyword)),
        None => Ok(()),
    }
}

fn bytes<'a>(encoding: &'a str, value: &str) -> Result<Vec<u8>, LineError<'a>> {
    match encoding {
        "ascii" if value.is_ascii() => Ok(value.as_bytes().to_vec()),
        "ascii" => Err(LineError::Ascii),
        "hex" => hexadecimal(value).ok_or(LineError::Hexadecimal),
        _ => Err(LineError::Encoding { encoding, expected: "hex or ascii" }),
    }
}

pub(super) fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

fn id<'a>(encoding: &'a str, value: &str) -> Result<EndId, LineError<'a>> {
    let bytes = bytes(encoding, value)?;
    EndId::new(&bytes).ok_or(LineError::Id(bytes.len()))
}

fn number<'a>(encoding: &'a str, value: &'a str, named: impl Fn(&str) -> Option<i32>) -> Result<i32, LineError<'a>> {
    match encoding {
        "integer" => value.parse().map_err(|_| LineError::Integer(value)),
        "text" => named(value).ok_or(LineError::Algorithm(value)),
        _ => Err(LineError::Encoding { encoding, expected: "integer or text" }),
    }
}

fn boolean(encoding: &str, value: &str) -> Result<bool, LineError<'static>> {
    match (encoding, value) {
        ("bool", "true") => Ok(true),
        ("bool", "false") => Ok(false),
        _ => Err(LineError::Boolean),
    }
}

/// By its name in the registry "COSE Algorithms".
pub(super) fn aead_named(name: &str) -> Option<i32> {
    let number = match name {
        "AES-CCM-16-64-128" => 10,
        "AES-CCM-16-64-256" => 11,
        "AES-CCM-16-128-128" => 30,
        "AES-CCM-16-128-256" => 31,
        _ => return None,
    };
    Some(number)
}

fn hkdf_named(name: &str) -> Option<i32> {
    match name {
        "direct+HKDF-SHA-256" => Some(-10),
        "direct+HKDF-SHA-512" => Some(-11),
        _ => None,
    }
}
