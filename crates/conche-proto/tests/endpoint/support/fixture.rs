//! [`Fixture`]: the server application that the corpus assumes.
//!
//! `/test` supports GET, PUT, POST and DELETE; `/count` counts POSTs; `/separate` responds after
//! five seconds; `/a/b` supports GET. Other methods get 4.05, other paths 4.04.
//!
//! Resources with bodies of any size, for the ETSI test descriptions: GET of `/large`; GET and PUT
//! of `/large-update`; POST to `/large-create` and `/large-post`, which returns the body reversed.
//! `/.well-known/core` lists [`LINKS`], and `/path` the resources below it.

use std::collections::HashMap;
use std::time::Duration;

use conche_proto::codec::link_format::{Filter, Links};
use conche_proto::codec::{Body, Code, ContentFormat, OptionNumber, OwnedMessage};
use conche_proto::{Instant, Reliability, RequestId, Response};

pub const SEPARATE_AFTER: Duration = Duration::from_secs(5);

/// For the ETSI test descriptions.
pub const LINKS: [&str; 6] = [
    "</link1>;rt=\"Type1\";if=\"If1\"",
    "</link2>;rt=\"Type2\";if=\"If2\"",
    "</link3>;rt=\"Type1 Type2\";if=\"foo\"",
    "</path>;ct=40",
    "</large>;sz=2000",
    "</test>",
];

#[derive(Debug)]
pub struct Fixture {
    pub test: Option<Vec<u8>>,
    pub large: Vec<u8>,
    pub created: Option<Vec<u8>>,
    /// By method and path.
    pub calls: HashMap<String, u32>,
    later: Vec<(Instant, RequestId, Response)>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self {
            test: Some(b"hello".to_vec()),
            large: body(2_000, 1),
            created: None,
            calls: HashMap::new(),
            later: Vec::new(),
        }
    }
}

impl Fixture {
    /// `None`: [`due`](Self::due) returns the response later.
    pub fn handle(&mut self, now: Instant, id: RequestId, message: &OwnedMessage) -> Option<Response> {
        let segments: Vec<_> = message.values(OptionNumber::URI_PATH).collect();
        let path = match segments[..] {
            [b"test"] => "/test",
            [b"count"] => "/count",
            [b"separate"] => "/separate",
            [b"a", b"b"] => "/a/b",
            [b"large"] => "/large",
            [b"large-update"] => "/large-update",
            [b"large-create"] => "/large-create",
            [b"large-post"] => "/large-post",
            [b".well-known", b"core"] => "/.well-known/core",
            [b"path"] => "/path",
            [b"path", b"sub1"] => "/path/sub1",
            _ => return Some(empty(Code::NOT_FOUND)),
        };
        *self.calls.entry(path.to_owned()).or_default() += 1;
        let response = match (path, message.code()) {
            ("/test", Code::GET) => match &self.test {
                Some(state) => content(state),
                None => empty(Code::NOT_FOUND),
            },
            ("/test", Code::PUT) => {
                let existed = self.test.replace(message.payload().to_vec()).is_some();
                empty(if existed { Code::CHANGED } else { Code::CREATED })
            }
            ("/test" | "/count", Code::POST) => empty(Code::CHANGED),
            ("/test", Code::DELETE) => {
                self.test = None;
                empty(Code::DELETED)
            }
            ("/a/b", Code::GET) => content(b"ab"),
            ("/large" | "/large-update", Code::GET) => content(&self.large),
            ("/large-update", Code::PUT) => {
                self.large = message.payload().to_vec();
                empty(Code::CHANGED)
            }
            ("/large-create", Code::POST) => {
                self.created = Some(message.payload().to_vec());
                empty(Code::CREATED)
            }
            ("/large-post", Code::POST) => Response {
                code: Code::CHANGED,
                ..content(&message.payload().iter().rev().copied().collect::<Vec<_>>())
            },
            ("/.well-known/core", Code::GET) => links(message.values(OptionNumber::URI_QUERY).next()),
            ("/path", Code::GET) => link_format("</path/sub1>".to_owned()),
            ("/path/sub1", Code::GET) => content(b"sub1"),
            ("/separate", Code::GET) => {
                let response = Response { reliability: Some(Reliability::Confirmable), ..content(b"late") };
                self.later.push((now + SEPARATE_AFTER, id, response));
                return None;
            }
            _ => empty(Code::METHOD_NOT_ALLOWED),
        };
        Some(response)
    }

    pub fn next(&self) -> Option<Instant> {
        self.later.iter().map(|(at, ..)| *at).min()
    }

    pub fn due(&mut self, now: Instant) -> Vec<(RequestId, Response)> {
        self.later.extract_if(.., |(at, ..)| *at <= now).map(|(_, id, response)| (id, response)).collect()
    }
}

/// The blocks are distinct.
pub fn body(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n + seed).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

fn empty(code: Code) -> Response {
    Response::new(code, Body::EMPTY)
}

fn content(payload: &[u8]) -> Response {
    in_format(ContentFormat::TEXT_PLAIN, payload.to_vec())
}

fn links(query: Option<&[u8]>) -> Response {
    let filter = query.map(|query| Filter::new(str::from_utf8(query).expect("queries are text")));
    let selected = |document: &&str| {
        let link = Links::read(document).next().expect("there is one").expect("it is well-formed");
        filter.is_none_or(|filter| filter.selects(&link))
    };
    link_format(LINKS.into_iter().filter(selected).collect::<Vec<_>>().join(","))
}

fn link_format(document: String) -> Response {
    in_format(ContentFormat::LINK_FORMAT, document.into_bytes())
}

fn in_format(format: ContentFormat, payload: Vec<u8>) -> Response {
    let body = Body::builder().content_format(format).payload(payload).build();
    Response::new(Code::CONTENT, body.expect("legal options"))
}
