//! Reading the CoRE link format (RFC 6690 §2).

use thiserror::Error;

/// A link to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What stands between the angle brackets.
    pub target: String,
    /// Names and values in their order; a flag such as `obs` has an empty value.
    pub attributes: Vec<(String, String)>,
}

impl Link {
    /// The value of an attribute; of several with this name the first, as RFC 6690 §2.1 has it for most.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// Where a text stops being a list of links.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{expected} was expected at byte {position}")]
pub struct LinkError {
    expected: &'static str,
    position: usize,
}

/// Reads a list of links, which may be empty.
///
/// # Errors
/// Where it is none, and what was expected there.
pub fn parse(text: &str) -> Result<Vec<Link>, LinkError> {
    let mut reader = Reader { text, rest: text.trim() };
    let mut links = Vec::new();
    while !reader.rest.is_empty() {
        if !links.is_empty() {
            reader.expect(',', "a comma or semicolon")?;
        }
        links.push(reader.link()?);
    }
    Ok(links)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Reader<'_> {
    fn link(&mut self) -> Result<Link, LinkError> {
        self.expect('<', "\"<\" before a target")?;
        let end = self.rest.find('>').ok_or_else(|| self.error("\">\" after the target"))?;
        let target = self.take(end).to_owned();
        self.expect('>', "\">\" after the target")?;
        let mut attributes = Vec::new();
        while self.next_is(';') {
            let name = self.word();
            if name.is_empty() {
                return Err(self.error("the name of an attribute"));
            }
            let value = if self.next_is('=') { self.value()? } else { String::new() };
            attributes.push((name, value));
        }
        Ok(Link { target, attributes })
    }

    fn value(&mut self) -> Result<String, LinkError> {
        if !self.next_is('"') {
            return Ok(self.word());
        }
        let mut value = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((index, character)) = characters.next() {
            match character {
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                '"' => {
                    self.take(index + 1);
                    return Ok(value);
                }
                other => value.push(other),
            }
        }
        Err(self.error("a quotation mark after the value"))
    }

    /// What stands before the next character that separates.
    fn word(&mut self) -> String {
        let end = self.rest.find([';', ',', '=', '"', '<']).unwrap_or(self.rest.len());
        self.take(end).trim().to_owned()
    }

    /// Passes over this character if it is the next but for white space, which some servers add.
    fn next_is(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(wanted);
        if let Some(rest) = rest {
            self.rest = rest;
        }
        rest.is_some()
    }

    fn expect(&mut self, wanted: char, expected: &'static str) -> Result<(), LinkError> {
        if self.next_is(wanted) { Ok(()) } else { Err(self.error(expected)) }
    }

    fn take(&mut self, end: usize) -> &str {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn error(&self, expected: &'static str) -> LinkError {
        // The rest is the end of the text but for white space behind it.
        LinkError { expected, position: self.text.trim_end().len() - self.rest.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(target: &str, attributes: &[(&str, &str)]) -> Link {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Link { target: target.to_owned(), attributes: attributes.collect() }
    }

    // RFC 6690 §5, and what servers make of it.
    #[test]
    fn links_are_read_with_their_attributes() {
        for (text, expected) in [
            ("", vec![]),
            ("</a>", vec![link("/a", &[])]),
            (
                "</sensors>;ct=40;title=\"Sensor, \\\"Index\\\"\",</b;c>;obs",
                vec![link("/sensors", &[("ct", "40"), ("title", "Sensor, \"Index\"")]), link("/b;c", &[("obs", "")])],
            ),
            (
                "<http://example.com/t>;anchor=\"/s\";rel=\"describedby\" ,\n </t>;rt=a ;if=\"b\"",
                vec![
                    link("http://example.com/t", &[("anchor", "/s"), ("rel", "describedby")]),
                    link("/t", &[("rt", "a"), ("if", "b")]),
                ],
            ),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_link_says_where() {
        for (text, message) in [
            ("hello", "\"<\" before a target was expected at byte 0"),
            ("</a", "\">\" after the target was expected at byte 1"),
            ("</a></b>", "a comma or semicolon was expected at byte 4"),
            ("</a>;=1", "the name of an attribute was expected at byte 5"),
            ("</a>;b=\"c", "a quotation mark after the value was expected at byte 8"),
            ("</a>,", "\"<\" before a target was expected at byte 5"),
        ] {
            assert_eq!(parse(text).map_err(|error| error.to_string()), Err(message.to_owned()), "{text}");
        }
    }
}
