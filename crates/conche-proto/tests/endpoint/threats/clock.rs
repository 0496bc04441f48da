//! Clocks that jump, stand still, or reach their end.

use std::time::Duration;

use conche_proto::codec::Code;
use conche_proto::{
    Endpoint, EndpointConfig, Event, Failure, Input, Instant, Output, Reliability, TransmissionParameters,
};

use crate::model::Address;
use crate::support::world::{by_name, seed_of};
use crate::support::{CLIENT, SERVER, World, end_of, request, s, wire, with_transmission};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_suspended_machine_wakes_up_without_a_burst() {
    let transmission = TransmissionParameters { nstart: 4, ..TransmissionParameters::default() };
    for asleep in [s(10), s(44), s(46), HOUR, 24 * HOUR] {
        for before in [s(0), s(1), s(20)] {
            let mut world = World::client_of(&with_transmission(transmission), by_name("cocoa"));
            let asked: Vec<_> = (0..10).map(|_| world.request(request(Code::GET, "/test"))).collect();
            world.run(before);
            let sent = world.sent.len();
            world.sleep(asleep);
            let woke_at = world.now;
            for &id in &asked {
                let copies = world.departures(id).iter().filter(|&&at| at == woke_at).count();
                assert!(copies <= 1, "{copies} copies at once after {asleep:?}");
            }
            assert!(world.sent.len() - sent <= 4, "no more than NSTART messages leave");
            world.run_to_end();
            for id in asked {
                let departures = world.departures(id);
                let span = departures.last().zip(departures.first()).map(|(&last, &first)| last - first);
                assert!(span.is_none_or(|span| span <= s(45)), "{span:?}");
            }
        }
    }
}

#[test]
fn a_clock_that_steps_back_delays_but_breaks_nothing() {
    let mut endpoint: Endpoint<Address, _> =
        Endpoint::new(EndpointConfig::default(), by_name("cocoa"), seed_of(1)).expect("legal parameters");
    let mut buffer = [0; 1152];
    let noon = Instant::ZERO + 24 * HOUR;
    for back in [HOUR, 24 * HOUR] {
        let answered = endpoint.request(noon, SERVER, request(Code::GET, "/test")).expect("room");
        let Output::Transmit(transmit) = endpoint.poll(noon, &mut buffer) else { panic!("the request leaves") };
        let response = wire::piggybacked(&buffer[..transmit.len], Code::CONTENT);
        let mut now = noon - back;
        let Output::Wait(Some(wake)) = endpoint.poll(now, &mut buffer) else { panic!("nothing is due") };
        assert!(wake > noon);
        endpoint.handle(now, Input::datagram(SERVER, &response)).expect("drained");
        let Output::Event(Event::Response { exchange, course, .. }) = endpoint.poll(now, &mut buffer) else {
            panic!("the response is delivered")
        };
        assert_eq!((exchange, course.elapsed), (answered, Duration::ZERO), "spans never wrap");

        let unanswered = endpoint.request(now, SERVER, request(Code::GET, "/test")).expect("room");
        let mut copies = 0;
        loop {
            match endpoint.poll(now, &mut buffer) {
                Output::Transmit(_) => copies += 1,
                Output::Wait(Some(wake)) => now = wake,
                Output::Event(Event::Failed { exchange, reason: Failure::TimedOut, .. }) => {
                    assert_eq!(exchange, unanswered);
                    break;
                }
                output => panic!("{output:?}"),
            }
        }
        assert!((1..=5).contains(&copies));
    }
}

#[test]
fn every_max_retransmit_ends_and_sends_that_often() {
    for max_retransmit in 0..=u8::MAX {
        let transmission = TransmissionParameters { max_retransmit, ..TransmissionParameters::default() };
        let mut world = World::client_of(&with_transmission(transmission), by_name("default"));
        let asked = world.request(request(Code::GET, "/test"));
        world.run_to_end();
        assert_eq!(world.departures(asked).len(), usize::from(max_retransmit) + 1);
        let (_, end) = end_of(world.events(CLIENT), asked).expect("it ends");
        assert_eq!(end.map(|_| ()), Err(Failure::TimedOut));
    }
}

#[test]
fn without_a_last_timeout_an_exchange_fails_as_its_last_retransmission_leaves() {
    for max_retransmit in [1, 4] {
        let parameters = TransmissionParameters::default();
        let transmission = TransmissionParameters { max_retransmit, last_timeout: false, ..parameters };
        let mut world = World::client_of(&with_transmission(transmission), by_name("default"));
        let asked = world.request(request(Code::GET, "/test"));
        world.run_to_end();
        let departures = world.departures(asked);
        assert_eq!(departures.len(), usize::from(max_retransmit) + 1);
        let (at, end) = end_of(world.events(CLIENT), asked).expect("it ends");
        assert_eq!((Some(&at), end.map(|_| ())), (departures.last(), Err(Failure::TimedOut)));
    }
}

#[test]
fn time_may_run_out() {
    for max_retransmit in [0, 4, 255] {
        let transmission = TransmissionParameters { max_retransmit, ..TransmissionParameters::default() };
        let mut world = World::pair_of(&with_transmission(transmission), &by_name("cocoa"), 1);
        world.now = Instant::FAR_FUTURE - s(1);
        let answered = world.request(request(Code::GET, "/test"));
        let late = world.request(request(Code::GET, "/separate"));
        let non = world.request(request(Code::GET, "/test").with_reliability(Reliability::NonConfirmable));
        while world.next().is_some_and(|next| next < Instant::FAR_FUTURE) {
            world.step();
        }
        world.now = Instant::FAR_FUTURE;
        world.settle(CLIENT);
        assert!(end_of(world.events(CLIENT), answered).is_some_and(|(_, end)| end.is_ok()));
        for id in [late, non] {
            assert!(end_of(world.events(CLIENT), id).is_some(), "it ends with time itself");
        }
        assert!(world.sent.len() <= 16, "the end of time is no reason for a burst");
    }
}
