//! JSON and CBOR values as payloads.

#![cfg(all(feature = "json", feature = "cbor"))]

use std::collections::HashMap;

use conche::server::{Request, Response, post};
use conche::{Client, Code, ContentFormat, Error, Server};
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Reading {
    sensor: String,
    celsius: f32,
}

async fn echo() -> (Server, String) {
    let echo = async |request: Request| {
        let format = request.content_format().unwrap_or(ContentFormat::OCTET_STREAM);
        Response::new(Code::CHANGED).payload(format, request.payload().to_vec())
    };
    let server = Server::builder().route("/", post(echo)).bind("127.0.0.1:0").await.expect("it starts");
    let uri = format!("coap://{}/", server.local_addr());
    (server, uri)
}

#[tokio::test]
async fn values_travel_as_json_and_cbor() {
    let (_server, there) = echo().await;
    let client = Client::new();
    let reading = Reading { sensor: "attic".to_owned(), celsius: 21.5 };
    let response = client.post(&there).json(&reading).await.expect("a response");
    assert_eq!(response.content_format(), Some(ContentFormat::JSON));
    assert_eq!(&response.bytes()[..], br#"{"sensor":"attic","celsius":21.5}"#);
    assert_eq!(response.json::<Reading>().expect("a reading"), reading);
    let response = client.post(&there).cbor(&reading).await.expect("a response");
    assert_eq!(response.content_format(), Some(ContentFormat::CBOR));
    assert_eq!(response.cbor::<Reading>().expect("a reading"), reading);
    let wrong = response.json::<Reading>().expect_err("it is CBOR");
    assert!(matches!(wrong, Error::Decode { format: "JSON", .. }) && wrong.was_sent(), "{wrong}");
}

#[tokio::test]
async fn a_value_that_json_cannot_hold_fails_the_request_before_it_is_sent() {
    let keyed = HashMap::from([((1, 2), "a key that is no text")]);
    let failed = Client::new().post("coap://127.0.0.1/").json(&keyed).await.expect_err("it is no JSON");
    assert!(matches!(failed, Error::Encode { format: "JSON", .. }) && !failed.was_sent(), "{failed}");
}
