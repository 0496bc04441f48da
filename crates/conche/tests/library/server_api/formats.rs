//! Typed arguments and results: JSON, CBOR and queries.

#![cfg(all(feature = "json", feature = "cbor"))]

use std::collections::BTreeMap;

use conche::server::{Accept, Cbor, Json, Query, Response, Route, Router, get, post};
use conche::{Code, ContentFormat, OptionNumber};
use serde::{Deserialize, Serialize};

use super::{read, request, service};

async fn send(service: &Route, path: &str, format: ContentFormat, payload: &[u8]) -> (Code, String) {
    let request = request(Code::POST, path, |body| body.content_format(format).payload(payload.to_vec()));
    read(service.respond(request).await)
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Reading {
    sensor: String,
    celsius: i16,
}

#[tokio::test]
async fn json_is_read_checked_and_written() {
    let warmer = async |Json(reading): Json<Reading>| Json(Reading { celsius: reading.celsius + 1, ..reading });
    let service = service(Router::new().route("/", post(warmer)));
    let json = ContentFormat::JSON;
    let good = br#"{"sensor":"roof","celsius":-4}"#;
    let (code, payload) = send(&service, "/", json, good).await;
    assert_eq!((code, payload.as_str()), (Code::CHANGED, r#"{"sensor":"roof","celsius":-3}"#));

    let unsaid = service.respond(request(Code::POST, "/", |body| body.payload(&good[..]))).await;
    assert_eq!((unsaid.code(), unsaid.content_format()), (Code::CHANGED, Some(json)));

    let refused = send(&service, "/", ContentFormat::CBOR, good).await;
    let wanted = "Content-Format 50 (application/json) is wanted, not 60";
    assert_eq!(refused, (Code::UNSUPPORTED_CONTENT_FORMAT, wanted.into()));
    for (payload, why) in [
        (&b"{\"sensor\":\n7}"[..], "the JSON payload: invalid type: integer `7`, expected a string at line 2 column 1"),
        (b"{\"sensor\":\"a\"}", "the JSON payload: missing field `celsius` at line 1 column 14"),
        (b"", "the JSON payload: EOF while parsing a value at line 1 column 0"),
        (b"{", "the JSON payload: EOF while parsing an object at line 1 column 1"),
    ] {
        assert_eq!(send(&service, "/", json, payload).await, (Code::BAD_REQUEST, why.into()));
    }
}

#[tokio::test]
async fn a_representation_is_offered_in_the_format_that_the_client_accepts() {
    let offer = async |accept: Accept| {
        Response::offer(accept, [(ContentFormat::TEXT_PLAIN, "21.5"), (ContentFormat::JSON, r#"{"celsius":21.5}"#)])
    };
    let service = service(Router::new().route("/", get(offer)));
    let ask = async |accept: Option<ContentFormat>| {
        let wanted = accept.map_or(Vec::new(), |format| vec![u32::from(format.0)]);
        let response = service.respond(request(Code::GET, "/", |body| {
            wanted.iter().fold(body, |body, format| body.uint(OptionNumber::ACCEPT, *format))
        }));
        let response = response.await;
        (response.content_format(), read(response))
    };
    let (text, json) = (ContentFormat::TEXT_PLAIN, ContentFormat::JSON);
    for (accept, format, payload) in
        [(None, text, "21.5"), (Some(text), text, "21.5"), (Some(json), json, "{\"celsius\":21.5}")]
    {
        assert_eq!(ask(accept).await, (Some(format), (Code::CONTENT, payload.into())));
    }
    let refused = ask(Some(ContentFormat::CBOR)).await;
    assert_eq!(
        refused,
        (
            None,
            (
                Code::NOT_ACCEPTABLE,
                "available Content-Formats: 0 (text/plain; charset=utf-8), 50 (application/json)".into()
            )
        )
    );
}

#[tokio::test]
async fn cbor_is_read_checked_and_written() {
    let warmer = async |Cbor(reading): Cbor<Reading>| Cbor(Reading { celsius: reading.celsius + 1, ..reading });
    let service = service(Router::new().route("/", post(warmer)));
    let cbor = ContentFormat::CBOR;
    let good = b"\xa2\x66sensor\x64roof\x67celsius\x23";
    let request = request(Code::POST, "/", |body| body.content_format(cbor).payload(&good[..]));
    let warmed = service.respond(request).await;
    assert_eq!((warmed.code(), warmed.content_format()), (Code::CHANGED, Some(cbor)));
    assert_eq!(warmed.payload_bytes(), b"\xa2\x66sensor\x64roof\x67celsius\x22");

    assert_eq!(send(&service, "/", ContentFormat::JSON, good).await.0, Code::UNSUPPORTED_CONTENT_FORMAT);
    let deep = [b"\xa1\x61x".to_vec(), vec![0x81; 100_000], vec![0]].concat();
    for (payload, why) in [
        (&good[..9], "it ends within an item, at byte 9"),
        (b"\xa2\x66sensor\x64roof\x67celsius\x1c", "no well-formed item at byte 21"),
        (b"\xa2\x66sensor\x64roof\x67celsius\x23\x00", "one item is wanted, but more follows at byte 22"),
        (b"\xa1\x66sensor\x64roof", "missing field `celsius`, before byte 13"),
        (b"\xa1\x66sensor\x07", "invalid type: integer `7`, expected string, before byte 9"),
        (&deep, "it is nested too deeply"),
    ] {
        let (code, text) = send(&service, "/", cbor, payload).await;
        assert_eq!((code, text), (Code::BAD_REQUEST, format!("the CBOR payload: {why}")));
    }
}

#[tokio::test]
async fn a_format_that_the_client_does_not_accept_is_4_06() {
    let service = service(Router::new().route("/json", get(async || Json(7))).route("/cbor", get(async || Cbor(7))));
    let accepting = async |path, format: ContentFormat| {
        let request = request(Code::GET, path, |body| body.uint(OptionNumber::ACCEPT, format.0.into()));
        service.respond(request).await.code()
    };
    assert_eq!(accepting("/json", ContentFormat::JSON).await, Code::CONTENT);
    assert_eq!(accepting("/json", ContentFormat::CBOR).await, Code::NOT_ACCEPTABLE);
    assert_eq!(accepting("/cbor", ContentFormat::CBOR).await, Code::CONTENT);
    assert_eq!(accepting("/cbor", ContentFormat::JSON).await, Code::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn a_result_that_cannot_be_written_is_5_00() {
    /// Fails to serialize.
    struct Stubborn;

    impl Serialize for Stubborn {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("it refuses"))
        }
    }

    let router =
        Router::new().route("/json", get(async || Json(Stubborn))).route("/cbor", get(async || Cbor(Stubborn)));
    let service = service(router);
    for path in ["/json", "/cbor"] {
        let response = service.respond(request(Code::GET, path, |body| body)).await;
        assert_eq!(read(response), (Code::INTERNAL_SERVER_ERROR, String::new()), "{path}");
    }
}

#[derive(Debug, Deserialize)]
struct Wanted {
    max: u8,
    level: Option<Level>,
    #[serde(default)]
    sensor: Vec<u16>,
    #[serde(default)]
    verbose: bool,
    title: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Warn,
    Error,
}

#[tokio::test]
async fn a_query_deserializes_to_a_struct_or_names_the_wrong_argument() {
    let typed = async |Query(wanted): Query<Wanted>| {
        let Wanted { max, level, sensor, verbose, title } = wanted;
        format!("{max} {level:?} {sensor:?} {verbose} {title:?}")
    };
    let map = async |Query(map): Query<BTreeMap<String, String>>| format!("{map:?}");
    let service = service(Router::new().route("/typed", get(typed)).route("/map", get(map)));
    let asked = async |path, query: &[&str]| {
        let request = request(Code::GET, path, |body| query.iter().fold(body, |body, argument| body.query(argument)));
        read(service.respond(request).await)
    };
    let content = |text: &str| (Code::CONTENT, text.to_owned());
    assert_eq!(asked("/typed", &["max=5"]).await, content("5 None [] false None"));
    let all = ["sensor=7", "level=warn", "max=5", "other=1", "verbose", "other=2", "sensor=8", "title=a b&c=d"];
    assert_eq!(asked("/typed", &all).await, content(r#"5 Some(Warn) [7, 8] true Some("a b&c=d")"#));
    assert_eq!(asked("/map", &["b=2", "a"]).await, content(r#"{"a": "", "b": "2"}"#));

    let number = "invalid digit found in string";
    for (query, why) in [
        (&["level=error"][..], "max=VALUE is missing".to_owned()),
        (&["max=many"], format!("max=many is malformed: {number}")),
        (&["max=1", "max=2"], "max is there 2 times: give it once".to_owned()),
        (&["max=1", "sensor=2", "sensor=x"], format!("sensor=x is malformed: {number}")),
        (
            &["max=1", "verbose=maybe"],
            "verbose=maybe is malformed: provided string was not `true` or `false`".to_owned(),
        ),
        (
            &["max=1", "level=info"],
            "level=info is malformed: unknown variant `info`, expected `warn` or `error`".to_owned(),
        ),
    ] {
        let expected = (Code::BAD_REQUEST, format!("the query argument {why}"));
        assert_eq!(asked("/typed", query).await, expected);
    }
}
