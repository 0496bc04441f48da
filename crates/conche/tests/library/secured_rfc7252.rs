//! RFC 7252 §9 by requirement: sessions in relation to messages, requests and responses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conche::security::Secret;
use conche::server::{Router, get, post};
use conche::{Client, Code, EndpointConfig, Server};
use tokio::sync::Notify;

use crate::test_peers::{ManualEndpoint, OnPathAttacker, Toward, keys};

const CON: u8 = 0;
const ACK: u8 = 2;
const RST: u8 = 3;

fn message(ty: u8, code: Code, id: u16, token: u8, path: &str) -> Vec<u8> {
    let mut message = vec![0x41 | ty << 4, code.0];
    message.extend(id.to_be_bytes());
    message.push(token);
    if !path.is_empty() {
        message.push(0xb0 | u8::try_from(path.len()).expect("a short path"));
        message.extend(path.bytes());
    }
    message
}

fn empty(ty: u8, id: &[u8]) -> Vec<u8> {
    vec![0x40 | ty << 4, 0, id[0], id[1]]
}

struct Served {
    server: Server,
    answer: Arc<Notify>,
}

impl Served {
    async fn new() -> Self {
        let (answer, count) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
        let told = Arc::clone(&answer);
        let later = move || {
            let told = Arc::clone(&told);
            async move {
                told.notified().await;
                "later"
            }
        };
        let counted = move || {
            let now = count.fetch_add(1, Ordering::SeqCst) + 1;
            async move { now.to_string() }
        };
        let router = Router::new().route("/hello", get(async || "world"));
        let router = router.route("/later", get(later)).route("/count", post(counted));
        let config = EndpointConfig { separate_after: Duration::from_millis(50), ..EndpointConfig::default() };
        let server = Server::builder().psk(keys).config(config).router(router);
        Self { server: server.bind("127.0.0.1:0").await.expect("a port"), answer }
    }

    fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }
}

fn client() -> Client {
    let builder = Client::builder().psk(*b"lamp", Secret::new(*b"sesame")).expect("a key");
    builder.build().expect("legal settings")
}

// RFC 7252 §9.1.1 (Q92)
#[tokio::test]
async fn an_acknowledgement_or_reset_in_another_session_is_ignored() {
    let served = Served::new().await;
    let (mut one, mut other) =
        (ManualEndpoint::client(served.address()).await, ManualEndpoint::client(served.address()).await);
    one.send(&message(CON, Code::GET, 1, 7, "later")).await;
    assert_eq!(one.receive().await, empty(ACK, &[0, 1]));
    served.answer.notify_one();
    let response = one.receive().await;
    assert_eq!((response[0], response[4]), (0x41, 7), "Confirmable, with the token");
    for ty in [ACK, RST] {
        other.send(&empty(ty, &response[2..4])).await;
    }
    assert_eq!(one.receive().await, response, "a copy");
    one.send(&empty(ACK, &response[2..4])).await;
}

// RFC 7252 §9.1.1 (Q92), §9.1.2 (Q93)
#[tokio::test]
async fn exchanges_of_a_session_do_not_continue_in_the_next_one() {
    let served = Served::new().await;
    let mut client = ManualEndpoint::client(served.address()).await;
    for id in [1, 2] {
        client.send(&message(CON, Code::GET, id, 7, "later")).await;
        assert_eq!(client.receive().await, empty(ACK, &id.to_be_bytes()));
    }
    // One response was sent and would be retransmitted; another is pending.
    served.answer.notify_one();
    client.receive().await;
    let mut client = client.restarted(served.address()).await;
    served.answer.notify_one();
    assert_eq!(client.hear(Duration::from_secs(4)).await, Vec::<Vec<u8>>::new());
    client.send(&message(CON, Code::GET, 3, 7, "hello")).await;
    assert!(client.receive().await.ends_with(b"world"));
}

// RFC 7252 §9.1.1 (Q222, Q223)
#[tokio::test]
async fn a_copy_is_one_of_the_same_session_only_and_a_record_of_its_own() {
    let served = Served::new().await;
    let mut client = ManualEndpoint::client(served.address()).await;
    let ask = message(CON, Code::POST, 9, 7, "count");
    client.send(&ask).await;
    let first = client.receive().await;
    assert!(first.ends_with(b"1"), "{first:?}");
    client.send(&ask).await;
    assert_eq!(client.receive().await, first, "the copy is answered as the original was");
    let mut client = client.restarted(served.address()).await;
    client.send(&ask).await;
    let second = client.receive().await;
    assert!(second.ends_with(b"2"), "{second:?}");
}

// RFC 7252 §9.1.2 (Q93)
#[tokio::test]
async fn an_answer_without_protection_is_none_to_a_request_with_it() {
    let mut server = ManualEndpoint::server().await;
    let asking = client().get(format!("coaps://{}/", server.address())).send();
    let asking = tokio::spawn(asking);
    let request = server.receive().await;
    let length = usize::from(request[0] & 15);
    let answer = |payload: &[u8]| {
        let head = [0x60 | request[0] & 15, Code::CONTENT.0];
        [&head, &request[2..4 + length], &[0xff], payload].concat()
    };
    server.send_plain(&answer(b"false")).await;
    server.send_plain(&empty(RST, &request[2..4])).await;
    server.send(&answer(b"true")).await;
    let answer = asking.await.expect("no panic").expect("an answer");
    assert_eq!(answer.payload(), b"true");
}

// RFC 7252 §9.1.1 (Q220, Q221)
#[tokio::test]
async fn all_that_leaves_after_a_handshake_of_the_clients_is_protected() {
    const CHANGE_CIPHER_SPEC: u8 = 20;
    const HANDSHAKE: u8 = 22;
    const APPLICATION_DATA: u8 = 23;
    let served = Served::new().await;
    let foe = OnPathAttacker::before(served.address()).await;
    let client = client();
    for _ in 0..3 {
        let answer = client.get(format!("coaps://{}/hello", foe.address)).await.expect("an answer");
        assert_eq!(answer.payload(), b"world");
    }
    let seen = foe.seen();
    assert_eq!((seen[0].0, seen[0].1[0]), (Toward::Server, HANDSHAKE));
    let data = |(_, datagram): &(Toward, Vec<u8>)| datagram[0] == APPLICATION_DATA;
    let begins = seen.iter().position(data).expect("there are some");
    let changed = |toward| seen[..begins].iter().any(|(to, bytes)| *to == toward && bytes[0] == CHANGE_CIPHER_SPEC);
    let finished = |toward| {
        let of = seen[..begins].iter().filter(|(to, _)| *to == toward);
        of.flat_map(|(_, bytes)| bytes.windows(3)).any(|bytes| bytes == [CHANGE_CIPHER_SPEC, 254, 253])
    };
    assert!(changed(Toward::Server) || finished(Toward::Server), "the client has changed its cipher");
    assert!(changed(Toward::Client) || finished(Toward::Client), "the server has, too");
    assert_eq!(seen[begins..].len(), 6, "three requests and their responses");
    for (_, datagram) in &seen[begins..] {
        let [content, major, minor, epoch_high, epoch, ..] = datagram[..] else { panic!("{datagram:?}") };
        assert_eq!((content, [major, minor], [epoch_high, epoch]), (APPLICATION_DATA, [254, 253], [0, 1]));
        assert!(!datagram.windows(5).any(|bytes| bytes == b"hello" || bytes == b"world"));
    }
}
