//! How often the heap is asked for memory.

use conche::Server;
use conche::server::get;
use tokio::net::UdpSocket;

#[test]
fn a_get_is_served_with_few_allocations() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (_server, socket) = runtime.block_on(async {
        let server = Server::builder().route("/t", get(async || "21.5")).bind("127.0.0.1:0").await.expect("it starts");
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
    ask(0..2000);
    let counted = allocation_counter::measure(|| ask(2000..3000));
    // The handler's future, the task that it might have become, the body. The request, the reply and the text cost none.
    assert!(counted.count_total <= 3_010, "{} in 1000 requests", counted.count_total);
}
