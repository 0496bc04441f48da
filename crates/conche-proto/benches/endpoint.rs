//! One exchange, client and server together: a Confirmable GET from submission to response, by the
//! default controller, with the first transmission lost, with temper, and with temper over a shared
//! path; and a survey for the busiest of the maximum number of peers, in one call and in steps.

use std::hint::black_box;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::codec::{Body, Code};
use conche_proto::{
    BusiestPeersSearch, Endpoint, EndpointConfig, Event, Input, Instant, Output, PathKey, Request, Response,
};
use criterion::{Criterion, criterion_group, criterion_main};

type Machine = Endpoint<u32, AnyController>;

fn endpoint(seed: u8, controller: &str) -> Machine {
    let controller = AnyController::by_name(controller).expect("a known name");
    Endpoint::new(EndpointConfig::default(), controller, [seed; 32]).expect("default parameters are valid")
}

/// One exchange, whose first `lost` transmissions do not arrive.
fn exchange(client: &mut Machine, server: &mut Machine, now: &mut Instant, bodies: &(Body, Body), lost: u32) {
    let mut buf = [0; 1280];
    client.request(*now, 2, Request::new(Code::GET, bodies.0.clone())).expect("an empty queue");
    let mut lost = lost;
    loop {
        match client.poll(*now, &mut buf) {
            Output::Transmit(_) if lost > 0 => lost -= 1,
            Output::Transmit(datagram) => {
                server.handle(*now, Input::datagram(1, &buf[..datagram.len])).expect("drained");
            }
            Output::Wait(Some(at)) if lost == 0 && server.occupancy().outputs == 0 => *now = at,
            _ => {}
        }
        loop {
            match server.poll(*now, &mut buf) {
                Output::Event(Event::Request { id, .. }) => {
                    server.respond(*now, id, Response::new(Code::CONTENT, bodies.1.clone())).expect("it waits");
                }
                Output::Transmit(datagram) => {
                    *now += Duration::from_millis(20);
                    client.handle(*now, Input::datagram(2, &buf[..datagram.len])).expect("drained");
                    if let Output::Event(Event::Response { message, .. }) = client.poll(*now, &mut buf) {
                        black_box(message);
                        return;
                    }
                }
                Output::Wait(_) => break,
                Output::Event(_) => {}
            }
        }
    }
}

fn benchmark(criterion: &mut Criterion) {
    let bodies = (
        Body::builder().path("/sensors/temperature").build().expect("a short path"),
        Body::builder().payload("21.5 degrees in the shade of the old apple tree").build().expect("a short payload"),
    );
    for lost in [0, 1] {
        let (mut client, mut server, mut now) = (endpoint(1, "default"), endpoint(2, "default"), Instant::ZERO);
        criterion.bench_function(&format!("exchange/{lost} lost"), |bencher| {
            bencher.iter(|| exchange(&mut client, &mut server, &mut now, &bodies, lost));
        });
    }
    for (name, is_shared) in [("temper", false), ("temper, shared path", true)] {
        let (mut client, mut server, mut now) = (endpoint(1, "temper"), endpoint(2, "default"), Instant::ZERO);
        if is_shared {
            client.share_paths(Box::new(|_| Some(PathKey::new(1, 64))));
        }
        criterion.bench_function(&format!("exchange/{name}"), |bencher| {
            bencher.iter(|| exchange(&mut client, &mut server, &mut now, &bodies, 0));
        });
    }
}

/// The default maximum of peers, each with an outstanding request.
fn survey(criterion: &mut Criterion) {
    const PEERS: u32 = 131_072;
    let (mut client, mut buf) = (endpoint(1, "default"), [0; 1280]);
    for peer in 0..PEERS {
        client.request(Instant::ZERO, peer, Request::new(Code::GET, Body::EMPTY)).expect("room");
        while !matches!(client.poll(Instant::ZERO, &mut buf), Output::Wait(_)) {}
    }
    let mut group = criterion.benchmark_group("survey");
    group.sample_size(20);
    for places in [usize::MAX, 2_048] {
        let name = if places == usize::MAX { "all of 131072 peers".to_owned() } else { format!("{places} of them") };
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(BusiestPeersSearch::of(32).advance(&client, places)));
        });
    }
    group.finish();
}

criterion_group!(benches, benchmark, survey);
criterion_main!(benches);
