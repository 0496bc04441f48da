//! EDHOC between client and server (RFC 9528; RFC 9668), over the loopback.

use std::future::IntoFuture;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use conche::edhoc::{Credential, CredentialError, Error as Failed, ErrorMessage, OwnCredential, Party, generate};
use conche::security::Identity;
use conche::server::{BindError, Notifier, Response, Router, WorkersError, get, post};
use conche::{Client, Code, ConfigError, ContentFormat, Error, Failure, Server};
use conche_proto::codec::{Body, Message, MessageId, MessagePool, OptionNumber, OwnedMessage, Token, Type};
use conche_proto::edhoc::{Initiator, PeerCredentials, with_id};
use conche_proto::oscore::EndId;
use tokio::sync::Semaphore;

use crate::own_address::own_address;

pub(crate) fn own(kid: &[u8], name: &str) -> OwnCredential {
    let key = generate().expect("there is randomness");
    let credential = Credential::of(&key, kid, name).expect("short");
    OwnCredential::new(key, credential).expect("they belong together")
}

pub(crate) fn parties() -> (Party, Party) {
    let (client, server) = (own(b"\x01", "lamp-7"), own(b"\x02", "hall"));
    let (lamp, hall) = (client.credential().clone(), server.credential().clone());
    let knows = |own, other| Party::new(own).with_peer(other).expect("one alone");
    (knows(client, hall), knows(server, lamp))
}

pub(crate) async fn server(party: Party) -> Server {
    let who = async |who: Identity| who.to_string();
    let router =
        Router::new().route("/who", get(who)).route("/size", post(async |body: String| body.len().to_string()));
    let server = Server::builder().edhoc(party).router(router).route("/open", get(async || "open"));
    server.bind(own_address()).await.expect("the loopback can be bound")
}

pub(crate) async fn restarted(first: Server, party: Party) -> Server {
    let address = first.local_addr();
    first.shutdown(Duration::ZERO).await;
    let who = async |who: Identity| who.to_string();
    Server::builder().edhoc(party).route("/who", get(who)).bind(address).await.expect("it is free again")
}

pub(crate) fn client(party: Party) -> Client {
    Client::builder().edhoc(party).build().expect("legal settings")
}

/// Without the retransmissions of a loaded machine.
pub(crate) async fn sent_at_first(client: &Client) -> u64 {
    let stats = client.stats().await;
    stats.datagrams_sent - stats.retransmissions
}

#[tokio::test]
async fn a_handler_receives_the_edhoc_identity_after_one_or_two_round_trips() {
    for combined in [false, true] {
        let (lamp, hall) = parties();
        let server = server(hall).await;
        let uri = |path: &str| format!("coap://{}{path}", server.local_addr());
        let client = client(lamp.clone().combined(combined));
        for _ in 0..3 {
            assert_eq!(client.get(uri("/who")).await.expect("an answer").text().expect("a text"), "lamp-7");
        }
        // EDHOC messages and requests: a combined one is both.
        assert_eq!(sent_at_first(&client).await, if combined { 1 + 3 } else { 2 + 3 });
        // A Non-confirmable request does not carry message_3.
        let other = self::client(lamp.clone().combined(combined));
        assert_eq!(other.get(uri("/who")).non().await.expect("an answer").text().expect("a text"), "lamp-7");
        assert_eq!(sent_at_first(&other).await, 2 + 1);
        let stranger = Client::new();
        assert_eq!(stranger.get(uri("/who")).await.expect("an answer").code(), Code::UNAUTHORIZED);
        assert_eq!(stranger.get(uri("/open")).await.expect("an answer").code(), Code::CONTENT);
        assert_eq!(stranger.get(uri("/.well-known/edhoc")).await.expect("an answer").code(), Code::METHOD_NOT_ALLOWED);
    }
}

/// RFC 9668 §6.
#[tokio::test]
async fn a_server_lists_where_and_how_it_agrees_on_keys() {
    let (_, hall) = parties();
    let server = server(hall.clone()).await;
    let links = async |server: &Server, query: &str| {
        let links = Client::new().get(format!("coap://{}/.well-known/core{query}", server.local_addr())).await;
        links.expect("an answer").text().expect("a text").to_owned()
    };
    let link = "</.well-known/edhoc>;rt=\"core.edhoc\";ed-method=3;ed-csuite=2;ed-idcred-t=4;ed-r;ed-comb-req";
    assert_eq!(links(&server, "?rt=core.edhoc").await, link);
    assert_eq!(links(&server, "").await, format!("</who>,</size>,</open>,{link}"));
    let own = Server::builder().edhoc(hall).route("/.well-known/edhoc", get(async || "own")).bind("127.0.0.1:0").await;
    assert_eq!(links(&own.expect("the loopback can be bound"), "").await, "</.well-known/edhoc>");
}

#[tokio::test]
async fn requests_that_come_at_once_agree_on_keys_once_and_large_ones_go_with_them() {
    let (lamp, hall) = parties();
    let server = server(hall).await;
    let client = client(lamp.combined(true));
    let uri = format!("coap://{}/size", server.local_addr());
    let sizes = (0..10_usize).map(|n| {
        let request = client.post(&uri).payload(ContentFormat::TEXT_PLAIN, "x".repeat(n * 70));
        tokio::spawn(async move {
            let response = request.await.expect("an answer");
            assert_eq!(response.code(), Code::CHANGED, "{n}");
            response.text().expect("a text").to_owned()
        })
    });
    for (n, size) in sizes.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(size.await.expect("it does not panic"), (n * 70).to_string());
    }
    // Block-wise: the first block carries message_3.
    let (lamp, hall) = parties();
    let (server, client) = (self::server(hall).await, self::client(lamp.combined(true)));
    let uri = format!("coap://{}/size", server.local_addr());
    for _ in 0..2 {
        let response = client.post(&uri).payload(ContentFormat::TEXT_PLAIN, "x".repeat(5000)).await.expect("an answer");
        assert_eq!(response.text().expect("a text"), "5000");
    }
}

#[tokio::test]
async fn unknown_peers_and_wrong_keys_fail_the_edhoc_exchange() {
    let (lamp, hall) = parties();
    let server = server(hall.clone()).await;
    let uri = format!("coap://{}/who", server.local_addr());
    let known = hall_of(&hall);
    let stranger = Party::new(own(b"\x09", "mallory")).with_peer(known.clone()).expect("one alone");
    let impostor = Party::new(own(b"\x01", "lamp-7")).with_peer(known).expect("one alone");
    let other = Party::new(own(b"\x01", "lamp-7")).with_peer(own(b"\x07", "other").credential().clone()).expect("one");
    let forged = Party::new(own(b"\x01", "lamp-7")).with_peer(own(b"\x02", "hall").credential().clone()).expect("one");
    for combined in [false, true] {
        for (party, at_client) in [
            (&stranger, None),
            (&impostor, None),
            (&other, Some(Failed::UnknownCredential)),
            (&forged, Some(Failed::NotAuthentic)),
        ] {
            let error = client(party.clone().combined(combined)).get(&uri).await.expect_err("no keys");
            match (error, at_client) {
                (Error::Edhoc { cause, .. }, Some(expected)) => assert_eq!(cause, expected),
                (Error::Edhoc { cause: Failed::ErrorMessage(ErrorMessage::Unspecified(_)), .. }, None) if !combined => {
                }
                (Error::Failed { failure: Failure::NotAuthenticated(Code::BAD_REQUEST), .. }, None) if combined => {}
                (error, _) => panic!("{error:?}"),
            }
        }
    }
    assert_eq!(client(lamp).get(&uri).await.expect("an answer").text().expect("a text"), "lamp-7");
}

fn hall_of(party: &Party) -> Credential {
    party.own().credential().clone()
}

#[tokio::test]
async fn a_server_that_has_restarted_is_agreed_with_anew_by_the_request_after_the_one_that_fails() {
    let (lamp, hall) = parties();
    let first = server(hall.clone()).await;
    let (uri, client) = (format!("coap://{}/who", first.local_addr()), client(lamp));
    assert_eq!(client.get(&uri).await.expect("an answer").text().expect("a text"), "lamp-7");
    let _second = restarted(first, hall).await;
    let error = client.get(&uri).await.expect_err("the keys are gone");
    assert!(matches!(error, Error::Failed { failure: Failure::NotAuthenticated(Code::UNAUTHORIZED), .. }), "{error:?}");
    assert_eq!(client.get(&uri).await.expect("an answer").text().expect("a text"), "lamp-7");
}

#[tokio::test]
async fn a_non_confirmable_request_also_detects_a_server_restart() {
    let (lamp, hall) = parties();
    let first = server(hall.clone()).await;
    let (uri, client) = (format!("coap://{}/who", first.local_addr()), client(lamp));
    assert_eq!(client.get(&uri).non().await.expect("an answer").text().expect("a text"), "lamp-7");
    let _second = restarted(first, hall).await;
    let error = client.get(&uri).non().await.expect_err("the keys are gone");
    assert!(matches!(error, Error::Failed { failure: Failure::NotAuthenticated(Code::UNAUTHORIZED), .. }), "{error:?}");
    assert_eq!(client.get(&uri).non().await.expect("an answer").text().expect("a text"), "lamp-7");
}

/// A 4.01 response without an error would answer an unprotected request.
#[tokio::test]
async fn no_request_leaves_unprotected_while_others_find_that_the_keys_are_gone() {
    let (lamp, hall) = parties();
    let first = server(hall.clone()).await;
    let (uri, client) = (format!("coap://{}/who", first.local_addr()), client(lamp));
    assert_eq!(client.get(&uri).await.expect("an answer").text().expect("a text"), "lamp-7");
    let _second = restarted(first, hall).await;
    let requests: Vec<_> = (0..30).map(|_| tokio::spawn(client.get(&uri).into_future())).collect();
    let mut answered = 0;
    for request in requests {
        if let Ok(response) = request.await.expect("it does not panic") {
            assert_eq!(response.code(), Code::CONTENT);
            answered += 1;
        }
    }
    assert!(answered < 30, "the first one finds out");
    assert_eq!(client.get(&uri).await.expect("an answer").text().expect("a text"), "lamp-7");
}

#[tokio::test]
async fn of_each_credential_the_last_contexts_are_kept() {
    for combined in [false, true] {
        let (lamp, hall) = parties();
        let server = server(hall).await;
        let uri = format!("coap://{}/who", server.local_addr());
        let clients: Vec<_> = (0..=conche::edhoc::CONTEXTS).map(|_| client(lamp.clone().combined(combined))).collect();
        for client in &clients {
            assert_eq!(client.get(&uri).await.expect("an answer").text().expect("a text"), "lamp-7");
        }
        let (oldest, others) = clients.split_first().expect("there are some");
        for client in others {
            assert_eq!(client.get(&uri).await.expect("an answer").code(), Code::CONTENT);
        }
        assert!(oldest.get(&uri).await.is_err(), "its context has made room");
    }
}

#[tokio::test]
async fn an_observation_survives_the_loss_of_edhoc_keys_at_the_server() {
    let (lamp, hall) = parties();
    let brief = async || Response::new(Code::CONTENT).payload(ContentFormat::TEXT_PLAIN, "t").max_age(Duration::ZERO);
    let route = get(brief).observed_by(&Notifier::new());
    let server = Server::builder().edhoc(hall).secured_only().route("/t", route).bind("127.0.0.1:0").await;
    let server = server.expect("the loopback can be bound");
    let uri = format!("coap://{}/t", server.local_addr());
    let mut observation = client(lamp.clone()).observe(&uri);
    assert!(observation.next().await.is_some_and(|state| state.is_ok()));
    for _ in 0..conche::edhoc::CONTEXTS {
        assert_eq!(client(lamp.clone()).get(&uri).await.expect("an answer").code(), Code::CONTENT);
    }
    let next = observation.next().await.expect("it is not over").expect("a state");
    assert_eq!((next.code(), observation.end()), (Code::CONTENT, None));
}

struct Raw(UdpSocket, u16);

impl Raw {
    fn new(server: &Server) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("the loopback can be bound");
        socket.connect(server.local_addr()).expect("it can be");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be");
        Self(socket, 0)
    }

    fn post_with(&mut self, payload: &[u8], echo: Option<&[u8]>) -> OwnedMessage {
        self.1 += 1;
        let body = Body::builder().path("/.well-known/edhoc").uint(OptionNumber::CONTENT_FORMAT, 65);
        let body = if let Some(echo) = echo { body.option(OptionNumber::ECHO, echo) } else { body };
        let (body, token) =
            (body.payload(payload.to_vec()).build().expect("legal"), Token::from(u64::from(self.1).to_be_bytes()));
        let post = OwnedMessage::encode(Type::Confirmable, Code::POST, MessageId(self.1), &token, &body);
        self.tell(post.expect("short").view().as_bytes())
    }

    fn tell(&mut self, datagram: &[u8]) -> OwnedMessage {
        self.0.send(datagram).expect("it can be sent");
        let mut buffer = [0; 1500];
        let length = self.0.recv(&mut buffer).expect("an answer");
        OwnedMessage::pooled(Message::decode(&buffer[..length]).expect("a message"), &mut MessagePool::new())
    }

    fn post(&mut self, payload: &[u8]) -> (Code, Vec<u8>) {
        let mut answer = self.post_with(payload, None);
        if let Some(echo) = answer.option(OptionNumber::ECHO).map(<[u8]>::to_vec) {
            answer = self.post_with(payload, Some(&echo));
        }
        (answer.code(), answer.payload().to_vec())
    }
}

/// message_1 of RFC 9529 §3 with only our suite and this identifier.
pub(crate) fn message_1(c_i: u8) -> Vec<u8> {
    let g_x = b"\x8a\xf6\xf4\x30\xeb\xe1\x8d\x34\x18\x40\x17\xa9\xa1\x1b\xf5\x11\xc8\xdf\xf8\xf8\x34\x73\x0b\x96\xc1\xb7\xc8\xdb\xca\x2f\xc3\xb6";
    [&b"\xf5\x03\x02\x58\x20"[..], g_x, &[c_i]].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_cannot_fill_the_table_of_pending_edhoc_exchanges() {
    let (lamp, hall) = parties();
    let server = server(hall).await;
    let mut raw = Raw::new(&server);
    for wrong in [
        &b""[..],
        b"\xf5",
        b"\xf5\x03\x02\x58\x20",
        b"\x27\x52\xe5\x62",
        b"\x58\xff",
        b"\x43\x01\x02\x03\x40",
        b"\x43\x01\x02\x03\x58\xff",
        b"\xff",
    ] {
        assert_eq!(raw.post(wrong).0, Code::BAD_REQUEST, "{wrong:02x?}");
    }
    assert_eq!(raw.post(&[&[0xf5][..], &vec![3; 1000]].concat()).0, Code::BAD_REQUEST);
    let (first, second) = (raw.post(&message_1(0x37)), raw.post(&message_1(0x37)));
    assert_eq!((first.0, second.0), (Code::CHANGED, Code::CHANGED));
    assert_ne!(first.1, second.1);
    let begun = 2 + (0..1000).filter(|_| raw.post(&message_1(0x37)).0 == Code::CHANGED).count();
    assert_eq!(begun, 256 + 64, "those for which nothing has to be shown, and those of a host");
    assert_eq!(raw.post(&message_1(0x37)).0, Code::SERVICE_UNAVAILABLE);
    let other = Client::builder().bind(([127, 0, 0, 3], 0).into()).edhoc(lamp).build().expect("legal settings");
    let uri = format!("coap://{}/who", server.local_addr());
    assert_eq!(other.get(uri).await.expect("an answer").text().expect("a text"), "lamp-7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarter_full_edhoc_table_requires_address_validation() {
    let (lamp, hall) = parties();
    let server = server(hall).await;
    let (mut raw, mut elsewhere) = (Raw::new(&server), Raw::new(&server));
    for n in 0..256 {
        assert_eq!(raw.post_with(&message_1(0x37), None).code(), Code::CHANGED, "{n}");
    }
    let asked = raw.post_with(&message_1(0x37), None);
    assert_eq!((asked.code(), asked.payload()), (Code::UNAUTHORIZED, &b""[..]));
    let echo = asked.option(OptionNumber::ECHO).expect("what shows where it is").to_vec();
    for wrong in [&b"\0"[..], &echo[1..], &[7; 16]] {
        assert_eq!(raw.post_with(&message_1(0x37), Some(wrong)).code(), Code::UNAUTHORIZED, "{wrong:02x?}");
    }
    assert_eq!(elsewhere.post_with(&message_1(0x37), Some(&echo)).code(), Code::UNAUTHORIZED, "it was another's");
    assert_eq!(raw.post_with(&message_1(0x37), Some(&echo)).code(), Code::CHANGED);
    // message_3 is not challenged.
    assert_eq!(raw.post_with(b"\x43\x01\x02\x03\x40", None).code(), Code::BAD_REQUEST);
    // Clients answer the challenge automatically.
    let uri = format!("coap://{}/who", server.local_addr());
    assert_eq!(client(lamp).get(uri).await.expect("an answer").text().expect("a text"), "lamp-7");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_waits_has_a_name_of_five_bytes_and_others_do_not_end_it() {
    let (lamp, hall) = parties();
    let server = server(hall.clone()).await;
    let (mut raw, mut forger) = (Raw::new(&server), Raw::new(&server));
    let c_i = EndId::new(b"\x01\x02\x03").expect("short");
    let lamp = Arc::new(lamp.own().clone());
    let (initiator, message_1) = Initiator::begin(lamp, c_i, generate().expect("randomness")).expect("it can begin");
    let (code, message_2) = raw.post(&[&[0xf5][..], &message_1].concat());
    assert_eq!(code, Code::CHANGED);
    let knows = PeerCredentials::of([hall_of(&hall)]).expect("one alone");
    let (agreed, message_3) = initiator.finish(&message_2, &knows).expect("it is hall's");
    let c_r = agreed.credentials.sender_id;
    assert_eq!(c_r.as_slice().len(), 5);
    for bit in 0..40 {
        let mut guess = c_r.as_slice().to_vec();
        guess[bit / 8] ^= 1 << (bit % 8);
        let guess = EndId::new(&guess).expect("short");
        assert_eq!(forger.post(&with_id(guess, &message_3)).0, Code::BAD_REQUEST, "bit {bit}");
    }
    assert_eq!(raw.post(&with_id(c_r, &message_3)).0, Code::CHANGED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_shuts_down_agrees_on_nothing() {
    let (lamp, hall) = parties();
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let slow = move || {
        let opened = Arc::clone(&opened);
        async move { opened.acquire().await.map_or("closed", |_| "open") }
    };
    let server = Server::builder().edhoc(hall).route("/slow", get(slow)).route("/open", get(async || "open"));
    let server = server.bind("127.0.0.1:0").await.expect("the loopback can be bound");
    let (mut raw, asker, at) = (Raw::new(&server), client(lamp), server.local_addr());
    assert_eq!(asker.get(format!("coap://{at}/open")).await.expect("an answer").code(), Code::CONTENT);
    let slow = tokio::spawn(asker.get(format!("coap://{at}/slow")).into_future());
    while server.stats().await.requests_received < 4 {
        tokio::task::yield_now().await;
    }
    let over = tokio::spawn(server.shutdown(Duration::from_secs(60)));
    let stranger = Client::new();
    while stranger.get(format!("coap://{at}/open")).await.expect("an answer").code() != Code::SERVICE_UNAVAILABLE {}
    let refused = raw.post_with(&message_1(0x37), None);
    assert_eq!((refused.code(), refused.payload()), (Code::SERVICE_UNAVAILABLE, &b""[..]));
    let combined = raw.tell(b"\x40\x02\x7f\x01\x91\x08\xc0\xff\x40\x00");
    assert_eq!((combined.code(), combined.payload()), (Code::SERVICE_UNAVAILABLE, &b""[..]));
    gate.add_permits(1);
    assert_eq!(slow.await.expect("it does not panic").expect("an answer").code(), Code::CONTENT);
    over.await.expect("it does not panic");
}

#[tokio::test]
async fn contradictory_edhoc_settings_are_refused() {
    let (lamp, hall) = parties();
    let twice = lamp.with_peer(own(b"\x02", "another hall").credential().clone());
    assert_eq!(twice.err(), Some(CredentialError::SameKid));
    let itself = Party::new(hall.own().clone()).with_peer(hall_of(&hall));
    assert_eq!(itself.err(), Some(CredentialError::OwnKey));
    let (key, other) = (generate().expect("there is randomness"), own(b"\x03", "other"));
    assert_eq!(OwnCredential::new(key, other.credential().clone()).err(), Some(CredentialError::OtherKey));
    let several = Server::builder().edhoc(hall.clone()).workers(2).bind("127.0.0.1:0").await;
    assert!(matches!(several, Err(BindError::Workers(WorkersError::Keys))));
    assert!(Server::builder().edhoc(hall).secured_only().bind("127.0.0.1:0").await.is_ok());
    let nobody = Server::builder().secured_only().bind("127.0.0.1:0").await;
    assert!(matches!(nobody, Err(BindError::Config(ConfigError::NoClientCredentials))));
}

#[tokio::test]
async fn an_unverified_edhoc_client_receives_at_most_three_times_its_bytes() {
    let (_, hall) = parties();
    let server = Server::builder().edhoc(hall).bind("127.0.0.1:0").await.expect("it starts");
    let stranger = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("the loopback can be bound");
    stranger.connect(server.local_addr()).await.expect("it is an address");
    for datagram in [
        &b"\x40\x02\x00\x01\x91\x08\xc0\xff\x40\x00"[..],
        b"\x40\x02\x00\x02\x92\x08\x01\xc0\xff\x40\x00",
        b"\x40\x02\x00\x03\x91\x08\xff\x00",
        b"\x40\x02\x00\x04\xbb.well-known\x05edhoc\xff\x40",
    ] {
        stranger.send(datagram).await.expect("it is sent");
        let length = stranger.recv(&mut [0; 1500]).await.expect("an answer");
        assert!(length <= 3 * datagram.len(), "{length} bytes for {datagram:02x?}");
    }
}

#[tokio::test]
async fn a_client_refuses_a_known_peer_that_answers_in_place_of_the_expected_one() {
    let (client_own, hall, lamp) = (own(b"\x01", "client"), own(b"\x02", "hall"), own(b"\x03", "lamp"));
    let [of_client, of_hall, of_lamp] = [&client_own, &hall, &lamp].map(|own| own.credential().clone());
    // The lamp answers at the hall's address.
    let server = server(Party::new(lamp).with_peer(of_client).expect("one alone")).await;
    let uri = format!("coap://{}/who", server.local_addr());
    let party = Party::new(client_own).with_peer(of_hall).and_then(|party| party.with_peer(of_lamp));
    let party = party.expect("two key IDs");
    for combined in [false, true] {
        let party = party.clone().combined(combined);
        let expecting = party.clone().expecting(b"\x02").expect("it is known");
        let named = client(expecting);
        let error = named.get(&uri).await.expect_err("the lamp is not the hall");
        assert!(matches!(error, Error::Edhoc { cause: Failed::OtherPeer { .. }, .. }), "{error:?}");
        assert_eq!(sent_at_first(&named).await, 1, "message_1 and nothing else");
        let Error::Edhoc { cause: source, .. } = error else { unreachable!() };
        assert_eq!(
            source.to_string(),
            r#"the other end is "lamp" with key ID 03, but "hall" with key ID 02 was expected"#
        );
        for accepting in [party.clone().expecting(b"\x03").expect("it is known"), party.clone().expecting_any()] {
            assert_eq!(client(accepting).get(&uri).await.expect("an answer").text(), Ok("client"));
        }
        let error = Client::builder().edhoc(party).build().expect_err("it could be either");
        assert!(matches!(error, ConfigError::EdhocPeer { peers: 2, .. }), "{error}");
    }
    assert_eq!(party.expecting(b"\x04").map(drop), Err(CredentialError::UnknownKid));
}
