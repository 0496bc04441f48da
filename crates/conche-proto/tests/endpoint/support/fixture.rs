//! [`Fixture`]: the server's application that the corpus assumes.
//!
//! `/test` can be read, written, posted to and deleted; `/count` counts POSTs; `/separate` takes five seconds for its
//! response; `/a/b` can be read. Other methods on them are 4.05, all else is 4.04.

use std::collections::BTreeMap;
use std::time::Duration;

use conche_proto::codec::{Body, Code, ContentFormat, OptionNumber, OwnedMessage};
use conche_proto::{Instant, Reliability, RequestId, Response};

/// How long `/separate` takes.
pub const SEPARATE_AFTER: Duration = Duration::from_secs(5);

/// The application.
#[derive(Debug)]
pub struct Fixture {
    /// The state of `/test`, `None` after DELETE.
    pub test: Option<Vec<u8>>,
    /// How often each path was asked for, by method and path.
    pub calls: BTreeMap<String, u32>,
    /// Responses that are not ready yet.
    later: Vec<(Instant, RequestId, Response)>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self { test: Some(b"hello".to_vec()), calls: BTreeMap::new(), later: Vec::new() }
    }
}

impl Fixture {
    /// Handles a request. `None`: the response comes [`due`](Self::due) later.
    pub fn handle(&mut self, now: Instant, id: RequestId, message: &OwnedMessage) -> Option<Response> {
        let segments: Vec<_> = message.values(OptionNumber::URI_PATH).collect();
        let path = match segments[..] {
            [b"test"] => "/test",
            [b"count"] => "/count",
            [b"separate"] => "/separate",
            [b"a", b"b"] => "/a/b",
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
            ("/separate", Code::GET) => {
                let response = Response { reliability: Some(Reliability::Confirmable), ..content(b"late") };
                self.later.push((now + SEPARATE_AFTER, id, response));
                return None;
            }
            _ => empty(Code::METHOD_NOT_ALLOWED),
        };
        Some(response)
    }

    /// When a response becomes ready.
    pub fn next(&self) -> Option<Instant> {
        self.later.iter().map(|(at, ..)| *at).min()
    }

    /// Takes out the responses that are ready.
    pub fn due(&mut self, now: Instant) -> Vec<(RequestId, Response)> {
        self.later.extract_if(.., |(at, ..)| *at <= now).map(|(_, id, response)| (id, response)).collect()
    }
}

fn empty(code: Code) -> Response {
    Response::new(code, Body::EMPTY)
}

fn content(payload: &[u8]) -> Response {
    let body = Body::builder().content_format(ContentFormat::TEXT_PLAIN).payload(payload.to_vec()).build();
    Response::new(Code::CONTENT, body.expect("legal options"))
}
