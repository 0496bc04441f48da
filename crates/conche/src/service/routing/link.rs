//! The content of `/.well-known/core` (RFC 6690 §4): links, filtered by query.

use std::borrow::Cow;

use conche_proto::codec::encode_path;
use conche_proto::codec::link_format::{Filter, LinkWriteError, LinkWriter, Links};

/// A link to a resource, in link format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link(String);

/// The attributes of a link, in insertion order.
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
}

impl Link {
    pub(super) fn new<'a>(
        segments: impl IntoIterator<Item = &'a str>,
        attributes: &Attributes,
    ) -> Result<Self, LinkWriteError> {
        let target = encode_path(segments.into_iter().map(str::as_bytes));
        let mut text = String::new();
        let mut links = LinkWriter::new(&mut text);
        links.link(&target)?;
        attributes.0.iter().try_for_each(|(name, value)| links.attribute(name, value).map(drop))?;
        Ok(Self(text))
    }

    fn is_selected_by(&self, filters: &[Filter<'_>]) -> bool {
        let link = Links::read(&self.0).find_map(Result::ok);
        link.is_some_and(|link| filters.iter().all(|filter| filter.selects(&link)))
    }
}

/// Returns a document of the links that match all query arguments.
pub(super) fn document<'a>(links: impl Iterator<Item = &'a Link>, query: impl Iterator<Item = Cow<'a, str>>) -> String {
    let query: Vec<_> = query.collect();
    let filters: Vec<_> = query.iter().map(|argument| Filter::new(argument)).collect();
    let wanted: Vec<_> = links.filter(|link| link.is_selected_by(&filters)).map(|link| link.0.as_str()).collect();
    wanted.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(segments: &[&str], pairs: &[(&str, &str)]) -> Link {
        let mut attributes = Attributes::default();
        pairs.iter().for_each(|(name, value)| attributes.add(name, value));
        Link::new(segments.iter().copied(), &attributes).expect("a legal link")
    }

    /// The links of RFC 6690 §5 that are local to the server.
    fn links() -> Vec<Link> {
        vec![
            link(&["sensors"], &[("ct", "40"), ("title", "Sensor Index")]),
            link(&["sensors", "temp"], &[("rt", "temperature-c"), ("if", "sensor")]),
            link(&["sensors", "light"], &[("rt", "light-lux"), ("rt", "core.sen-light"), ("if", "sensor")]),
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
    fn a_query_selects_what_all_of_its_arguments_ask_for() {
        let light = "</sensors/light>;rt=\"light-lux core.sen-light\";if=\"sensor\"";
        let temperature = "</sensors/temp>;rt=\"temperature-c\";if=\"sensor\"";
        assert_eq!(found("if=sensor"), format!("{temperature},{light}"));
        assert_eq!(found("if=sensor&rt=t*"), temperature);
        assert_eq!(found("href=/sensors/*&rt=core.*"), light);
        assert_eq!(found("nope=1"), "");
    }

    #[test]
    fn what_would_end_a_link_is_escaped_or_refused() {
        let written = link(&["a/b>", "ü"], &[("title", r#"a"b\c"#), ("obs", "")]);
        assert_eq!(written.0, r#"</a%2Fb%3E/%C3%BC>;title="a\"b\\c";obs"#);
        assert_eq!(link(&[], &[]).0, "</>");
        let mut attributes = Attributes::default();
        attributes.add("r;t", "x");
        assert_eq!(Link::new(["a"], &attributes), Err(LinkWriteError::Name));
    }
}
