//! Source validation by ping: plain clients get everything after one round trip, and forgers
//! nothing.

use std::ops::Range;
use std::time::Duration;

use conche_proto::codec::{Block, BlockSize, Code, MessageId, OptionNumber, OwnedMessage, Type};
use conche_proto::{Datagram, EndpointConfig, Input, QBlock, Response, SourceValidation};

use crate::model::Address;
use crate::support::direct::{Given, ack_of, address, content, count_by_network};
use crate::support::{Direct, ms, s, wire};

const TOPIC: u64 = 1;
const BOTH: [Type; 2] = [Type::Confirmable, Type::NonConfirmable];

fn server() -> Direct {
    Direct::validating(EndpointConfig { q_block: Some(QBlock::default()), ..EndpointConfig::default() })
}

/// 11 bytes without options.
fn get((ty, id): (Type, u16), options: &[(u16, &[u8])]) -> Vec<u8> {
    request((ty, Code::GET, id), options)
}

fn request((ty, code, id): (Type, Code, u16), options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut options = options.to_vec();
    options.push((OptionNumber::URI_PATH.0, b"r"));
    options.sort_by_key(|(number, _)| *number);
    wire::with_options(ty, code, id, b"four", &options, b"")
}

const OBSERVE: (u16, &[u8]) = (OptionNumber::OBSERVE.0, b"");

fn large() -> Response {
    content(&"x".repeat(1_000))
}

/// The ping must be the only message sent.
fn ping_of(given: &Given) -> MessageId {
    assert_eq!(given.kinds(), [(Type::Confirmable, Code::EMPTY)], "{given:?}");
    given.message().header().id
}

fn observed_for(span: Duration) -> Direct {
    let mut server = server();
    let given = server.receive(1, &get((Type::Confirmable, 1), &[OBSERVE]));
    let asked = server.receive(1, &wire::reset(ping_of(&given))).request();
    server.endpoint.observe(server.now, asked, TOPIC).expect("room");
    server.respond(asked, content("0"));
    server.run(span);
    server
}

fn is_ping(message: &OwnedMessage) -> bool {
    (message.header().ty, message.code()) == (Type::Confirmable, Code::EMPTY)
}

// RFC 9175 §2.4 (Q304), RFC 7252 §4.3
#[test]
fn a_client_that_answers_the_ping_gets_its_large_response_from_a_handler_that_runs_once() {
    for ty in BOTH {
        for answer in [wire::reset, wire::empty_ack] {
            let mut server = server();
            let asked = server.receive(1, &get((ty, 1), &[])).request();
            let ping = ping_of(&server.respond(asked, large()));
            let given = server.receive(1, &answer(ping));
            assert!(given.events.is_empty());
            let (message, piggybacked) = (given.message(), ty == Type::Confirmable);
            assert_eq!((message.code(), message.payload().len()), (Code::CONTENT, 1_000));
            assert_eq!(
                (message.header().ty == Type::Acknowledgement, message.token().as_slice()),
                (piggybacked, &b"four"[..])
            );
            server.run(s(240));
            let asked = server.receive(1, &get((ty, 2), &[])).request();
            assert_eq!(server.respond(asked, large()).message().payload().len(), 1_000, "it still is validated");
            server.run(s(10));
            let asked = server.receive(1, &get((ty, 3), &[])).request();
            ping_of(&server.respond(asked, large()));
            server.run_to_end();
        }
    }
}

#[test]
fn a_small_response_and_one_to_a_post_need_no_ping() {
    for ty in BOTH {
        for code in [Code::GET, Code::POST, Code::PUT, Code::DELETE] {
            let mut server = server();
            let asked = server.receive(1, &request((ty, code, 1), &[])).request();
            assert_eq!(server.respond(asked, content("small")).message().payload(), b"small");
            assert_eq!(server.endpoint.stats().validation_pings, 0);
            server.run_to_end();
        }
    }
}

#[test]
fn a_body_of_64_kib_takes_one_ping() {
    for ty in BOTH {
        let mut server = server();
        let mut received = 0;
        for num in 0..64_u16 {
            let block = Block { num: num.into(), more: false, size: BlockSize::B1024 }.encode();
            let options: &[(u16, &[u8])] = if num == 0 { &[] } else { &[(OptionNumber::BLOCK2.0, block.as_slice())] };
            let mut given = server.receive(1, &get((ty, num), options));
            if let [asked] = given.requests()[..] {
                let ping = ping_of(&server.respond(asked, content(&"x".repeat(65_536))));
                given = server.receive(1, &wire::reset(ping));
            }
            received += given.message().payload().len();
        }
        assert_eq!((received, server.endpoint.stats().validation_pings), (65_536, 1));
    }
}

#[test]
fn a_download_continues_when_address_validation_expires_midway() {
    let mut server = server();
    let asked = server.receive(1, &get((Type::Confirmable, 1), &[])).request();
    let ping = ping_of(&server.respond(asked, content(&"x".repeat(3_000))));
    assert_eq!(server.receive(1, &wire::reset(ping)).message().payload().len(), 1_024);
    for (num, id) in [(1, 2), (2, 3)] {
        server.run(s(240));
        let block = Block { num, more: false, size: BlockSize::B1024 }.encode();
        let mut given = server.receive(1, &get((Type::Confirmable, id), &[(OptionNumber::BLOCK2.0, block.as_slice())]));
        if num == 2 {
            given = server.receive(1, &wire::reset(ping_of(&given)));
        }
        assert!(given.requests().is_empty());
        assert!(given.message().payload().len() >= 952);
    }
}

// RFC 7641 §4.1
#[test]
fn an_observer_is_registered_after_one_ping_and_its_handler_runs_once() {
    for ty in BOTH {
        let mut server = server();
        let given = server.receive(1, &get((ty, 1), &[OBSERVE]));
        assert!(given.requests().is_empty(), "the application waits for the proof");
        let asked = server.receive(1, &wire::reset(ping_of(&given))).request();
        assert!(server.endpoint.observe(server.now, asked, TOPIC).is_some());
        assert_eq!(server.respond(asked, large()).message().payload().len(), 1_000);
        server.endpoint.notify(server.now, TOPIC, large()).expect("legal");
        assert_eq!(server.drain().message().payload().len(), 1_000);
    }
}

// RFC 9177 §4.4
#[test]
fn a_body_in_bursts_follows_after_one_ping() {
    let mut server = server();
    let all = Block { num: 0, more: true, size: BlockSize::B1024 }.encode();
    let given = server.receive(1, &get((Type::NonConfirmable, 1), &[(OptionNumber::Q_BLOCK2.0, all.as_slice())]));
    let asked = server.receive(1, &wire::reset(ping_of(&given))).request();
    let given = server.respond(asked, content(&"x".repeat(5_000)));
    assert!(given.sent.len() > 1, "{given:?}");
}

// RFC 7252 §5.2.2
#[test]
fn a_late_response_is_acknowledged_in_time_and_confirmed_after_a_ping() {
    let mut server = server();
    let asked = server.receive(1, &get((Type::Confirmable, 1), &[])).request();
    assert_eq!(server.run(s(30)).kinds(), [(Type::Acknowledgement, Code::EMPTY)]);
    let ping = ping_of(&server.respond(asked, content("late")));
    let given = server.receive(1, &wire::reset(ping));
    assert_eq!(given.kinds(), [(Type::Confirmable, Code::CONTENT)]);
    server.receive(1, &ack_of(given.message()));
    assert_eq!(server.run_to_end().kinds(), []);
}

#[test]
fn a_source_that_acknowledges_a_confirmable_response_needs_no_ping_later() {
    let mut server = observed_for(s(240));
    let error = Response::new(Code::NOT_FOUND, wire::payload(""));
    server.endpoint.notify(server.now, TOPIC, error).expect("legal");
    let given = server.drain();
    assert_eq!(given.message().header().ty, Type::Confirmable);
    server.receive(1, &ack_of(given.message()));
    server.run(s(100));
    let asked = server.receive(1, &get((Type::Confirmable, 2), &[])).request();
    assert_eq!(server.respond(asked, large()).message().payload().len(), 1_000);
}

#[test]
fn an_acknowledgement_that_releases_a_new_registration_ends_the_notification_first() {
    let mut server = observed_for(s(240));
    server.endpoint.notify(server.now, TOPIC, content("1")).expect("legal");
    let notification = server.drain();
    assert_eq!(notification.message().header().ty, Type::Confirmable);
    // The validation ends, so that the next registration is held.
    server.run(s(8));
    ping_of(&server.receive(1, &get((Type::Confirmable, 2), &[OBSERVE])));
    let asked = server.receive(1, &ack_of(notification.message())).request();
    assert_eq!(server.respond(asked, content("1")).kinds(), [(Type::Acknowledgement, Code::CONTENT)]);
    server.run_to_end();
    assert_eq!(server.endpoint.occupancy().exchanges, 0);
}

#[test]
fn retransmissions_of_a_held_request_run_no_handler_and_pay_for_pings() {
    for options in [&[][..], &[OBSERVE]] {
        let mut server = server();
        let datagram = get((Type::Confirmable, 1), options);
        let mut given = server.receive(1, &datagram);
        if let [asked] = given.requests()[..] {
            given = server.respond(asked, large());
        }
        let ping = ping_of(&given);
        for _ in 0..2 {
            server.run(ms(2_900));
            let given = server.receive(1, &datagram);
            assert!(given.requests().is_empty() && given.sent.is_empty());
            assert_eq!(ping_of(&server.run(ms(2_000))), ping);
        }
        let Given { sent, .. } = server.receive(1, &wire::reset(ping));
        assert!(sent.is_empty() != options.is_empty());
    }
}

// RFC 9175 §2.4 (Q304)
#[test]
fn an_unvalidated_source_receives_a_fitting_response_after_12_s() {
    let query: (u16, &[u8]) = (OptionNumber::URI_QUERY.0, &[b'q'; 20]);
    // A block with its options fits only for a long request.
    for (code, options, expected, payload) in [
        (Code::GET, &[query][..], Code::CONTENT, 16),
        (Code::POST, &[query], Code::CONTENT, 16),
        (Code::GET, &[], Code::UNAUTHORIZED, 0),
        (Code::POST, &[], Code::CONTENT, 0),
    ] {
        for ty in BOTH {
            let mut server = server();
            let datagram = request((ty, code, 1), options);
            let asked = server.receive(1, &datagram).request();
            let mut bytes = server.respond(asked, large()).datagrams[0].len();
            let given = server.run(s(12));
            let ((_, last), pings) = given.sent.split_last().expect("something");
            assert!(pings.iter().all(|(_, message)| is_ping(message)));
            assert_eq!((last.code(), last.payload().len()), (expected, payload), "{code}");
            assert_eq!(last.option(OptionNumber::ECHO).is_some(), expected == Code::UNAUTHORIZED);
            bytes += given.datagrams.iter().map(Vec::len).sum::<usize>();
            assert!(bytes <= 3 * datagram.len(), "{bytes} bytes for {}", datagram.len());
            assert_eq!(server.run_to_end().kinds(), []);
        }
    }
}

#[test]
fn a_response_of_which_no_block_may_be_sent_to_its_source_is_not_stored() {
    let mut server = server();
    let asked = server.receive(1, &get((Type::Confirmable, 1), &[])).request();
    server.respond(asked, large());
    assert_eq!(server.run(s(12)).message().code(), Code::UNAUTHORIZED);
    assert_eq!(server.endpoint.occupancy().representations, 0);
}

#[test]
fn large_bodies_for_forged_sources_of_all_networks_leave_newcomers_their_downloads() {
    let mut server = server();
    count_by_network(&mut server);
    let body = "x".repeat(60_000);
    let block = |num| Block { num, more: false, size: BlockSize::B16 }.encode();
    for number in 0..1_500_u32 {
        server.run(ms(10));
        let forged = number.wrapping_mul(40_503) << 16 | 1;
        for (id, num) in [(1, 0), (2, 1)] {
            let block = block(num);
            let options: &[(u16, &[u8])] = if num == 0 { &[] } else { &[(OptionNumber::BLOCK2.0, block.as_slice())] };
            for asked in server.receive(forged, &get((Type::Confirmable, id), options)).requests() {
                server.respond(asked, content(&body));
            }
        }
        if number % 50 == 0 {
            let newcomer = number.wrapping_mul(40_507) << 16 | 2;
            let asked = server.receive(newcomer, &get((Type::Confirmable, 1), &[])).request();
            let ping = ping_of(&server.respond(asked, content(&body)));
            assert_eq!(server.receive(newcomer, &wire::reset(ping)).message().payload().len(), 1_024);
            server.run(s(1));
            let second = Block { num: 1, more: false, size: BlockSize::B1024 }.encode();
            let options = [(OptionNumber::BLOCK2.0, second.as_slice())];
            let given = server.receive(newcomer, &get((Type::Confirmable, 2), &options));
            assert_eq!(given.message().payload().len(), 1_024, "its body is stored");
        }
    }
    assert!(server.endpoint.occupancy().representations > 200, "the room is used up");
}

/// Like CoAPthon3: it retransmits, and fetches one block after the other.
// RFC 9175 §2.4, RFC 7959 §2.4
#[test]
fn a_client_that_answers_no_ping_fetches_the_body_in_small_blocks() {
    const QUERY: (u16, &[u8]) = (OptionNumber::URI_QUERY.0, b"all");
    for length in [200, 1_000, 3_000] {
        let body = "x".repeat(length);
        let mut server = server();
        let datagram = get((Type::Confirmable, 1), &[QUERY]);
        let asked = server.receive(1, &datagram).request();
        let mut sent = server.respond(asked, content(&body)).datagrams[0].len();
        let mut received = datagram.len();
        let mut first = None;
        for wait in [ms(2_500), s(5), s(10)] {
            let given = server.run(wait);
            sent += given.datagrams.iter().map(Vec::len).sum::<usize>();
            let response = given.sent.into_iter().find(|(_, message)| message.code() == Code::CONTENT);
            first = first.or(response.map(|(_, message)| message));
            let again = server.receive(1, &datagram);
            received += datagram.len();
            sent += again.datagrams.iter().map(Vec::len).sum::<usize>();
            assert!(again.requests().is_empty() && sent <= 3 * received, "{sent} for {received}");
        }
        let first = first.expect("a block after 12 s");
        let block = first.view().block(OptionNumber::BLOCK2).expect("legal").expect("it is a block");
        assert_eq!((block.num, block.more, block.size), (0, true, BlockSize::B16));
        let mut fetched = first.payload().to_vec();
        for num in 1..u16::try_from(length.div_ceil(16)).expect("few") {
            let block = Block { num: num.into(), more: false, size: BlockSize::B16 }.encode();
            let datagram = get((Type::Confirmable, 1 + num), &[QUERY, (OptionNumber::BLOCK2.0, block.as_slice())]);
            let given = server.receive(1, &datagram);
            assert_eq!(given.message().code(), Code::CONTENT, "block {num} of {length} bytes");
            assert!(given.datagram().len() <= 3 * datagram.len());
            fetched.extend(given.message().payload());
        }
        assert_eq!(fetched, body.as_bytes());
    }
}

#[test]
fn validation_by_echo_releases_messages_held_for_a_ping_exactly_once() {
    let mut server = server();
    let registration = get((Type::Confirmable, 1), &[OBSERVE]);
    ping_of(&server.receive(1, &registration));
    for id in 2..=16 {
        assert!(ask(&mut server, 1, id).sent.is_empty(), "one ping is enough");
    }
    let refused = ask(&mut server, 1, 17);
    let echo = refused.message().option(OptionNumber::ECHO).expect("no more than 16 messages are held").to_vec();
    let given = server.receive(1, &get((Type::Confirmable, 18), &[(OptionNumber::ECHO.0, &echo)]));
    assert_eq!(given.sent.iter().filter(|(_, message)| message.payload().len() == 1_000).count(), 15);
    assert_eq!(given.requests().len(), 2, "the registration, and the request that brought the proof");
    assert!(server.receive(1, &registration).requests().is_empty(), "a retransmission is a duplicate");
}

#[test]
fn an_answer_from_another_address_or_to_another_ping_proves_nothing() {
    let mut server = server();
    let asked = server.receive(1, &get((Type::Confirmable, 1), &[])).request();
    let ping = ping_of(&server.respond(asked, large()));
    for (from, id) in [(2, ping), (1, MessageId(ping.0 ^ 1))] {
        assert!(server.receive(from, &wire::reset(id)).sent.is_empty());
        assert!(server.receive(from, &wire::empty_ack(id)).sent.is_empty());
    }
    let asked = server.receive(2, &get((Type::Confirmable, 1), &[])).request();
    ping_of(&server.respond(asked, large()));
    assert_eq!(server.receive(1, &wire::reset(ping)).message().payload().len(), 1_000);
    assert!(server.receive(1, &wire::reset(ping)).sent.is_empty(), "it proves something once");
}

fn ask(server: &mut Direct, from: Address, id: u16) -> Given {
    let asked = server.receive(from, &get((Type::Confirmable, id), &[])).request();
    server.respond(asked, large())
}

/// The source answers its ping, or two in a row.
fn is_validated(server: &mut Direct, from: Address, id: u16) -> bool {
    let mut given = ask(server, from, id);
    for _ in 0..2 {
        given = server.receive(from, &wire::reset(ping_of(&given)));
        if given.sent.first().is_none_or(|(_, message)| !is_ping(message)) {
            break;
        }
    }
    given.sent.first().is_some_and(|(_, message)| message.payload().len() == 1_000)
}

#[test]
fn after_64_wrong_guesses_no_answer_of_the_host_is_believed_until_247_s_are_over() {
    let mut server = server();
    // Two ports of a host.
    server.endpoint.set_source_hosts(Box::new(|source| u64::from(source >> 1)));
    let (forged, port) = (address(1, 2), address(1, 3));
    let ping = ping_of(&ask(&mut server, forged, 1));
    let other = ping_of(&ask(&mut server, port, 1));
    for guess in 0..64 {
        server.receive(forged, &wire::reset(MessageId(ping.0.wrapping_add(1 + guess))));
    }
    assert!(server.receive(forged, &wire::reset(ping)).sent.is_empty(), "what is right now could be a guess");
    assert!(server.receive(port, &wire::reset(other)).sent.is_empty());
    let given = ask(&mut server, port, 2);
    assert_eq!(given.message().code(), Code::UNAUTHORIZED, "it is asked for an Echo value instead");
    server.run(s(248));
    assert!(is_validated(&mut server, forged, 2));
}

/// Sends a wrong answer to the ping of each of these hosts of network 9.
fn guess(server: &mut Direct, hosts: Range<u16>) {
    for host in hosts {
        let forged = address(9, host);
        let ping = ping_of(&ask(server, forged, 1));
        server.receive(forged, &wire::reset(MessageId(ping.0 ^ 1)));
    }
}

#[test]
fn after_64_wrong_answers_of_a_network_validation_takes_two_pings() {
    let mut server = server();
    guess(&mut server, 0..63);
    let ping = ping_of(&ask(&mut server, 1, 1));
    assert_eq!(server.receive(1, &wire::reset(ping)).message().payload().len(), 1_000);
    guess(&mut server, 63..64);
    let first = ping_of(&ask(&mut server, 2, 1));
    let second = ping_of(&server.receive(2, &wire::reset(first)));
    assert_ne!(first, second);
    // A copy of an answer changes nothing, and a wrong one begins anew.
    assert!(server.receive(2, &wire::reset(first)).sent.is_empty());
    assert!(server.receive(2, &wire::reset(MessageId(second.0 ^ 1))).sent.is_empty());
    let third = ping_of(&server.receive(2, &wire::reset(second)));
    assert!(server.receive(2, &get((Type::Confirmable, 1), &[])).sent.is_empty());
    assert_eq!(ping_of(&server.run(s(2))), third, "a retransmission of the request pays for another one");
    assert_eq!(server.receive(2, &wire::empty_ack(third)).message().payload().len(), 1_000);
    server.run(s(248));
    let ping = ping_of(&ask(&mut server, 2, 2));
    assert_eq!(server.receive(2, &wire::reset(ping)).message().payload().len(), 1_000);
    server.run_to_end();
}

#[test]
fn wrong_answers_of_any_number_of_hosts_leave_others_their_proofs() {
    let mut server = server();
    count_by_network(&mut server);
    // Hosts of one network, and of all.
    for network in 1..=16 {
        for host in 0..256 {
            let forged = address(network, host);
            let ping = ping_of(&ask(&mut server, forged, 1));
            for guess in 0..64 {
                server.receive(forged, &wire::reset(MessageId(ping.0.wrapping_add(1 + guess))));
            }
        }
        server.run(s(13));
    }
    assert!((1..=16).all(|network| is_validated(&mut server, address(network, 60_000), 1)));
}

#[test]
fn forgers_of_one_network_leave_others_half_of_the_room_and_of_all_networks_the_room_of_a_second_ago() {
    let mut server = server();
    count_by_network(&mut server);
    let held = |server: &mut Direct, network: u8, count: u16| {
        for host in 0..count {
            let asked = server.receive(address(network, host), &get((Type::Confirmable, 1), &[])).request();
            server.respond(asked, large());
        }
        server.endpoint.occupancy().awaiting_validation
    };
    let of_one = held(&mut server, 1, 2_000);
    assert!((400..=420).contains(&of_one), "{of_one} responses of 1.3 kB in half of 1 MiB");
    let of_all = (2..40).map(|network| held(&mut server, network, 400)).last().expect("some");
    assert!(of_all <= 840, "{of_all} responses");
    let given = server.receive(address(200, 1), &get((Type::Confirmable, 1), &[OBSERVE]));
    assert!(!given.kinds().contains(&(Type::Confirmable, Code::EMPTY)), "there is no room for the request");
    server.run(ms(1_100));
    let given = server.receive(address(200, 2), &get((Type::Confirmable, 1), &[OBSERVE]));
    let to_it = given.sent.iter().find(|(transmit, _)| transmit.to == address(200, 2)).expect("a ping");
    assert!(is_ping(&to_it.1));
    server.run_to_end();
    assert_eq!(server.endpoint.occupancy().awaiting_validation, 0);
}

#[test]
fn forged_registrations_of_65_536_networks_1000_a_second_leave_room_for_each_newcomer() {
    let mut server = server();
    count_by_network(&mut server);
    let mut pinged = 0;
    for number in 0..15_000_u32 {
        server.run(ms(1));
        // An odd factor permutes the networks.
        let forged = number.wrapping_mul(40_503) << 16 | 1;
        server.receive(forged, &get((Type::Confirmable, 1), &[OBSERVE]));
        if number % 200 == 0 {
            let newcomer = number.wrapping_mul(40_507) << 16 | 2;
            let given = server.receive(newcomer, &get((Type::Confirmable, 1), &[OBSERVE]));
            pinged += given.sent.iter().filter(|(sent, message)| sent.to == newcomer && is_ping(message)).count();
        }
    }
    assert_eq!(pinged, 75);
    assert!(server.endpoint.occupancy().awaiting_validation > 3_000, "the room is used up");
}

#[test]
fn an_icmp_error_drops_messages_held_for_address_validation() {
    let mut server = server();
    let asked = server.receive(1, &get((Type::NonConfirmable, 1), &[])).request();
    let ping = server.respond(asked, large()).datagrams[0].clone();
    let other = server.receive(2, &get((Type::NonConfirmable, 1), &[OBSERVE])).datagrams[0].clone();
    assert_eq!(server.endpoint.occupancy().awaiting_validation, 2);
    for (peer, quoted) in [(1, Some(&other[..])), (1, Some(&ping[..])), (2, None)] {
        server.endpoint.handle(server.now, Input::Unreachable { peer, quoted }).expect("drained");
        server.drain();
    }
    assert_eq!(server.endpoint.occupancy().awaiting_validation, 0);
    assert_eq!(server.run_to_end().kinds(), []);
}

#[test]
fn a_source_that_the_transport_has_validated_is_never_challenged() {
    let mut server = server();
    let datagram = get((Type::Confirmable, 1), &[OBSERVE]);
    let mut datagram = Datagram::new(1, &datagram);
    datagram.validated = true;
    let asked = server.receive_datagram(datagram).request();
    assert!(server.endpoint.observe(server.now, asked, TOPIC).is_some());
    assert_eq!(server.respond(asked, large()).message().payload().len(), 1_000);
}

#[test]
fn in_a_closed_network_sources_need_no_proof() {
    let source_validation = SourceValidation::Off;
    let mut server = Direct::validating(EndpointConfig { source_validation, ..EndpointConfig::default() });
    let asked = server.receive(1, &get((Type::Confirmable, 1), &[])).request();
    assert_eq!(server.respond(asked, large()).message().payload().len(), 1_000);
}

struct Forged {
    name: &'static str,
    requests: Vec<Vec<u8>>,
    size: usize,
    delay: u64,
}

fn forged(ty: Type) -> Vec<Forged> {
    let block2 = |num| Block { num, more: false, size: BlockSize::B1024 }.encode();
    let block1 = |num, more| Block { num, more, size: BlockSize::B16 }.encode();
    let all = Block { num: 0, more: true, size: BlockSize::B1024 }.encode();
    let one = |name, request: Vec<u8>, size| Forged { name, requests: vec![request], size, delay: 0 };
    let copies = |name, request: Vec<u8>, size| Forged { name, requests: vec![request; 5], size, delay: 0 };
    let number = |option: OptionNumber| option.0;
    let uploaded = |num, more| {
        let block = block1(num, more);
        let options = [(number(OptionNumber::URI_PATH), &b"r"[..]), (number(OptionNumber::BLOCK1), block.as_slice())];
        wire::with_options(ty, Code::PUT, 1 + num as u16, b"four", &options, &[b'x'; 16])
    };
    vec![
        one("GET of 1 kB", get((ty, 1), &[]), 1_000),
        one("GET of 60 kB", get((ty, 1), &[]), 60_000),
        one("the shortest GET", wire::bare(ty, Code::GET, 1, b""), 1_000),
        copies("GET of 1 kB, retransmitted", get((ty, 1), &[]), 1_000),
        Forged { delay: 700, ..one("GET of 1 kB, late", get((ty, 1), &[]), 1_000) },
        Forged { delay: 700, ..copies("small GET, late", get((ty, 1), &[]), 5) },
        Forged {
            name: "blocks of 60 kB",
            requests: (1..5_u16)
                .map(|num| get((ty, num), &[(number(OptionNumber::BLOCK2), block2(u32::from(num) - 1).as_slice())]))
                .collect(),
            size: 60_000,
            delay: 0,
        },
        one("POST", request((ty, Code::POST, 1), &[]), 1_000),
        one("PUT", request((ty, Code::PUT, 1), &[]), 1_000),
        one("DELETE", request((ty, Code::DELETE, 1), &[]), 1_000),
        one("FETCH", request((ty, Code::FETCH, 1), &[]), 1_000),
        one("observe", get((ty, 1), &[OBSERVE]), 1_000),
        copies("observe, retransmitted", get((ty, 1), &[OBSERVE]), 1_000),
        one("Q-Block2", get((ty, 1), &[(number(OptionNumber::Q_BLOCK2), all.as_slice())]), 60_000),
        one("observe by Q-Block2", get((ty, 1), &[OBSERVE, (number(OptionNumber::Q_BLOCK2), all.as_slice())]), 60_000),
        Forged { name: "PUT in blocks", requests: vec![uploaded(0, true), uploaded(1, false)], size: 1_000, delay: 0 },
    ]
}

// RFC 7252 §11.3 (Q94), RFC 9175 §2.4 (Q304)
#[test]
fn no_request_of_100_000_forged_sources_is_answered_with_more_than_three_times_its_bytes() {
    let kinds = forged(Type::Confirmable).len() * BOTH.len();
    let sources = 100_000_u32.div_ceil(kinds as u32);
    for ty in BOTH {
        for Forged { name, requests, size, delay } in forged(ty) {
            let mut server = server();
            let (mut received, mut sent) = (vec![0; sources as usize], vec![0; sources as usize]);
            let mut note = |given: &Given| {
                given.sent.iter().for_each(|(transmit, _)| sent[transmit.to as usize] += transmit.len);
            };
            for source in 0..sources {
                for datagram in &requests {
                    received[source as usize] += datagram.len();
                    let given = server.receive(source, datagram);
                    note(&given);
                    for asked in given.requests() {
                        if delay > 0 {
                            note(&server.run(ms(delay)));
                        }
                        server.endpoint.observe(server.now, asked, TOPIC);
                        note(&server.respond(asked, content(&"x".repeat(size))));
                    }
                }
                if source % 64 == 0 {
                    note(&server.run(ms(10)));
                }
            }
            for _ in 0..3 {
                server.endpoint.notify(server.now, TOPIC, content(&"x".repeat(size))).expect("legal");
                note(&server.run(s(120)));
            }
            let worst = (0..sources as usize).max_by_key(|&n| 1_000 * sent[n] / received[n]).expect("some");
            println!(
                "{name}, {ty:?}: {} bytes in, {} out, at most {:.2} for a source",
                received.iter().sum::<usize>(),
                sent.iter().sum::<usize>(),
                sent[worst] as f64 / received[worst] as f64
            );
            assert!(sent[worst] <= 3 * received[worst], "{name}, {ty:?}: {} for {}", sent[worst], received[worst]);
            assert_eq!(server.endpoint.occupancy().observers, 0, "{name}");
        }
    }
}
