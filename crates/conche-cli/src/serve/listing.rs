//! Files and directories as links (RFC 6690).

use std::borrow::Cow;

use conche::codec::encode_path;
use conche::codec::link_format::{Filter, LinkWriteError, LinkWriter, Links};
use conche::server::Rejection;
use conche::{Code, ContentFormat};

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path below the served directory, without a slash at either end.
    pub path: String,
    pub format: Option<ContentFormat>,
    pub directory: bool,
    /// Size in bytes.
    pub size: Option<u32>,
    /// Whether it is a symbolic link.
    pub is_link: bool,
}

/// Returns links to the entries that match all arguments of the query.
pub fn links<'a>(entries: &[Entry], query: impl Iterator<Item = Cow<'a, str>>) -> Result<String, Rejection> {
    let query: Vec<_> = query.collect();
    let filters: Vec<_> = query.iter().map(|argument| Filter::new(argument)).collect();
    let failed = |error: LinkWriteError| Rejection::new(Code::INTERNAL_SERVER_ERROR, error.to_string());
    let all = write(entries).map_err(failed)?;
    if filters.is_empty() {
        return Ok(all);
    }
    let mut text = String::new();
    let mut selected = LinkWriter::new(&mut text);
    for link in Links::read(&all).flatten().filter(|link| filters.iter().all(|filter| filter.selects(link))) {
        selected.copy(&link).map_err(failed)?;
    }
    Ok(text)
}

fn write(entries: &[Entry]) -> Result<String, LinkWriteError> {
    let mut text = String::new();
    let mut links = LinkWriter::new(&mut text);
    for entry in entries {
        // A directory's path ends in a slash: its last segment is empty.
        let segments = entry.path.split('/').chain(entry.directory.then_some(""));
        links.link(&encode_path(segments.map(str::as_bytes)))?;
        if let Some(format) = entry.format {
            links.attribute("ct", &format.0.to_string())?;
        }
        if let Some(size) = entry.size {
            links.attribute("sz", &size.to_string())?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_links_with_format_and_size_and_are_found_by_them() {
        let file = |path: &str, format, size| Entry {
            path: path.to_owned(),
            format,
            directory: false,
            size: Some(size),
            is_link: false,
        };
        let entries = [
            file("a b{c}.json", Some(ContentFormat::JSON), 2),
            file("sub/x", None, 0),
            Entry { format: Some(ContentFormat::LINK_FORMAT), directory: true, size: None, ..file("sub", None, 0) },
        ];
        let found = |query: &[&str]| links(&entries, query.iter().map(|argument| Cow::from(*argument))).expect("links");
        assert_eq!(found(&[]), "</a%20b%7Bc%7D.json>;ct=50;sz=2,</sub/x>;sz=0,</sub/>;ct=40");
        assert_eq!(found(&["href=/sub*"]), "</sub/x>;sz=0,</sub/>;ct=40");
        assert_eq!(found(&["href=/sub*", "sz=*"]), "</sub/x>;sz=0");
        assert_eq!(found(&["ct=60"]), "");
    }
}
