//! How often the heap is asked for memory.

use conche::Server;
use conche::server::get;
use tokio::net::UdpSocket;

const REQUESTS: u16 = 1_000;

/// The tables of what is remembered grow by chunks.
const NOW_AND_THEN: u64 = 40;

/// How often a server asks for memory that answers so many requests, one after the other, with this text.
fn allocations(text: &'static str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (_server, socket) = runtime.block_on(async {
        let route = get(move || async move { text });
        let server = Server::builder().route("/t", route).bind("127.0.0.1:0").await.expect("it starts");
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
