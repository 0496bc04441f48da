//! Writes links (RFC 6690 §2).

use core::fmt;

use thiserror::Error;

use super::Link;
use super::read::is_name;

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
    /// At least one link was written.
    separated: bool,
}

impl<W: fmt::Write> LinkWriter<W> {
    /// Creates a writer that appends to `out`, which must not contain links yet.
    pub const fn new(out: W) -> Self {
        Self { out, separated: false }
    }

    /// Starts a link to a percent-encoded URI reference.
    ///
    /// # Errors
    /// If the target contains a space, a control character, or one of `<`, `>` and `"`. Nothing is
    /// written then.
    pub fn link(&mut self, target: &str) -> Result<&mut Self, LinkWriteError> {
        if target.contains(|character: char| matches!(character, '<' | '>' | '"' | ' ') || character.is_control()) {
            return Err(LinkWriteError::Target);
        }
        let comma = if self.separated { "," } else { "" };
        self.separated = true;
        write!(self.out, "{comma}<{target}>")?;
        Ok(self)
    }

    /// Appends an attribute to the current link. For an empty value only the name is written.
    ///
    /// # Errors
    /// If the name is invalid, the value contains a control character, or no link was started.
    /// Nothing is written then.
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
        // Any token may be unquoted, but by convention only numbers are.
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

    /// Writes a link that was read, with all its attributes.
    ///
    /// # Errors
    /// As for [`link`](Self::link) and [`attribute`](Self::attribute), which are stricter than the
    /// reader.
    pub fn copy(&mut self, link: &Link<'_>) -> Result<&mut Self, LinkWriteError> {
        self.link(link.target())?;
        link.attributes().try_fold(self, |links, attribute| links.attribute(attribute.name, &attribute.value.text()))
    }
}

/// AbandonReason a link cannot be written.
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
