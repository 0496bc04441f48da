//! A client's handling of notifications (RFC 7641 §3).

use conche_proto::codec::{Code, OptionNumber, Token, Type};
use conche_proto::{
    EndpointConfig, Event, Limits, Reliability, Request, RequestError, SubscriptionEnd, SubscriptionId,
};

use super::net::get;
use crate::support::direct::Given;
use crate::support::{Direct, s, wire};

const TOKEN: &[u8] = b"observed";

/// A client with a subscription at server 9, confirmed with the number 100.
fn subscribed() -> (Direct, SubscriptionId) {
    let (mut client, subscription, asked) = subscribing();
    let request = asked.message().view();
    let (id, observe) = (request.id().0, [100]);
    let response = wire::with_options(Type::Acknowledgement, Code::CONTENT, id, TOKEN, &[(6, &observe)], b"first");
    let given = client.receive(9, &response);
    assert!(matches!(given.events[..], [Event::Response { .. }]), "{given:?}");
    (client, subscription)
}

fn subscribing() -> (Direct, SubscriptionId, Given) {
    let mut client = Direct::new(EndpointConfig::default());
    let request = Request { token: Token::new(TOKEN), ..get() };
    let (_, subscription) = client.endpoint.subscribe(client.now, 9, request).expect("room");
    let given = client.drain();
    (client, subscription, given)
}

fn notification(ty: Type, id: u16, observe: u8, payload: &str) -> Vec<u8> {
    wire::with_options(ty, Code::CONTENT, id, TOKEN, &[(6, &[observe])], payload.as_bytes())
}

fn told(given: &Given) -> Vec<String> {
    let payload = |event: &Event<u32>| match event {
        Event::Notification { message, .. } => Some(String::from_utf8_lossy(message.payload()).into_owned()),
        _ => None,
    };
    given.events.iter().filter_map(payload).collect()
}

// RFC 7641 §3.4 (Q105)
#[test]
fn an_outdated_notification_is_acknowledged_but_not_delivered() {
    let (mut client, _) = subscribed();
    assert_eq!(told(&client.receive(9, &notification(Type::Confirmable, 1, 103, "third"))), ["third"]);
    let late = client.receive(9, &notification(Type::Confirmable, 2, 102, "second"));
    assert_eq!((told(&late).len(), late.kinds()), (0, vec![(Type::Acknowledgement, Code::EMPTY)]));
    let copy = client.receive(9, &notification(Type::NonConfirmable, 3, 103, "third"));
    assert_eq!((told(&copy).len(), copy.kinds()), (0, vec![]));
    client.now += s(129);
    client.drain();
    assert_eq!(
        told(&client.receive(9, &notification(Type::NonConfirmable, 4, 50, "after a restart"))),
        ["after a restart"]
    );
}

// RFC 7641 §3.5 (Q107)
#[test]
fn a_notification_is_acknowledged_while_it_is_wanted_and_rejected_from_then_on() {
    let (mut client, subscription) = subscribed();
    let wanted = client.receive(9, &notification(Type::Confirmable, 1, 101, "a"));
    assert_eq!(wanted.kinds(), [(Type::Acknowledgement, Code::EMPTY)]);
    let copy = client.receive(9, &notification(Type::Confirmable, 1, 101, "a"));
    assert_eq!((copy.kinds(), copy.events.len()), (vec![(Type::Acknowledgement, Code::EMPTY)], 0));
    assert!(client.endpoint.forget(client.now, subscription));
    client.drain();
    for (id, ty) in [(2, Type::Confirmable), (3, Type::NonConfirmable)] {
        let unwanted = client.receive(9, &notification(ty, id, 102, "b"));
        assert_eq!((unwanted.kinds(), unwanted.events.len()), (vec![(Type::Reset, Code::EMPTY)], 0));
    }
    client.run_to_end();
}

#[test]
fn a_notification_from_another_address_is_reset() {
    let (mut client, _) = subscribed();
    let foreign = client.receive(8, &notification(Type::Confirmable, 1, 101, "forged"));
    assert_eq!((foreign.kinds(), foreign.events.len()), (vec![(Type::Reset, Code::EMPTY)], 0));
}

// RFC 7641 §3.2 (Q100)
#[test]
fn a_response_without_the_option_and_an_error_are_the_last() {
    for (code, reason) in
        [(Code::CONTENT, SubscriptionEnd::NotObserved), (Code::NOT_FOUND, SubscriptionEnd::Error(Code::NOT_FOUND))]
    {
        let (mut client, id) = subscribed();
        let given = client.receive(9, &wire::bare(Type::Confirmable, code, 1, TOKEN));
        let [Event::Notification { .. }, Event::SubscriptionOver { subscription, reason: why, .. }] = given.events[..]
        else {
            panic!("{given:?}")
        };
        assert_eq!((subscription, why), (id, reason));
        client.run_to_end();
    }
}

// RFC 7641 §3.1 (Q99)
#[test]
fn a_server_that_does_not_agree_has_answered_a_plain_request() {
    let (mut client, id, asked) = subscribing();
    let given = client.receive(9, &wire::piggybacked(&asked.datagrams[0], Code::CONTENT));
    let [Event::Response { .. }, Event::SubscriptionOver { subscription, reason, .. }] = given.events[..] else {
        panic!("{given:?}")
    };
    assert_eq!((subscription, reason), (id, SubscriptionEnd::NotObserved));
    client.run_to_end();
}

#[test]
fn a_registration_that_times_out_fails_once_and_ends_the_subscription() {
    let (mut client, ..) = subscribing();
    let given = client.run_to_end();
    assert!(matches!(given.events[..], [Event::Failed { .. }, Event::SubscriptionOver { .. }]), "{given:?}");
    assert_eq!(client.endpoint.occupancy().subscriptions, 0);
}

#[test]
fn a_subscription_whose_registration_is_cancelled_is_over_without_a_word() {
    let mut client = Direct::new(EndpointConfig::default());
    let (exchange, subscription) = client.endpoint.subscribe(client.now, 9, get()).expect("room");
    assert!(client.endpoint.cancel(client.now, exchange));
    assert!(!client.endpoint.forget(client.now, subscription));
    assert!(client.run_to_end().events.is_empty());
}

#[test]
fn a_notification_does_not_pass_for_the_answer_to_a_later_registration() {
    let (mut client, subscription) = subscribed();
    client.endpoint.reregister(client.now, subscription).expect("it lives");
    let asked = client.drain();
    let crossing = client.receive(9, &notification(Type::NonConfirmable, 1, 101, "crossing"));
    assert_eq!(told(&crossing), ["crossing"]);
    let id = asked.message().header().id.0;
    let answer = wire::with_options(Type::Acknowledgement, Code::CONTENT, id, TOKEN, &[(6, &[102])], b"newest");
    let given = client.receive(9, &answer);
    assert_eq!((told(&given), given.events.len()), (vec!["newest".to_owned()], 1));
}

#[test]
fn a_later_registration_that_fails_ends_the_subscription_with_one_event() {
    let (mut client, subscription) = subscribed();
    client.endpoint.reregister(client.now, subscription).expect("it lives");
    client.endpoint.reregister(client.now, subscription).expect("it is on its way");
    let given = client.run_to_end();
    assert!(
        matches!(given.events[..], [Event::SubscriptionOver { reason: SubscriptionEnd::Failed(_), .. }]),
        "{given:?}"
    );
    assert_eq!(client.endpoint.reregister(client.now, subscription), Err(RequestError::NotSubscribed));
}

// RFC 7641 §2 (Q98)
#[test]
fn only_get_and_fetch_can_be_observed_and_no_token_twice() {
    let (mut client, _) = subscribed();
    let post = Request { code: Code::POST, ..get() };
    assert_eq!(client.endpoint.subscribe(client.now, 9, post), Err(RequestError::NotObservable(Code::POST)));
    let same = || Request { token: Token::new(TOKEN), ..get() };
    assert_eq!(client.endpoint.subscribe(client.now, 9, same()), Err(RequestError::TokenInUse));
    assert_eq!(client.endpoint.request(client.now, 9, same()), Err(RequestError::TokenInUse));
}

#[test]
fn subscriptions_are_bounded_and_the_bound_is_named() {
    let mut client = Direct::with_limits(Limits { subscriptions: 2, ..Limits::default() });
    let non = || get().with_reliability(Reliability::NeverConfirmable);
    for peer in 1..3 {
        client.endpoint.subscribe(client.now, peer, non()).expect("room");
    }
    assert_eq!(client.endpoint.subscribe(client.now, 3, non()), Err(RequestError::TooManySubscriptions { limit: 2 }));
    client.run_to_end();
}

// RFC 7641 §3.6 (Q104)
#[test]
fn a_notification_that_was_on_its_way_does_not_answer_the_deregistration() {
    for ty in [Type::NonConfirmable, Type::Confirmable] {
        let (mut client, subscription) = subscribed();
        client.endpoint.unsubscribe(client.now, subscription).expect("room");
        let asked = client.drain().message().clone();
        let late = client.receive(9, &notification(ty, 1, 101, "late"));
        assert!(late.events.is_empty(), "{late:?}");
        assert_eq!(late.kinds(), [(Type::Reset, Code::EMPTY)]);
        let id = asked.header().id.0;
        let given =
            client.receive(9, &wire::with_options(Type::Acknowledgement, Code::CONTENT, id, TOKEN, &[], b"end"));
        let [Event::Response { message, .. }] = &given.events[..] else { panic!("{given:?}") };
        assert_eq!(message.payload(), b"end");
    }
}

fn reregistered(client: &mut Direct, subscription: SubscriptionId) -> Given {
    client.run(s(80));
    client.endpoint.reregister(client.now, subscription).expect("room");
    client.drain()
}

#[test]
fn a_repeated_registration_that_is_cancelled_ends_the_subscription_with_a_word() {
    let (mut client, subscription) = subscribed();
    let again = reregistered(&mut client, subscription);
    let exchange = again.sent[0].0.exchange.expect("it is an exchange");
    assert!(client.endpoint.cancel(client.now, exchange));
    let given = client.drain();
    let [Event::SubscriptionOver { subscription: over, from: 9, reason, .. }] = &given.events[..] else {
        panic!("{given:?}")
    };
    assert_eq!((*over, reason.to_string().as_str()), (subscription, "the repeated registration was cancelled"));
    client.run_to_end();
}

// RFC 9175 §2.3 (Q207)
#[test]
fn a_registration_is_repeated_without_the_echo_value_that_was_used_and_with_a_new_one_if_asked() {
    let mut client = Direct::new(EndpointConfig::default());
    let body = get().body.to_builder().option(OptionNumber::ECHO, b"used").build().expect("legal");
    let request = Request { token: Token::new(TOKEN), body, ..get() };
    let (_, subscription) = client.endpoint.subscribe(client.now, 9, request).expect("room");
    let first = client.drain();
    assert_eq!(first.message().option(OptionNumber::ECHO), Some(&b"used"[..]));
    let answer = |given: &Given, code, options: &[(u16, &[u8])]| {
        wire::with_options(Type::Acknowledgement, code, given.message().header().id.0, TOKEN, options, b"")
    };
    client.receive(9, &answer(&first, Code::CONTENT, &[(6, &[100])]));
    let again = reregistered(&mut client, subscription);
    assert_eq!(again.message().option(OptionNumber::ECHO), None);
    let proof = client.receive(9, &answer(&again, Code::UNAUTHORIZED, &[(252, b"new")]));
    assert!(proof.events.is_empty(), "{proof:?}");
    assert_eq!(proof.message().option(OptionNumber::ECHO), Some(&b"new"[..]));
    assert_eq!(proof.message().uint(OptionNumber::OBSERVE), Some(0));
    // Requested once.
    let given = client.receive(9, &answer(&proof, Code::UNAUTHORIZED, &[(252, b"newer")]));
    let end = SubscriptionEnd::Error(Code::UNAUTHORIZED);
    assert!(given.sent.is_empty(), "{given:?}");
    assert!(matches!(&given.events[..], [.., Event::SubscriptionOver { reason, .. }] if *reason == end), "{given:?}");
    client.run_to_end();
}
