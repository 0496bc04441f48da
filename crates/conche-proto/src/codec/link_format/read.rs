//! Reads links (RFC 6690 §2).
//!
//! One divergence from the RFC, for interoperability: white space around `,` and `;` is skipped.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;
use core::iter::FusedIterator;

use thiserror::Error;

/// Iterator over the links of a text. It ends after the first error, since the position of the next
/// link is then unknown.
#[derive(Clone, Debug)]
pub struct Links<'a> {
    cursor: Cursor<'a>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was read yet: the text may have no links.
    Start,
    /// A comma was read: a link must follow.
    More,
    /// The text has no further link.
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

    /// Returns the first attribute of this name; further ones are ignored (RFC 8288 §3). Names are
    /// case-insensitive.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<Attribute<'a>> {
        self.attributes().find(|attribute| attribute.name.eq_ignore_ascii_case(name))
    }

    /// Returns the value of an attribute. An attribute without a value, such as `obs`, has an empty
    /// one.
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
        // Cannot fail: the attributes were checked when the link was read.
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
    /// `raw` contains backslash escapes.
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
    /// Offset of the error in the text, in bytes.
    pub position: usize,
    /// The syntax expected there.
    pub expected: &'static str,
}

/// A position in a text.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    text: &'a str,
    /// Byte offset; always next to an ASCII character, hence at a character boundary.
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

    /// Consumes bytes while they are `wanted`, which must select only ASCII or stop only at ASCII.
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

    /// Consumes an attribute and the semicolon before it.
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
            // Only these two characters change their meaning after a backslash. The first byte of
            // any other character is skipped together with the rest of the character.
            if !self.take(b'"') {
                self.take(b'\\');
            }
        }
    }
}

/// Returns `true` for characters of attribute names (attr-char of RFC 5987, and the `*` of
/// `title*`).
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~*".contains(&byte)
}
