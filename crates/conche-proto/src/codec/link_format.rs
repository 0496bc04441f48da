//! The CoRE link format (RFC 6690), which lists a server's resources.
//!
//! ```
//! use conche_proto::codec::link_format::{Filter, Links};
//!
//! let document = r#"</sensors>;ct=40;title="Sensor Index",</sensors/light>;rt="light-lux core.sen-light";if="sensor""#;
//! let wanted = Filter::new("rt=core.*");
//! let mut found = Links::read(document).filter_map(Result::ok).filter(|link| wanted.selects(link));
//! assert_eq!(found.next().map(|link| link.target()), Some("/sensors/light"));
//! assert!(found.next().is_none());
//! ```
//!
//! Unlike the RFC, reading skips white space around `,` and `;`, for interoperability.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;
use core::iter::FusedIterator;

use thiserror::Error;

/// Iterator over the links of a text. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Links<'a> {
    cursor: Cursor<'a>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    /// A link must follow the comma.
    More,
    Over,
}

impl<'a> Links<'a> {
    /// Reads the links of a text lazily.
    #[must_use]
    pub const fn read(text: &'a str) -> Self {
        Self { cursor: Cursor { text, at: 0 }, state: State::Start }
    }

    fn link(&mut self) -> Result<Link<'a>, LinkError> {
        let cursor = &mut self.cursor;
        if !cursor.take(b'<') {
            return Err(cursor.expected("\"<\" and the target of a link"));
        }
        let target = cursor.take_while(|byte| byte != b'>');
        if !cursor.take(b'>') {
            return Err(cursor.expected("\">\" behind the target of the link"));
        }
        let start = cursor.at;
        let end = loop {
            let end = cursor.at;
            cursor.skip_space();
            match cursor.peek() {
                None => {
                    self.state = State::Over;
                    break end;
                }
                Some(b',') => {
                    cursor.at += 1;
                    self.state = State::More;
                    break end;
                }
                Some(b';') => cursor.attribute()?,
                Some(_) => return Err(cursor.expected("\";\" and an attribute, or \",\" and the next link")),
            };
        };
        let attributes = Attributes { cursor: Cursor { text: cursor.between(start, end), at: 0 } };
        Ok(Link { target, attributes })
    }
}

impl<'a> Iterator for Links<'a> {
    type Item = Result<Link<'a>, LinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.skip_space();
        let nothing = self.state == State::Start && self.cursor.peek().is_none();
        if nothing || self.state == State::Over {
            return None;
        }
        let link = self.link();
        if link.is_err() {
            self.state = State::Over;
        }
        Some(link)
    }
}

impl FusedIterator for Links<'_> {}

/// A link: target and attributes.
#[derive(Clone, Debug)]
pub struct Link<'a> {
    target: &'a str,
    attributes: Attributes<'a>,
}

impl<'a> Link<'a> {
    /// Returns the URI reference between `<` and `>`, unchanged.
    #[must_use]
    pub const fn target(&self) -> &'a str {
        self.target
    }

    /// Returns the attributes in order.
    #[must_use]
    pub fn attributes(&self) -> Attributes<'a> {
        self.attributes.clone()
    }

    /// Returns the first attribute of this name, in any case (RFC 8288 §3).
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<Attribute<'a>> {
        self.attributes().find(|attribute| attribute.name.eq_ignore_ascii_case(name))
    }

    /// Returns an attribute's value; empty for one without a value, such as `obs`.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value<'a>> {
        self.attribute(name).map(|attribute| attribute.value)
    }
}

/// Iterator over the attributes of a link.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        self.cursor.skip_space();
        self.cursor.peek()?;
        // Checked when the link was read.
        self.cursor.attribute().ok()
    }
}

/// A target attribute: `rt="temperature"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The name: `rt`.
    pub name: &'a str,
    /// The value; empty if the attribute has none.
    pub value: Value<'a>,
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value<'a> {
    /// The value without surrounding quotes, still escaped.
    raw: &'a str,
    escaped: bool,
}

impl<'a> Value<'a> {
    /// Returns the unescaped value.
    #[must_use]
    pub fn text(&self) -> Cow<'a, str> {
        if self.escaped { Cow::Owned(self.chars().collect::<String>()) } else { Cow::Borrowed(self.raw) }
    }

    /// Returns the characters of the unescaped value.
    pub fn chars(&self) -> impl Iterator<Item = char> + Clone + use<'a> {
        let (mut raw, escaped) = (self.raw.chars(), self.escaped);
        core::iter::from_fn(move || match raw.next()? {
            '\\' if escaped => raw.next(),
            character => Some(character),
        })
    }

    /// Returns the space-separated values of a list (RFC 6690 §3.1).
    pub fn words(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let escaped = self.escaped;
        self.raw.split(' ').map(move |raw| Value { raw, escaped })
    }
}

/// Prints the unescaped value.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// A syntax error in a list of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the links are malformed at byte {position}: {expected} was expected there")]
pub struct LinkError {
    /// Byte offset of the error in the text.
    pub position: usize,
    /// The syntax expected there.
    pub expected: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    text: &'a str,
    /// Byte offset.
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Consumes bytes while `wanted`, which must select only ASCII or stop only at ASCII.
    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        self.between(start, self.at)
    }

    fn skip_space(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    }

    fn between(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn expected(&self, expected: &'static str) -> LinkError {
        LinkError { position: self.at, expected }
    }

    fn attribute(&mut self) -> Result<Attribute<'a>, LinkError> {
        self.take(b';');
        self.skip_space();
        let name = self.take_while(is_name);
        if name.is_empty() {
            return Err(self.expected("the name of an attribute"));
        }
        let value = if self.take(b'=') { self.value()? } else { Value::default() };
        Ok(Attribute { name, value })
    }

    fn value(&mut self) -> Result<Value<'a>, LinkError> {
        if !self.take(b'"') {
            let raw = self.take_while(|byte| byte.is_ascii_graphic() && !matches!(byte, b',' | b';' | b'"' | b'\\'));
            return match raw {
                "" => Err(self.expected("the value of an attribute")),
                raw => Ok(Value { raw, escaped: false }),
            };
        }
        let (start, mut escaped) = (self.at, false);
        loop {
            self.take_while(|byte| byte != b'"' && byte != b'\\');
            let end = self.at;
            if self.take(b'"') {
                return Ok(Value { raw: self.between(start, end), escaped });
            }
            if !self.take(b'\\') {
                return Err(self.expected("'\"' behind the value of an attribute"));
            }
            escaped = true;
            // After a backslash, only these two matter; anything else is skipped later.
            if !self.take(b'"') {
                self.take(b'\\');
            }
        }
    }
}

/// Returns `true` for RFC 5987 attr-char, and the `*` of `title*`.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~*".contains(&byte)
}

/// A filter for links: a query argument of a request to `/.well-known/core`.
///
/// - `name=value` selects links whose attribute has this value. List attributes (`rt`, `if`, `rel`,
///   `rev`, `ct`) match by any of their values; `href` matches the target, percent-encoded or not.
/// - `name=start*` selects links whose value starts with `start`.
/// - `name` selects links that have the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<'a> {
    name: &'a str,
    pattern: &'a str,
    prefix: bool,
}

impl<'a> Filter<'a> {
    /// Creates the filter for a query argument; every argument is valid.
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

/// Attributes whose values match one by one (RFC 6690 §3.1, §3.2, RFC 7252 §7.2.1, RFC 8288 §3.3).
fn is_list(name: &str) -> bool {
    ["rt", "if", "rel", "rev", "ct"].iter().any(|list| name.eq_ignore_ascii_case(list))
}

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

/// Writes a list of links.
///
/// ```
/// use conche_proto::codec::link_format::LinkWriter;
///
/// let mut text = String::new();
/// let mut links = LinkWriter::new(&mut text);
/// links.link("/sensors/light")?.attribute("rt", "light-lux core.sen-light")?.attribute("ct", "0")?.attribute("obs", "")?;
/// links.link("/firmware")?.attribute("sz", "262144")?;
/// assert_eq!(text, r#"</sensors/light>;rt="light-lux core.sen-light";ct=0;obs,</firmware>;sz=262144"#);
/// # Ok::<(), conche_proto::codec::link_format::LinkWriteError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinkWriter<W> {
    out: W,
    separated: bool,
}

impl<W: fmt::Write> LinkWriter<W> {
    /// Creates a writer that appends to `out`, without previous links.
    pub const fn new(out: W) -> Self {
        Self { out, separated: false }
    }

    /// Starts a link to a percent-encoded URI reference.
    ///
    /// # Errors
    /// If the target contains a space, a control character, or one of `<`, `>` and `"`; nothing is
    /// written.
    pub fn link(&mut self, target: &str) -> Result<&mut Self, LinkWriteError> {
        if target.contains(|character: char| matches!(character, '<' | '>' | '"' | ' ') || character.is_control()) {
            return Err(LinkWriteError::Target);
        }
        let comma = if self.separated { "," } else { "" };
        self.separated = true;
        write!(self.out, "{comma}<{target}>")?;
        Ok(self)
    }

    /// Appends an attribute to the current link; only its name for an empty value.
    ///
    /// # Errors
    /// If the name is invalid, the value contains a control character, or no link was started;
    /// nothing is written.
    pub fn attribute(&mut self, name: &str, value: &str) -> Result<&mut Self, LinkWriteError> {
        if !self.separated {
            return Err(LinkWriteError::NoLink);
        }
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(LinkWriteError::Name);
        }
        if value.contains(char::is_control) {
            return Err(LinkWriteError::Value);
        }
        write!(self.out, ";{name}")?;
        // By convention, only numbers are unquoted.
        let number = value.bytes().all(|byte| byte.is_ascii_digit());
        match value {
            "" => {}
            value if number => write!(self.out, "={value}")?,
            value => {
                self.out.write_str("=\"")?;
                for character in value.chars() {
                    if matches!(character, '"' | '\\') {
                        self.out.write_char('\\')?;
                    }
                    self.out.write_char(character)?;
                }
                self.out.write_char('"')?;
            }
        }
        Ok(self)
    }

    /// Writes a link that was read.
    ///
    /// # Errors
    /// As for [`link`](Self::link) and [`attribute`](Self::attribute), which are stricter than the
    /// reader.
    pub fn copy(&mut self, link: &Link<'_>) -> Result<&mut Self, LinkWriteError> {
        self.link(link.target())?;
        link.attributes().try_fold(self, |links, attribute| links.attribute(attribute.name, &attribute.value.text()))
    }
}

/// Reason why a link cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkWriteError {
    /// The target is not a URI reference.
    #[error("the target has a space, a control character, or one of < > \": percent-encode it")]
    Target,
    /// The attribute name is invalid.
    #[error("the name of an attribute consists of letters, digits and !#$&+-.^_`|~*, and has one at least")]
    Name,
    /// The value contains a control character.
    #[error("the value of an attribute has a control character: leave it out")]
    Value,
    /// An attribute was written before any link.
    #[error("an attribute was given before any link: begin with the link")]
    NoLink,
    /// The output is full.
    #[error("the links do not fit where they are written to")]
    Full,
}

impl From<fmt::Error> for LinkWriteError {
    fn from(_: fmt::Error) -> Self {
        Self::Full
    }
}

#[cfg(test)]
mod tests;
