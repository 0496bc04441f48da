//! The safety envelope around deliberately broken controllers.

use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::cc::cocoa::CocoaPlusPlus;
use conche_proto::cc::control::{
    Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission,
};
use conche_proto::cc::dynamic::DynController;
use conche_proto::cc::path_history::PathHistory;
use conche_proto::codec::Code;
use conche_proto::{EndpointConfig, Envelope, Failure, Instant, Reliability};

use crate::support::{CLIENT, SERVER, World, end_of, ms, request, request_with_payload, s};

#[derive(Clone, Copy, Debug)]
struct Stubborn {
    admission: fn(Instant) -> Admission,
    timeout: fn(u8) -> Duration,
    departure: fn(Instant) -> Instant,
}

const HARMLESS: Stubborn = Stubborn {
    admission: |_| Admission::Send,
    timeout: |attempt| Duration::from_secs(2 << attempt.min(4)),
    departure: |now| now,
};

impl Controller for Stubborn {
    type Peer = ();
    type Flight = ();

    fn measures_rtt(&self) -> bool {
        false
    }

    fn peer(&self, _now: Instant) {}

    fn seed(&self, _now: Instant, _history: &PathHistory) {}

    fn admit(&self, (): &mut (), now: Instant, _message: &Submission, _load: &Load) -> Admission {
        (self.admission)(now)
    }

    fn sent(&self, (): &mut (), (): &mut (), event: &Sent) -> Duration {
        (self.timeout)(event.attempt)
    }

    fn expired(&self, (): &mut (), (): &mut (), event: &Expired) -> Instant {
        (self.departure)(event.now)
    }

    fn acknowledged(&self, (): &mut (), (): &(), _event: &Acknowledged<'_>) {}

    fn abandoned(&self, (): &mut (), (): &(), _event: &Abandoned<'_>) {}

    fn drained(&self, (): &mut (), _now: Instant, _load: &Load) {}

    fn base(&self, (): &mut (), _now: Instant) -> Duration {
        (self.timeout)(0)
    }

    fn snapshot(&self, (): &()) -> Snapshot {
        Snapshot::default()
    }
}

impl From<Stubborn> for AnyController {
    fn from(stubborn: Stubborn) -> Self {
        DynController::new(stubborn).into()
    }
}

/// Also returns the end.
fn black_hole(config: &EndpointConfig, controller: impl Into<AnyController>) -> (Vec<Duration>, Duration, Failure) {
    let mut world = World::client_of(config, controller.into());
    let asked = world.request(request(Code::GET, "/test"));
    world.run_to_end();
    let departures = world.departures(asked);
    let (at, end) = end_of(world.events(CLIENT), asked).expect("it ends");
    let gaps = departures.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (gaps, at - Instant::ZERO, end.expect_err("nobody answers"))
}

#[test]
fn a_timeout_of_zero_is_raised_to_the_floor() {
    let (gaps, end, failure) =
        black_hole(&EndpointConfig::default(), Stubborn { timeout: |_| Duration::ZERO, ..HARMLESS });
    assert_eq!((gaps, end, failure), (vec![ms(100); 4], ms(500), Failure::TimedOut));
}

#[test]
fn a_huge_timeout_is_cut_to_the_cap() {
    let huge = Stubborn { timeout: |_| Duration::MAX, ..HARMLESS };
    let (gaps, end, failure) = black_hole(&EndpointConfig::default(), huge);
    // A retransmission after 60 s would be outside MAX_TRANSMIT_SPAN.
    assert_eq!((gaps, end, failure), (vec![], s(60), Failure::TimedOut));
}

#[test]
fn without_a_cap_nothing_is_awaited_beyond_exchange_lifetime() {
    let config = EndpointConfig { envelope: Envelope::open(Duration::MAX), ..EndpointConfig::default() };
    let (_, end, failure) = black_hole(&config, Stubborn { timeout: |_| Duration::MAX, ..HARMLESS });
    assert_eq!((end, failure), (s(247), Failure::TimedOut));
}

#[test]
fn a_backoff_that_shrinks_is_held() {
    let shrinking = Stubborn { timeout: |attempt| ms(4_000 >> attempt), ..HARMLESS };
    let (gaps, ..) = black_hole(&EndpointConfig::default(), shrinking);
    assert_eq!(gaps, vec![s(4); 4]);
}

#[test]
fn an_open_envelope_leaves_the_backoff_to_the_controller() {
    let config = EndpointConfig { envelope: Envelope::open(s(60)), ..EndpointConfig::default() };
    let (gaps, ..) = black_hole(&config, Stubborn { timeout: |attempt| ms(4_000 >> attempt), ..HARMLESS });
    assert_eq!(gaps, [4_000, 2_000, 1_000, 500].map(ms));
}

/// Without samples, CoCoA++ shrinks an expired timer by 0.7.
#[test]
fn an_open_envelope_lets_the_timers_of_cocoa_plus_plus_shrink() {
    let open = EndpointConfig { envelope: Envelope::open(s(60)), ..EndpointConfig::default() };
    let [held, shrunk] = [EndpointConfig::default(), open].map(|config| {
        let (gaps, ..) = black_hole(&config, CocoaPlusPlus::default());
        gaps.into_iter().map(|gap| gap.as_micros()).collect::<Vec<_>>()
    });
    assert_eq!(held, [held[0]; 4]);
    assert_eq!((shrunk.len(), shrunk[0]), (4, held[0]));
    assert!(shrunk.windows(2).all(|pair| pair[1] == pair[0] * 7 / 10), "{shrunk:?}");
}

#[test]
fn waiting_for_an_event_that_cannot_come_ends_at_once() {
    let waiting = Stubborn { admission: |_| Admission::OnEvent, ..HARMLESS };
    let mut world = World::pair_of(&EndpointConfig::default(), &waiting.into(), 1);
    let asked: Vec<_> = (0..10).map(|_| world.request(request(Code::GET, "/test"))).collect();
    world.run(s(1));
    for id in asked {
        assert!(end_of(world.events(CLIENT), id).is_some_and(|(_, end)| end.is_ok()));
    }
}

#[test]
fn a_departure_in_the_past_is_now() {
    let past = Stubborn { admission: |_| Admission::At(Instant::ZERO), departure: |_| Instant::ZERO, ..HARMLESS };
    let mut world = World::client_of(&EndpointConfig::default(), past.into());
    world.now = Instant::ZERO + s(1_000);
    let asked = world.request(request(Code::GET, "/test"));
    world.run_to_end();
    assert_eq!(world.departures(asked).len(), 5);
}

#[test]
fn a_departure_in_the_far_future_expires_in_the_queue() {
    let never = Stubborn { admission: |_| Admission::At(Instant::FAR_FUTURE), ..HARMLESS };
    let (gaps, end, failure) = black_hole(&EndpointConfig::default(), never);
    // A pause may exceed the queue lifetime by EXCHANGE_LIFETIME.
    assert_eq!((gaps, end, failure), (vec![], s(60 + 247), Failure::QueueExpired));
}

#[test]
fn a_retransmission_in_the_far_future_is_none() {
    let never = Stubborn { departure: |_| Instant::FAR_FUTURE, ..HARMLESS };
    let (gaps, end, failure) = black_hole(&EndpointConfig::default(), never);
    assert_eq!((gaps, end, failure), (vec![], s(2), Failure::TimedOut));
}

#[test]
fn a_delayed_retransmission_that_is_overslept_does_not_leave_outside_the_span() {
    let delayed = Stubborn { departure: |now| now + s(10), ..HARMLESS };
    let mut world = World::client_of(&EndpointConfig::default(), delayed.into());
    let asked = world.request(request(Code::GET, "/test"));
    world.run(s(5));
    world.sleep(s(60));
    world.run_to_end();
    assert_eq!(world.departures(asked), [Instant::ZERO], "it was due 12 s after the first, and 65 s is too late");
    let (_, end) = end_of(world.events(CLIENT), asked).expect("it ends");
    assert_eq!(end.map(|_| ()), Err(Failure::TimedOut));
}

#[test]
fn a_controller_that_lets_everything_through_keeps_to_nstart_and_probing_rate() {
    const WINDOW: u64 = 10_000;
    let admissions: [fn(Instant) -> Admission; 3] =
        [|_| Admission::Send, |_| Admission::At(Instant::ZERO), |_| Admission::SendConfirmable];
    for admission in admissions {
        let unbridled = Stubborn { admission, ..HARMLESS };
        let mut world = World::client_of(&EndpointConfig::default(), unbridled.into());
        while world.now.as_millis() < WINDOW * 1_000 {
            let post = request_with_payload(Code::POST, "/t", 100).with_reliability(Reliability::NeverConfirmable);
            world.request_to(SERVER, post);
            world.run(s(59));
        }
        let bytes: usize = world.sent.iter().map(|datagram| datagram.bytes.len() + 28).sum();
        assert!(bytes as u64 <= WINDOW + 200, "{bytes} bytes in {WINDOW} s");
        assert!(bytes as u64 >= WINDOW / 2, "{bytes} bytes: what is allowed is used");
    }
}
