//! Pre-shared key files: a client's file holds its key, a server's file lines `IDENTITY:KEY`.
//!
//! Invisible characters, as editors add, are errors: they would become part of a key.

use std::path::Path;

use anyhow::bail;
use conche::security::Secret;

use super::{read_secret, usage_error};
use crate::Global;
use crate::hexadecimal::decode;
use crate::show;

/// Shorter keys cause a warning.
const STRONG: usize = 16;

/// Why a key file is refused.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("line 2: the file must hold one line, the key")]
    SeveralLines,
    #[error("it begins with the identity, as the file of a server does: write the key alone")]
    Identity,
    #[error("the identity {identity:?} has a key already, in line {line}")]
    Twice { identity: String, line: usize },
    #[error("it is no text in UTF-8: write a key of bytes as 0x and hexadecimal digits")]
    Utf8,
    #[error("there is a byte order mark: save the file as UTF-8 without one")]
    ByteOrderMark,
    #[error("there is a control character, U+{:04X}: remove it", u32::from(*.0))]
    Control(char),
    #[error("IDENTITY:KEY was expected")]
    NoIdentity,
    #[error("there is a space before or behind the identity: write IDENTITY:KEY without any")]
    SpaceAroundIdentity,
    #[error(
        "there is a space before or behind the key: remove it, or write the key as 0x and hexadecimal digits, if it is \
         meant"
    )]
    SpaceAroundKey,
    #[error("what follows 0x must be pairs of hexadecimal digits")]
    Digits,
    #[error("the key has {0} bytes: 1 to 512 are possible")]
    Length(usize),
}

pub fn one(file: &Path, identity: &str, global: &Global) -> anyhow::Result<Secret> {
    let problem = |what: KeyError| usage_error(format!("{}: {what}", file.display()));
    let bytes = read_secret(file)?;
    let text = text(&bytes).map_err(|(line, what)| usage_error(format!("{}: line {line}: {what}", file.display())))?;
    let mut lines = text.lines();
    let line = lines.next().unwrap_or_default();
    if lines.any(|line| !line.is_empty()) {
        return Err(problem(KeyError::SeveralLines));
    }
    if line.strip_prefix(identity).is_some_and(|rest| rest.starts_with(':')) {
        return Err(problem(KeyError::Identity));
    }
    let key = key(line).map_err(problem)?;
    if key.expose().len() < STRONG {
        weak(&format!("the key in {} has", file.display()), global);
    }
    Ok(key)
}

pub fn all(file: &Path, global: &Global) -> anyhow::Result<Vec<(Vec<u8>, Secret)>> {
    let problem = |line: usize, what: KeyError| usage_error(format!("{}, line {line}: {what}", file.display()));
    let bytes = read_secret(file)?;
    let text = text(&bytes).map_err(|(line, what)| problem(line, what))?;
    let mut keys: Vec<(usize, Vec<u8>, Secret)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (identity, key) = entry(line).map_err(|what| problem(number, what))?;
        if let Some((before, ..)) = keys.iter().find(|(_, known, _)| known == identity.as_bytes()) {
            return Err(problem(number, KeyError::Twice { identity: identity.to_owned(), line: *before }));
        }
        keys.push((number, identity.as_bytes().to_vec(), key));
    }
    if keys.is_empty() {
        bail!(usage_error(format!("{} holds no key: write a line IDENTITY:KEY for each client", file.display())));
    }
    if let Some((line, ..)) = keys.iter().find(|(.., key)| key.expose().len() < STRONG) {
        weak(&format!("{}, line {line}, and perhaps others: the key has", file.display()), global);
    }
    Ok(keys.into_iter().map(|(_, identity, key)| (identity, key)).collect())
}

fn weak(whose: &str, global: &Global) {
    if !global.quiet {
        show::note(format_args!(
            "warning: {whose} fewer than {STRONG} bytes: if it can be guessed, one recorded handshake tells it; \
             conche keygen makes a key"
        ));
    }
}

fn text(bytes: &[u8]) -> Result<&str, (usize, KeyError)> {
    let line_of = |at: usize| 1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count();
    let text = std::str::from_utf8(bytes).map_err(|error| (line_of(error.valid_up_to()), KeyError::Utf8))?;
    if let Some(at) = text.find('\u{feff}') {
        return Err((line_of(at), KeyError::ByteOrderMark));
    }
    for (line, number) in text.lines().zip(1..) {
        if let Some(control) = line.chars().find(|char| char.is_control()) {
            return Err((number, KeyError::Control(control)));
        }
    }
    Ok(text)
}

/// Splits at the last colon if hexadecimal digits follow, as the identity may contain colons,
/// otherwise at the first.
fn entry(line: &str) -> Result<(&str, Secret), KeyError> {
    let split = match line.rsplit_once(':') {
        Some((identity, key)) if digits(key).is_some() => Some((identity, key)),
        _ => line.split_once(':'),
    };
    let (identity, text) = split.filter(|(identity, _)| !identity.is_empty()).ok_or(KeyError::NoIdentity)?;
    if identity.trim() != identity {
        return Err(KeyError::SpaceAroundIdentity);
    }
    Ok((identity, key(text)?))
}

fn digits(key: &str) -> Option<&str> {
    key.strip_prefix("0x").or_else(|| key.strip_prefix("0X"))
}

fn key(text: &str) -> Result<Secret, KeyError> {
    if text.trim() != text {
        return Err(KeyError::SpaceAroundKey);
    }
    let bytes = match digits(text) {
        None => text.as_bytes().to_vec(),
        Some(digits) => decode(digits).ok_or(KeyError::Digits)?,
    };
    match bytes.len() {
        1..=512 => Ok(Secret::new(bytes)),
        bytes => Err(KeyError::Length(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_text_or_bytes_in_hexadecimal() {
        assert_eq!(key("sesame").expect("text").expose(), b"sesame");
        assert_eq!(key("0x00fF").expect("bytes").expose(), [0, 255]);
        assert_eq!(key("0X00fF").expect("bytes").expose(), [0, 255]);
        for wrong in ["0x0", "0xzz", "", "0x", " sesame", "sesame "] {
            assert!(key(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn bytes_begin_behind_the_last_colon_and_text_behind_the_first() {
        for (line, identity, bytes) in [
            ("lamp:sesame", "lamp", &b"sesame"[..]),
            ("lamp:open:sesame", "lamp", b"open:sesame"),
            ("urn:dev:1:0x0a0b", "urn:dev:1", b"\x0a\x0b"),
        ] {
            let (found, key) = entry(line).expect("it is right");
            assert_eq!((found, key.expose()), (identity, bytes), "{line}");
        }
        for wrong in ["lamp", ":sesame", "lamp: sesame", "lamp :sesame", " lamp:sesame", "lamp:"] {
            assert!(entry(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_key_file_with_invisible_characters_is_refused_with_its_line() {
        assert_eq!(text(b"a:b\r\nc:d\r\n").expect("text").lines().collect::<Vec<_>>(), ["a:b", "c:d"]);
        for (bytes, line) in [
            (&b"\xef\xbb\xbfa:b"[..], 1),
            (b"a:b\nc:\0d", 2),
            (b"a:b\nc:d\re:f", 2),
            (b"a:b\n\n\xff:d", 3),
            (b"a:\tb", 1),
        ] {
            assert_eq!(text(bytes).expect_err("it is none").0, line, "{bytes:?}");
        }
    }
}
