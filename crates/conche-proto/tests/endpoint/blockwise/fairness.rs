//! A transfer beside other senders to the same peer: senders take turns.

use std::collections::HashMap;

use conche_proto::codec::Code;
use conche_proto::{Event, ExchangeId, Request};

use super::{pair, request_with, roomy};
use crate::support::fixture::body;
use crate::support::{CLIENT, SERVER, World, end_of, request, s};

const REQUESTERS: usize = 8;

/// Returns the number of answers to each of eight closed-loop requesters within 60 s, beside a
/// longer transfer.
pub fn answers_beside(world: &mut World, transfer: Request) -> (ExchangeId, Vec<usize>) {
    world.node(SERVER).app.as_mut().expect("the fixture").large = body(1 << 20, 1);
    let transfer = world.request(transfer);
    let mut waiting: HashMap<ExchangeId, usize> =
        (0..REQUESTERS).map(|who| (world.request(request(Code::GET, "/test")), who)).collect();
    let mut answers = vec![0; REQUESTERS];
    let until = world.now + s(60);
    let mut seen = 0;
    while world.now < until && world.step() {
        let ended: Vec<_> = world.events(CLIENT)[seen..]
            .iter()
            .map(|(_, event)| match event {
                Event::Response { exchange, .. } => *exchange,
                event => panic!("{event:?}"),
            })
            .collect();
        seen += ended.len();
        for id in ended {
            let who = waiting.remove(&id).expect("the transfer takes longer");
            answers[who] += 1;
            waiting.insert(world.request(request(Code::GET, "/test")), who);
        }
    }
    assert!(end_of(world.events(CLIENT), transfer).is_none());
    (transfer, answers)
}

#[test]
fn a_transfer_gets_the_share_of_one_sender_among_nine_and_none_starves() {
    for transfer in [request(Code::GET, "/large"), request_with(Code::PUT, "/large-update", &body(1 << 20, 1))] {
        let mut world = pair(roomy(), roomy(), 1);
        let (transfer, answers) = answers_beside(&mut world, transfer);
        let blocks = world.departures(transfer).len();
        let fair = (blocks + answers.iter().sum::<usize>()) / (REQUESTERS + 1);
        assert!(fair > 100, "{fair}");
        for share in answers.iter().chain([&blocks]) {
            assert!(share.abs_diff(fair) * 10 <= fair, "{share} of {fair}: {blocks} blocks, {answers:?}");
        }
    }
}
