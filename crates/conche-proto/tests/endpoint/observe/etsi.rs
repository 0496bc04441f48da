//! The OBS cases of ETSI (TD_COAP_OBS_01 to 12) and IRISA, without blocks.

use conche_proto::codec::{Code, ContentFormat, OptionNumber, Type};
use conche_proto::{Event, Failure, ObserverEnd, Reliability, SubscriptionEnd};

use super::net::{Net, SERVER, get, write};
use crate::support::{ms, s};

fn observing(reliability: Option<Reliability>) -> (Net, conche_proto::SubscriptionId) {
    let mut net = Net::of(1);
    net.resource.reliability = reliability;
    let (exchange, subscription) = net.subscribe(1);
    net.run(s(1));
    let told = net.events(1).any(|event| matches!(event, Event::Response { exchange: id, .. } if *id == exchange));
    assert!(told && net.held() == (1, 1));
    (net, subscription)
}

// RFC 7641 §2 (Q98) §3.1 (Q99) §4.1 (Q106) §4.2 (Q109)
#[test]
fn obs_01_confirmable_notifications_are_acknowledged() {
    let (mut net, _) = observing(Some(Reliability::Confirmable));
    let [register, response] = &net.sent[..] else { panic!("{:?}", net.sent) };
    assert_eq!((register.ty(), register.message.code(), register.observe()), (Type::Confirmable, Code::GET, Some(0)));
    assert!(response.observe().is_some() && response.message.token() == register.message.token());
    let (token, mut number) = (register.message.token(), response.observe());
    for n in 1..5 {
        let before = net.sent.len();
        net.change(&n.to_string());
        net.run(s(10));
        let [notification, ack] = &net.sent[before..] else { panic!("{:?}", &net.sent[before..]) };
        assert_eq!((notification.ty(), ack.ty()), (Type::Confirmable, Type::Acknowledgement));
        assert_eq!((notification.message.code(), notification.message.token()), (Code::CONTENT, token.clone()));
        assert_eq!(notification.message.uint(OptionNumber::CONTENT_FORMAT), Some(0));
        assert!(notification.observe() > number);
        number = notification.observe();
    }
    assert_eq!(net.states(1), ["1", "2", "3", "4"]);
}

#[test]
fn obs_02_non_confirmable_notifications_are_not() {
    let (mut net, _) = observing(Some(Reliability::NeverConfirmable));
    let before = net.sent.len();
    net.change("1");
    net.run(s(10));
    let [notification] = &net.sent[before..] else { panic!("{:?}", &net.sent[before..]) };
    assert_eq!((notification.ty(), net.states(1)), (Type::NonConfirmable, vec!["1".to_owned()]));
}

// RFC 7641 §3.6 (Q103) §4.5 (Q110)
#[test]
fn obs_03_a_client_that_forgot_rejects_the_next_notification_of_either_type_and_gets_no_more() {
    for reliability in [Reliability::Confirmable, Reliability::NeverConfirmable] {
        let (mut net, subscription) = observing(Some(reliability));
        let now = net.now;
        assert!(net.endpoint(1).forget(now, subscription) && !net.endpoint(1).forget(now, subscription));
        for n in 0..3 {
            net.change(&n.to_string());
            net.run(s(20));
        }
        let [notification] = net.notifications()[..] else { panic!("{reliability:?}: {:?}", net.sent) };
        let reset = net.sent.last().expect("a Reset");
        assert_eq!((reset.ty(), reset.message.header().id), (Type::Reset, notification.message.header().id));
        assert!(net.states(1).is_empty());
        net.assert_quiescent();
    }
}

/// TD_COAP_OBS_04 and IRISA's OBS_03.
// RFC 7641 §3.3.1 (Q101, Q102)
#[test]
fn obs_04_a_client_registers_again_5_to_15_seconds_after_max_age() {
    let mut waits = Vec::new();
    for client in 1..=40 {
        let mut net = Net::of(client);
        net.resource.max_age = Some(30);
        let (_, subscription) = net.subscribe(client);
        net.run(s(60));
        let (at, stale) = net.nodes[client as usize].events.last().expect("an event");
        let Event::Stale { subscription: id, from: SERVER } = stale else { panic!("{stale:?}") };
        assert_eq!(*id, subscription);
        waits.push((*at - conche_proto::Instant::from_millis(1_020)).as_millis());
        net.resource.state = "fresh".to_owned();
        let (now, before) = (net.now, net.sent.len());
        net.endpoint(client).reregister(now, subscription).expect("it is stale");
        net.settle(client);
        net.run(s(1));
        assert_eq!(net.sent[before].message.token(), net.sent[0].message.token());
        assert_eq!((net.sent[before].observe(), net.states(client)), (Some(0), vec!["fresh".to_owned()]));
        assert_eq!(net.held(), (1, 1), "it is one entry in the list of observers");
    }
    assert!(waits.iter().all(|ms| (35_000..=45_000).contains(ms)), "{waits:?}");
    waits.sort_unstable();
    assert!(waits[39] - waits[0] > 5_000, "they are spread: {waits:?}");
}

// RFC 7641 §4.5 (Q116)
#[test]
fn obs_05_a_client_that_is_off_is_removed_when_a_notification_times_out() {
    let (mut net, _) = observing(Some(Reliability::Confirmable));
    net.link = Box::new(|_| None);
    net.change("1");
    net.run(s(300));
    let gone = net.events(SERVER).last().expect("an event");
    let failed = ObserverEnd::Failed(Failure::TimedOut);
    assert!(matches!(gone, Event::ObserverGone { from: 1, reason, .. } if *reason == failed), "{gone:?}");
    let before = net.sent.len();
    net.change("2");
    net.run(s(300));
    assert_eq!((net.sent.len(), net.endpoint(SERVER).occupancy().observers), (before, 0));
}

#[test]
fn obs_06_a_client_that_was_restarted_rejects_a_notification_and_gets_no_more() {
    let (mut net, _) = observing(Some(Reliability::Confirmable));
    let fresh = Net::of(1).nodes.pop().expect("a client");
    net.nodes[1] = fresh;
    net.change("1");
    net.run(s(10));
    let failed = ObserverEnd::Failed(Failure::Reset);
    let gone = net.events(SERVER).last().expect("an event");
    assert!(matches!(gone, Event::ObserverGone { from: 1, reason, .. } if *reason == failed), "{gone:?}");
    assert_eq!(net.held(), (0, 0));
}

/// TD_COAP_OBS_07: observers get 4.04 and no further messages.
// RFC 7641 §4.2 (Q111) §3.2 (Q100)
#[test]
fn obs_07_a_deletion_ends_the_observation_with_an_error_without_the_option() {
    let (mut net, subscription) = observing(None);
    net.request(1, write(Code::DELETE, ""));
    net.run(s(20));
    let [notification] = net.notifications()[..] else { panic!("{:?}", net.sent) };
    assert_eq!((notification.message.code(), notification.observe()), (Code::NOT_FOUND, None));
    let over = |event: &Event<u32>| {
        let error = SubscriptionEnd::Error(Code::NOT_FOUND);
        matches!(event, Event::SubscriptionOver { subscription: id, reason, .. } if *id == subscription && *reason == error)
    };
    assert!(net.events(1).any(over));
    net.assert_quiescent();
}

// RFC 7641 §4.2 (Q112)
#[test]
fn obs_08_a_changed_content_format_ends_the_observation_with_an_error() {
    let (mut net, _) = observing(None);
    net.resource.format = ContentFormat::JSON;
    let (now, error) = (net.now, conche_proto::Response::new(Code::NOT_ACCEPTABLE, conche_proto::codec::Body::EMPTY));
    net.endpoint(SERVER).notify(now, super::net::TOPIC, error).expect("a legal response");
    net.settle(SERVER);
    net.run(s(20));
    let over = net.events(1).last();
    assert!(matches!(over, Some(Event::SubscriptionOver { reason: SubscriptionEnd::Error(Code::NOT_ACCEPTABLE), .. })));
    net.assert_quiescent();
}

#[test]
fn obs_09_notification_of_an_update_by_another_client_arrives() {
    let mut net = Net::of(2);
    net.subscribe(1);
    net.run(s(1));
    net.request(2, write(Code::PUT, "updated"));
    net.run(s(10));
    assert_eq!(net.states(1), ["updated"]);
}

#[test]
fn obs_10_a_get_does_not_cancel_the_observation() {
    let (mut net, _) = observing(None);
    net.request(1, get());
    net.run(s(1));
    net.change("1");
    net.run(s(10));
    assert_eq!((net.states(1), net.held()), (vec!["1".to_owned()], (1, 1)));
}

// RFC 7641 §3.6 (Q104) §4.1 (Q108)
#[test]
fn obs_12_a_get_with_observe_1_cancels_and_is_answered_without_the_option() {
    let (mut net, subscription) = observing(None);
    let now = net.now;
    let exchange = net.endpoint(1).unsubscribe(now, subscription).expect("it observes");
    net.settle(1);
    net.run(s(1));
    let [.., deregister, response] = &net.sent[..] else { panic!("{:?}", net.sent) };
    assert_eq!((deregister.observe(), deregister.message.token()), (Some(1), net.sent[0].message.token()));
    assert_eq!((response.message.code(), response.observe()), (Code::CONTENT, None));
    assert!(net.events(1).any(|event| matches!(event, Event::Response { exchange: id, .. } if *id == exchange)));
    let gone = net.events(SERVER).find(|event| matches!(event, Event::ObserverGone { .. }));
    assert!(matches!(gone, Some(Event::ObserverGone { reason: ObserverEnd::Deregistered, .. })));
    net.change("1");
    net.run(s(20));
    assert!(net.notifications().is_empty());
    net.assert_quiescent();
}

/// IRISA's OBS_01: without an RTT estimate, Non-confirmable notifications are 3 s apart.
// RFC 7641 §4.5.1 (Q97)
#[test]
fn irisa_obs_01_non_confirmable_notifications_are_at_least_3_seconds_apart() {
    for reliability in [None, Some(Reliability::NonConfirmable), Some(Reliability::NeverConfirmable)] {
        let (mut net, _) = observing(reliability);
        for n in 0..600 {
            net.change(&n.to_string());
            net.run(ms(100));
        }
        net.run(s(120));
        let times: Vec<_> = net.notifications().iter().map(|sent| (sent.at, sent.ty())).collect();
        let followed = times.windows(2).filter(|pair| pair[0].1 == Type::NonConfirmable);
        for pair in followed {
            assert!(pair[1].0 - pair[0].0 >= s(3), "{reliability:?}: {times:?}");
        }
        assert!(times.len() >= 2 && times.iter().any(|(_, ty)| *ty == Type::NonConfirmable));
        assert_eq!(net.known(1).as_deref(), Some("599"), "the last state is told, whatever was left out");
    }
}

/// IRISA's OBS_02: at least every 24 h a notification is Confirmable, regardless of the
/// application's setting.
// RFC 7641 §4.5 (Q95)
#[test]
fn irisa_obs_02_a_notification_is_confirmable_at_least_every_24_hours() {
    let (mut net, _) = observing(Some(Reliability::NeverConfirmable));
    let start = net.now;
    for hour in 0..96 {
        net.change(&hour.to_string());
        net.run(s(3_600));
    }
    let all = net.notifications();
    let confirmable: Vec<_> = all.iter().filter(|sent| sent.ty() == Type::Confirmable).map(|sent| sent.at).collect();
    let ends = [[start].as_slice(), &confirmable].concat();
    let gaps = ends.iter().zip(&confirmable).map(|(before, after)| *after - *before);
    assert!(
        gaps.max().is_some_and(|longest| longest <= s(24 * 3_600))
            && net.now - confirmable[confirmable.len() - 1] <= s(24 * 3_600)
    );
    assert!(confirmable.len() < all.len() / 4, "most are not");
}
