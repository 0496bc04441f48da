//! Message deduplication (RFC 7252 §4.5).

use conche_proto::codec::{Code, MessageId, Type};
use conche_proto::{Datagram, EndpointConfig, Event, Instant, Limits};

use crate::support::direct::{Direct, con, content};
use crate::support::{CLIENT, SERVER, STRANGER, World, at_ms, request, s, wire};

fn post(ty: Type) -> Vec<u8> {
    wire::request(ty, Code::POST, 0x20a7, &[0x73], "/count")
}

// RFC 7252 §4.5 (Q29, Q30)
#[test]
fn each_copy_within_exchange_lifetime_gets_the_same_acknowledgement_and_is_handled_once() {
    let mut world = World::server();
    for at in [0, 1, 2_000, 100_000, 246_999] {
        world.run_until(at_ms(at));
        world.inject(STRANGER, SERVER, &post(Type::Confirmable));
    }
    assert_eq!(world.sent.len(), 5);
    assert!(world.sent.iter().all(|datagram| datagram.bytes == world.sent[0].bytes));
    assert_eq!(world.sent[0].message().code(), Code::CHANGED);
    assert_eq!(world.app().calls["/count"], 1);

    // Without a poll in between, the entry still expires, within two milliseconds.
    world.run_until(at_ms(247_002));
    world.inject(STRANGER, SERVER, &post(Type::Confirmable));
    assert_eq!(world.app().calls["/count"], 2);
}

// RFC 7252 §4.5 (Q29)
#[test]
fn each_copy_of_a_ping_gets_a_reset() {
    let mut world = World::server();
    let ping = wire::bare(Type::Confirmable, Code::EMPTY, 9, &[]);
    for _ in 0..3 {
        world.inject(STRANGER, SERVER, &ping);
        world.run(s(10));
    }
    let sent: Vec<_> = world.sent.iter().map(|datagram| datagram.bytes.clone()).collect();
    assert_eq!(sent, vec![wire::reset(MessageId(9)); 3]);
}

// RFC 7252 §4.5 (Q30)
#[test]
fn a_confirmable_response_is_delivered_once_and_each_copy_acknowledged() {
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    let response = wire::separate(&world.first_copy(asked).bytes, Type::Confirmable, Code::CONTENT, 77);
    for _ in 0..3 {
        world.inject(SERVER, CLIENT, &response);
        world.run(s(20));
    }
    let acks: Vec<_> = world.sent.iter().skip(1).map(|datagram| datagram.bytes.clone()).collect();
    assert_eq!(acks, vec![wire::empty_ack(MessageId(77)); 3]);
    let delivered = world.events(CLIENT).iter().filter(|(_, event)| matches!(event, Event::Response { .. })).count();
    assert_eq!(delivered, 1);
}

// RFC 7252 §4.5 (Q31)
#[test]
fn no_method_is_excused_from_deduplication_by_default() {
    for method in [Code::GET, Code::POST, Code::PUT, Code::DELETE, Code::FETCH, Code::PATCH, Code::IPATCH, Code(31)] {
        for ty in [Type::Confirmable, Type::NonConfirmable] {
            let mut world = World::server();
            let request = wire::request(ty, method, 5, &[1, 2], "/test");
            for _ in 0..4 {
                world.inject(STRANGER, SERVER, &request);
                world.run(s(30));
            }
            assert_eq!(world.app().calls["/test"], 1, "{ty} {method}");
            let answers = if ty == Type::Confirmable { 4 } else { 1 };
            assert_eq!(world.sent.len(), answers, "{ty} {method}");
        }
    }
}

// RFC 7252 §4.5 (Q32)
#[test]
fn a_non_confirmable_duplicate_is_ignored_for_non_lifetime() {
    let mut world = World::server();
    for (at, calls) in [(0, 1), (10, 1), (144_999, 1), (145_002, 2)] {
        world.run_until(at_ms(at));
        world.inject(STRANGER, SERVER, &post(Type::NonConfirmable));
        assert_eq!(world.app().calls["/count"], calls, "at {at} ms");
        assert_eq!(world.sent.len(), calls as usize, "at {at} ms");
    }
}

// RFC 7252 §4.3 (Q21)
#[test]
fn a_non_confirmable_message_with_the_id_of_an_acknowledged_one_is_another_message_and_is_not_acknowledged() {
    let mut world = World::server();
    world.inject(STRANGER, SERVER, &post(Type::Confirmable));
    world.inject(STRANGER, SERVER, &post(Type::NonConfirmable));
    let types: Vec<_> = world.sent.iter().map(|sent| sent.message().header().ty).collect();
    assert_eq!(types, [Type::Acknowledgement, Type::NonConfirmable]);
    assert_eq!(world.app().calls["/count"], 2);
}

// RFC 7252 §4.2 (Q02)
#[test]
fn a_confirmable_message_with_the_id_of_a_non_confirmable_one_is_another_message_and_is_acknowledged() {
    let mut world = World::server();
    world.inject(STRANGER, SERVER, &post(Type::NonConfirmable));
    world.inject(STRANGER, SERVER, &post(Type::Confirmable));
    let types: Vec<_> = world.sent.iter().map(|sent| sent.message().header().ty).collect();
    assert_eq!(types, [Type::NonConfirmable, Type::Acknowledgement]);
    assert_eq!(world.app().calls["/count"], 2);
}

#[test]
fn an_idle_server_forgets_everything() {
    let mut world = World::server();
    for id in 0..500_u16 {
        let ty = if id % 2 == 0 { Type::Confirmable } else { Type::NonConfirmable };
        world.inject(STRANGER + u32::from(id % 50), SERVER, &wire::request(ty, Code::GET, id, &[1], "/test"));
    }
    assert_eq!(world.node(SERVER).endpoint.occupancy().deduplication_entries, 500);
    world.run_to_end();
    assert!(world.now <= Instant::ZERO + s(247 + 17), "{:?}", world.now);
}

#[test]
fn looking_at_datagrams_before_they_are_taken_in_changes_nothing() {
    // A table of 64 MiB, and one that is soon full.
    for deduplication_bytes in [Limits::default().deduplication_bytes, 6_000] {
        let limits = Limits { deduplication_bytes, ..Limits::default() };
        let mut server = Direct::new(EndpointConfig { limits, ..EndpointConfig::default() });
        let seen = |server: &Direct| (*server.endpoint.stats(), server.endpoint.occupancy());
        let datagrams: Vec<_> = (0..300).map(|id| (id % 7, con(Code::GET, id as u16))).collect();
        for (number, (from, bytes)) in datagrams.iter().enumerate() {
            let before = seen(&server);
            for (from, bytes) in &datagrams {
                // Also for truncated datagrams.
                (0..=bytes.len()).for_each(|length| server.endpoint.prefetch([Datagram::new(*from, &bytes[..length])]));
            }
            server.endpoint.prefetch(datagrams.iter().map(|(from, bytes)| Datagram::new(*from, bytes)));
            assert_eq!(seen(&server), before);
            let request = server.receive(*from, bytes).request();
            server.respond(request, content("seen, and remembered for long"));
            assert_eq!(server.endpoint.stats().requests_received, number as u64 + 1, "none was taken for a copy");
            assert_eq!(server.receive(*from, bytes).kinds(), [(Type::Acknowledgement, Code::CONTENT)]);
        }
        let remembered = server.endpoint.occupancy().deduplication_entries;
        assert_eq!(remembered < datagrams.len(), deduplication_bytes == 6_000, "{remembered}");
    }
}
