//! Protected observation (RFC 8613 §4.1.3.5).

use conche_proto::codec::{Code, OptionNumber, Type};
use conche_proto::oscore::{Context, ContextId, Start};
use conche_proto::{Event, Reliability};

use super::wire::{Recorder, assert_opaque};
use super::{CLIENT_ID, SERVER_ID, context, credentials};
use crate::observe::net::{Net, SERVER, TOPIC, get, registration};
use crate::support::ms;
use crate::support::world::lossy_link;

const CLIENT: u32 = 1;

fn net() -> (Net, ContextId) {
    let (net, client, _) = net_and_contexts();
    (net, client)
}

fn net_and_contexts() -> (Net, ContextId, ContextId) {
    let mut net = Net::of(1);
    let client = net.endpoint(CLIENT).add_context(context(CLIENT_ID, SERVER_ID)).expect("the first one");
    let server = net.endpoint(SERVER).add_context(context(SERVER_ID, CLIENT_ID)).expect("the first one");
    net.settle(CLIENT);
    net.settle(SERVER);
    (net, client, server)
}

fn subscribe(net: &mut Net, client: ContextId) -> conche_proto::SubscriptionId {
    let now = net.now;
    let (_, subscription) = net.endpoint(CLIENT).subscribe(now, SERVER, get().protected(client)).expect("room");
    net.settle(CLIENT);
    net.run(ms(100));
    subscription
}

#[test]
fn a_hundred_states_come_in_order_and_no_nonce_twice() {
    for (seed, loss) in [(1, 0), (2, 20), (3, 5), (4, 20)] {
        let (mut net, client) = net();
        let mut link = lossy_link(seed, loss, 0, if loss == 0 { 0 } else { 2_000 });
        net.resource.reliability = (seed == 3).then_some(Reliability::Confirmable);
        net.link = Box::new(move |sent| link(sent).first().copied());
        subscribe(&mut net, client);
        if net.held() != (1, 1) {
            // The registration itself may have been lost.
            net.run(ms(60_000));
        }
        for state in 1..=100 {
            net.change(&format!("state-{state:03}"));
            net.run(ms(5_000));
        }
        net.run(ms(120_000));
        let states = net.states(CLIENT);
        assert!(states.is_sorted() && states.len() > if loss == 0 { 99 } else { 40 }, "{} of {states:?}", states.len());
        assert_eq!(net.known(CLIENT).as_deref(), Some("state-100"), "the last state arrives (RFC 7641 §1.3)");
        for sent in &net.sent {
            assert_opaque(&sent.message, sent.message.view().as_bytes(), &[b"obs", b"state"]);
        }
        let messages =
            net.sent.iter().map(|sent| (if sent.from == SERVER { 2 } else { crate::support::CLIENT }, &sent.message));
        assert!(Recorder::of(messages).different() > 40);
        assert_eq!(net.held(), (1, 1));
    }
}

/// RFC 8613 appendix B.2: notifications with the old keys could no longer be decrypted.
#[test]
fn an_observer_is_gone_when_its_client_has_agreed_on_other_keys() {
    let mut net = Net::of(1);
    let anew = |own: &[u8], other: &[u8]| Context::derive(&credentials(own, other), Start::Anew).expect("legal");
    let client = net.endpoint(CLIENT).add_context(anew(CLIENT_ID, SERVER_ID)).expect("the first one");
    net.endpoint(SERVER).add_context(anew(SERVER_ID, CLIENT_ID)).expect("the first one");
    subscribe(&mut net, client);
    assert_eq!(net.held().0, 1);
    // The client restarts and requests something else.
    net.endpoint(CLIENT).remove_context(client).expect("it is there");
    let client = net.endpoint(CLIENT).add_context(anew(CLIENT_ID, SERVER_ID)).expect("there is no other");
    let now = net.now;
    net.endpoint(CLIENT).request(now, SERVER, get().protected(client)).expect("room");
    net.settle(CLIENT);
    net.run(ms(1_000));
    net.change("other");
    net.run(ms(1_000));
    assert!(net.events(SERVER).any(|event| matches!(event, Event::ObserverGone { .. })));
    assert_eq!(net.held().0, 0);
}

#[test]
fn a_client_registers_again_and_ends_it_behind_protection() {
    let (mut net, client) = net();
    let subscription = subscribe(&mut net, client);
    let now = net.now;
    net.endpoint(CLIENT).reregister(now, subscription).expect("room");
    net.settle(CLIENT);
    net.run(ms(1_000));
    net.change("after");
    net.run(ms(1_000));
    assert_eq!(net.known(CLIENT).as_deref(), Some("after"));
    let now = net.now;
    net.endpoint(CLIENT).unsubscribe(now, subscription).expect("room");
    net.settle(CLIENT);
    net.run(ms(1_000));
    assert_eq!(net.held(), (0, 0));
    net.assert_quiescent();
}

/// Without protection, anyone could deregister a client by forging its address.
#[test]
fn an_unprotected_request_cannot_end_or_replace_a_protected_observation() {
    let (mut net, client) = net();
    subscribe(&mut net, client);
    let token = net.sent[0].message.token();
    for observe in [1, 0] {
        net.inject(
            CLIENT,
            SERVER,
            &registration(Type::NonConfirmable, 77 + u16::from(observe), token.as_slice(), observe),
        );
        net.run(ms(3_000));
        assert_eq!(net.endpoint(SERVER).observers(TOPIC), 1);
        assert!(!net.events(SERVER).any(|event| matches!(event, Event::ObserverGone { .. })));
    }
    net.change("secret");
    net.run(ms(3_000));
    assert_eq!(net.known(CLIENT).as_deref(), Some("secret"));
    let in_the_clear = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"secret");
    assert!(!net.sent.iter().any(|sent| in_the_clear(sent.message.view().as_bytes())));
}

#[test]
fn a_notification_that_is_forged_replayed_or_in_the_clear_is_as_if_it_had_not_come() {
    let (mut net, client) = net();
    subscribe(&mut net, client);
    net.change("one");
    net.run(ms(4_000));
    net.change("two");
    net.run(ms(4_000));
    let old = net.notifications()[0].message.clone();
    let (told, answered) = (net.states(CLIENT), net.sent.len());
    assert_eq!(told, ["one", "two"]);
    let bytes = old.view().as_bytes();
    let other_id = |number: u8| {
        let mut bytes = bytes.to_vec();
        bytes[3] ^= number;
        bytes
    };
    // A replay with other message IDs, with every bit flipped, and unprotected errors and
    // notifications.
    net.inject(SERVER, CLIENT, &other_id(0x55));
    for bit in 0..bytes.len() * 8 {
        let mut forged = other_id(0xaa);
        forged[bit / 8] ^= 1 << (bit % 8);
        net.inject(SERVER, CLIENT, &forged);
    }
    let token = old.token();
    for (code, ty) in [(Code::CONTENT, Type::NonConfirmable), (Code::NOT_FOUND, Type::Confirmable)] {
        let bytes = crate::support::wire::with_options(ty, code, 9, token.as_slice(), &[(6, &[99])], b"forged");
        net.inject(SERVER, CLIENT, &bytes);
    }
    assert_eq!(net.states(CLIENT), told);
    assert_eq!(net.held(), (1, 1));
    assert!(net.endpoint(CLIENT).refused_protection() > 100);
    // A message with another token or type than a notification may be rejected, which does not end
    // this observation.
    assert!(net.sent[answered..].iter().all(|sent| sent.message.option(OptionNumber::OSCORE).is_none()));
    net.change("three");
    net.run(ms(4_000));
    assert_eq!(net.known(CLIENT).as_deref(), Some("three"));
}

#[test]
fn removing_a_context_ends_its_observations_without_unprotected_content() {
    let (mut net, client, server) = net_and_contexts();
    subscribe(&mut net, client);
    let now = net.now;
    net.endpoint(SERVER).remove_context(server).expect("it is there");
    net.change("secret");
    net.run(ms(3_000));
    assert_eq!(net.endpoint(SERVER).observers(TOPIC), 0);
    assert!(net.sent.iter().filter(|sent| sent.at >= now).all(|sent| sent.message.payload().is_empty()));
}
