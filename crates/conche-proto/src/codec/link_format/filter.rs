//! Filters links by query arguments (RFC 6690 §4.1).

use super::{Link, Value};

/// A filter for links: one query argument of a request to `/.well-known/core`.
///
/// - `name=value` selects links whose attribute has this value. List attributes (`rt`, `if`, `rel`,
///   `rev`, `ct`) match if one of their values does. `href` matches the target, with or without its
///   percent-encoding.
/// - `name=start*` selects links whose value starts with `start`; `name=*` any value.
/// - `name` selects links that have the attribute, with or without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<'a> {
    name: &'a str,
    pattern: &'a str,
    /// `pattern` is a prefix of the value.
    prefix: bool,
}

impl<'a> Filter<'a> {
    /// Creates the filter for a query argument. Every argument is a valid filter.
    #[must_use]
    pub fn new(argument: &'a str) -> Self {
        let (name, pattern) = argument.split_once('=').unwrap_or((argument, "*"));
        match pattern.strip_suffix('*') {
            Some(pattern) => Self { name, pattern, prefix: true },
            None => Self { name, pattern, prefix: false },
        }
    }

    /// Returns `true` if the filter selects this link.
    #[must_use]
    pub fn selects(&self, link: &Link<'_>) -> bool {
        if self.name.eq_ignore_ascii_case("href") {
            let target = link.target();
            return self.fits(target.bytes()) || self.fits(decoded(target));
        }
        let fits = |value: Value<'_>| {
            let mut buffer = [0; 4];
            let bytes = value.chars().flat_map(move |character| {
                let length = character.encode_utf8(&mut buffer).len();
                buffer.into_iter().take(length)
            });
            self.fits(bytes)
        };
        let Some(value) = link.value(self.name) else { return false };
        if is_list(self.name) { value.words().any(fits) } else { fits(value) }
    }

    fn fits(&self, mut value: impl Iterator<Item = u8>) -> bool {
        self.pattern.bytes().all(|byte| value.next() == Some(byte)) && (self.prefix || value.next().is_none())
    }
}

/// Returns `true` for attributes that hold a list of values, matched one by one (RFC 6690 §3.1,
/// §3.2, RFC 7252 §7.2.1, RFC 8288 §3.3).
fn is_list(name: &str) -> bool {
    ["rt", "if", "rel", "rev", "ct"].iter().any(|list| name.eq_ignore_ascii_case(list))
}

/// Returns the percent-decoded bytes of a URI reference.
fn decoded(target: &str) -> impl Iterator<Item = u8> {
    let mut rest = target.as_bytes();
    core::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        if let (b'%', [high, low, behind @ ..]) = (first, after)
            && let (Some(high), Some(low)) = (hexadecimal(*high), hexadecimal(*low))
        {
            rest = behind;
            return Some(high << 4 | low);
        }
        rest = after;
        Some(first)
    })
}

pub(crate) fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
