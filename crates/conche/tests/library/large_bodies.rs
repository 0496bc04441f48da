//! Bodies larger than a message, in both directions (RFC 7959).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use conche::client::ClientBuilder;
use conche::codec::link_format::Links;
use conche::codec::{Block, BlockSize};
use conche::server::{Payload, Request, Response, Router, ServerBuilder, State, get, post, put};
use conche::{Client, Code, ContentFormat, Error, OptionNumber, QBlock, Server};

const MIB: usize = 1 << 20;

/// Bytes without equal blocks.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from((at ^ at >> 8 ^ at >> 16) & 0xff).expect("a byte")).collect()
}

async fn start(server: ServerBuilder) -> (Server, String) {
    let server = server.bind("127.0.0.1:0").await.expect("it starts");
    let there = format!("coap://{}", server.local_addr());
    (server, there)
}

fn binary(code: Code, payload: impl Into<Vec<u8>>) -> Response {
    Response::new(code).payload(ContentFormat::OCTET_STREAM, payload.into())
}

/// `/{bytes}` has a body of this size; PUT returns the payload's size.
async fn with_limit(limit: usize) -> (Client, Server, String) {
    pair(Server::builder().body_limit(limit), Client::builder().body_limit(limit)).await
}

async fn pair(server: ServerBuilder, client: ClientBuilder) -> (Client, Server, String) {
    let read = async |conche::server::Path(count): conche::server::Path<usize>| binary(Code::CONTENT, bytes(count));
    let write = async |Payload(payload): Payload| {
        let code = if payload[..] == bytes(payload.len()) { Code::CHANGED } else { Code::BAD_REQUEST };
        (code, payload.len().to_string())
    };
    let router = Router::new().route("/{bytes}", get(read)).route("/", put(write));
    let (server, there) = start(server.router(router)).await;
    let client = client.build().expect("legal settings");
    (client, server, there)
}

#[tokio::test]
async fn a_mebibyte_comes_whole_when_both_limits_allow_it() {
    let (client, _server, there) = with_limit(MIB).await;
    let response = client.get(format!("{there}/{MIB}")).await.expect("a response");
    assert_eq!((response.code(), response.content_format()), (Code::CONTENT, Some(ContentFormat::OCTET_STREAM)));
    assert!(response.payload() == bytes(MIB), "{} bytes that differ", response.payload().len());
    let course = response.course();
    assert_eq!((course.messages, course.transmissions - response.retransmissions()), (1024, 1024));
}

#[tokio::test]
async fn one_client_can_ask_for_each_response_in_blocks_of_another_size() {
    let (client, _server, there) = with_limit(MIB).await;
    for (size, messages) in [(BlockSize::B64, 64), (BlockSize::B1024, 4), (BlockSize::B256, 16)] {
        let first = Block { num: 0, more: false, size }.encode();
        let request = client.get(format!("{there}/4096")).option(OptionNumber::BLOCK2, first.as_slice());
        let response = request.await.expect("a response");
        assert!(response.payload() == bytes(4096), "{size:?}");
        assert_eq!(response.course().messages, messages, "{size:?}");
    }
}

#[tokio::test]
async fn a_hundred_kilobytes_reach_the_handler_whole() {
    let (client, _server, there) = with_limit(MIB).await;
    let response = client.put(&there).bytes(bytes(100_000)).await.expect("a response");
    assert_eq!((response.code(), response.text()), (Code::CHANGED, Ok("100000")));
}

#[tokio::test]
async fn bodies_go_in_sets_where_both_ends_want_it_and_block_by_block_where_one_does() {
    for server_knows in [true, false] {
        let client = Client::builder().body_limit(MIB).q_block(QBlock::default());
        let server = Server::builder().body_limit(MIB);
        let server = if server_knows { server.q_block(QBlock::default()) } else { server };
        let (client, _server, there) = pair(server, client).await;
        let written = client.put(&there).bytes(bytes(50_000)).await.expect("a response");
        assert_eq!((written.code(), written.text()), (Code::CHANGED, Ok("50000")));
        let read = client.get(format!("{there}/50000")).await.expect("a response");
        assert!(read.payload() == bytes(50_000), "{} bytes that differ", read.payload().len());
    }
}

#[tokio::test]
async fn a_large_payload_is_answered_with_a_large_one() {
    let calls = Arc::new(AtomicUsize::new(0));
    let echo = async |State(calls): State<Arc<AtomicUsize>>, request: Request| {
        calls.fetch_add(1, Ordering::Relaxed);
        binary(Code::CHANGED, request.payload())
    };
    for size in [BlockSize::B1024, BlockSize::B256] {
        let (_server, there) = start(Server::builder().route("/", post(echo).with_state(Arc::clone(&calls)))).await;
        let client = Client::builder().block_size(size).build().expect("legal settings");
        let response = client.post(&there).bytes(bytes(20_000)).await.expect("a response");
        assert_eq!(response.code(), Code::CHANGED);
        assert!(response.payload() == bytes(20_000), "{} bytes that differ", response.payload().len());
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_list_of_a_hundred_resources_is_discovered() {
    let routes = |router: Router, number| router.route(&format!("/sensors/{number:03}"), get(async || ""));
    let (_server, there) = start(Server::builder().router((0..100).fold(Router::new(), routes))).await;
    let response = Client::new().get(format!("{there}/.well-known/core")).await.expect("a response");
    assert_eq!((response.code(), response.content_format()), (Code::CONTENT, Some(ContentFormat::LINK_FORMAT)));
    let links: Vec<_> = Links::read(response.text().expect("text")).collect::<Result<_, _>>().expect("links");
    let targets: Vec<_> = links.iter().map(|link| link.target().to_owned()).collect();
    assert_eq!(targets, (0..100).map(|number| format!("/sensors/{number:03}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_body_limit_error_names_the_setting_to_raise() {
    let (client, _server, there) = with_limit(2 * MIB).await;
    let small = Client::builder().body_limit(2000).build().expect("legal settings");

    let refused = small.put(&there).bytes(bytes(2001)).await.expect_err("it is too large");
    assert!(matches!(refused, Error::RequestTooLarge { bytes: 2001, limit: 2000 }) && !refused.was_sent());
    assert!(refused.to_string().contains("body_limit"), "{refused}");

    let failed = small.get(format!("{there}/5000")).await.expect_err("it is too large");
    let peer: SocketAddr = there.trim_start_matches("coap://").parse().expect("an address");
    assert!(matches!(failed, Error::ResponseTooLarge { peer: from, limit: 2000, .. } if from == peer), "{failed}");
    assert!(failed.was_sent() && failed.to_string().contains("body_limit"), "{failed}");

    let response = client.get(format!("{there}/{}", 2 * MIB + 1)).await.expect("a response");
    assert_eq!(response.code(), Code::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_server_refuses_a_payload_beyond_its_limit_or_the_routers() {
    let take = async |Payload(_): Payload| ();
    let router = Router::new().route("/", put(take)).merge(Router::new().route("/less", put(take)).max_payload(4000));
    let (_server, there) = start(Server::builder().router(router).body_limit(8000)).await;
    for (path, bytes_sent, code, limit) in [
        ("/", 8000, Code::CHANGED, None),
        ("/", 8001, Code::REQUEST_ENTITY_TOO_LARGE, Some(8000)),
        ("/less", 4000, Code::CHANGED, None),
        ("/less", 4001, Code::REQUEST_ENTITY_TOO_LARGE, Some(4000)),
    ] {
        let response = Client::new().put(format!("{there}{path}")).bytes(bytes(bytes_sent)).await.expect("a response");
        let told = response.message().uint(OptionNumber::SIZE1);
        assert_eq!((response.code(), told), (code, limit), "{bytes_sent} bytes to {path}");
    }
}

#[tokio::test]
async fn one_block_of_a_body_can_be_asked_for() {
    let (client, _server, there) = with_limit(MIB).await;
    let (whole, uri) = (bytes(5000), format!("{there}/5000"));
    for (num, range, more) in [(0, 0..64, true), (10, 640..704, true), (78, 4992..5000, false)] {
        let asked = Block { num, more: false, size: BlockSize::B64 };
        let response = client.get(&uri).block(asked).await.expect("a response");
        assert_eq!((response.code(), response.block()), (Code::CONTENT, Some(Block { more, ..asked })));
        assert_eq!(response.payload(), &whole[range]);
    }
    let response = client.get(&uri).await.expect("a response");
    assert!(response.payload() == whole && response.block().is_none(), "{:?}", response.block());
}
