//! The examples of RFC 6690 §5, the queries of ETSI's CoRE LINK test description, and malformed
//! links.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;

/// The example of RFC 6690 §5.
const SENSORS: &str = "</sensors>;ct=40;title=\"Sensor Index\",\
    </sensors/temp>;rt=\"temperature-c\";if=\"sensor\",\
    </sensors/light>;rt=\"light-lux core.sen-light\";if=\"sensor\",\
    <http://www.example.com/sensors/t123>;anchor=\"/sensors/temp\";rel=\"describedby\",\
    </t>;anchor=\"/sensors/temp\";rel=\"alternate\"";

/// The resources that ETSI's test description requires of a server.
const ETSI: &str = "</>;title=\"root\";ct=0,\
    </link1>;rt=\"Type1 Type2\";if=\"If1\",\
    </link2>;rt=\"Type2 Type3\";if=\"If2\",\
    </link3>;rt=\"Type1 Type3\";if=\"foo\",\
    </large>;sz=1700,\
    </path>;ct=40,</path/sub1>,</path/sub2>,</test>;obs";

fn targets(document: &str, query: &str) -> Vec<String> {
    let filters: Vec<_> = query.split('&').filter(|argument| !argument.is_empty()).map(Filter::new).collect();
    let links = Links::read(document).map(|link| link.expect("well-formed"));
    let links = links.filter(|link| filters.iter().all(|filter| filter.selects(link)));
    links.map(|link| link.target().to_string()).collect()
}

// RFC 6690 §5
#[test]
fn links_of_the_rfc_example_are_parsed_with_all_attributes() {
    let links: Vec<_> = Links::read(SENSORS).collect::<Result<_, _>>().expect("well-formed");
    assert_eq!(links.len(), 5);
    let index = &links[0];
    assert_eq!(index.target(), "/sensors");
    let said: Vec<_> = index.attributes().map(|attribute| (attribute.name, attribute.value.to_string())).collect();
    assert_eq!(said, [("ct", "40".to_string()), ("title", "Sensor Index".to_string())]);
    let types: Vec<_> = links[2].value("rt").expect("it has types").words().map(|word| word.to_string()).collect();
    assert_eq!(types, ["light-lux", "core.sen-light"]);
    assert_eq!(links[3].target(), "http://www.example.com/sensors/t123");
    assert_eq!(links[3].value("REL").map(|value| value.to_string()).as_deref(), Some("describedby"));
}

#[test]
fn copied_links_equal_the_parsed_document() {
    for document in [SENSORS, ETSI, "", "</a>;title=\"a\\\"b\\\\c\";obs", "<>"] {
        let mut written = String::new();
        let mut links = LinkWriter::new(&mut written);
        for link in Links::read(document) {
            links.copy(&link.expect("well-formed")).expect("it can be written");
        }
        assert_eq!(written, document);
    }
}

// RFC 6690 §4.1 (Q209)
#[test]
fn etsi_link_queries_select_the_expected_links() {
    for (case, query, expected) in [
        (
            "LINK_01",
            "",
            &["/", "/link1", "/link2", "/link3", "/large", "/path", "/path/sub1", "/path/sub2", "/test"][..],
        ),
        ("LINK_02", "rt=Type1", &["/link1", "/link3"]),
        ("LINK_03", "rt=*", &["/link1", "/link2", "/link3"]),
        ("LINK_04", "rt=Type2", &["/link1", "/link2"]),
        ("LINK_05", "if=If*", &["/link1", "/link2"]),
        ("LINK_06", "sz=*", &["/large"]),
        ("LINK_07", "href=/link1", &["/link1"]),
        ("LINK_08", "href=/link*", &["/link1", "/link2", "/link3"]),
        ("LINK_09", "href=/path/*", &["/path/sub1", "/path/sub2"]),
    ] {
        assert_eq!(targets(ETSI, query), expected, "{case}: {query}");
    }
}

#[test]
fn a_filter_compares_whole_values_or_their_beginning_and_lists_value_by_value() {
    for (query, expected) in [
        ("rt=light-lux", &["/sensors/light"][..]),
        ("rt=core.sen", &[]),
        ("rt=core.*", &["/sensors/light"]),
        ("rt=light-lux core.sen-light", &[]),
        ("rt", &["/sensors/temp", "/sensors/light"]),
        ("if=sensor&rt=t*", &["/sensors/temp"]),
        ("title=Sensor Index", &["/sensors"]),
        ("title=Sensor", &[]),
        ("title=Sensor*", &["/sensors"]),
        ("ct=40", &["/sensors"]),
        ("ct=4", &[]),
        ("HREF=/t", &["/t"]),
        ("nope=1", &[]),
        ("=", &[]),
    ] {
        assert_eq!(targets(SENSORS, query), expected, "{query}");
    }
    assert_eq!(targets(ETSI, "obs"), ["/test"]);
    assert_eq!(targets("</caf%C3%A9>", "href=/café"), ["/caf%C3%A9"]);
    assert_eq!(targets("</caf%C3%A9>", "href=/caf%C3%A9"), ["/caf%C3%A9"]);
    assert_eq!(targets(r#"</a>;title="say \"hi\"""#, "title=say \"hi\""), ["/a"]);
}

#[test]
fn commas_and_semicolons_inside_a_link_do_not_end_it() {
    let links: Vec<_> = Links::read(r#"</a,b;c>;title="x,y;z>",</d>"#).collect::<Result<_, _>>().expect("well-formed");
    assert_eq!(links.iter().map(Link::target).collect::<Vec<_>>(), ["/a,b;c", "/d"]);
    assert_eq!(links[0].value("title").map(|title| title.to_string()).as_deref(), Some("x,y;z>"));
}

#[test]
fn space_between_links_and_attributes_is_passed_over() {
    let links: Vec<_> = Links::read(" </a> ; rt=x ;\n obs ,\r\n\t</b> ").collect::<Result<_, _>>().expect("readable");
    assert_eq!(links.iter().map(Link::target).collect::<Vec<_>>(), ["/a", "/b"]);
    assert_eq!(links[0].attributes().map(|attribute| attribute.name).collect::<Vec<_>>(), ["rt", "obs"]);
}

#[test]
fn a_malformed_link_reports_its_position_and_ends_the_iteration() {
    for (document, position, expected) in [
        ("/a", 0, "\"<\" and the target of a link"),
        ("</a", 3, "\">\" behind the target of the link"),
        ("</a>,", 5, "\"<\" and the target of a link"),
        ("</a>x", 4, "\";\" and an attribute, or \",\" and the next link"),
        ("</a>;", 5, "the name of an attribute"),
        ("</a>;=1", 5, "the name of an attribute"),
        ("</a>;rt=", 8, "the value of an attribute"),
        ("</a>;rt=é", 8, "the value of an attribute"),
        ("</a>;rt=\"x", 10, "'\"' behind the value of an attribute"),
        ("</a>;rt=\"x\\", 11, "'\"' behind the value of an attribute"),
        ("</a>;rt=\"x\"y", 11, "\";\" and an attribute, or \",\" and the next link"),
    ] {
        let mut links = Links::read(document);
        let error = links.by_ref().find_map(Result::err).expect(document);
        assert_eq!(error, LinkError { position, expected }, "{document}");
        assert!(links.next().is_none(), "{document}");
    }
    assert_eq!(
        format!("{}", LinkError { position: 3, expected: "\">\"" }),
        "the links are malformed at byte 3: \">\" was expected there"
    );
}

#[test]
fn the_link_writer_refuses_unparsable_links_and_attributes() {
    let mut text = String::new();
    let mut links = LinkWriter::new(&mut text);
    assert_eq!(links.attribute("rt", "x").err(), Some(LinkWriteError::NoLink));
    assert_eq!(links.link("/a>b").err(), Some(LinkWriteError::Target));
    links.link("/a").expect("a target");
    assert_eq!(links.attribute("r t", "x").err(), Some(LinkWriteError::Name));
    assert_eq!(links.attribute("", "x").err(), Some(LinkWriteError::Name));
    assert_eq!(links.attribute("title", "a\nb").err(), Some(LinkWriteError::Value));
    assert_eq!(text, "</a>");
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_is_parsed_to_its_end_and_its_links_can_be_filtered(text in "[<>/a;,=\"\\\\ é*%4]{0,40}", query in "\\PC{0,12}") {
        let filter = Filter::new(&query);
        let mut read = 0;
        for link in Links::read(&text).filter_map(Result::ok) {
            read += link.target().len();
            read += link.attributes().map(|attribute| attribute.name.len() + attribute.value.text().len()).sum::<usize>();
            let _ = filter.selects(&link);
        }
        proptest::prop_assert!(read <= text.len());
    }

    #[test]
    fn any_attribute_that_is_written_is_read_as_it_was(value in "\\PC{0,20}") {
        let mut text = String::new();
        LinkWriter::new(&mut text).link("/a").and_then(|links| links.attribute("title", &value)).expect("it can be written");
        let links: Vec<_> = Links::read(&text).collect::<Result<_, _>>().expect("well-formed");
        proptest::prop_assert_eq!(links[0].value("title").expect("it is there").to_string(), value);
    }
}
