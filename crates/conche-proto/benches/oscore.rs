//! A small GET and its response with OSCORE, at both ends, from body to body.

use std::hint::black_box;

use conche_proto::Instant;
use conche_proto::codec::{Body, Code, MessageId, MessagePool, OwnedMessage, Token, Type};
use conche_proto::oscore::{Context, ContextId, Contexts, Credentials, EndId, Start};
use criterion::{Criterion, criterion_group, criterion_main};

fn ends() -> [(Contexts, ContextId); 2] {
    let [client, server] = [&b"C"[..], b"S"].map(|id| EndId::new(id).expect("short"));
    [(client, server), (server, client)].map(|(sender, recipient)| {
        let credentials = Credentials::new(*b"16 random bytes.", sender, recipient);
        let mut contexts = Contexts::new(1, [7; 32]);
        let id = contexts.insert(Context::derive(&credentials, Start::First).expect("legal")).expect("room");
        reserve(&mut contexts);
        (contexts, id)
    })
}

fn reserve(contexts: &mut Contexts) {
    while let Some(reserve) = contexts.poll_reserve() {
        contexts.reserved(reserve);
    }
}

fn message(ty: Type, code: Code, body: &Body) -> OwnedMessage {
    OwnedMessage::encode(ty, code, MessageId(1), &Token::from([1; 8]), body).expect("legal")
}

/// 60 bytes before protection.
fn exchange(criterion: &mut Criterion) {
    let body = Body::builder().path("/sensors/temperature").query("unit=celsius&since=mondays");
    let body = body.build().expect("legal");
    assert_eq!(message(Type::Confirmable, Code::GET, &body).view().as_bytes().len(), 60);
    let state = Body::builder().payload("21.5").build().expect("legal");
    let [(mut client, id), (mut server, _)] = ends();
    let pool = &mut MessagePool::new();

    let mut group = criterion.benchmark_group("oscore");
    group.bench_function("protect a GET of 60 bytes", |bencher| {
        bencher.iter(|| {
            reserve(&mut client);
            client.protect_request(id, Code::GET, black_box(&body)).expect("a number")
        });
    });
    group.bench_function("protect and unprotect a GET of 60 bytes", |bencher| {
        bencher.iter(|| {
            reserve(&mut client);
            let request = client.protect_request(id, Code::GET, black_box(&body)).expect("a number");
            let datagram = message(Type::Confirmable, request.code, &request.body);
            server.unprotect_request(Instant::ZERO, &datagram.view(), pool).expect("authentic")
        });
    });
    group.bench_function("the whole exchange, both ends", |bencher| {
        bencher.iter(|| {
            reserve(&mut client);
            let mut request = client.protect_request(id, Code::GET, black_box(&body)).expect("a number");
            let datagram = message(Type::Confirmable, request.code, &request.body);
            let asked = server.unprotect_request(Instant::ZERO, &datagram.view(), pool).expect("authentic");
            let response = server.protect_response(&asked.binding, Code::CONTENT, &state).expect("a number");
            let datagram = message(Type::Acknowledgement, response.code, &response.body);
            client.unprotect_response(&mut request.binding, &datagram.view(), pool).expect("authentic")
        });
    });
    group.bench_function("derive a context", |bencher| {
        let [sender, recipient] = [&b"C"[..], b"S"].map(|id| EndId::new(id).expect("short"));
        let credentials = Credentials::new(*b"16 random bytes.", sender, recipient);
        bencher.iter(|| Context::derive(black_box(&credentials), Start::First).expect("legal"));
    });
    group.finish();
}

criterion_group!(benches, exchange);
criterion_main!(benches);
