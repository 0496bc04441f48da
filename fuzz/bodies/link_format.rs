//! Any text is read as links or refused; links can be filtered, and written with the same meaning.

use conche_proto::codec::link_format::{Filter, Link, LinkWriter, Links};

/// Links up to the first line feed; then a query that filters them.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (document, query) = text.split_once('\n').unwrap_or((&text, ""));
    let filter = Filter::new(query);
    let mut read = 0;
    for link in Links::read(document) {
        match link {
            Ok(link) => {
                read += link.target().len() + 2;
                let _ = filter.selects(&link);
                assert!(Filter::new("href=*").selects(&link));
                write(&link);
            }
            Err(error) => assert!(error.position <= document.len() && document.is_char_boundary(error.position)),
        }
    }
    assert!(read <= document.len(), "no link was read twice");
}

fn write(link: &Link<'_>) {
    let mut written = String::new();
    if LinkWriter::new(&mut written).copy(link).is_err() {
        return;
    }
    let mut links = Links::read(&written);
    let again = links.next().expect("a link was written").expect("what is written can be read");
    assert!(links.next().is_none());
    assert_eq!(again.target(), link.target());
    let said = |link: &Link<'_>| {
        let attributes =
            link.attributes().map(|attribute| (attribute.name.to_owned(), attribute.value.text().into_owned()));
        attributes.collect::<Vec<_>>()
    };
    assert_eq!(said(&again), said(link));
}
