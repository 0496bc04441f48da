//! What must hold for every controller, whatever happens.

mod model;

use core::time::Duration;

use conche_cc::any::{ALL, AnyController, Named};
use conche_cc::bdp::Bdp;
use conche_cc::cocoa::Cocoa;
use conche_cc::control::{Abandoned, Expired, Load, Sent, Why};
use conche_cc::linux::Linux;
use conche_cc::{Controller, Instant};
use model::{Endpoint, Plan, Promises, plans};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// The exceptions among the algorithms, all of them documented where they are defined.
fn promises(named: &Named) -> Promises {
    Promises {
        cap: Duration::from_secs(if named.name == "linux" { 120 } else { 60 }),
        backoff_never_shrinks: !named.name.starts_with("fasor"),
    }
}

/// Failures are noted beside this file, and tried first the next time.
fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::Direct("tests/conformance.regressions");
    ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Timers and RTOs are within their bounds, backoff does not shrink, nobody waits for an event that cannot come or for a
    /// time that has passed, asking changes nothing, and the same events give the same answers.
    #[test]
    fn every_controller_keeps_its_promises(plan in plans()) {
        for named in ALL {
            let controller = named.controller();
            let trace = || {
                let mut endpoint = Endpoint::new(&controller, promises(named), &plan);
                endpoint.run(&plan);
                endpoint.trace
            };
            prop_assert_eq!(trace(), trace(), "{} is not deterministic", named.name);
        }
    }

    /// Whatever has happened, 200 clean exchanges bring the RTO back to where a blind one starts, or below.
    #[test]
    fn every_controller_recovers(mut plan in plans()) {
        // Time for 200 exchanges must be left.
        plan.start = plan.start.min(u64::MAX / 2);
        for named in ALL.iter().filter(|named| named.name != "semi-dynamic") {
            let controller = named.controller();
            let mut endpoint = Endpoint::new(&controller, promises(named), &plan);
            endpoint.run(&plan);
            let base = endpoint.heal(200, Duration::from_millis(200));
            prop_assert!(base <= Duration::from_secs(2), "{}: an RTO of {:?}", named.name, base);
        }
    }

    /// Dispatch at run time changes nothing.
    #[test]
    fn an_enum_of_controllers_answers_as_they_do(plan in plans()) {
        fn trace<C: Controller>(controller: &C, plan: &Plan) -> String {
            let promises = Promises { cap: Duration::from_secs(120), backoff_never_shrinks: true };
            let mut endpoint = Endpoint::new(controller, promises, plan);
            endpoint.run(plan);
            endpoint.trace
        }
        prop_assert_eq!(trace(&Cocoa::default(), &plan), trace(&AnyController::from(Cocoa::default()), &plan));
        prop_assert_eq!(trace(&Linux::default(), &plan), trace(&AnyController::from(Linux::default()), &plan));
        prop_assert_eq!(trace(&Bdp::default(), &plan), trace(&AnyController::from(Bdp::default()), &plan));
    }

    /// Neither does wrapping a controller from outside, as `AnyController` holds it.
    #[test]
    #[cfg(feature = "alloc")]
    fn a_wrapped_controller_answers_as_it_does_and_keeps_its_promises(plan in plans()) {
        use conche_cc::dynamic::DynController;
        for named in ALL {
            let (bare, wrapped) = (named.controller(), AnyController::from(DynController::new(named.controller())));
            let trace = |controller: &AnyController| {
                let mut endpoint = Endpoint::new(controller, promises(named), &plan);
                endpoint.run(&plan);
                endpoint.trace
            };
            prop_assert_eq!(trace(&bare), trace(&wrapped), "{}", named.name);
        }
    }
}

/// The gaps between the copies of `exchanges` consecutive exchanges of which nothing is ever acknowledged.
fn gaps_under_total_loss(controller: &AnyController, exchanges: usize) -> Vec<Vec<Duration>> {
    let mut now = Instant::from_millis(1_000);
    let mut peer = controller.peer(now);
    let mut all = Vec::new();
    for _ in 0..exchanges {
        let (mut flight, mut sent, mut gaps) = (Default::default(), Vec::new(), Vec::new());
        for attempt in 0..=4 {
            let (confirmable, bytes, random, load) = (true, 60, 0, Load::default());
            sent.push(now);
            let event = Sent { now, attempt, confirmable, bytes, random, load };
            let timer = controller.sent(&mut peer, &mut flight, &event);
            now += timer;
            gaps.push(timer);
            if attempt < 4 {
                now = controller.expired(&mut peer, &mut flight, &Expired { now, attempt, load });
            }
        }
        let event = Abandoned { now, why: Why::GaveUp, sent: &sent, load: Load::default() };
        controller.abandoned(&mut peer, &flight, &event);
        all.push(gaps);
    }
    all
}

/// Within four timers the rate falls by half or more, and the next exchange does not make up for it. BDP-CoAP has no
/// backoff, as printed: it leaves that to its pacing, and to the flag for who wants it.
#[test]
fn the_rate_falls_under_total_loss() {
    let with_backoff = AnyController::from(Bdp { binary_backoff: true, ..Bdp::default() });
    let printed_without = |named: &&Named| named.name.starts_with("bdp");
    let others = ALL.iter().filter(|named| !printed_without(named)).map(|named| (named.name, named.controller()));
    for (name, controller) in others.chain([("bdp with backoff", with_backoff)]) {
        let exchanges = gaps_under_total_loss(&controller, 5);
        for gaps in &exchanges {
            let (first, last) = (gaps[0], gaps[4]);
            let low_already = first.max(last) >= Duration::from_secs(32);
            assert!(last >= first * 2 || low_already, "{name}: from {first:?} to {last:?}");
        }
        let total = |gaps: &Vec<Duration>| gaps.iter().sum::<Duration>();
        let (first, last) = (total(&exchanges[0]), total(&exchanges[4]));
        assert!(last >= first, "{name}: five copies in {first:?} at first, in {last:?} later");
    }
    for named in ALL.iter().filter(printed_without) {
        let gaps = gaps_under_total_loss(&named.controller(), 1).remove(0);
        assert!(gaps.iter().all(|gap| *gap == gaps[0]), "{}: its documentation says otherwise", named.name);
    }
}

/// ComMag'16, Table 1.
#[test]
fn no_peer_takes_more_bytes_than_published() {
    let published: Vec<_> =
        ALL.iter().filter_map(|named| Some((named, usize::from(named.features.published_bytes?)))).collect();
    assert!(published.len() >= 6, "the table has six rows");
    for (named, bytes) in published {
        assert!(named.features.peer_bytes <= bytes, "{}: {} bytes", named.name, named.features.peer_bytes);
    }
}
