//! An experiment: copies of requests say which they are, and responses which copy they answer.

use conche_proto::codec::{Body, Code, OptionNumber, Type};
use conche_proto::{EndpointConfig, Failure, Limits};

use crate::model::Address;
use crate::support::world::{Datagram, by_name, lossy_link};
use crate::support::{CLIENT, Fixture, SERVER, World, end_of, ms, request, request_with_payload, s, wire};

/// Of experimental use (RFC 7252 §12.2).
const COPY: OptionNumber = OptionNumber(65_020);

fn numbering() -> EndpointConfig {
    EndpointConfig { number_copies: true, ..EndpointConfig::default() }
}

/// A client under temper, which measures a copy whose answer is known, and a server.
fn pair(client: &EndpointConfig, server: &EndpointConfig) -> World {
    let mut world = World::empty();
    world.add(CLIENT, client.clone(), by_name("temper"), 7);
    world.add(SERVER, server.clone(), by_name("temper"), 9);
    world.node(SERVER).app = Some(Fixture::default());
    world
}

fn numbers(world: &World, from: Address) -> Vec<Option<u32>> {
    world.sent_by(from).map(|datagram| datagram.message().uint(COPY)).collect()
}

#[test]
fn each_copy_has_its_number_and_each_answer_that_of_the_copy_which_it_answers() {
    let mut world = pair(&numbering(), &numbering());
    // Every answer takes ten seconds.
    world.link = Box::new(|datagram| vec![if datagram.from == SERVER { s(10) } else { ms(50) }]);
    let asked = world.request(request(Code::GET, "/test"));
    world.run_to_end();
    let copies = numbers(&world, CLIENT);
    assert_eq!(copies, (1..=copies.len() as u32).map(Some).collect::<Vec<_>>());
    assert_eq!(numbers(&world, SERVER), copies);
    assert!(copies.len() > 1 && end_of(world.events(CLIENT), asked).is_some());
    // The first answer to come was the original's: the round trip is no guess.
    let known = world.node(CLIENT).endpoint.snapshot(&SERVER).expect("known").congestion;
    assert_eq!(known.srtt.map(|srtt| srtt.as_millis()), Some(10_050));
}

#[test]
fn an_answer_to_the_second_copy_is_measured_from_there() {
    let mut world = pair(&numbering(), &numbering());
    let mut lost = 0;
    world.link = Box::new(move |datagram: &Datagram| {
        lost += u32::from(datagram.from == CLIENT);
        if datagram.from == CLIENT && lost == 1 { vec![] } else { vec![ms(40)] }
    });
    world.request(request(Code::GET, "/test"));
    world.run_to_end();
    let known = world.node(CLIENT).endpoint.snapshot(&SERVER).expect("known").congestion;
    assert_eq!(known.srtt.map(|srtt| srtt.as_millis()), Some(80));
}

#[test]
fn who_does_not_know_the_option_ignores_it_and_gets_none() {
    let plain = EndpointConfig::default();
    for (client, server) in [(&numbering(), &plain), (&plain, &numbering()), (&plain, &plain)] {
        let mut world = pair(client, server);
        let asked = world.request(request(Code::GET, "/test"));
        world.run_to_end();
        let (_, response) = end_of(world.events(CLIENT), asked).expect("it ends");
        assert_eq!(response.expect("a response").code(), Code::CONTENT);
        assert_eq!(numbers(&world, SERVER), [None]);
    }
}

#[test]
fn bodies_in_blocks_arrive_whole_through_loss_with_copies_that_differ() {
    for server in [numbering(), EndpointConfig::default()] {
        let (mut whole, mut repeated) = (0, 0);
        for seed in 0..20 {
            let mut world = pair(&numbering(), &server);
            world.link = lossy_link(seed, 20, 10, 100);
            let asked = world.request(request_with_payload(Code::PUT, "/large-update", 5_000));
            world.run_to_end();
            match end_of(world.events(CLIENT), asked).expect("it ends").1 {
                Ok(response) => {
                    assert_eq!((response.code(), world.app().large.len()), (Code::CHANGED, 5_000), "seed {seed}");
                    whole += 1;
                }
                Err(failure) => assert_eq!(failure, Failure::TimedOut, "seed {seed}"),
            }
            repeated += usize::from(numbers(&world, CLIENT).contains(&Some(2)));
        }
        assert!(whole >= 15 && repeated >= 10, "{whole} of 20, {repeated} with copies");
    }
}

#[test]
fn a_message_without_room_for_a_number_goes_without() {
    let limits = Limits { message_bytes: 64, ..Limits::default() };
    let config = EndpointConfig { limits, token_length: 4, ..numbering() };
    let mut world = pair(&config, &numbering());
    // 4 of the header, 4 of the token, 5 of the path, and a payload: 64 in all but three.
    world.request(request_with_payload(Code::POST, "/test", 64 - 3 - 4 - 4 - 5 - 1));
    world.run_to_end();
    let first = world.sent_by(CLIENT).next().expect("it left");
    assert_eq!((first.bytes.len(), first.message().uint(COPY)), (61, None));
}

#[test]
fn what_names_a_copy_that_has_not_left_says_nothing() {
    let mut world = pair(&numbering(), &numbering());
    world.link = Box::new(|_| vec![]);
    let asked = world.request(request(Code::GET, "/test"));
    world.run(s(5));
    assert_eq!(world.departures(asked).len(), 2);
    let copy = world.first_copy(asked);
    let sent = wire::decode(&copy.bytes);
    let body = Body::builder().uint(COPY, 9).build().expect("legal");
    world.inject(SERVER, CLIENT, &wire::message(Type::Acknowledgement, Code::CONTENT, sent.id(), &sent.token(), &body));
    let (_, response) = end_of(world.events(CLIENT), asked).expect("it ends");
    assert_eq!(response.expect("a response").uint(COPY), Some(9));
    // Blind and ambiguous: no sample.
    assert_eq!(world.node(CLIENT).endpoint.snapshot(&SERVER).expect("known").congestion.srtt, None);
}
