//! Local addresses of datagrams: groups, and multi-homed hosts.

use std::net::{IpAddr, Ipv4Addr};

use conche_proto::codec::{Code, Type};
use conche_proto::{Datagram, EndpointConfig, Event};

use crate::support::direct::{Given, ack_of, changed, con, non};
use crate::support::{Direct, s, wire};

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

fn server() -> Direct {
    Direct::new(EndpointConfig::default())
}

fn locals(given: &Given) -> Vec<Option<IpAddr>> {
    given.sent.iter().map(|(transmit, _)| transmit.local).collect()
}

#[test]
fn datagrams_to_a_group_are_dropped_and_counted() {
    let mut server = server();
    let asked = server.endpoint.request(server.now, 1, crate::support::request(Code::GET, "/t")).expect("room");
    let sent = server.drain();
    let request = sent.datagram();
    let response = wire::separate(request, Type::NonConfirmable, Code::CONTENT, 3);
    let datagrams = [
        con(Code::GET, 1),
        non(Code::GET, 2),
        wire::bare(Type::Confirmable, Code::EMPTY, 3, &[]),
        wire::reset(sent.message().header().id),
        response.clone(),
        vec![0xff; 7],
        vec![],
    ];
    for bytes in &datagrams {
        let mut datagram = Datagram::new(1, bytes);
        datagram.multicast = true;
        let given = server.receive_datagram(datagram);
        assert!(given.sent.is_empty() && given.events.is_empty(), "{bytes:02x?}: {given:?}");
    }
    let stats = server.endpoint.stats();
    assert_eq!((stats.multicast, stats.datagrams_received), (7, 7));
    assert_eq!((stats.malformed, stats.requests_received), (0, 0));
    assert_eq!(server.endpoint.occupancy().deduplication_entries, 0);
    let given = server.receive(1, &response);
    assert!(matches!(given.events[..], [Event::Response { exchange, .. }] if exchange == asked));
}

#[test]
fn a_piggybacked_response_and_its_copies_leave_from_the_address_that_was_asked() {
    for bytes in [con(Code::POST, 1), con(Code::GET, 1)] {
        for local in [FIRST, SECOND] {
            let mut server = server();
            let request = server.receive_at(local, 1, &bytes).request();
            assert_eq!(locals(&server.respond(request, changed())), [Some(local)]);
            for _ in 0..2 {
                assert_eq!(locals(&server.receive_at(local, 1, &bytes)), [Some(local)], "a retransmitted reply");
            }
        }
    }
}

#[test]
fn an_empty_ack_and_all_copies_of_a_separate_response_leave_from_the_address_that_was_asked() {
    let mut server = server();
    let request = server.receive_at(SECOND, 1, &con(Code::GET, 1)).request();
    assert_eq!(locals(&server.run(s(1))), [Some(SECOND)], "the Empty ACK");
    assert_eq!(locals(&server.respond(request, changed())), [Some(SECOND)]);
    let copies = server.run(s(20));
    assert!(copies.sent.len() >= 2 && locals(&copies).iter().all(|&local| local == Some(SECOND)));

    let request = server.receive_at(FIRST, 2, &non(Code::GET, 1)).request();
    assert_eq!(locals(&server.respond(request, changed())), [Some(FIRST)], "a Non-confirmable response");
}

#[test]
fn refusals_and_resets_leave_from_the_address_that_was_asked() {
    let mut server = server();
    let bad = wire::with_options(Type::Confirmable, Code::GET, 1, b"t", &[(65_001, b"")], b"");
    let proxied = wire::with_options(Type::NonConfirmable, Code::GET, 2, b"t", &[(35, b"coap://x")], b"");
    let ping = wire::bare(Type::Confirmable, Code::EMPTY, 3, &[]);
    let malformed = vec![0x4f, 1, 0, 4];
    let unasked = wire::bare(Type::Confirmable, Code::CONTENT, 5, b"none");
    for bytes in [bad, proxied, ping, malformed, unasked] {
        for local in [FIRST, SECOND] {
            assert_eq!(locals(&server.receive_at(local, 1, &bytes)), [Some(local)], "{bytes:02x?}");
        }
    }
}

#[test]
fn the_same_message_id_to_two_of_our_addresses_is_two_requests() {
    let mut server = server();
    let bytes = con(Code::POST, 1);
    let requests = [FIRST, SECOND].map(|local| server.receive_at(local, 1, &bytes).request());
    assert_ne!(requests[0], requests[1]);
    for (request, local) in requests.into_iter().zip([FIRST, SECOND]).rev() {
        assert_eq!(locals(&server.respond(request, changed())), [Some(local)]);
        let copy = server.receive_at(local, 1, &bytes);
        assert_eq!((locals(&copy), copy.events.len()), (vec![Some(local)], 0));
    }
    let unknown = server.receive(1, &bytes).request();
    assert_eq!(locals(&server.respond(unknown, changed())), [None], "a driver that does not know is a third one");
}

#[test]
fn requests_of_ours_leave_from_whichever_address() {
    let mut client = server();
    client.endpoint.request(client.now, 1, crate::support::request(Code::GET, "/t")).expect("room");
    let given = client.drain();
    assert_eq!(locals(&given), [None]);
    // The acknowledgement of a response leaves from the address at which the response arrived.
    client.receive(1, &ack_of(given.message()));
    let response = wire::separate(given.datagram(), Type::Confirmable, Code::CONTENT, 9);
    assert_eq!(locals(&client.receive_at(SECOND, 1, &response)), [Some(SECOND)]);
    assert_eq!(locals(&client.receive_at(SECOND, 1, &response)), [Some(SECOND)], "so does that of its copy");
}
