//! How often the heap is asked for memory between a received request and its response.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use conche::Code;
use conche::server::{Path, Payload, Router, State, get, put};
use tower::Service;

use super::{request, service};

#[test]
fn a_request_costs_its_future_and_what_the_handler_itself_allocates() {
    let router = Router::new()
        .route("/t", get(async || Code::CONTENT))
        .route("/text", get(async || "21.5"))
        .route("/a/{n}/c/{m}", get(async |Path((_, _)): Path<(u8, u16)>, State(_): State<u64>| Code::CONTENT))
        .route("/payload", put(async |Payload(_): Payload| ()))
        .with_state(7);
    let mut service = service(router);
    for (what, expected, request) in [
        ("the future", 1, request(Code::GET, "/t", |body| body)),
        ("the future, as the text is a part of the program", 1, request(Code::GET, "/text", |body| body)),
        ("the future, whatever is captured", 1, request(Code::GET, "/a/1/c/2", |body| body)),
        (
            "the future, and the first owner of the message beside the request",
            2,
            request(Code::PUT, "/payload", |body| body.payload("21.5")),
        ),
        ("the future, which a server does without", 1, request(Code::PUT, "/t", |body| body)),
    ] {
        let mut answered = None;
        let allocations = allocation_counter::measure(|| {
            let answer = pin!(service.call(request));
            answered = Some(answer.poll(&mut Context::from_waker(Waker::noop())));
        });
        let Some(Poll::Ready(Ok(_))) = answered else { panic!("these handlers wait for nothing") };
        assert_eq!(allocations.count_total, expected, "{what}");
    }
}
