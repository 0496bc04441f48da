//! Cost of requests over the loopback: a server with many outstanding requests or sequential ones,
//! and a client with one destination or 64. The other side does as little as possible, on its own
//! thread.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use conche::server::get;
use conche::{Client, Server, Uri};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const PAYLOAD: &str = "21.5 degrees in the shade of the old apple tree, at a quarter";
const BATCH: u16 = 32;
const DESTINATIONS: u16 = 64;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn server() -> SocketAddr {
    let (address, bound) = std::sync::mpsc::channel();
    thread::spawn(move || {
        runtime().block_on(async {
            let server = Server::builder().route("/t", get(async || PAYLOAD)).bind("127.0.0.1:0");
            let server = server.await.expect("loopback can be bound");
            address.send(server.local_addr()).expect("somebody waits");
            server.wait().await
        })
    });
    bound.recv().expect("the server starts")
}

/// Sends raw requests with fresh message IDs, from another port after each 65 536.
struct Asker {
    server: SocketAddr,
    socket: UdpSocket,
    next_id: Option<u16>,
}

impl Asker {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
        socket.connect(server).expect("it is an address");
        Self { server, socket, next_id: Some(0) }
    }

    fn ask(&mut self, requests: u16) {
        if self.next_id.is_none_or(|id| id.checked_add(requests).is_none()) {
            *self = Self::new(self.server);
        }
        let first = self.next_id.unwrap_or_default();
        for id in first..first + requests {
            let [high, low] = id.to_be_bytes();
            // CON GET /t with a token of one byte.
            self.socket.send(&[0x41, 0x01, high, low, 9, 0xb1, b't']).expect("it is sent");
        }
        for _ in 0..requests {
            let length = self.socket.recv(&mut [0; 128]).expect("a reply");
            assert!(length > PAYLOAD.len(), "a reply of {length} bytes has no payload");
        }
        self.next_id = first.checked_add(requests);
    }
}

fn servers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("server");
    for (name, requests) in [("one by one", 1), ("32 at a time", BATCH)] {
        let mut asker = Asker::new(server());
        group.throughput(Throughput::Elements(requests.into()));
        group.bench_function(name, |bencher| bencher.iter(|| asker.ask(requests)));
    }
    group.finish();
}

fn responder() -> Uri {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback can be bound");
    let uri = format!("coap://{}/t", socket.local_addr().expect("it is bound")).parse().expect("it is a URI");
    thread::spawn(move || {
        let mut datagram = [0; 128];
        loop {
            let (_, from) = socket.recv_from(&mut datagram).expect("a request");
            let token = 4 + usize::from(datagram[0] & 0x0f);
            (datagram[0], datagram[1]) = (datagram[0] & 0x0f | 0x60, 0x45);
            datagram[token] = 0xff;
            let end = token + 1 + PAYLOAD.len();
            datagram[token + 1..end].copy_from_slice(PAYLOAD.as_bytes());
            socket.send_to(&datagram[..end], from).expect("it is sent");
        }
    });
    uri
}

fn clients(criterion: &mut Criterion) {
    let runtime = runtime();
    let client = runtime.block_on(async { Client::new() });
    let mut group = criterion.benchmark_group("client");
    let uri = responder();
    group.throughput(Throughput::Elements(1));
    group.bench_function("one destination", |bencher| {
        bencher.iter(|| runtime.block_on(client.get(uri.clone()).send()).expect("a response"));
    });
    let uris: Vec<_> = (0..DESTINATIONS).map(|_| responder()).collect();
    group.throughput(Throughput::Elements(DESTINATIONS.into()));
    group.bench_function("64 destinations", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let requests: JoinSet<_> = uris.iter().map(|uri| client.get(uri.clone()).send()).collect();
                for response in requests.join_all().await {
                    assert_eq!(response.expect("a response").payload(), PAYLOAD.as_bytes());
                }
            });
        });
    });
    group.finish();
}

criterion_group!(benches, servers, clients);
criterion_main!(benches);
