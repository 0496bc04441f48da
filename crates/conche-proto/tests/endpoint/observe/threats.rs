//! Registrations from forged addresses, and their limited effect.

use conche_proto::codec::{OptionNumber, Type};
use conche_proto::{EndpointConfig, Limits};

use super::net::registration;
use crate::support::direct::content;
use crate::support::{Direct, s, wire};

#[test]
fn a_flood_of_forged_registrations_keeps_to_the_caps_and_an_honest_observer_is_served() {
    let limits = Limits { observers: 4_000, peers: 10_000, ..Limits::default() };
    let mut server = Direct::new(EndpointConfig { limits, ..EndpointConfig::default() });
    server.endpoint.set_source_groups(Box::new(|address| u64::from(address >> 24)));
    for n in 0..100_000_u32 {
        let given = server.receive(n, &registration(Type::Confirmable, 1, b"forged", 0));
        for request in given.requests() {
            server.endpoint.observe(server.now, request, 1);
            server.respond(request, content("0"));
        }
        let held = server.endpoint.occupancy();
        assert!(held.observers <= 2_000 && held.peers <= 5_000, "one group takes half: {held:?}");
    }
    assert_eq!(server.endpoint.observers(1), 2_000);
    let honest = 0x0100_0000;
    let request = server.receive(honest, &registration(Type::Confirmable, 1, b"honest", 0)).request();
    assert!(server.endpoint.observe(server.now, request, 1).is_some());
    assert!(server.respond(request, content("0")).sent[0].1.option(OptionNumber::OBSERVE).is_some());
    assert_eq!(server.endpoint.notify(server.now, 1, content("1")), Ok(2_001));
    let given = server.drain();
    assert_eq!(given.sent.iter().filter(|(transmit, _)| transmit.to == honest).count(), 1);
    // A client that does not acknowledge is not notified for ever.
    let mut sent = 0;
    for state in 0..20 {
        server.endpoint.notify(server.now, 1, content(&state.to_string())).expect("legal");
        for _ in 0..20 {
            let given = server.run(s(5));
            for (transmit, message) in &given.sent {
                if transmit.to == honest && message.header().ty == Type::Confirmable {
                    server.receive(honest, &wire::empty_ack(message.header().id));
                }
            }
            sent += given.sent.len();
        }
    }
    assert!(sent <= 2_000 * (4 + 5) + 100, "{sent}");
    assert_eq!(server.endpoint.observers(1), 1);
}

#[test]
fn thousands_of_guessed_resets_cancel_nothing() {
    let mut server = Direct::new(EndpointConfig::default());
    let request = server.receive(1, &registration(Type::Confirmable, 1, b"honest", 0)).request();
    server.endpoint.observe(server.now, request, 1).expect("room");
    server.respond(request, content("0"));
    server.endpoint.notify(server.now, 1, content("1")).expect("legal");
    let used = server.drain().message().header().id.0;
    // The right ID comes only after many wrong ones, when Resets are no longer trusted.
    for step in 1..=60_000_u16 {
        server.receive(1, &wire::reset(conche_proto::codec::MessageId(used.wrapping_sub(60_000).wrapping_add(step))));
    }
    assert_eq!(server.endpoint.observers(1), 1);
}
