//! An oversized message is refused or ends its own exchange, and `poll` never panics.

use conche_proto::codec::{Body, Code, OptionNumber, Token, Type};
use conche_proto::{EndpointConfig, Limits, QBlock, Request, Response};

use crate::support::direct::{Given, content};
use crate::support::{CLIENT, Direct, SERVER, wire};

/// Registered with this Q-Block2, after its first response.
fn observed(config: EndpointConfig, token: &[u8], q_block2: Option<u8>) -> Direct {
    let mut server = Direct::new(config);
    let value = q_block2.map(|value| [value]);
    let mut options: Vec<(u16, &[u8])> = vec![(6, b""), (11, b"r")];
    options.extend(value.as_ref().map(|value| (31, &value[..])));
    let get = wire::with_options(Type::Confirmable, Code::GET, 1, token, &options, b"");
    let id = server.receive(CLIENT, &get).request();
    assert!(server.endpoint.observe(server.now, id, 1).is_some());
    server.respond(id, content("x"));
    server
}

/// No message exceeds the limit or was dropped for its size.
fn all_fit(direct: &Direct, given: &Given, limit: usize) {
    assert_eq!(direct.endpoint.stats().oversized, 0);
    assert!(given.datagrams.iter().all(|datagram| datagram.len() <= limit));
}

#[test]
fn a_large_2_03_notification_goes_in_blocks_to_a_q_block2_observer() {
    let config = EndpointConfig { q_block: Some(QBlock::default()), ..EndpointConfig::default() };
    let mut server = observed(config, b"t", Some(0x0e));
    let body = Body::builder().payload(vec![1; 2_000]).build().expect("no options");
    server.endpoint.notify(server.now, 1, Response::new(Code::VALID, body)).expect("it can go in blocks");
    let given = server.drain();
    all_fit(&server, &given, Limits::default().message_bytes);
    let notification = given.message();
    assert_eq!((notification.code(), notification.payload().len()), (Code::VALID, 1024));
}

#[test]
fn a_peer_that_refuses_q_block_gets_blocks_that_fit_beside_the_new_token() {
    let q_block = Some(QBlock::default());
    let config = EndpointConfig { q_block, longest_token: 64, token_length: 64, ..EndpointConfig::default() };
    let mut client = Direct::new(config);
    // The first exchange shows that the peer supports extended tokens.
    let put = Request::new(Code::PUT, Body::builder().path("/r").build().expect("legal"));
    client.endpoint.request(client.now, SERVER, put).expect("admitted");
    let sent = client.drain();
    client.receive(SERVER, &wire::piggybacked(sent.datagram(), Code::CHANGED));

    let query = OptionNumber::URI_QUERY;
    let body = Body::builder().path("/r").option(query, &[b'q'; 180]).payload(vec![1; 930]).build().expect("legal");
    let fetch = Request { token: Token::new(b"mytoken8"), ..Request::new(Code::FETCH, body) };
    client.endpoint.request(client.now, SERVER, fetch).expect("admitted");
    let sent = client.drain();
    assert!(sent.message().option(OptionNumber::Q_BLOCK2).is_some());
    let refused = wire::bare(Type::Acknowledgement, Code::BAD_OPTION, sent.message().header().id.0, b"mytoken8");
    let again = client.receive(SERVER, &refused);
    all_fit(&client, &again, Limits::default().message_bytes);
    let first = again.message();
    assert!(first.option(OptionNumber::BLOCK1).is_some() && first.option(OptionNumber::Q_BLOCK2).is_none());
}

#[test]
fn an_accepted_notification_fits_beside_the_encoded_longest_token() {
    // A token of 20 bytes takes 21 in a message.
    let tight = Body::builder().option(OptionNumber::ETAG, &[1; 6]).option(OptionNumber::MAX_AGE, &[9]);
    let tight = tight.payload(vec![1; 1024]).build().expect("legal");
    let mut wide = Body::builder();
    for _ in 0..4 {
        wide = wide.option(OptionNumber::LOCATION_QUERY, &[b'l'; 255]);
    }
    let wide = wide.option(OptionNumber::LOCATION_QUERY, &[b'l'; 47]).payload(vec![1; 1024]).build().expect("legal");
    for (limit, body) in [(65, tight), (1152, wide)] {
        let limits = Limits { message_bytes: limit, ..Limits::default() };
        let mut server =
            observed(EndpointConfig { limits, longest_token: 20, ..EndpointConfig::default() }, &[7; 20], None);
        let accepted = server.endpoint.notify(server.now, 1, Response::new(Code::CONTENT, body)).is_ok();
        let given = server.drain();
        all_fit(&server, &given, limit);
        assert_eq!(given.datagrams.len(), usize::from(accepted), "what is accepted is sent");
    }
}

#[test]
fn notifications_of_every_size_around_the_limit_are_refused_or_sent() {
    for (longest_token, token, q_block2) in
        [(8, &b"t"[..], None), (8, b"8 bytes!", Some(0x0e)), (20, &[7; 13], None), (300, &[7; 270], Some(0x06))]
    {
        let config = EndpointConfig { q_block: Some(QBlock::default()), longest_token, ..EndpointConfig::default() };
        let mut server = observed(config, token, q_block2);
        for options in [0, 1, 3] {
            for bytes in (700..1_200).step_by(7).chain(1_000..1_060) {
                let mut body = Body::builder();
                for _ in 0..options {
                    body = body.option(OptionNumber::LOCATION_QUERY, &[b'l'; 20]);
                }
                let body = body.payload(vec![1; bytes]).build().expect("legal");
                let _ = server.endpoint.notify(server.now, 1, Response::new(Code::CONTENT, body));
                let given = server.drain();
                all_fit(&server, &given, 1152);
                for (_, message) in given.sent.iter().filter(|(_, message)| message.header().ty == Type::Confirmable) {
                    server.receive(CLIENT, &wire::empty_ack(message.header().id));
                }
                let given = server.run(std::time::Duration::from_secs(200));
                all_fit(&server, &given, 1152);
            }
        }
    }
}
