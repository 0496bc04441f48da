//! Prints messages, such as `CON GET [0x1a2b] token=0a0b Uri-Path=a "payload"`, and text from
//! peers.

use core::fmt::{self, Write as _};

use super::{Block, Code, Content, Message, OptionFormat, OptionNumber, RawOption, decode_uint};

const PRINTED: usize = 64;

/// Text from a peer, safe for logs and terminals: escapes control characters and characters that
/// reorder text, as Rust does.
///
/// ```
/// use conche_proto::codec::Escaped;
///
/// assert_eq!(Escaped("it's \x1b[2J gone\n").to_string(), r"it's \u{1b}[2J gone\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match is_harmless(character) {
            true => f.write_char(character),
            false => write!(f, "{}", character.escape_default()),
        })
    }
}

/// Prints bytes in hexadecimal.
///
/// ```
/// use conche_proto::codec::Hexadecimal;
///
/// assert_eq!(Hexadecimal(b"\x0a\xff").to_string(), "0aff");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hexadecimal<'a>(pub &'a [u8]);

impl fmt::Display for Hexadecimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Returns `false` for control characters, line separators, and changes of the writing direction
/// (Unicode UAX #9).
fn is_harmless(character: char) -> bool {
    let separates = matches!(character, '\u{2028}' | '\u{2029}');
    let turns =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !separates && !turns
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.ty())?;
        write_code(f, self.code())?;
        write!(f, " [{}]", self.id())?;
        write_behind_code(f, self)
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({self})")
    }
}

/// Prints a message without type and message ID: `GET token=0a0b Uri-Path=a`.
impl fmt::Display for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_code(f, self.code())?;
        write_behind_code(f, self)
    }
}

impl fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({self})")
    }
}

/// Prints `Uri-Path=test`; in hexadecimal if the value does not match the option's format.
impl fmt::Display for RawOption<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        let format = self.number.spec().map_or(OptionFormat::Opaque, |spec| spec.format);
        if matches!(self.number, OptionNumber::BLOCK1 | OptionNumber::BLOCK2)
            && let Ok(block) = Block::decode(self.value)
        {
            return write!(f, "={block}");
        }
        match (format, decode_uint(self.value), printable(self.value)) {
            (OptionFormat::Empty, ..) if self.value.is_empty() => Ok(()),
            (OptionFormat::Uint, Some(number), _) => write!(f, "={number}"),
            (OptionFormat::String, _, Some(text)) => write!(f, "={text}"),
            _ => {
                f.write_str("=0x")?;
                Hexadecimal(self.value).fmt(f)
            }
        }
    }
}

fn write_code(f: &mut fmt::Formatter<'_>, code: Code) -> fmt::Result {
    match code.description() {
        Some(method) if code.class() == 0 => f.write_str(method),
        _ => write!(f, "{code:?}"),
    }
}

fn write_behind_code(f: &mut fmt::Formatter<'_>, content: &Content<'_>) -> fmt::Result {
    if !content.token().is_empty() {
        write!(f, " token={}", content.token())?;
    }
    for option in content.options() {
        write!(f, " {option}")?;
    }
    match content.payload() {
        [] => Ok(()),
        payload => write_payload(f, payload),
    }
}

fn write_payload(f: &mut fmt::Formatter<'_>, payload: &[u8]) -> fmt::Result {
    let shown = match printable(payload) {
        Some(text) => {
            let ends = text.char_indices().map(|(start, character)| start + character.len_utf8());
            let shown = ends.take_while(|&end| end <= PRINTED).last().unwrap_or(0);
            write!(f, " \"{}\"", text.get(..shown).unwrap_or(text))?;
            shown
        }
        None => {
            let shown = payload.get(..PRINTED).unwrap_or(payload);
            write!(f, " 0x{}", Hexadecimal(shown))?;
            shown.len()
        }
    };
    if shown < payload.len() {
        write!(f, "… ({} bytes)", payload.len())?;
    }
    Ok(())
}

/// Returns UTF-8 text that cannot control a terminal.
fn printable(bytes: &[u8]) -> Option<&str> {
    core::str::from_utf8(bytes).ok().filter(|text| text.chars().all(is_harmless))
}
