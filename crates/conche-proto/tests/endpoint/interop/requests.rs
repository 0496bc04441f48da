//! CORE, LINK and BLOCK: a request and its response.

use conche_proto::codec::link_format::Links;
use conche_proto::codec::{BlockSize, Body, Code, OptionNumber, OwnedMessage};
use conche_proto::{EndpointConfig, Reliability, Request};

use super::most_pass;
use crate::support::fixture::body;
use crate::support::world::{by_name, lossy_link};
use crate::support::{CLIENT, World, end_of};

struct Case {
    name: &'static str,
    reliability: Reliability,
    method: Code,
    path: &'static str,
    query: Option<&'static str>,
    sent: usize,
    block_size: BlockSize,
    code: Code,
    answer: Answer,
}

enum Answer {
    Nothing,
    Text(&'static str),
    Large,
    /// The request's payload, reversed.
    Reversed,
    /// Links to these targets.
    Links(&'static [&'static str]),
}

use Answer::{Large, Nothing, Reversed, Text};

const CASES: [Case; 29] = [
    get("CORE_01", "/test", Text("hello")),
    send("CORE_02", Code::DELETE, "/test", 0, Code::DELETED, Nothing),
    send("CORE_03", Code::PUT, "/test", 7, Code::CHANGED, Nothing),
    send("CORE_04", Code::POST, "/test", 6, Code::CHANGED, Nothing),
    non(get("CORE_05", "/test", Text("hello"))),
    non(send("CORE_06", Code::DELETE, "/test", 0, Code::DELETED, Nothing)),
    non(send("CORE_07", Code::PUT, "/test", 7, Code::CHANGED, Nothing)),
    non(send("CORE_08", Code::POST, "/test", 6, Code::CHANGED, Nothing)),
    get("CORE_09, 16", "/separate", Text("late")),
    get("CORE_13", "/a/b", Text("ab")),
    non(get("CORE_17", "/separate", Text("late"))),
    send("CORE_30", Code::GET, "/nope", 0, Code::NOT_FOUND, Nothing),
    links("LINK_01", None, &["/link1", "/link2", "/link3", "/path", "/large", "/test"]),
    links("LINK_02", Some("rt=Type1"), &["/link1", "/link3"]),
    links("LINK_03", Some("rt=*"), &["/link1", "/link2", "/link3"]),
    links("LINK_04", Some("rt=Type2"), &["/link2", "/link3"]),
    links("LINK_05", Some("if=If*"), &["/link1", "/link2"]),
    links("LINK_06", Some("sz=*"), &["/large"]),
    links("LINK_07", Some("href=/link1"), &["/link1"]),
    links("LINK_08", Some("href=/link*"), &["/link1", "/link2", "/link3"]),
    links("LINK_09, first", Some("ct=40"), &["/path"]),
    get("LINK_09, second", "/path", Answer::Links(&["/path/sub1"])),
    get("LINK_09, third", "/path/sub1", Text("sub1")),
    Case { block_size: BlockSize::B256, ..get("BLOCK_01", "/large", Large) },
    get("BLOCK_02", "/large-update", Large),
    send("BLOCK_03", Code::PUT, "/large-update", 3_000, Code::CHANGED, Nothing),
    send("BLOCK_04", Code::POST, "/large-create", 3_000, Code::CREATED, Nothing),
    send("BLOCK_05", Code::POST, "/large-post", 3_000, Code::CHANGED, Reversed),
    Case { block_size: BlockSize::B16, ..get("BLOCK_06", "/large", Large) },
];

const fn send(name: &'static str, method: Code, path: &'static str, sent: usize, code: Code, answer: Answer) -> Case {
    let reliability = Reliability::Confirmable;
    Case { name, reliability, method, path, query: None, sent, block_size: BlockSize::B1024, code, answer }
}

const fn get(name: &'static str, path: &'static str, answer: Answer) -> Case {
    send(name, Code::GET, path, 0, Code::CONTENT, answer)
}

const fn non(case: Case) -> Case {
    Case { reliability: Reliability::NonConfirmable, ..case }
}

const fn links(name: &'static str, query: Option<&'static str>, targets: &'static [&'static str]) -> Case {
    Case { query, ..get(name, "/.well-known/core", Answer::Links(targets)) }
}

impl Case {
    fn request(&self) -> Request {
        let body = Body::builder().path(self.path).payload(body(self.sent, 3));
        let body = self.query.into_iter().fold(body, |body, query| body.query(query));
        Request::new(self.method, body.build().expect("a legal path")).with_reliability(self.reliability)
    }

    fn is_answered_by(&self, response: &OwnedMessage) -> bool {
        let payload = response.payload();
        let as_expected = match self.answer {
            Nothing => payload.is_empty(),
            Text(text) => payload == text.as_bytes(),
            Large => payload == body(2_000, 1),
            Reversed => payload.iter().rev().eq(&body(self.sent, 3)),
            Answer::Links(targets) => {
                let document = str::from_utf8(payload).expect("link format is text");
                let found = Links::read(document).map(|link| link.expect("well-formed").target());
                response.uint(OptionNumber::CONTENT_FORMAT) == Some(40) && found.eq(targets.iter().copied())
            }
        };
        response.code() == self.code && as_expected
    }
}

#[test]
fn requests_are_answered_without_loss_and_with_it_most_are_and_none_is_answered_wrongly() {
    most_pass(
        &CASES,
        |case| case.name,
        |case, seed, loss| {
            let config = EndpointConfig { block_size: case.block_size, ..EndpointConfig::default() };
            let mut world = World::pair_of(&config, &by_name("cocoa"), seed);
            world.link = lossy_link(seed, loss, 0, 0);
            let asked = world.request(case.request());
            world.run_to_end();
            let (_, end) = end_of(world.events(CLIENT), asked).unwrap_or_else(|| panic!("{} does not end", case.name));
            end.is_ok_and(|response| {
                assert!(case.is_answered_by(response), "{}, seed {seed}, {loss} %: {response:?}", case.name);
                true
            })
        },
    );
}
