//! Notifications (RFC 8613 §4.1.3.5, §7.4.1).

use conche_proto::codec::{Body, Code, OptionNumber, OwnedMessage};
use conche_proto::oscore::{Binding, Refused};

use super::support::{End, option, pair};

fn registration() -> Body {
    Body::builder().path("/temperature").uint(OptionNumber::OBSERVE, 0).build().expect("legal")
}

fn notify(server: &mut End, binding: &Binding, observe: u32) -> OwnedMessage {
    let state = Body::builder().uint(OptionNumber::OBSERVE, observe).payload("21.5").build().expect("legal");
    server.respond(binding, Code::CONTENT, &state)
}

// RFC 8613 §4.1.3.5.2
#[test]
fn notifications_have_numbers_of_their_own_and_only_newer_ones_are_taken() {
    let [mut client, mut server] = pair();
    let (request, mut binding) = client.request(Code::GET, &registration());
    assert_eq!((request.code(), request.uint(OptionNumber::OBSERVE)), (Code::FETCH, Some(0)));
    let asked = server.receive(&request).expect("authentic");
    assert_eq!(asked.message.uint(OptionNumber::OBSERVE), Some(0));
    let states: Vec<_> = (10..16).map(|observe| notify(&mut server, &asked.binding, observe)).collect();
    assert_eq!(option(&states[0]), b"", "the first takes the number of its request");
    for (number, state) in (0_u8..).zip(&states[1..]) {
        assert_eq!(option(state), [1, number]);
        assert_eq!((state.code(), state.uint(OptionNumber::OBSERVE)), (Code::CONTENT, Some(11 + u32::from(number))));
    }
    for (state, number) in [(0, None), (2, Some(1_u8)), (3, Some(2))] {
        let heard = client.hear(&mut binding, &states[state]).expect("newer");
        assert_eq!(heard.number, number.map(u64::from));
        assert_eq!(heard.message.uint(OptionNumber::OBSERVE), Some(number.map_or(0, u32::from)));
    }
    for old in [0, 1, 2, 3] {
        assert_eq!(client.hear(&mut binding, &states[old]), Err(Refused::Replayed), "{old}");
    }
    assert!(client.hear(&mut binding, &states[5]).is_ok());
    assert_eq!(client.hear(&mut binding, &states[4]), Err(Refused::Replayed));
}

// RFC 8613 §7.4.1
#[test]
fn a_notification_without_a_number_is_the_oldest_of_all() {
    let [mut client, mut server] = pair();
    let (request, mut binding) = client.request(Code::GET, &registration());
    let asked = server.receive(&request).expect("authentic");
    let [first, second] = [1, 2].map(|observe| notify(&mut server, &asked.binding, observe));
    assert!(client.hear(&mut binding, &second).is_ok());
    assert_eq!(client.hear(&mut binding, &first), Err(Refused::Replayed));
}

// RFC 8613 §4.1.3.5.1
#[test]
fn a_registration_that_is_renewed_takes_no_notification_of_the_one_before() {
    let [mut client, mut server] = pair();
    let (first, mut first_binding) = client.request(Code::GET, &registration());
    let (second, mut second_binding) = client.request(Code::GET, &registration());
    let [first, second] = [first, second].map(|request| server.receive(&request).expect("authentic").binding);
    let old = notify(&mut server, &first, 1);
    let new = notify(&mut server, &second, 2);
    assert_eq!(client.hear(&mut second_binding, &old), Err(Refused::Forged));
    assert!(client.hear(&mut second_binding, &new).is_ok());
    assert!(client.hear(&mut first_binding, &old).is_ok());
}

// RFC 8613 §4.1.3.5.2
#[test]
fn a_notification_for_a_request_without_observe_is_refused() {
    let [mut client, mut server] = pair();
    let (request, mut binding) = client.get("/temperature");
    let asked = server.receive(&request).expect("authentic");
    let state = notify(&mut server, &asked.binding, 1);
    assert_eq!(client.hear(&mut binding, &state), Err(Refused::Forged));
}
