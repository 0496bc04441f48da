//! Streamed bodies over loopback sockets.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use conche::body::from_reader;
use conche::codec::BlockSize;
use conche::server::extract::{BodyError, Bytes};
use conche::server::{BodyStream, Response, Router, ServerBuilder, State, get, post, put};
use conche::{Client, Code, ContentFormat, Error, Failure, OptionNumber, Server, SourceValidation};
use futures_core::Stream;
use tokio::sync::Notify;

const LARGE: usize = 300_001;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from((at ^ at >> 8 ^ at >> 16) & 0xff).expect("a byte")).collect()
}

struct Pieces {
    left: Vec<u8>,
    size: usize,
    pulled: Arc<AtomicUsize>,
    fails: bool,
}

impl Pieces {
    fn of(body: Vec<u8>, size: usize) -> Self {
        Self { left: body, size, pulled: Arc::default(), fails: false }
    }
}

impl Stream for Pieces {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left.is_empty() {
            return Poll::Ready(self.fails.then(|| Err(std::io::Error::other("the sensor fell off"))));
        }
        let end = self.size.min(self.left.len());
        let rest = self.left.split_off(end);
        let piece = std::mem::replace(&mut self.left, rest);
        self.pulled.fetch_add(piece.len(), Ordering::Relaxed);
        Poll::Ready(Some(Ok(piece.into())))
    }
}

async fn count(mut body: BodyStream) -> Result<(Code, String), BodyError> {
    let (size, mut came) = (body.size(), Vec::new());
    while let Some(chunk) = body.chunk().await? {
        came.extend_from_slice(&chunk);
    }
    let code = if came == bytes(came.len()) { Code::CHANGED } else { Code::BAD_REQUEST };
    Ok((code, format!("{} of {size:?}", came.len())))
}

async fn echo(mut body: BodyStream) -> Result<Response, BodyError> {
    let mut count = 0;
    while let Some(chunk) = body.chunk().await? {
        count += chunk.len();
    }
    let pieces = Pieces::of(bytes(count), 1_000);
    Ok(Response::new(Code::CHANGED).stream(ContentFormat::OCTET_STREAM, None, pieces))
}

async fn make(conche::server::Path((count, piece)): conche::server::Path<(usize, usize)>) -> Response {
    let size = u32::try_from(count).ok();
    Response::new(Code::CONTENT).stream(ContentFormat::OCTET_STREAM, size, Pieces::of(bytes(count), piece))
}

async fn breaks() -> Response {
    let pieces = Pieces { fails: true, ..Pieces::of(bytes(5_000), 1_000) };
    Response::new(Code::CONTENT).stream(ContentFormat::OCTET_STREAM, None, pieces)
}

async fn start(server: ServerBuilder) -> (Server, String) {
    let router = Router::new()
        .route("/count", put(count).post(count))
        .route("/make/{bytes}/{piece}", get(make))
        .route("/echo", put(echo))
        .route("/breaks", get(breaks));
    let server = server.router(router).bind("127.0.0.1:0").await.expect("it starts");
    let there = format!("coap://{}", server.local_addr());
    (server, there)
}

async fn read(client: &Client, uri: String) -> Result<Vec<u8>, Error> {
    let mut stream = client.get(uri).stream().await?.successful()?;
    let mut body = Vec::new();
    while let Some(chunk) = stream.chunk().await? {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[tokio::test]
async fn a_response_beyond_all_limits_comes_while_it_is_made() {
    let (_server, there) = start(Server::builder()).await;
    let client = Client::new();
    for (count, piece) in [(LARGE, 1_000), (100_000, 70_000), (3_000, 1), (700, 700), (0, 1)] {
        let uri = format!("{there}/make/{count}/{piece}");
        let stream = client.get(&uri).stream().await.expect("a response");
        assert_eq!((stream.code(), stream.size()), (Code::CONTENT, u32::try_from(count).ok()), "{count}");
        assert_eq!(stream.head().content_format(), Some(ContentFormat::OCTET_STREAM));
        drop(stream);
        assert!(read(&client, uri).await.expect("a body") == bytes(count), "{count} bytes in pieces of {piece}");
    }
}

#[tokio::test]
async fn a_whole_response_can_be_read_as_a_stream_and_a_stream_as_a_whole() {
    let whole = get(async || (ContentFormat::OCTET_STREAM, bytes(10_000)));
    let server = Server::builder().route("/whole", whole).bind("127.0.0.1:0").await.expect("it starts");
    let client = Client::new();
    let body = read(&client, format!("coap://{}/whole", server.local_addr())).await.expect("a body");
    assert!(body == bytes(10_000));
    let (_server, there) = start(Server::builder()).await;
    let response = client.get(format!("{there}/make/10000/3000")).await.expect("a response");
    assert!(response.payload() == bytes(10_000));
    let missing = client.get(format!("{there}/nowhere")).stream().await.expect("a response");
    assert_eq!(missing.code(), Code::NOT_FOUND);
    assert!(matches!(missing.successful(), Err(Error::Response { code: Code::NOT_FOUND, .. })));
}

#[tokio::test]
async fn a_request_beyond_all_limits_reaches_the_handler_while_it_is_made() {
    let (_server, there) = start(Server::builder()).await;
    for block in [BlockSize::B1024, BlockSize::B64] {
        let client = Client::builder().block_size(block).build().expect("legal settings");
        for (count, piece) in [(LARGE / 3, 1_000), (20_000, 20_000), (1_024, 1_024), (1_025, 1), (10, 3), (0, 1)] {
            let pieces = Pieces::of(bytes(count), piece);
            let response = client.put(format!("{there}/count")).send_stream(pieces).await.expect("a response");
            let told = response.text().expect("a text").to_owned();
            assert_eq!((response.code(), told.starts_with(&format!("{count} of"))), (Code::CHANGED, true), "{told}");
        }
        let request = client.put(format!("{there}/count")).uint(OptionNumber::SIZE1, 5_000);
        let response = request.send_stream(from_reader(std::io::Cursor::new(bytes(5_000)))).await.expect("a response");
        assert_eq!(response.text(), Ok("5000 of Some(5000)"));
        let response = client.put(format!("{there}/count")).bytes(bytes(50_000)).await.expect("a response");
        assert_eq!(response.text(), Ok("50000 of Some(50000)"));
    }
}

#[tokio::test]
async fn bodies_beyond_all_limits_go_both_ways_in_one_request() {
    let (_server, there) = start(Server::builder()).await;
    let client = Client::new();
    for (count, piece) in [(LARGE / 3, 1_000), (3_000, 1), (10, 3), (0, 1)] {
        let request = client.put(format!("{there}/echo"));
        let mut stream = request.send_and_stream(Pieces::of(bytes(count), piece)).await.expect("a response");
        assert_eq!(stream.code(), Code::CHANGED, "{count}");
        let mut body = Vec::new();
        while let Some(chunk) = stream.chunk().await.expect("a body") {
            body.extend_from_slice(&chunk);
        }
        assert!(body == bytes(count), "{count}");
    }
    let pieces = Pieces { fails: true, ..Pieces::of(bytes(5_000), 1_000) };
    let failed = client.put(format!("{there}/echo")).send_and_stream(pieces).await;
    assert!(matches!(failed, Err(Error::Body(_))), "{failed:?}");
}

#[tokio::test]
async fn a_body_that_breaks_is_an_error_at_the_other_end_or_at_its_own() {
    let (_server, there) = start(Server::builder()).await;
    let client = Client::new();
    let mut stream = client.get(format!("{there}/breaks")).stream().await.expect("a response");
    let mut body = Vec::new();
    let end = loop {
        match stream.chunk().await {
            Ok(chunk) => body.extend_from_slice(&chunk.expect("it does not end well")),
            Err(error) => break error,
        }
    };
    assert!(matches!(end, Error::Response { code: Code::INTERNAL_SERVER_ERROR, .. }), "{end:?}");
    assert!(bytes(5_000).starts_with(&body) && body.len() >= 3_072);
    assert!(matches!(stream.chunk().await, Ok(None)), "after its error it is over");
    let pieces = Pieces { fails: true, ..Pieces::of(bytes(5_000), 1_000) };
    let failed = client.put(format!("{there}/count")).send_stream(pieces).await;
    assert!(matches!(failed, Err(Error::Body(_))), "{failed:?}");
}

#[tokio::test]
async fn an_answer_before_the_end_ends_the_request_and_no_more_of_it_is_made() {
    async fn refuse(mut body: BodyStream) -> Result<Code, BodyError> {
        body.chunk().await?;
        Ok(Code::REQUEST_ENTITY_TOO_LARGE)
    }
    let server = Server::builder().route("/", post(refuse)).bind("127.0.0.1:0").await.expect("it starts");
    let pieces = Pieces::of(bytes(1 << 20), 1_000);
    let pulled = Arc::clone(&pieces.pulled);
    let client = Client::new();
    let response = client.post(format!("coap://{}", server.local_addr())).send_stream(pieces).await;
    assert_eq!(response.expect("a response").code(), Code::REQUEST_ENTITY_TOO_LARGE);
    assert!(pulled.load(Ordering::Relaxed) <= 5_000, "{pulled:?} bytes were made");
}

#[tokio::test]
async fn a_sender_waits_for_a_handler_that_takes_its_time() {
    async fn wait(State(gate): State<Arc<Notify>>, mut body: BodyStream) -> Result<(), BodyError> {
        body.chunk().await?;
        gate.notified().await;
        while body.chunk().await?.is_some() {}
        Ok(())
    }
    let gate = Arc::new(Notify::new());
    let resource = post(wait).with_state(Arc::clone(&gate));
    let server = Server::builder().route("/", resource).bind("127.0.0.1:0").await.expect("it starts");
    let pieces = Pieces::of(bytes(50_000), 1_000);
    let pulled = Arc::clone(&pieces.pulled);
    let client = Client::new();
    let sent = tokio::spawn(client.post(format!("coap://{}", server.local_addr())).send_stream(pieces));
    // The server has received the second block and sent an Empty ACK.
    while client.stats().await.datagrams_received < 2 {
        tokio::task::yield_now().await;
    }
    assert!(pulled.load(Ordering::Relaxed) <= 5_000, "{pulled:?} bytes were made");
    gate.notify_one();
    let response = sent.await.expect("no panic").expect("a response");
    assert_eq!((response.code(), pulled.load(Ordering::Relaxed)), (Code::CHANGED, 50_000));
}

#[tokio::test]
async fn a_dropped_stream_ends_its_transfer_and_frees_its_place() {
    let (_server, there) = start(Server::builder()).await;
    let client = Client::new();
    for _ in 0..20 {
        let mut stream = client.get(format!("{there}/make/{LARGE}/1000")).stream().await.expect("a response");
        assert!(stream.chunk().await.expect("a chunk").is_some());
    }
    assert!(read(&client, format!("{there}/make/5000/1000")).await.expect("a body") == bytes(5_000));
}

#[tokio::test]
async fn a_second_transfer_of_a_stream_without_an_etag_is_never_taken_for_the_first() {
    let (_server, there) = start(Server::builder()).await;
    let client = Client::new();
    let uri = format!("{there}/make/20000/1000");
    let mut first = client.get(&uri).stream().await.expect("a response");
    assert!(first.chunk().await.expect("a chunk").is_some());
    let second = read(&client, uri).await.expect("a body");
    assert!(second == bytes(20_000));
    let end = loop {
        match first.chunk().await {
            Ok(chunk) => assert!(chunk.is_some(), "it does not end well"),
            Err(error) => break error,
        }
    };
    let changed = matches!(end, Error::Failed { failure: Failure::BodyChanged, .. });
    assert!(changed || matches!(end, Error::Response { code: Code::REQUEST_ENTITY_INCOMPLETE, .. }), "{end:?}");
}

#[tokio::test]
async fn a_server_that_asks_for_an_echo_value_streams_too() {
    let (_server, there) = start(Server::builder().source_validation(SourceValidation::Echo)).await;
    let client = Client::new();
    let uri = format!("{there}/count");
    let sent = client.put(uri).send_stream(Pieces::of(bytes(5_000), 1_000)).await.expect("a response");
    assert_eq!(sent.code(), Code::CHANGED);
    let client = Client::new();
    assert!(read(&client, format!("{there}/make/5000/1000")).await.expect("a body") == bytes(5_000));
}
