//! Heap allocations between a received request and its response.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use conche::Code;
use conche::server::{Path, Payload, Request, Router, State, get, put};
use tower::Service;

use super::{request, service};

/// A description, the expected allocations, and the request.
type Case = (&'static str, u64, fn() -> Request);

#[test]
fn a_request_allocates_only_what_its_handler_allocates() {
    let router = Router::new()
        .route("/t", get(async || Code::CONTENT))
        .route("/text", get(async || "21.5"))
        .route("/a/{n}/c/{m}", get(async |Path((_, _)): Path<(u8, u16)>, State(_): State<u64>| Code::CONTENT))
        .route("/payload", put(async |Payload(_): Payload| ()))
        .with_state(7);
    let mut service = service(router);
    let cases: [Case; 5] = [
        ("nothing, as the future waits for nothing", 0, || request(Code::GET, "/t", |body| body)),
        ("nothing, as the text is a part of the program", 0, || request(Code::GET, "/text", |body| body)),
        ("nothing, whatever is captured", 0, || request(Code::GET, "/a/1/c/2", |body| body)),
        ("the first owner of the message beside the request", 1, || {
            request(Code::PUT, "/payload", |body| body.payload("21.5"))
        }),
        ("nothing for a refusal", 0, || request(Code::PUT, "/t", |body| body)),
    ];
    for (what, expected, request) in cases {
        // The first future of a type allocates the place that later ones reuse.
        for expected in [None, Some(expected)] {
            let (mut answered, request) = (None, request());
            let allocations = allocation_counter::measure(|| {
                let answer = pin!(service.call(request));
                answered = Some(answer.poll(&mut Context::from_waker(Waker::noop())));
            });
            let Some(Poll::Ready(Ok(_))) = answered else { panic!("these handlers wait for nothing") };
            assert_eq!(allocations.count_total, expected.unwrap_or(allocations.count_total), "{what}");
        }
    }
}
