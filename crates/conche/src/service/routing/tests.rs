//! Responses of a router, without a socket.

use std::future::Future as _;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use conche_proto::codec::{Body, Code, ContentFormat, OptionNumber};

use super::Router;
use crate::driver::{CallResult, Service as _, ServiceRequest, ServiceResponse as _};
use crate::service::extract::Rejection;
use crate::service::{
    Conditions, Next, Path, Payload, Peer, Query, Request, Response, State, Text, from_fn, get, post, put,
};

struct TestRequest<'a> {
    code: Code,
    path: &'a [&'a [u8]],
    options: &'a [(OptionNumber, &'a [u8])],
    payload: &'a [u8],
}

fn ask(code: Code, path: &str) -> TestRequest<'_> {
    let path = path.strip_prefix('/').filter(|path| !path.is_empty());
    let path: Vec<&[u8]> = path.map(|path| path.split('/').map(str::as_bytes).collect()).unwrap_or_default();
    TestRequest { code, path: path.leak(), options: &[], payload: b"" }
}

impl TestRequest<'_> {
    fn of(self, router: &Router) -> (Code, String) {
        let response = self.response(router);
        (response.code(), String::from_utf8_lossy(response.payload_bytes()).into_owned())
    }

    fn response(self, router: &Router) -> Response {
        let body = Body::builder().payload(self.payload.to_vec());
        let body = self.path.iter().fold(body, |body, segment| body.option(OptionNumber::URI_PATH, segment));
        let body = self.options.iter().fold(body, |body, (number, value)| body.option(*number, value));
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        let request = Request::from_body(peer, self.code, &body.build().expect("legal options")).expect("a method");
        let router = router.clone().ready().expect("routes that make sense");
        let message = request.message().clone();
        let request =
            ServiceRequest { from: peer, secured: false, message, rest: None, identity: None, is_for_observers: false };
        match router.call(request) {
            CallResult::Ready(response) => response,
            CallResult::Pending(answer) => match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
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
    let asked = TestRequest { path: &[b"a/b"], ..ask(Code::GET, "") };
    assert_eq!(asked.of(&router).0, Code::NOT_FOUND);
}

#[test]
fn captures_are_parsed_and_literals_preferred() {
    let router = Router::new()
        .route("/sensors/{id}", get(async |Path(id): Path<u8>| format!("sensor {id}")))
        .route("/sensors/all", get(async || "all"))
        .route("/{a}/x/{b}", get(async |Path((a, b)): Path<(String, String)>| format!("{a} {b}")));
    assert_eq!(ask(Code::GET, "/sensors/7").of(&router).1, "sensor 7");
    assert_eq!(ask(Code::GET, "/sensors/all").of(&router).1, "all");
    assert_eq!(ask(Code::GET, "/sensors/x/all").of(&router).1, "sensors all");
    assert_eq!(ask(Code::GET, "/sensors/256").of(&router).0, Code::NOT_FOUND);
    let not_utf8 = TestRequest { path: &[b"sensors", b"\xc3\x28"], ..ask(Code::GET, "") };
    assert_eq!(not_utf8.of(&router).0, Code::NOT_FOUND);
}

#[test]
fn arguments_that_do_not_fit_are_refused_before_the_handler_runs() {
    let router = Router::new().route("/echo", post(async |Peer(_): Peer, Text(text): Text| text));
    let asked = || TestRequest { payload: b"hi", ..ask(Code::POST, "/echo") };
    assert_eq!(asked().of(&router), (Code::CHANGED, "hi".into()));
    assert_eq!(TestRequest { payload: b"\xff", ..asked() }.of(&router).0, Code::BAD_REQUEST);
    let cbor = TestRequest { options: &[(OptionNumber::CONTENT_FORMAT, &[60])], ..asked() };
    assert_eq!(cbor.of(&router).0, Code::UNSUPPORTED_CONTENT_FORMAT);
}

#[test]
fn query_arguments_are_found_by_key_and_errors_tell_missing_from_malformed() {
    let read = async |query: Query| -> Result<String, Rejection> {
        let more: Option<u8> = query.parse_optional("more")?;
        Ok(format!("{} {:?} {more:?}", query.parse::<u8>("n")?, query.get("flag")))
    };
    let router = Router::new().route("/q", get(read));
    let with = |arguments: &[&str]| {
        let options: Vec<_> = arguments.iter().map(|text| (OptionNumber::URI_QUERY, text.as_bytes())).collect();
        TestRequest { options: &options, ..ask(Code::GET, "/q") }.of(&router)
    };
    assert_eq!(with(&["n=5", "flag"]), (Code::CONTENT, "5 Some(\"\") None".into()));
    assert_eq!(with(&["more=7", "n=5", "n=6"]), (Code::CONTENT, "5 None Some(7)".into()));
    let refused = |text: &str| (Code::BAD_REQUEST, text.to_owned());
    assert_eq!(with(&["m=5"]), refused("the query argument n=VALUE is missing"));
    let too_large = "is malformed: number too large to fit in target type";
    assert_eq!(with(&["n=500"]), refused(&format!("the query argument n=500 {too_large}")));
    assert_eq!(with(&["n=5", "more=500"]), refused(&format!("the query argument more=500 {too_large}")));
}

#[test]
fn a_diagnostic_that_quotes_a_request_is_no_larger_than_a_response_may_be() {
    let router = Router::new().route("/{*n}", get(async |Path(n): Path<u8>| n.to_string()));
    let path: Vec<&[u8]> = vec![b"\x01\x02\xc3\xbc"; 200];
    let (code, text) = TestRequest { path: &path, ..ask(Code::GET, "") }.of(&router);
    assert_eq!(code, Code::NOT_FOUND);
    assert!((250..=256).contains(&text.len()) && text.ends_with('…'), "{text}");
}

#[test]
fn a_representation_in_another_format_than_accepted_becomes_4_06() {
    let router = Router::new().route("/text", get(async || "text").post(async || "done"));
    let accept = |code, options| TestRequest { options, ..ask(code, "/text") }.of(&router).0;
    assert_eq!(accept(Code::GET, &[(OptionNumber::ACCEPT, &[])]), Code::CONTENT);
    assert_eq!(accept(Code::GET, &[(OptionNumber::ACCEPT, &[50])]), Code::NOT_ACCEPTABLE);
    assert_eq!(accept(Code::POST, &[(OptionNumber::ACCEPT, &[50])]), Code::CHANGED, "it has happened already");
}

// RFC 7252 §5.10.8 (Q203)
// RFC 7252 §5.4.1
#[test]
fn conditions_are_refused_for_each_method_with_an_effect_whose_handler_does_not_take_them() {
    let looks = async |conditions: Conditions| conditions.check(Some(b"v1"));
    let router = Router::new()
        .route("/", put(looks).delete(async |_: Request| ()).post(async || ()))
        .fallback(async |_: Request| Code::NOT_FOUND);
    let with = |code, path, options| TestRequest { options, ..ask(code, path) }.of(&router).0;
    for (method, path) in [(Code::DELETE, "/"), (Code::POST, "/"), (Code::PUT, "/elsewhere")] {
        assert_eq!(with(method, path, &[(OptionNumber::IF_MATCH, b"v1")]), Code::BAD_OPTION, "{method} {path}");
        assert_eq!(with(method, path, &[(OptionNumber::IF_NONE_MATCH, b"")]), Code::BAD_OPTION, "{method} {path}");
    }
    assert_eq!(with(Code::PUT, "/", &[(OptionNumber::IF_MATCH, b"v1")]), Code::CHANGED);
    assert_eq!(with(Code::PUT, "/", &[(OptionNumber::IF_MATCH, b"")]), Code::CHANGED);
    assert_eq!(with(Code::PUT, "/", &[(OptionNumber::IF_MATCH, b"v2")]), Code::PRECONDITION_FAILED);
    assert_eq!(with(Code::PUT, "/", &[(OptionNumber::IF_NONE_MATCH, b"")]), Code::PRECONDITION_FAILED);
}

// RFC 7252 §5.10.8 (Q203), §5.10.6.2 (Q204)
#[test]
fn conditions_of_safe_methods_are_checked_against_the_response() {
    const IF_MATCH: OptionNumber = OptionNumber::IF_MATCH;
    const IF_NONE_MATCH: OptionNumber = OptionNumber::IF_NONE_MATCH;
    const ETAG: OptionNumber = OptionNumber::ETAG;
    let tagged = async || Response::new(Code::CONTENT).text("tagged").etag(b"v1");
    let router = Router::new()
        .route("/tagged", get(tagged).fetch(tagged))
        .route("/plain", get(async || "plain"))
        .route("/none", get(async || None::<String>))
        .route("/broken", get(async || Code::INTERNAL_SERVER_ERROR))
        .route("/looks", get(async |conditions: Conditions| conditions.check(Some(b"hidden"))));
    let with = |path, options| TestRequest { options, ..ask(Code::GET, path) }.of(&router);
    for (path, options, code) in [
        ("/tagged", &[(IF_MATCH, &b"v1"[..])][..], Code::CONTENT),
        ("/tagged", &[(IF_MATCH, b"")], Code::CONTENT),
        ("/tagged", &[(IF_MATCH, b"v0"), (IF_MATCH, b"v1")], Code::CONTENT),
        ("/tagged", &[(IF_MATCH, b"v0")], Code::PRECONDITION_FAILED),
        ("/tagged", &[(IF_NONE_MATCH, b"")], Code::PRECONDITION_FAILED),
        ("/tagged", &[(ETAG, b"v1")], Code::VALID),
        ("/tagged", &[(ETAG, b"v0"), (ETAG, b"v1")], Code::VALID),
        ("/tagged", &[(ETAG, b"v0")], Code::CONTENT),
        ("/tagged", &[(IF_MATCH, b"v0"), (ETAG, b"v1")], Code::PRECONDITION_FAILED),
        ("/plain", &[(IF_MATCH, b"")], Code::CONTENT),
        ("/plain", &[(IF_MATCH, b"v1")], Code::PRECONDITION_FAILED),
        ("/plain", &[(ETAG, b"v1")], Code::CONTENT),
        ("/none", &[(IF_MATCH, b"")], Code::PRECONDITION_FAILED),
        ("/none", &[(IF_NONE_MATCH, b"")], Code::NOT_FOUND),
        ("/broken", &[(IF_MATCH, b"v1")], Code::INTERNAL_SERVER_ERROR),
        ("/looks", &[(IF_MATCH, b"hidden")], Code::CONTENT),
        ("/looks", &[(IF_MATCH, b"v1")], Code::PRECONDITION_FAILED),
    ] {
        assert_eq!(with(path, options).0, code, "{path} {options:?}");
    }
    let known = TestRequest { options: &[(ETAG, b"v1")], ..ask(Code::GET, "/tagged") }.of(&router);
    assert_eq!(known, (Code::VALID, String::new()), "what the client has is not sent again");
    let fetched = TestRequest { options: &[(IF_MATCH, b"v0")], ..ask(Code::FETCH, "/tagged") }.of(&router);
    assert_eq!(fetched.0, Code::PRECONDITION_FAILED);
}

#[test]
fn a_payload_beyond_the_limit_is_answered_with_the_limit() {
    let router = Router::new().route("/", put(async |Payload(_): Payload| ())).max_payload(3);
    let put = |payload| TestRequest { payload, ..ask(Code::PUT, "/") };
    assert_eq!(put(b"123").of(&router).0, Code::CHANGED);
    let refused = put(b"1234").response(&router).build(None).expect("a legal response");
    assert_eq!((refused.code, refused.body.as_bytes()), (Code::REQUEST_ENTITY_TOO_LARGE, &b"\xd1\x2f\x03"[..]));
}

#[test]
fn the_limit_of_a_router_that_is_nested_holds_below_its_prefix() {
    let take = || put(async |Payload(_): Payload| ());
    let small = Router::new().route("/", take()).max_payload(1);
    let router = Router::new()
        .route("/large", take())
        .nest("/small", small)
        .nest("/middle", Router::new().route("/", take()))
        .max_payload(2);
    let put = |path, payload| TestRequest { payload, ..ask(Code::PUT, path) }.of(&router).0;
    for (path, most) in [("/small", 1), ("/middle", 2), ("/large", 2)] {
        assert_eq!(put(path, &b"123"[..most]), Code::CHANGED, "{path}");
        assert_eq!(put(path, &b"123"[..=most]), Code::REQUEST_ENTITY_TOO_LARGE, "{path}");
    }
}

#[test]
fn of_all_limits_around_a_resource_or_a_fallback_the_least_holds() {
    let take = || async |Payload(_): Payload| Code::CHANGED;
    let inner = |limit| Router::new().route("/there", put(take())).fallback(take()).max_payload(limit);
    let router = Router::new().nest("/wide", inner(3)).nest("/narrow", inner(1)).max_payload(2);
    let put = |path, payload| TestRequest { payload, ..ask(Code::PUT, path) }.of(&router).0;
    for (path, most) in [("/wide/there", 2), ("/wide/else", 2), ("/narrow/there", 1), ("/narrow/else", 1)] {
        assert_eq!(put(path, &b"123"[..most]), Code::CHANGED, "{path}");
        assert_eq!(put(path, &b"123"[..=most]), Code::REQUEST_ENTITY_TOO_LARGE, "{path}");
    }
}

#[test]
fn layers_of_a_nested_router_see_requests_for_missing_routes() {
    let refuse = || from_fn(async |_: Request, _: Next| Code::UNAUTHORIZED);
    let inner = || Router::new().route("/there", get(async || "there")).layer(refuse());
    let router = Router::new().nest("/deep/in", inner()).route("/open", get(async || "open"));
    for path in ["/deep/in/there", "/deep/in/else", "/deep/in"] {
        assert_eq!(ask(Code::GET, path).of(&router).0, Code::UNAUTHORIZED, "{path}");
    }
    assert_eq!(ask(Code::GET, "/deep").of(&router).0, Code::NOT_FOUND);
    assert_eq!(ask(Code::GET, "/open").of(&router).1, "open");
    let fallback = router.fallback(async || "elsewhere");
    assert_eq!(ask(Code::GET, "/deep/in/else").of(&fallback).1, "elsewhere", "a fallback is for all that is not there");
}

// RFC 7252 §6.5
#[test]
fn one_empty_segment_is_the_root() {
    let router = Router::new()
        .route("/", get(async || "root"))
        .route("/{id}", get(async |Path(id): Path<String>| format!("id {id:?}")))
        .route("/a/{*rest}", get(async |Path(rest): Path<String>| format!("rest {rest:?}")));
    let of = |path| TestRequest { path, ..ask(Code::GET, "") }.of(&router).1;
    assert_eq!(of(&[b""]), "root");
    assert_eq!(of(&[b"a", b""]), r#"rest """#, "but a slash at the end is no less than one segment");
}

#[test]
fn the_rest_of_a_path_is_captured_segment_by_segment() {
    let router = Router::new()
        .route("/text/{*rest}", get(async |Path(rest): Path<String>| rest))
        .route("/list/{*rest}", get(async |Path(rest): Path<Vec<String>>| format!("{rest:?}")))
        .route("/{a}/numbers/{*rest}", get(async |Path((a, b)): Path<(String, Vec<u8>)>| format!("{a} {b:?}")))
        .route("/text/one", get(async || "literal"))
        .route("/text/{one}/{two}", get(async |Path((a, b)): Path<(String, String)>| format!("{a}+{b}")));
    assert_eq!(ask(Code::GET, "/text/a").of(&router).1, "a");
    assert_eq!(ask(Code::GET, "/text/one").of(&router).1, "literal");
    assert_eq!(ask(Code::GET, "/text/a/b").of(&router).1, "a+b");
    assert_eq!(ask(Code::GET, "/text/one/two/three").of(&router).1, "one/two/three");
    assert_eq!(ask(Code::GET, "/text/one/two/").of(&router).1, "one/two/");
    assert_eq!(ask(Code::GET, "/text").of(&router).0, Code::NOT_FOUND, "there is no rest");
    assert_eq!(ask(Code::GET, "/x/numbers/1/2").of(&router).1, "x [1, 2]");
    assert_eq!(ask(Code::GET, "/x/numbers/1/b").of(&router).0, Code::NOT_FOUND);
    let of = |path| TestRequest { path, ..ask(Code::GET, "") }.of(&router);
    assert_eq!(of(&[b"text", b"a/b", b"50%", b"c"]).1, "a%2Fb/50%25/c");
    assert_eq!(of(&[b"list", b"a/b", b"c"]).1, r#"["a/b", "c"]"#);
    assert_eq!(of(&[b"list", b"a", b"\xff"]).0, Code::NOT_FOUND);
}

#[test]
fn a_nested_router_has_its_routes_links_and_fallback_below_its_prefix() {
    let rooms = Router::new()
        .route("/", get(async |Path(floor): Path<i8>| format!("all of {floor}")))
        .route("/{room}", get(async |Path((floor, room)): Path<(i8, String)>| format!("{room} of {floor}")));
    let api = Router::new()
        .route("/status", get(async || "fine").resource_type("status"))
        .nest("/deeper", Router::new().route("/still", get(async || "here")))
        .fallback(async |request: Request| format!("no {} in the API", request.message().uri_path()));
    let router = Router::new()
        .nest("/floors/{floor}", rooms)
        .nest("/api", api)
        .merge(Router::new().route("/merged", get(async || "merged").title("Merged")));
    assert_eq!(ask(Code::GET, "/floors/-2").of(&router).1, "all of -2");
    assert_eq!(ask(Code::GET, "/floors/3/kitchen").of(&router).1, "kitchen of 3");
    assert_eq!(ask(Code::GET, "/api/deeper/still").of(&router).1, "here");
    assert_eq!(ask(Code::GET, "/merged").of(&router).1, "merged");
    assert_eq!(ask(Code::GET, "/api/deeper/nothing").of(&router).1, "no /api/deeper/nothing in the API");
    assert_eq!(ask(Code::GET, "/api").of(&router).1, "no /api in the API");
    assert_eq!(ask(Code::PUT, "/api/status").of(&router).0, Code::METHOD_NOT_ALLOWED);
    assert_eq!(ask(Code::GET, "/elsewhere").of(&router), (Code::NOT_FOUND, String::new()));
    let links = r#"</api/status>;rt="status",</api/deeper/still>,</merged>;title="Merged""#;
    assert_eq!(ask(Code::GET, "/.well-known/core").of(&router).1, links);
}

#[test]
fn routers_with_states_of_their_own_live_in_one() {
    let tell = || get(async |State(name): State<&'static str>| name);
    let inner: Router<&'static str> = Router::new().route("/", tell()).with_state("inner");
    let outer =
        Router::new().route("/", tell()).nest("/inner", inner).fallback(async |State(name): State<&'static str>| name);
    let router = outer.with_state("outer");
    assert_eq!(ask(Code::GET, "/").of(&router).1, "outer");
    assert_eq!(ask(Code::GET, "/inner").of(&router).1, "inner");
    assert_eq!(ask(Code::GET, "/elsewhere").of(&router).1, "outer");
}

#[test]
fn the_consuming_extractor_is_last_and_may_be_a_result() {
    type Tried<T> = Result<T, Rejection>;
    let all = async |Peer(peer): Peer,
                     query: Query,
                     Path(n): Path<u8>,
                     _: Conditions,
                     _: Peer,
                     _: Query,
                     _: Peer,
                     Text(text): Text| { format!("{} {} {n} {text}", peer.port(), query.iter().count()) };
    let tried = async |path: Tried<Path<u8>>, text: Tried<Text>| match (path, text) {
        (Ok(_), Ok(_)) => "both".to_owned(),
        (path, text) => {
            [path.err(), text.err()].into_iter().flatten().map(|error| format!("{:?}", error.code())).collect()
        }
    };
    let router = Router::new().route("/all/{n}", post(all)).route("/tried/{n}", post(tried));
    let post = |path, payload| TestRequest { payload, ..ask(Code::POST, path) }.of(&router).1;
    assert_eq!(post("/all/7", b"text"), "9 0 7 text");
    assert_eq!(post("/tried/1", b"text"), "both");
    assert_eq!(post("/tried/x", b"\xff"), "4.044.00");
}

#[test]
fn well_known_core_lists_visible_routes_without_captures() {
    let router = Router::new()
        .route("/test", get(async || "").resource_type("demo").format(ContentFormat::TEXT_PLAIN))
        .route("/secret", get(async || "").hidden())
        .route("/sensors/{id}", get(async || ""))
        .route("/a/b", get(async || "").interface("sensor"));
    let list = |options| TestRequest { options, ..ask(Code::GET, "/.well-known/core") }.of(&router);
    assert_eq!(list(&[]), (Code::CONTENT, "</test>;rt=\"demo\";ct=0,</a/b>;if=\"sensor\"".into()));
    assert_eq!(list(&[(OptionNumber::URI_QUERY, b"rt=d*")]).1, "</test>;rt=\"demo\";ct=0");
    assert_eq!(list(&[(OptionNumber::URI_QUERY, b"rt=none")]), (Code::CONTENT, String::new()));
    assert_eq!(list(&[(OptionNumber::ACCEPT, &[50])]).0, Code::NOT_ACCEPTABLE);
    assert_eq!(list(&[(OptionNumber::IF_MATCH, b"")]).0, Code::CONTENT);
    assert_eq!(list(&[(OptionNumber::IF_NONE_MATCH, b"")]).0, Code::PRECONDITION_FAILED);
    assert_eq!(ask(Code::PUT, "/.well-known/core").of(&router).0, Code::METHOD_NOT_ALLOWED);
    let captured =
        router.clone().route("/{*all}", get(async || "captured")).route("/{a}/core", get(async || "captured"));
    assert!(ask(Code::GET, "/.well-known/core").of(&captured).1.starts_with("</test>"));
    assert_eq!(ask(Code::GET, "/.well-known/else").of(&captured).1, "captured");
    let own = router.route("/.well-known/core", get(async || "own"));
    assert_eq!(ask(Code::GET, "/.well-known/core").of(&own).1, "own");
}

#[test]
fn invalid_routes_are_reported_with_a_remedy() {
    let mistake = |router: Router| router.ready().expect_err("a mistake").to_string();
    let route = |path| Router::<()>::new().route(path, get(async || ""));
    assert_eq!(mistake(route("a")), r#"the route "a" is malformed: it must begin with "/""#);
    for path in ["/:id", "/a/:id/b", "/*", "/files/*rest"] {
        let expected = format!(r#"the route "{path}" is malformed: a capture is written "/{{id}}" or "/{{*rest}}""#);
        assert_eq!(mistake(route(path)), expected);
        assert_eq!(mistake(Router::new().nest(path, route("/a"))), expected);
    }
    assert!(route("/a:b/c*").ready().is_ok());
    for path in ["/{}", "/a{b}", "/{a", "/a}", "/{a}{b}", "/{*}", "/{**a}", "/a{*b}"] {
        assert!(mistake(route(path)).contains("braces must enclose a whole segment"), "{path}");
    }
    assert!(mistake(route("/{*a}/b")).contains("must be the last segment"));
    let twice = mistake(route("/{a}").route("/{b}", get(async || "")));
    assert!(twice.starts_with(r#"the route "/{b}" is there twice, first as "/{a}": give"#), "{twice}");
    let merged = mistake(route("/a").nest("/b", route("/{*rest}")).merge(route("/b/{*all}")));
    assert!(merged.starts_with(r#"the route "/b/{*all}" is there twice, first as "/b/{*rest}""#), "{merged}");
    assert!(mistake(route("/a").nest("/", route("/b"))).contains("use merge"));
    assert!(mistake(route("/a").nest("/b/", route("/b"))).contains("leave out the slash"));
    assert!(mistake(route("/a").nest("/{*b}", route("/b"))).contains("nothing can follow"));
    assert!(mistake(route("/a").nest("b", route("/b"))).contains("must begin with"));
    let fallback = |router: Router| router.fallback(async || "");
    assert!(mistake(fallback(fallback(Router::new()))).contains("two fallbacks"));
    assert!(mistake(fallback(Router::new()).merge(fallback(Router::new()))).contains("two fallbacks"));
    assert!(fallback(Router::new()).nest("/a", fallback(Router::new())).ready().is_ok());
}

#[test]
fn an_attribute_whose_name_would_end_a_link_keeps_the_server_from_starting() {
    let with = |name| Router::<()>::new().route("/a", get(async || "").attribute(name, "v")).ready();
    for name in ["a,</evil>", "", "a b", "a=b", "a;b", "ä", "a\""] {
        let mistake = with(name).expect_err("no name").to_string();
        assert!(
            mistake.starts_with("the attributes of the route \"/a\" cannot be listed: the name"),
            "{name:?}: {mistake}"
        );
    }
    assert!(with("x-y.z_9").is_ok());
}

#[test]
fn a_second_handler_for_a_method_is_reported() {
    let twice = get(async || "first").put(async || ()).get(async || "second");
    let layered = get(async |State(_): State<u8>| "first")
        .layer(from_fn(async |request, next: Next| next.run(request).await))
        .get(async || "second");
    for resource in [twice, layered.with_state(7)] {
        let mistake = Router::<()>::new().route("/a", resource.clone()).ready().expect_err("a mistake");
        assert_eq!(mistake.to_string(), r#"the route "/a" has two handlers for GET: leave out one of them"#);
    }
}

#[test]
fn a_handler_that_takes_other_captures_than_its_route_has_is_reported() {
    let mistake = |router: Router| router.ready().expect_err("a mistake").to_string();
    let one = || put(async |_: Query, Path(_): Path<u8>| ());
    assert_eq!(
        mistake(Router::new().nest("/{a}", Router::new().route("/{b}", one()))),
        "the handler of PUT \"/{a}/{b}\" takes 1 captured segment, but the route has 2: take all of them at once, \
         in the order of the route, as in Path((a, b)): Path<(A, B)>"
    );
    for (path, written) in [("/nopath", "/nopath/{name}"), ("/", "/{name}")] {
        assert_eq!(
            mistake(Router::new().route(path, one())),
            format!(
                "the handler of PUT {path:?} takes 1 captured segment, but the route has none: write it as \
                 {written:?}, or remove Path"
            )
        );
    }
    let two = put(async |Path((_, _)): Path<(u8, u8)>| ());
    let mistaken = mistake(Router::new().route("/a", two));
    assert!(
        mistaken.contains(r#"takes 2 captured segments, but the route has none: write it as "/a/{name1}/{name2}""#)
    );
    assert_eq!(
        mistake(Router::new().fallback(async |_: Path<String>| "")),
        "the handler of the fallback under \"/\" takes 1 captured segment, but the route has none: remove Path"
    );
    assert!(Router::<()>::new().route("/{a}/{b}", get(async || "not interested")).ready().is_ok());
}
