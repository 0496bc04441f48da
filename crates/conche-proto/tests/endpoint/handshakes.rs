//! Handshakes of a lower layer, under the congestion control of their destination.

use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::cc::any::Controllers;
use conche_proto::cc::control::AbandonReason;
use conche_proto::codec::{Body, Code};
use conche_proto::{
    Endpoint, EndpointConfig, Event, ExchangeId, Failure, Flight, Input, Instant, Output, PathKey, Request,
};

use crate::support::{ms, s, wire};

const SERVER: u32 = 1;

struct Client {
    endpoint: Endpoint<u32, AnyController>,
    now: Instant,
    left: Vec<(u32, Vec<u8>)>,
    flights: Vec<(Instant, ExchangeId)>,
    failed: Vec<(ExchangeId, Failure)>,
}

impl Client {
    fn new(controller: &str) -> Self {
        Self::of(EndpointConfig::default(), controller)
    }

    fn of(config: EndpointConfig, controller: &str) -> Self {
        let controller = AnyController::by_name(controller).expect("known");
        let endpoint = Endpoint::new(config, controller, [7; 32]).expect("legal");
        Self { endpoint, now: Instant::ZERO, left: Vec::new(), flights: Vec::new(), failed: Vec::new() }
    }

    /// Returns the time of the next wake-up.
    fn drain(&mut self) -> Option<Instant> {
        let mut buffer = [0; 1280];
        loop {
            match self.endpoint.poll(self.now, &mut buffer) {
                Output::Transmit(transmit) => self.left.push((transmit.to, buffer[..transmit.len].to_vec())),
                Output::Event(Event::Flight { exchange, .. }) => self.flights.push((self.now, exchange)),
                Output::Event(Event::Failed { exchange, reason, .. }) => self.failed.push((exchange, reason)),
                Output::Event(Event::Response { .. }) => {}
                Output::Event(other) => panic!("{other:?}"),
                Output::Wait(until) => return until,
            }
        }
    }

    fn begin(&mut self, with: u32) -> ExchangeId {
        let handshake = self.endpoint.begin_handshake(self.now, with).expect("there is room");
        self.drain();
        handshake
    }

    fn ask(&mut self) {
        self.endpoint.request(self.now, SERVER, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
        self.drain();
    }

    fn leaves(&mut self, handshake: ExchangeId, repeated: bool) {
        let flight = Flight { bytes: 100, repeated, least_timeout: s(1) };
        self.endpoint.flight_left(self.now, handshake, &flight);
        self.drain();
    }

    /// Returns the wait until the next retransmission.
    fn repeated(&mut self, handshake: ExchangeId) -> Duration {
        let (since, before) = (self.now, self.flights.len());
        loop {
            let until = self.drain();
            if self.flights.len() > before {
                break;
            }
            self.now = until.expect("a flight waits for its answer");
        }
        self.leaves(handshake, true);
        self.now - since
    }

    fn srtt(&self) -> Option<Duration> {
        self.endpoint.snapshot(&SERVER).and_then(|peer| peer.congestion.srtt)
    }

    fn assert_nothing_is_left(&self) {
        let occupancy = self.endpoint.occupancy();
        assert_eq!((occupancy.exchanges, occupancy.timers, occupancy.over_paths), (0, 0, 0));
        assert_eq!(self.endpoint.snapshot(&SERVER).map_or(0, |peer| peer.outstanding), 0);
    }
}

/// RFC 6347 §4.2.4.1.
#[test]
fn timeouts_of_flights_double_up_to_a_minute_under_every_controller() {
    for name in Controllers::default().iter().map(|named| named.name()) {
        let mut client = Client::new(name);
        let handshake = client.begin(SERVER);
        client.leaves(handshake, false);
        let waits: Vec<Duration> = (0..10).map(|_| client.repeated(handshake)).collect();
        for (doubled, wait) in (0..).map(|copy| s(1 << copy).min(s(60))).zip(&waits) {
            assert!(*wait >= doubled && *wait <= s(60), "{name}: {waits:?}");
        }
        assert_eq!(client.failed, [], "how long it goes on is for its deadline to say");
        client.endpoint.handshake_over(client.now, handshake, Some(AbandonReason::GaveUp));
        assert_eq!(client.drain(), None);
        client.assert_nothing_is_left();
    }
}

#[test]
fn a_path_that_is_known_does_not_shorten_the_least_timeout_and_a_slow_one_lengthens_it() {
    for (round_trip, least, most) in [(ms(10), s(1), s(2)), (s(5), s(5), s(25))] {
        let mut client = Client::new("temper");
        let handshake = client.begin(SERVER);
        client.leaves(handshake, false);
        client.now += round_trip;
        client.endpoint.flight_answered(client.now, handshake, Some(0));
        assert_eq!(client.srtt(), Some(round_trip));
        client.leaves(handshake, false);
        let wait = client.repeated(handshake);
        assert!((least..=most).contains(&wait), "{round_trip:?}: {wait:?}");
    }
}

#[test]
fn a_timeout_stays_backed_off_until_an_answer_names_its_copy() {
    let waited_by_third = |copy: Option<u8>| {
        let mut client = Client::new("default");
        let handshake = client.begin(SERVER);
        client.leaves(handshake, false);
        client.repeated(handshake);
        client.repeated(handshake);
        client.now += ms(100);
        client.endpoint.flight_answered(client.now, handshake, copy);
        client.leaves(handshake, false);
        client.repeated(handshake)
    };
    assert!(waited_by_third(None) >= s(4));
    assert!(waited_by_third(Some(2)) <= s(2));
}

#[test]
fn only_an_answer_whose_copy_is_known_is_a_sample() {
    let srtt = |copies: u8, copy| {
        let mut client = Client::new("temper");
        let handshake = client.begin(SERVER);
        client.leaves(handshake, false);
        for _ in 1..copies {
            client.repeated(handshake);
        }
        client.now += ms(300);
        client.endpoint.flight_answered(client.now, handshake, copy);
        client.srtt()
    };
    assert_eq!(srtt(1, Some(0)), Some(ms(300)));
    assert_eq!(srtt(3, Some(2)), Some(ms(300)));
    assert_eq!(srtt(1, None), None, "its sender may have taken its time");
    assert_eq!(srtt(3, None), None, "Karn's rule");
}

#[test]
fn a_handshake_occupies_one_slot_from_its_first_flight_to_its_end() {
    let mut client = Client::new("default");
    let handshake = client.begin(SERVER);
    assert_eq!(client.flights.len(), 1);
    client.leaves(handshake, false);
    client.ask();
    client.now += ms(50);
    client.endpoint.flight_answered(client.now, handshake, Some(0));
    client.drain();
    client.leaves(handshake, false);
    let outstanding = |client: &Client| client.endpoint.snapshot(&SERVER).expect("known").outstanding;
    assert_eq!((client.left.len(), outstanding(&client)), (0, 1));
    client.now += ms(50);
    client.endpoint.handshake_over(client.now, handshake, None);
    client.drain();
    assert_eq!((client.left.len(), outstanding(&client)), (1, 1));
}

#[test]
fn a_handshake_waits_for_the_slot_of_an_exchange() {
    let mut client = Client::new("default");
    client.ask();
    let handshake = client.begin(SERVER);
    assert_eq!((client.left.len(), client.flights.len()), (1, 0));
    // The answer to a flight not sent must not be reported.
    client.leaves(handshake, false);
    client.endpoint.flight_answered(client.now, handshake, Some(0));
    client.now += ms(50);
    let answer = wire::piggybacked(&client.left[0].1, Code::CONTENT);
    client.endpoint.handle(client.now, Input::datagram(SERVER, &answer)).expect("drained");
    client.drain();
    assert_eq!(client.flights.len(), 1);
}

#[test]
fn one_that_never_gets_its_turn_fails() {
    let config = EndpointConfig { queue_lifetime: s(5), ..EndpointConfig::default() };
    let mut client = Client::of(config, "default");
    client.ask();
    let handshake = client.begin(SERVER);
    while client.failed.is_empty() {
        client.now = client.drain().expect("both end");
    }
    assert_eq!(client.failed, [(handshake, Failure::QueueExpired)]);
}

#[test]
fn handshakes_with_many_hosts_of_one_path_wait_for_its_window() {
    let mut client = Client::new("temper");
    client.endpoint.share_paths(Box::new(|_| Some(PathKey::new(0, 64))));
    let handshakes: Vec<_> = (0..20).map(|peer| client.begin(100 + peer)).collect();
    assert_eq!(client.flights.len(), 4);
    for handshake in handshakes {
        client.leaves(handshake, false);
    }
    let (_, first) = client.flights[0];
    client.now += ms(200);
    client.endpoint.flight_answered(client.now, first, Some(0));
    client.drain();
    assert_eq!(client.flights.len(), 4, "it goes on with its next flight");
    client.endpoint.handshake_over(client.now, first, None);
    client.drain();
    assert_eq!(client.flights.len(), 5);
}

#[test]
fn no_message_answers_a_flight_and_a_session_that_is_over_ends_no_handshake() {
    let mut client = Client::new("default");
    let handshake = client.begin(SERVER);
    client.leaves(handshake, false);
    let snapshot = client.endpoint.snapshot(&SERVER);
    for id in 0..=u16::MAX {
        let [high, low] = id.to_be_bytes();
        for ty in [0x60, 0x70] {
            client.endpoint.handle(client.now, Input::datagram(SERVER, &[ty, 0, high, low])).expect("drained");
            client.drain();
        }
    }
    client.endpoint.lose_peer(client.now, &SERVER);
    client.drain();
    assert_eq!(client.endpoint.snapshot(&SERVER), snapshot);
    client.endpoint.handle(client.now, Input::Unreachable { peer: SERVER, quoted: None }).expect("drained");
    client.drain();
    assert_eq!(client.failed, [(handshake, Failure::Unreachable)], "nobody is there");
    client.assert_nothing_is_left();
}

#[test]
fn an_early_retransmission_backs_off_as_a_timed_out_one() {
    let mut client = Client::new("cocoa");
    let handshake = client.begin(SERVER);
    client.leaves(handshake, false);
    client.leaves(handshake, true);
    let wait = client.repeated(handshake);
    assert!(wait >= s(2), "{wait:?}");
}
