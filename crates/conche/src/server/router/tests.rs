//! What a router answers, without a socket.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use conche_proto::codec::{Encoder, MessageId, Token, Type};

use super::*;
use crate::server::{Conditions, Path, Payload, Peer, Query, Text, get, post, put};

/// What the router says to a request, as a code and a payload.
struct Asked<'a> {
    code: Code,
    path: &'a [&'a [u8]],
    options: &'a [(OptionNumber, &'a [u8])],
    payload: &'a [u8],
}

fn ask(code: Code, path: &str) -> Asked<'_> {
    let path = path.strip_prefix('/').filter(|path| !path.is_empty());
    let path: Vec<&[u8]> = path.map(|path| path.split('/').map(str::as_bytes).collect()).unwrap_or_default();
    Asked { code, path: path.leak(), options: &[], payload: b"" }
}

impl Asked<'_> {
    fn of(self, router: &Router) -> (Code, String) {
        let response = self.response(router);
        let code = response.code();
        let body = response.build().expect("a legal response").body;
        let payload = body.as_bytes().iter().position(|byte| *byte == 0xff);
        let payload = payload.map_or(&b""[..], |marker| &body.as_bytes()[marker + 1..]);
        (code, String::from_utf8_lossy(payload).into_owned())
    }

    fn response(self, router: &Router) -> Response {
        let mut buffer = [0; 1200];
        let mut encoder =
            Encoder::new(&mut buffer, Type::Confirmable, self.code, MessageId(1), &Token::default()).expect("it fits");
        let mut options: Vec<_> = self.path.iter().map(|segment| (OptionNumber::URI_PATH, *segment)).collect();
        options.extend(self.options);
        options.sort_by_key(|(number, _)| *number);
        for (number, value) in options {
            encoder.option(number, value).expect("it fits");
        }
        let length = encoder.payload(self.payload).expect("it fits").finish();
        let message = OwnedMessage::decode(&buffer[..length]).expect("it is legal");
        match router.dispatch(SocketAddr::from(([127, 0, 0, 1], 9)), message) {
            Dispatch::Reply(response) => response,
            Dispatch::Handle(answer) => match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(response) => response,
                Poll::Pending => panic!("these handlers wait for nothing"),
            },
        }
    }
}

#[test]
fn a_request_finds_its_handler_by_path_and_method() {
    let router = Router::new()
        .route("/a/b", get(async || "read").put(async || ()).delete(async || ()))
        .route("/", get(async || "root"));
    assert_eq!(ask(Code::GET, "/a/b").of(&router), (Code::CONTENT, "read".into()));
    assert_eq!(ask(Code::PUT, "/a/b").of(&router), (Code::CHANGED, String::new()));
    assert_eq!(ask(Code::DELETE, "/a/b").of(&router), (Code::DELETED, String::new()));
    assert_eq!(ask(Code::GET, "/").of(&router), (Code::CONTENT, "root".into()));
    assert_eq!(ask(Code::POST, "/a/b").of(&router).0, Code::METHOD_NOT_ALLOWED);
    assert_eq!(ask(Code::new(0, 31), "/a/b").of(&router).0, Code::METHOD_NOT_ALLOWED);
    for elsewhere in ["/a", "/a/b/", "/a/b/c", "/A/b", "//a/b"] {
        assert_eq!(ask(Code::GET, elsewhere).of(&router).0, Code::NOT_FOUND, "{elsewhere}");
    }
}

#[test]
fn a_slash_inside_a_segment_separates_nothing() {
    let router = Router::new().route("/a/b", get(async || "read"));
    let asked = Asked { path: &[b"a/b"], ..ask(Code::GET, "") };
    assert_eq!(asked.of(&router).0, Code::NOT_FOUND);
}

#[test]
fn captures_are_parsed_and_literals_preferred() {
    let router = Router::new()
        .route("/sensors/{id}", get(async |Path(id): Path<u8>| format!("sensor {id}")))
        .route("/sensors/all", get(async || "all"))
        .route("/{a}/x/{b}", get(async |Path(a): Path<String>, Path(b): Path<String, 1>| format!("{a} {b}")));
    assert_eq!(ask(Code::GET, "/sensors/7").of(&router).1, "sensor 7");
    assert_eq!(ask(Code::GET, "/sensors/all").of(&router).1, "all");
    assert_eq!(ask(Code::GET, "/sensors/x/all").of(&router).1, "sensors all");
    assert_eq!(ask(Code::GET, "/sensors/256").of(&router).0, Code::NOT_FOUND);
    let not_utf8 = Asked { path: &[b"sensors", b"\xc3\x28"], ..ask(Code::GET, "") };
    assert_eq!(not_utf8.of(&router).0, Code::NOT_FOUND);
}

#[test]
fn arguments_that_do_not_fit_are_refused_before_the_handler_runs() {
    let router = Router::new().route("/echo", post(async |Text(text): Text, Peer(_): Peer| text));
    let asked = || Asked { payload: b"hi", ..ask(Code::POST, "/echo") };
    assert_eq!(asked().of(&router), (Code::CHANGED, "hi".into()));
    assert_eq!(Asked { payload: b"\xff", ..asked() }.of(&router).0, Code::BAD_REQUEST);
    let cbor = Asked { options: &[(OptionNumber::CONTENT_FORMAT, &[60])], ..asked() };
    assert_eq!(cbor.of(&router).0, Code::UNSUPPORTED_CONTENT_FORMAT);
}

#[test]
fn query_arguments_are_found_by_key() {
    let read = async |query: Query| query.parse::<u8>("n").map(|n| format!("{n} {:?}", query.get("flag")));
    let router = Router::new().route("/q", get(read));
    let with = |arguments: &[&str]| {
        let options: Vec<_> = arguments.iter().map(|text| (OptionNumber::URI_QUERY, text.as_bytes())).collect();
        Asked { options: &options, ..ask(Code::GET, "/q") }.of(&router)
    };
    assert_eq!(with(&["n=5", "flag"]), (Code::CONTENT, "5 Some(\"\")".into()));
    assert_eq!(with(&["n=500"]).0, Code::BAD_REQUEST);
    assert_eq!(with(&[]).0, Code::BAD_REQUEST);
}

#[test]
fn a_representation_in_another_format_than_accepted_becomes_4_06() {
    let router = Router::new().route("/text", get(async || "text").post(async || "done"));
    let accept = |code, options| Asked { options, ..ask(code, "/text") }.of(&router).0;
    assert_eq!(accept(Code::GET, &[(OptionNumber::ACCEPT, &[])]), Code::CONTENT);
    assert_eq!(accept(Code::GET, &[(OptionNumber::ACCEPT, &[50])]), Code::NOT_ACCEPTABLE);
    assert_eq!(accept(Code::POST, &[(OptionNumber::ACCEPT, &[50])]), Code::CHANGED, "it has happened already");
}

#[test]
fn conditions_are_refused_unless_the_resource_looks_at_them() {
    let plain = async |Payload(_): Payload| ();
    let looks = async |conditions: Conditions| conditions.check(Some(b"v1"));
    let router = Router::new().route("/plain", put(plain)).route("/looks", put(looks).conditional());
    let with = |path, options| Asked { options, ..ask(Code::PUT, path) }.of(&router).0;
    assert_eq!(with("/plain", &[(OptionNumber::IF_MATCH, b"v1")]), Code::BAD_OPTION);
    assert_eq!(with("/plain", &[(OptionNumber::IF_NONE_MATCH, b"")]), Code::BAD_OPTION);
    assert_eq!(with("/looks", &[(OptionNumber::IF_MATCH, b"v1")]), Code::CHANGED);
    assert_eq!(with("/looks", &[(OptionNumber::IF_MATCH, b"")]), Code::CHANGED);
    assert_eq!(with("/looks", &[(OptionNumber::IF_MATCH, b"v2")]), Code::PRECONDITION_FAILED);
    assert_eq!(with("/looks", &[(OptionNumber::IF_NONE_MATCH, b"")]), Code::PRECONDITION_FAILED);
}

#[test]
fn a_payload_beyond_the_limit_is_answered_with_the_limit() {
    let router = Router::new().route("/", put(async |Payload(_): Payload| ())).max_payload(3);
    let put = |payload| Asked { payload, ..ask(Code::PUT, "/") };
    assert_eq!(put(b"123").of(&router).0, Code::CHANGED);
    let refused = put(b"1234").response(&router).build().expect("a legal response");
    assert_eq!((refused.code, refused.body.as_bytes()), (Code::REQUEST_ENTITY_TOO_LARGE, &b"\xd1\x2f\x03"[..]));
}

#[test]
fn well_known_core_lists_what_is_not_hidden_and_has_no_capture() {
    let router = Router::new()
        .route("/test", get(async || "").resource_type("demo").format(ContentFormat::TEXT_PLAIN))
        .route("/secret", get(async || "").hidden())
        .route("/sensors/{id}", get(async || ""))
        .route("/a/b", get(async || "").interface("sensor"));
    let list = |options| Asked { options, ..ask(Code::GET, "/.well-known/core") }.of(&router);
    assert_eq!(list(&[]), (Code::CONTENT, "</test>;rt=\"demo\";ct=0,</a/b>;if=\"sensor\"".into()));
    assert_eq!(list(&[(OptionNumber::URI_QUERY, b"rt=d*")]).1, "</test>;rt=\"demo\";ct=0");
    assert_eq!(list(&[(OptionNumber::URI_QUERY, b"rt=none")]), (Code::CONTENT, String::new()));
    assert_eq!(list(&[(OptionNumber::ACCEPT, &[50])]).0, Code::NOT_ACCEPTABLE);
    assert_eq!(ask(Code::PUT, "/.well-known/core").of(&router).0, Code::METHOD_NOT_ALLOWED);
}

#[test]
fn a_route_that_makes_no_sense_is_reported() {
    let mistake = |router: Router| router.check().expect_err("a mistake").to_string();
    let route = |path| Router::new().route(path, get(async || ""));
    assert_eq!(mistake(route("a")), r#"the route "a" is malformed: it must begin with "/""#);
    for path in ["/{}", "/a{b}", "/{a", "/a}", "/{a}{b}"] {
        assert!(mistake(route(path)).contains("braces must enclose a whole segment"), "{path}");
    }
    let twice = route("/{a}").route("/{b}", get(async || ""));
    assert!(mistake(twice).starts_with(r#"the route "/{b}" is there twice"#));
    assert_eq!(route("/a").check(), Ok(()));
}
