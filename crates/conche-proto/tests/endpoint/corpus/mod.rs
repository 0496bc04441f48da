//! Malformed and edge-case datagrams, and the reactions that RFC 7252 requires.
//!
//! Each entry starts with fresh endpoints. Its reaction is everything sent to its source within a
//! second. Afterwards a ping must still be answered.

mod entry;
mod reaction;

use std::collections::HashSet;

use conche_proto::codec::{Code, MessageId, Type};
use conche_proto::{Datagram, EndpointConfig, Event, ExchangeId, Failure, Multicast};

use crate::model::Address;
use crate::support::{CLIENT, Direct, Fixture, SERVER, STRANGER, World, end_of, ms, request, s, wire};
use entry::{Address as Source, Corpus, Entry, bytes};
use reaction::{check_absences, matches};

const RUN: usize = 78;

/// The fixture cannot produce the preferred reaction.
const SECOND_BEST: &[(&str, &str)] = &[("O31", "2.05 of the root resource, which the fixture does not have")];

fn deferral(entry: &Entry) -> Option<&'static str> {
    match (entry.group.as_str(), entry.id.as_str()) {
        ("oscore", _) => Some("OSCORE (RFC 8613) is not implemented yet"),
        ("dtls", _) => Some("DTLS (RFC 7252 §9) is not implemented yet"),
        _ => None,
    }
}

// RFC 7252 §4.1 (Q01): E02, E04, R12
// RFC 7252 §4.2 (Q02, Q03, Q04, Q05, Q06, Q07): T*, E*, C*, O*, R12
// RFC 7252 §4.3 (Q21, Q22): T10, C08, C16, C20, O08
// RFC 7252 §4.4 (Q24, Q28): R06, R08; the checker watches all that is sent
// RFC 7252 §4.5 (Q29, Q30, Q32): S03, S05, S08, S09
// RFC 7252 §4.6 (Q35): Z04
// RFC 7252 §5.3.2 (Q70): R06, R26
// RFC 7252 §5.4.1 (Q75, Q77, Q78): O40, R19, R21
// RFC 7252 §5.4.3 (Q79): O44-O56
// RFC 7252 §5.4.5 (Q80): O64
// RFC 7252 §8.2 (Q87): M04
#[test]
fn every_datagram_gets_the_reaction_that_the_rfcs_want() {
    let corpus: Corpus = serde_json::from_str(include_str!("../../data/malformed-datagrams.json")).expect("the schema");
    let ids: HashSet<_> = corpus.entries.iter().map(|entry| &entry.id).collect();
    assert_eq!((corpus.entries.len(), ids.len()), (corpus.count, corpus.count), "entries are counted and distinct");
    let mut run = Vec::new();
    for entry in &corpus.entries {
        if let Some(reason) = deferral(entry) {
            println!("{} deferred: {reason}", entry.id);
            continue;
        }
        println!("{}: {} ({}: {})", entry.id, entry.name, entry.reference, entry.why);
        match (entry.role.as_str(), entry.steps.is_empty()) {
            ("server", true) if entry.dst.as_deref() == Some("multicast") => ask_group(entry),
            ("server", true) => ask_server(entry),
            ("server", false) => ask_server_in_steps(entry),
            ("client", true) => answer_client(entry),
            ("client", false) => answer_client_in_steps(entry),
            (role, _) => panic!("{}: unknown role {role}", entry.id),
        }
        run.push(entry.id.as_str());
    }
    println!("{} of {} entries run: {}", run.len(), corpus.count, run.join(" "));
    assert_eq!(run.len(), RUN, "an entry was added or dropped: adjust the count on purpose");
}

fn ask_server(entry: &Entry) {
    assert_eq!((entry.dst.as_deref(), &entry.given), (Some("unicast"), &None), "{}", entry.id);
    let mut world = World::server();
    let reaction = reaction_to(&mut world, STRANGER, SERVER, &entry.datagram());
    check(entry, &reaction);
    assert!(world.node(SERVER).endpoint.occupancy().body_bytes <= 64 << 10, "{}", entry.id);
    assert_still_alive(&mut world, SERVER);
}

fn ask_group(entry: &Entry) {
    let (mut server, mut app) = (
        Direct::new(EndpointConfig { multicast: Some(Multicast::default()), ..EndpointConfig::default() }),
        Fixture::default(),
    );
    let bytes = entry.datagram();
    let mut datagram = Datagram::new(STRANGER, &bytes);
    datagram.multicast = true;
    let given = server.receive_datagram(datagram);
    assert!(given.sent.is_empty(), "{}: nothing leaves at once", entry.id);
    let [Event::Request { id, message, .. }] = &given.events[..] else { panic!("{}: {given:?}", entry.id) };
    let response = app.handle(server.now, *id, message).expect("a quick response");
    let mut reaction = server.respond(*id, response).datagrams;
    reaction.extend(server.run(server.endpoint.transmission().default_leisure).datagrams);
    check(entry, &reaction);
    assert!(server.run_to_end().sent.is_empty(), "{}", entry.id);
}

fn ask_server_in_steps(entry: &Entry) {
    let mut world = World::server();
    let mut reactions: Vec<Vec<Vec<u8>>> = Vec::new();
    for (n, step) in entry.steps.iter().enumerate() {
        assert_eq!(step.from, Source::A, "{}", entry.id);
        world.run_until(conche_proto::Instant::from_millis(step.t_ms));
        let before = world.sent.len();
        world.inject(STRANGER, SERVER, &bytes(&step.hex));
        // The next step may follow within a second.
        let until = entry.steps.get(n + 1).map_or(1_000, |next| (next.t_ms - step.t_ms - 1).min(1_000));
        world.run(ms(until));
        let reaction = sent_to(&world, before, STRANGER);
        let fits = step.accept.iter().any(|accepted| matches(accepted, &reaction));
        assert!(fits, "{} step {n}: {reaction:02x?}", entry.id);
        if let Some(earlier) = step.identical_to_step {
            assert_eq!(reactions[earlier], reaction, "{} step {n}", entry.id);
        }
        reactions.push(reaction);
    }
    let end = entry.end.as_ref().expect("a sequence says how it ends");
    if let Some(path) = &end.resource_unchanged {
        assert_eq!((path.as_str(), world.app().test.as_deref()), ("/test", Some(&b"hello"[..])), "{}", entry.id);
    }
    assert!(end.deliveries.is_none() && end.retransmissions_after.is_none());
    assert!(end.handler_calls.is_some() || end.resource_unchanged.is_some(), "{}: what is left of it", entry.id);
    for (path, calls) in end.handler_calls.iter().flatten() {
        assert_eq!(world.app().calls.get(path), Some(calls), "{}: {path}", entry.id);
    }
    let counted = end.handler_calls.as_ref().map_or(0, |calls| calls.values().sum());
    assert_eq!(world.app().calls.values().sum::<u32>(), counted, "{}: other handlers ran", entry.id);
    assert_still_alive(&mut world, SERVER);
}

/// CON GET /test to a simulated server.
fn asking_client(entry: &Entry) -> (World, ExchangeId) {
    let given = entry.given.as_ref().and_then(|given| given.get("outstanding")).expect("the client asked something");
    let expected = [("type", "CON"), ("code", "0.01"), ("path", "/test"), ("peer", "S")];
    assert!(expected.iter().all(|(field, value)| given[field] == *value), "{}: {given}", entry.id);
    let mut world = World::client();
    let asked = world.request(request(Code::GET, "/test"));
    (world, asked)
}

/// `binds` names what is inserted.
fn bound(mut datagram: Vec<u8>, binds: &[String], request: &[u8]) -> Vec<u8> {
    for bind in binds {
        let range = match bind.as_str() {
            "mid" => 2..4,
            "token" => 4..12,
            other => panic!("unknown bind {other}"),
        };
        datagram[range.clone()].copy_from_slice(&request[range]);
    }
    datagram
}

fn source(source: Source) -> Address {
    match source {
        Source::S => SERVER,
        Source::A => STRANGER,
    }
}

fn answer_client(entry: &Entry) {
    assert_eq!(entry.dst.as_deref(), Some("unicast"), "{}", entry.id);
    let (mut world, asked) = asking_client(entry);
    let request = world.first_copy(asked).bytes;
    let from = source(entry.src.expect("a client's entry has a source"));
    let datagram = bound(entry.datagram(), &entry.binds, &request);
    let reaction = reaction_to(&mut world, from, CLIENT, &datagram);
    check(entry, &reaction);
    match entry.outcome.as_deref().expect("a client's entry has an outcome") {
        "pending" => assert_pending(&mut world, asked, &request),
        "delivered:2.05" => {
            let (_, end) = end_of(world.events(CLIENT), asked).expect("the request is over");
            assert_eq!(end.expect("a response").code(), Code::CONTENT, "{}", entry.id);
        }
        "failed:reset" => {
            assert_eq!(end_of(world.events(CLIENT), asked).map(|(_, end)| end), Some(Err(Failure::Reset)));
        }
        // "As complete": this body is the first of several blocks.
        "not_delivered" | "failed or not_delivered as complete" => {
            world.run_to_end();
            let (_, end) = end_of(world.events(CLIENT), asked).expect("the request ends");
            assert!(end.is_err(), "{}: {end:?}", entry.id);
        }
        other => panic!("{}: unknown outcome {other}", entry.id),
    }
    assert_still_alive(&mut world, CLIENT);
}

fn answer_client_in_steps(entry: &Entry) {
    let (mut world, asked) = asking_client(entry);
    let request = world.first_copy(asked).bytes;
    for (n, step) in entry.steps.iter().enumerate() {
        world.run_until(conche_proto::Instant::from_millis(step.t_ms));
        let datagram = bytes(&step.hex);
        // A message with a token is a response; an Empty one is matched by its message ID.
        let binds = if datagram.len() > 4 { "token" } else { "mid" };
        let datagram = bound(datagram, &[binds.to_owned()], &request);
        let before = world.sent.len();
        world.inject(source(step.from), CLIENT, &datagram);
        let reaction = sent_to(&world, before, SERVER);
        assert!(step.accept.iter().any(|accepted| matches(accepted, &reaction)), "{} step {n}", entry.id);
    }
    let before = world.departures(asked).len();
    world.run_to_end();
    let end = entry.end.as_ref().expect("a sequence says how it ends");
    assert!(end.resource_unchanged.is_none() && end.handler_calls.is_none());
    let delivered = world.events(CLIENT).iter().filter(|(_, event)| matches!(event, Event::Response { .. })).count();
    assert_eq!(Some(delivered), end.deliveries, "{}", entry.id);
    assert_eq!(Some(world.departures(asked).len() - before), end.retransmissions_after, "{}", entry.id);
    assert_still_alive(&mut world, CLIENT);
}

fn check(entry: &Entry, reaction: &[Vec<u8>]) {
    let expect = &entry.expect;
    let accepted = expect.accept.iter().chain(&entry.also_accept).any(|accepted| matches(accepted, reaction));
    assert!(accepted, "{}: {reaction:02x?} is not accepted", entry.id);
    let preferred = &expect.accept[expect.preferred];
    let second_best = SECOND_BEST.iter().any(|(id, _)| *id == entry.id);
    assert_eq!(matches(preferred, reaction), !second_best, "{}: {reaction:02x?}, preferred {preferred:?}", entry.id);
    check_absences(&entry.id, &expect.must_not, reaction);
}

/// Everything sent to the source within a second, without retransmissions of outstanding messages.
fn reaction_to(world: &mut World, from: Address, to: Address, datagram: &[u8]) -> Vec<Vec<u8>> {
    let before = world.sent.len();
    world.inject(from, to, datagram);
    world.run(s(1));
    sent_to(world, before, from)
}

fn sent_to(world: &World, before: usize, to: Address) -> Vec<Vec<u8>> {
    let sent = world.sent[before..].iter().filter(|datagram| datagram.to == to);
    sent.map(|datagram| datagram.bytes.clone()).collect()
}

fn assert_pending(world: &mut World, asked: ExchangeId, request: &[u8]) {
    assert!(end_of(world.events(CLIENT), asked).is_none(), "the request is over");
    world.run(s(3));
    assert_eq!(world.departures(asked).len(), 2, "the request is repeated after 2 s to 3 s");
    world.inject(SERVER, CLIENT, &wire::piggybacked(request, Code::CONTENT));
    let (_, end) = end_of(world.events(CLIENT), asked).expect("the response ends the request");
    assert_eq!(end.expect("a response").code(), Code::CONTENT);
}

/// Entry E01: a ping is answered with a Reset.
fn assert_still_alive(world: &mut World, node: Address) {
    let ping = wire::bare(Type::Confirmable, Code::EMPTY, 0xe001, &[]);
    assert_eq!(reaction_to(world, STRANGER, node, &ping), [wire::reset(MessageId(0xe001))]);
}
