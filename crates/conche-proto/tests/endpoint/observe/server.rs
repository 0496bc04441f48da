//! Notifications by a server (RFC 7641 §4).

use conche_proto::codec::{Block, BlockSize, Body, Code, OptionNumber, OwnedMessage, Type};
use conche_proto::{
    EndpointConfig, Event, Failure, Limits, NotifyError, ObserverEnd, ObserverId, Reliability, RequestId, Response,
};

use super::net::registration;
use crate::support::direct::{ack_of, content};
use crate::support::{Direct, ms, s, wire};

const TOKEN: &[u8] = b"observed";

fn server() -> Direct {
    Direct::new(EndpointConfig { observer_checks: None, ..EndpointConfig::default() })
}

fn register(server: &mut Direct, from: u32, id: u16, token: &[u8]) -> Option<ObserverId> {
    let request = server.receive(from, &registration(Type::Confirmable, id, token, 0)).request();
    answer(server, request)
}

fn answer(server: &mut Direct, request: RequestId) -> Option<ObserverId> {
    let observer = server.endpoint.observe(server.now, request, 1);
    let given = server.respond(request, content("0"));
    assert_eq!(given.message().option(OptionNumber::OBSERVE).is_some(), observer.is_some());
    observer
}

fn notify(server: &mut Direct, state: &str, reliability: Option<Reliability>) -> crate::support::direct::Given {
    let response = Response { reliability, ..content(state) };
    server.endpoint.notify(server.now, 1, response).expect("legal");
    server.drain()
}

const CON: Option<Reliability> = Some(Reliability::Confirmable);
const NON: Option<Reliability> = Some(Reliability::NeverConfirmable);

// RFC 7641 §4.5.2 (Q115)
#[test]
fn a_new_state_supersedes_a_confirmable_notification_under_a_new_id_and_keeps_timeout_and_attempts() {
    let times = |supersede: bool| {
        let mut server = server();
        register(&mut server, 1, 1, TOKEN);
        let first = notify(&mut server, "old", CON).message().clone();
        if supersede {
            assert!(notify(&mut server, "new", CON).sent.is_empty(), "one is under way");
        }
        let mut times = Vec::new();
        while let Some(wake) = server.wake {
            server.now = wake;
            for (transmit, message) in server.drain().sent {
                let expected = if supersede { &b"new"[..] } else { b"old" };
                assert_eq!((message.payload(), message.header().id == first.header().id), (expected, !supersede));
                assert_eq!(usize::from(transmit.attempt), times.len() + 1);
                times.push(server.now);
            }
        }
        times
    };
    assert_eq!(times(true), times(false));
    assert_eq!(times(true).len(), 4);
}

#[test]
fn the_latest_state_follows_the_acknowledgement_of_an_older_notification() {
    let mut server = server();
    register(&mut server, 1, 1, TOKEN);
    let old = notify(&mut server, "old", CON).message().clone();
    notify(&mut server, "newer", CON);
    notify(&mut server, "newest", CON);
    let given = server.receive(1, &ack_of(&old));
    assert_eq!(given.message().payload(), b"newest");
    let end = server.receive(1, &ack_of(given.message()));
    assert!(end.sent.is_empty() && end.events.is_empty(), "{end:?}");
    assert_eq!(server.endpoint.occupancy().exchanges, 0);
}

// RFC 7641 §4.5.1 (Q96)
#[test]
fn a_client_has_no_more_than_nstart_notifications_outstanding_however_much_it_observes() {
    let mut server = server();
    for n in 0..5_u8 {
        register(&mut server, 1, n.into(), &[n]);
    }
    let mut given = notify(&mut server, "a", CON);
    for left in (0..5).rev() {
        assert_eq!(server.endpoint.snapshot(&1).map(|peer| (peer.outstanding, peer.queued)), Some((1, left)));
        given = server.receive(1, &ack_of(given.message()));
    }
    assert!(given.sent.is_empty());
}

// RFC 7641 §4.1 (Q106)
#[test]
fn a_registration_under_the_same_token_replaces_and_under_another_one_adds() {
    let mut server = server();
    let first = register(&mut server, 1, 1, TOKEN);
    let again = server.receive(1, &registration(Type::Confirmable, 2, TOKEN, 0));
    let [Event::ObserverGone { observer, reason: ObserverEnd::Replaced, .. }, Event::Request { id, .. }] =
        again.events[..]
    else {
        panic!("{again:?}")
    };
    assert_eq!(Some(observer), first);
    answer(&mut server, id);
    assert_eq!(server.endpoint.observers(1), 1);
    register(&mut server, 1, 3, b"another");
    register(&mut server, 2, 3, TOKEN);
    assert_eq!(server.endpoint.observers(1), 3);
}

// RFC 7641 §4.1 (Q114)
#[test]
fn beyond_the_caps_of_a_peer_and_in_total_the_response_is_a_plain_one() {
    let limits = Limits { observers: 100, observers_per_peer: 3, ..Limits::default() };
    let mut server = Direct::new(EndpointConfig { limits, observer_checks: None, ..EndpointConfig::default() });
    server.endpoint.set_source_groups(Box::new(|&source| u64::from(source == 1)));
    let accepted = (0..10_u8).filter(|&n| register(&mut server, 1, n.into(), &[n]).is_some());
    assert_eq!(accepted.count(), 3);
    let accepted = (0..300).filter(|&peer| register(&mut server, 2 + peer, 1, TOKEN).is_some());
    assert_eq!(accepted.count(), 300, "the oldest of the same group make room");
    let most = 3 + 97_usize.div_ceil(2);
    assert_eq!(server.endpoint.occupancy().observers, most, "one group has half of what others leave");
}

#[test]
fn a_reset_cancels_a_non_confirmable_notification_while_it_lives_and_long_after() {
    for wait in [ms(100), s(200)] {
        let mut server = server();
        let observer = register(&mut server, 1, 1, TOKEN);
        let id = notify(&mut server, "1", NON).message().header().id;
        server.run(wait);
        let given = server.receive(1, &wire::reset(id));
        let [Event::ObserverGone { observer: gone, from: 1, topic: 1, reason }] = given.events[..] else {
            panic!("{given:?}")
        };
        assert_eq!((Some(gone), reason), (observer, ObserverEnd::Failed(Failure::Reset)));
        assert!(notify(&mut server, "2", NON).sent.is_empty());
        server.run_to_end();
    }
}

#[test]
fn a_reset_of_a_message_whose_id_may_be_used_again_cancels_nothing() {
    let mut server = server();
    register(&mut server, 1, 1, TOKEN);
    let id = notify(&mut server, "1", NON).message().header().id;
    server.run(s(248));
    server.receive(1, &wire::reset(id));
    assert_eq!(server.endpoint.observers(1), 1);
}

#[test]
fn resets_of_other_messages_and_of_other_peers_cancel_nothing() {
    let mut server = server();
    register(&mut server, 1, 1, TOKEN);
    register(&mut server, 2, 1, TOKEN);
    let given = notify(&mut server, "1", NON);
    let id = given.sent.iter().find(|(transmit, _)| transmit.to == 1).expect("both are told").1.header().id;
    server.receive(3, &wire::reset(id));
    server.receive(1, &wire::reset(conche_proto::codec::MessageId(id.0.wrapping_add(999))));
    assert_eq!(server.endpoint.observers(1), 2);
}

#[test]
fn a_separate_first_response_that_is_rejected_or_times_out_ends_the_observation() {
    for rejected in [true, false] {
        let mut server = server();
        let request = server.receive(1, &registration(Type::Confirmable, 1, TOKEN, 0)).request();
        server.endpoint.acknowledge(server.now, request).expect("it waits");
        server.drain();
        server.endpoint.observe(server.now, request, 1).expect("room");
        let response = server.respond(request, content("0")).message().clone();
        assert!(response.option(OptionNumber::OBSERVE).is_some());
        if rejected {
            server.receive(1, &wire::reset(response.header().id));
        }
        server.run_to_end();
        assert_eq!(server.endpoint.observers(1), 0);
    }
}

// RFC 7641 §4.2 (Q111)
#[test]
fn a_registration_that_is_answered_with_an_error_or_not_at_all_is_none() {
    let mut server = server();
    let request = server.receive(1, &registration(Type::Confirmable, 1, TOKEN, 0)).request();
    server.endpoint.observe(server.now, request, 1).expect("room");
    let given = server.respond(request, Response::new(Code::NOT_FOUND, Body::EMPTY));
    assert_eq!(given.message().option(OptionNumber::OBSERVE), None);
    let request = server.receive(1, &registration(Type::NonConfirmable, 2, TOKEN, 0)).request();
    server.endpoint.observe(server.now, request, 1).expect("room");
    server.endpoint.ignore(server.now, request);
    assert_eq!(server.endpoint.occupancy().observers, 0);
    server.run_to_end();
}

#[test]
fn a_change_between_registration_and_response_follows_the_response_with_a_higher_number() {
    let mut server = server();
    let request = server.receive(1, &registration(Type::Confirmable, 1, TOKEN, 0)).request();
    server.endpoint.observe(server.now, request, 1).expect("room");
    assert!(notify(&mut server, "new", CON).sent.is_empty());
    let given = server.respond(request, content("old"));
    let [(_, old), (_, new)] = &given.sent[..] else { panic!("{given:?}") };
    assert_eq!((old.payload(), new.payload()), (&b"old"[..], &b"new"[..]));
    assert!(old.uint(OptionNumber::OBSERVE) < new.uint(OptionNumber::OBSERVE));
}

#[test]
fn four_non_confirmable_notifications_are_followed_by_one_that_must_be_acknowledged() {
    let mut server = server();
    register(&mut server, 1, 1, TOKEN);
    let mut types = Vec::new();
    for n in 0..10 {
        // Its requests show that it is alive, but not that it still wants the observation.
        server.receive(1, &wire::request(Type::NonConfirmable, Code::GET, 100 + n, b"x", "other"));
        let given = notify(&mut server, "x", Some(Reliability::NonConfirmable));
        types.extend(given.kinds().iter().map(|(ty, _)| *ty));
        if n == 4 {
            server.receive(1, &ack_of(given.message()));
        }
        server.run(s(10));
    }
    assert_eq!(types, [[Type::NonConfirmable; 4].as_slice(), &[Type::Confirmable]].concat().repeat(2));
    server.run(s(300));
    assert_eq!(server.endpoint.observers(1), 0, "nobody acknowledged");
}

#[test]
fn a_notification_that_is_illegal_or_too_large_is_refused_and_changes_nothing() {
    let mut server = server();
    assert_eq!(server.endpoint.notify(server.now, 1, content("nobody")), Ok(0));
    register(&mut server, 1, 1, TOKEN);
    let request = Response { code: Code::GET, ..content("x") };
    assert_eq!(server.endpoint.notify(server.now, 1, request), Err(NotifyError::NotAResponse(Code::GET)));
    let large = server.endpoint.notify(server.now, 1, content(&"x".repeat(65_537)));
    assert_eq!(large, Err(NotifyError::BodyTooLarge { bytes: 65_537, limit: 65_536 }));
    let mut options = Body::builder().payload("x".repeat(2_000));
    for _ in 0..10 {
        options = options.option(OptionNumber::LOCATION_QUERY, &[b'x'; 120]);
    }
    let crowded = Response::new(Code::CONTENT, options.build().expect("legal options"));
    let crowded = server.endpoint.notify(server.now, 1, crowded);
    assert!(matches!(crowded, Err(NotifyError::TooLarge { limit: 1152, .. })), "{crowded:?}");
    assert!(server.drain().sent.is_empty());
}

// RFC 7959 §2.6
#[test]
fn a_notification_of_a_large_state_carries_its_first_block() {
    let mut server = server();
    register(&mut server, 1, 1, TOKEN);
    let state = "0123456789".repeat(200);
    assert_eq!(server.endpoint.notify(server.now, 1, content(&state)), Ok(1));
    let given = server.drain();
    let first = given.message();
    let block = first.view().content().block(OptionNumber::BLOCK2);
    assert_eq!(block, Ok(Some(Block { num: 0, more: true, size: BlockSize::B1024 })));
    assert!(first.uint(OptionNumber::OBSERVE).is_some() && first.option(OptionNumber::ETAG).is_some());
    assert_eq!(first.payload(), &state.as_bytes()[..1024]);
}

// RFC 7959 §2.6
#[test]
fn the_blocks_after_a_notification_are_of_its_state_and_of_the_size_that_the_observer_asked_for() {
    const OBSERVE: (u16, &[u8]) = (6, b"");
    const PATH: (u16, &[u8]) = (11, b"obs");
    let get = |id, token: &[u8], options: &[(u16, &[u8])]| {
        wire::with_options(Type::Confirmable, Code::GET, id, token, options, b"")
    };
    let block = |message: &OwnedMessage| message.view().content().block(OptionNumber::BLOCK2);
    // Without a requested block size, and with blocks of 64 bytes (SZX 2).
    for (wish, size) in [(None, BlockSize::B1024), (Some((23, &b"\x02"[..])), BlockSize::B64)] {
        let mut server = server();
        let options: Vec<_> = [OBSERVE, PATH].into_iter().chain(wish).collect();
        let request = server.receive(1, &get(1, TOKEN, &options)).request();
        assert!(server.endpoint.observe(server.now, request, 1).is_some());
        let old = server.respond(request, content(&"old".repeat(500)));
        assert_eq!(block(old.message()), Ok(Some(Block { num: 0, more: true, size })));

        let state = "0123456789".repeat(150);
        assert_eq!(server.endpoint.notify(server.now, 1, content(&state)), Ok(1));
        let given = server.drain();
        let first = given.message();
        assert_eq!(block(first), Ok(Some(Block { num: 0, more: true, size })));
        assert!(first.option(OptionNumber::OBSERVE).is_some());
        let second = Block { num: 1, more: false, size }.encode();
        let given = server.receive(1, &get(2, b"other", &[PATH, (23, second.as_slice())]));
        let second = given.message();
        assert_eq!(second.payload(), &state.as_bytes()[size.bytes()..(2 * size.bytes()).min(state.len())]);
        assert_eq!(second.option(OptionNumber::ETAG), first.option(OptionNumber::ETAG));
        assert_eq!(second.option(OptionNumber::OBSERVE), None, "it is part of a state, not another one");
        // A state that fits into a message, but not into the block size, is split as well.
        server.run(s(10));
        assert_eq!(server.endpoint.notify(server.now, 1, content(&"x".repeat(100))), Ok(1));
        let given = server.drain();
        let cut = (size == BlockSize::B64).then_some(Block { num: 0, more: true, size });
        assert_eq!((block(given.message()), given.message().payload().len()), (Ok(cut), size.bytes().min(100)));
    }
}

#[test]
fn a_notification_delayed_by_probing_rate_is_sent_later() {
    let mut server = server();
    register(&mut server, 1, 1, TOKEN);
    notify(&mut server, &"x".repeat(1_000), NON);
    assert!(notify(&mut server, "last", NON).sent.is_empty(), "the client has said nothing");
    let given = server.run(s(1_100));
    assert_eq!((given.message().payload(), given.events.len()), (&b"last"[..], 0));
    assert_eq!(server.endpoint.observers(1), 1);
}

#[test]
fn topics_are_independent_and_a_dismissed_observer_gets_no_notification() {
    let mut server = server();
    let observer = register(&mut server, 1, 1, TOKEN).expect("room");
    assert_eq!(server.endpoint.notify(server.now, 2, content("another")), Ok(0));
    assert!(server.endpoint.dismiss(server.now, observer) && !server.endpoint.dismiss(server.now, observer));
    assert_eq!(server.endpoint.notify(server.now, 1, content("nobody")), Ok(0));
    assert!(server.run_to_end().sent.is_empty());
}

#[test]
fn a_peer_that_is_lost_observes_nothing_and_others_go_on() {
    let mut server = server();
    for (peer, id) in [(1, 1), (1, 2), (2, 1)] {
        register(&mut server, peer, id, &[u8::try_from(id).expect("small")]).expect("room");
    }
    server.endpoint.lose_peer(server.now, &1);
    assert_eq!(server.endpoint.observers(1), 1);
    assert_eq!(server.endpoint.notify(server.now, 1, content("news")), Ok(1));
    let sent = server.run_to_end().sent;
    assert!(!sent.is_empty() && sent.iter().all(|(transmit, _)| transmit.to == 2), "{sent:?}");
}

// RFC 7641 §3.6, §4.2
#[test]
fn a_reset_of_a_first_response_that_waited_for_a_message_id_ends_the_observation() {
    let mut server = server();
    let asked = server.receive(1, &registration(Type::NonConfirmable, 0, TOKEN, 0)).request();
    // Message IDs run out with the responses to requests that arrived before.
    let mut slow = Vec::new();
    for n in 1..70_000_u32 {
        let request = wire::bare(Type::NonConfirmable, Code::GET, n as u16, &n.to_be_bytes());
        match server.receive(1, &request).requests()[..] {
            [asked] if slow.len() < 4096 => slow.push(asked),
            [asked] => assert_eq!(server.respond(asked, content("0")).sent.len(), 1),
            _ => break,
        }
    }
    let waits = slow.into_iter().any(|asked| server.respond(asked, content("0")).sent.is_empty());
    assert!(waits, "there are 1024 message IDs left, and 4096 answers");
    server.endpoint.observe(server.now, asked, 1).expect("room");
    let response = server.endpoint.respond(server.now, asked, content("0"));
    assert_eq!(response, Ok(None), "nothing is told of its end");
    assert!(server.drain().sent.is_empty(), "all message IDs are in use");
    let left = server.run(s(250)).sent;
    let (_, first) =
        left.iter().find(|(_, message)| message.token().as_slice() == TOKEN).expect("it leaves in the end");
    assert_eq!(first.header().ty, Type::NonConfirmable);
    let given = server.receive(1, &wire::reset(first.header().id));
    let gone = given.events.iter().any(|event| {
        matches!(event, Event::ObserverGone { from: 1, topic: 1, reason: ObserverEnd::Failed(Failure::Reset), .. })
    });
    assert!(gone, "{:?}", given.events);
    assert_eq!(server.endpoint.observers(1), 0);
}
