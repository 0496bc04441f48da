//! The CoRE link format (RFC 6690): writing links, and filtering them by a query.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use fluent_uri::pct_enc::{EString, encoder::Path};

/// A link to a resource of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The absolute path, percent-encoded.
    target: String,
    attributes: Attributes,
}

/// The attributes of a link, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<(String, String)>);

impl Attributes {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, list)) => {
                list.push(' ');
                list.push_str(value);
            }
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
    }

    /// The first name that is none.
    pub(super) fn illegal(&self) -> Option<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).find(|name| !is_name(name))
    }
}

/// A `parmname` (RFC 6690 §2, RFC 5987 §3.2.1).
fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(legal)
}

impl Link {
    pub(super) fn new<'a>(segments: impl IntoIterator<Item = &'a str>, attributes: Attributes) -> Self {
        let mut target = EString::<Path>::new();
        for segment in segments {
            target.push('/');
            target.encode_str::<Segment>(segment);
        }
        if target.is_empty() {
            target.push('/');
        }
        Self { target: target.into_string(), attributes }
    }

    /// Whether it is among what a query `name=pattern` asks for (RFC 6690 §4.1). A pattern that ends in `*` matches
    /// everything that begins so. An argument without `=` asks whether there is such an attribute.
    pub(super) fn matches(&self, argument: &str) -> bool {
        let (name, pattern) = argument.split_once('=').unwrap_or((argument, "*"));
        let fits = |value: &str| match pattern.strip_suffix('*') {
            Some(prefix) => value.starts_with(prefix),
            None => value == pattern,
        };
        if name == "href" {
            return fits(&self.target);
        }
        let values = self.attributes.0.iter().filter(|(other, _)| other == name);
        let mut values = values.map(|(_, value)| value.as_str());
        if is_list(name) { values.any(|list| list.split(' ').any(fits)) } else { values.any(fits) }
    }
}

/// Whether the values of this attribute are lists that are matched value by value.
fn is_list(name: &str) -> bool {
    matches!(name, "rt" | "if" | "rel" | "rev" | "ct")
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.target)?;
        for (name, value) in &self.attributes.0 {
            write!(f, ";{name}")?;
            // "ptoken" needs no quotes, but only numbers are customarily written without.
            let number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            match value.as_str() {
                "" => {}
                value if number => write!(f, "={value}")?,
                value => {
                    f.write_str("=\"")?;
                    for character in value.chars() {
                        if matches!(character, '"' | '\\') {
                            f.write_char('\\')?;
                        }
                        f.write_char(character)?;
                    }
                    f.write_char('"')?;
                }
            }
        }
        Ok(())
    }
}

/// A document of links, those that all arguments of the query ask for.
pub(super) fn document<'a>(links: impl Iterator<Item = &'a Link>, query: impl Iterator<Item = Cow<'a, str>>) -> String {
    let query: Vec<_> = query.collect();
    let wanted = links.filter(|link| query.iter().all(|argument| link.matches(argument)));
    let mut document = String::new();
    for link in wanted {
        let comma = if document.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(document, "{comma}{link}");
    }
    document
}

/// What may stand in one path segment: not the slash between segments.
struct Segment;

impl fluent_uri::pct_enc::Encoder for Segment {
    const TABLE: &'static fluent_uri::pct_enc::Table = &Path::TABLE.sub(&fluent_uri::pct_enc::Table::new(b"/"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> Attributes {
        let mut attributes = Attributes::default();
        pairs.iter().for_each(|(name, value)| attributes.add(name, value));
        attributes
    }

    /// The links of RFC 6690 §5, as far as they are on the server itself.
    fn links() -> Vec<Link> {
        vec![
            Link::new(["sensors"], attributes(&[("ct", "40"), ("title", "Sensor Index")])),
            Link::new(["sensors", "temp"], attributes(&[("rt", "temperature-c"), ("if", "sensor")])),
            Link::new(
                ["sensors", "light"],
                attributes(&[("rt", "light-lux"), ("rt", "core.sen-light"), ("if", "sensor")]),
            ),
        ]
    }

    fn found(query: &str) -> String {
        document(links().iter(), query.split('&').filter(|argument| !argument.is_empty()).map(Cow::from))
    }

    #[test]
    fn links_are_written_as_in_rfc_6690_section_5() {
        assert_eq!(
            found(""),
            "</sensors>;ct=40;title=\"Sensor Index\",\
             </sensors/temp>;rt=\"temperature-c\";if=\"sensor\",\
             </sensors/light>;rt=\"light-lux core.sen-light\";if=\"sensor\""
        );
    }

    #[test]
    fn a_query_selects_by_target_and_attribute_whole_or_by_prefix() {
        let light = "</sensors/light>;rt=\"light-lux core.sen-light\";if=\"sensor\"";
        let temperature = "</sensors/temp>;rt=\"temperature-c\";if=\"sensor\"";
        let both = format!("{temperature},{light}");
        for (query, expected) in [
            ("rt=light-lux", light),
            ("rt=core.sen-light", light),
            ("rt=core.sen", ""),
            ("rt=core.*", light),
            ("if=sensor", &both),
            ("rt=*", &both),
            ("rt", &both),
            ("href=/sensors/temp", temperature),
            ("href=/sensors/*", &both),
            ("if=sensor&rt=t*", temperature),
            ("title=Sensor Index", "</sensors>;ct=40;title=\"Sensor Index\""),
            ("title=Sensor", ""),
            ("nope=1", ""),
        ] {
            assert_eq!(found(query), expected, "{query}");
        }
    }

    #[test]
    fn what_would_end_a_link_is_escaped() {
        let link = Link::new(["a/b>", "ü"], attributes(&[("title", r#"a"b\c"#), ("obs", "")]));
        assert_eq!(link.to_string(), r#"</a%2Fb%3E/%C3%BC>;title="a\"b\\c";obs"#);
        assert_eq!(Link::new([], Attributes::default()).to_string(), "</>");
    }
}
