//! Allocations per request served, in the steady state.

use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Bytes, Code, Encoder, MessageId, OptionNumber, Token, Type};
use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Output, Response};

type Server = Endpoint<u32, AnyController>;

const REQUESTS: u16 = 1_000;

fn serve(server: &mut Server, id: u16, payload: &Bytes) {
    let mut datagram = [0; 64];
    let token = Token::from(*b"8 bytes!");
    let mut encoder =
        Encoder::new(&mut datagram, Type::Confirmable, Code::GET, MessageId(id), &token).expect("room for a header");
    let length = encoder.option(OptionNumber::URI_PATH, b"test").expect("room for an option").finish();
    // Allocated by the application.
    let body = Body::builder().payload(payload.clone()).build().expect("no options");
    let mut body = Some(body);
    let allocations = allocation_counter::measure(|| {
        server.handle(Instant::ZERO, Input::datagram(7, &datagram[..length])).expect("drained");
        let mut buffer = [0; 1152];
        loop {
            match server.poll(Instant::ZERO, &mut buffer) {
                Output::Event(Event::Request { id, .. }) => {
                    let body = body.take().expect("there is one request");
                    server.respond(Instant::ZERO, id, Response::new(Code::CONTENT, body)).expect("it waits");
                }
                Output::Wait(_) => break,
                _ => {}
            }
        }
    });
    COUNTED.with(|counted| counted.set(counted.get() + allocations.count_total));
}

std::thread_local! {
    static COUNTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn allocations(payload: &'static [u8]) -> u64 {
    let controller = AnyController::by_name("default").expect("a known name");
    let mut server = Endpoint::new(EndpointConfig::default(), controller, [1; 32]).expect("legal parameters");
    let payload = Bytes::from_static(payload);
    // Let the tables grow to their final size.
    for id in 0..8 * REQUESTS {
        serve(&mut server, id, &payload);
    }
    COUNTED.with(|counted| counted.set(0));
    for id in 8 * REQUESTS..9 * REQUESTS {
        serve(&mut server, id, &payload);
    }
    COUNTED.with(std::cell::Cell::get)
}

/// Occasionally a chunk of 256 entries and one of requests are allocated.
const NOW_AND_THEN: u64 = 40;

#[test]
fn a_request_without_a_payload_in_its_response_is_served_without_an_allocation() {
    let counted = allocations(b"");
    assert!(counted <= NOW_AND_THEN, "{counted} in {REQUESTS} requests");
}

#[test]
fn a_request_with_a_payload_in_its_response_costs_the_reply_that_is_remembered() {
    let counted = allocations(b"21.5 degrees in the shade of the tree");
    assert!(counted <= u64::from(REQUESTS) + NOW_AND_THEN, "{counted} in {REQUESTS} requests");
}
