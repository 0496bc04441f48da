//! Heap allocations of client and server.

use conche::server::get;
use conche::{Client, Server, SourceValidation, Uri};
use tokio::net::UdpSocket;

const REQUESTS: u16 = 1_000;

/// For tables that grow in chunks, far from one allocation per request.
const NOW_AND_THEN: u64 = REQUESTS as u64 / 10;

const PARSED: u64 = 8;

fn allocations(text: &'static str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (_server, socket) = runtime.block_on(async {
        let route = get(move || async move { text });
        let server = Server::builder()
            .source_validation(SourceValidation::Off)
            .route("/t", route)
            .bind("127.0.0.1:0")
            .await
            .expect("it starts");
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("loopback can be bound");
        socket.connect(server.local_addr()).await.expect("it is an address");
        (server, socket)
    });
    let ask = |ids: std::ops::Range<u16>| {
        runtime.block_on(async {
            for id in ids {
                let [high, low] = id.to_be_bytes();
                socket.send(&[0x41, 0x01, high, low, 9, 0xb1, b't']).await.expect("it is sent");
                socket.recv(&mut [0; 64]).await.expect("a reply");
            }
        });
    };
    ask(0..2 * REQUESTS);
    allocation_counter::measure(|| ask(2 * REQUESTS..3 * REQUESTS)).count_total
}

#[test]
fn a_get_is_served_without_an_allocation() {
    let counted = allocations("21.5");
    assert!(counted <= NOW_AND_THEN, "{counted} in {REQUESTS} requests");
}

#[test]
fn a_longer_response_costs_the_reply_that_is_remembered_for_copies_of_the_request() {
    let counted = allocations("21.5 degrees in the shade of the old apple tree");
    assert!(counted <= u64::from(REQUESTS) + NOW_AND_THEN, "{counted} in {REQUESTS} requests");
}

fn allocations_of_client(uri: impl Fn(&Uri) -> Uri) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let socket = runtime.block_on(UdpSocket::bind("127.0.0.1:0")).expect("loopback can be bound");
    let parsed = format!("coap://{}/t", socket.local_addr().expect("it is bound")).parse().expect("it is a URI");
    let client = Client::new();
    let answer = async || {
        let mut datagram = [0; 64];
        loop {
            let (_, from) = socket.recv_from(&mut datagram).await.expect("a request");
            // An ACK with 2.05, and the request's token.
            (datagram[0], datagram[1]) = (0x68, 0x45);
            datagram[12..17].copy_from_slice(b"\xff21.5");
            socket.send_to(&datagram[..17], from).await.expect("it is sent");
        }
    };
    let ask = async |count: u16| {
        for _ in 0..count {
            let response = client.get(uri(&parsed)).send().await.expect("a response");
            assert_eq!(response.payload(), b"21.5");
        }
    };
    let both = |count| {
        runtime.block_on(async {
            tokio::select! { () = ask(count) => {}, () = answer() => {} }
        });
    };
    both(2 * REQUESTS);
    allocation_counter::measure(|| both(REQUESTS)).count_total
}

#[test]
fn a_get_of_a_client_costs_the_response_that_is_its_own() {
    let counted = allocations_of_client(Uri::clone);
    let each = u64::from(REQUESTS);
    assert!((each..=each + NOW_AND_THEN).contains(&counted), "{counted} in {REQUESTS} requests");
}

#[test]
fn a_uri_that_is_text_costs_its_parts_for_each_request() {
    let counted = allocations_of_client(|uri| uri.as_str().parse().expect("it is a URI"));
    let each = u64::from(REQUESTS) * (1 + PARSED);
    assert!((each..=each + NOW_AND_THEN).contains(&counted), "{counted} in {REQUESTS} requests");
}

#[test]
fn a_request_that_waits_takes_a_kilobyte() {
    let waiting = size_of_val(&Client::new().get("coap://127.0.0.1/t").send());
    assert!(waiting <= 1100, "{waiting} bytes");
}
