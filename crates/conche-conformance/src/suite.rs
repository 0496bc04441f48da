//! Properties of every controller. Violations panic with the shortest plan of events.

use core::fmt::Debug;
use core::time::Duration;

use conche_cc::control::{AbandonReason, Abandoned, Expired, Load, Sent};
use conche_cc::features::Features;
use conche_cc::{Controller, Instant};
use proptest::test_runner::{Config, TestError, TestRunner};

use crate::Bounds;
use crate::checks::{Check, violations};
use crate::model::{Endpoint, Plan, plans};
use crate::quiet;

/// Runs every [`Check`] that applies to an algorithm with these features.
///
/// # Panics
/// With the name and the problem of each violated check.
pub fn conforms<C: Controller>(controller: &C, features: &Features, bounds: Bounds) {
    let violations = violations(controller, features, bounds);
    let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
    let applied = Check::ALL.iter().filter(|check| check.exemption(features).is_none()).count();
    assert!(lines.is_empty(), "{} of {applied} checks failed:\n{}", lines.len(), lines.join("\n"));
}

/// Checks that timers and RTOs keep their bounds, backoff does not shrink, admission waits for no
/// impossible event or past time, queries change nothing, and equal events give equal results.
///
/// # Panics
/// If a plan violates this.
pub fn keeps_its_promises<C: Controller>(controller: &C, bounds: Bounds) {
    under_any_plan(|plan| {
        let traces = [trace(controller, bounds, plan), trace(controller, bounds, plan)];
        assert!(traces[0] == traces[1], "not deterministic: {}", difference(&traces));
    });
}

/// Checks that after any plan 200 clean exchanges bring the RTO back to at most its initial value.
///
/// # Panics
/// If a plan violates this.
pub fn recovers<C: Controller>(controller: &C, bounds: Bounds) {
    under_any_plan(|plan| {
        // Leaves time for 200 exchanges.
        let plan = Plan { start: plan.start.min(u64::MAX / 2), ..plan.clone() };
        let mut endpoint = Endpoint::new(controller, bounds, &plan);
        endpoint.run(&plan);
        let base = endpoint.heal(200, Duration::from_millis(200));
        assert!(base <= Duration::from_secs(2), "after 200 clean exchanges the RTO is {base:?}");
    });
}

/// Checks that within four timers the rate falls at least by half, and stays there.
///
/// # Panics
/// If it does not.
pub fn slows_down_under_total_loss<C: Controller>(controller: &C) {
    let exchanges = gaps_under_total_loss(controller, 5);
    for gaps in &exchanges {
        let (first, last) = (gaps[0], gaps[4]);
        let low_already = first.max(last) >= Duration::from_secs(32);
        assert!(last >= first * 2 || low_already, "the gap between copies goes from {first:?} to {last:?} only");
    }
    let total = |gaps: &Vec<Duration>| gaps.iter().sum::<Duration>();
    let (first, last) = (total(&exchanges[0]), total(&exchanges[4]));
    assert!(last >= first, "five copies in {first:?} at first, in {last:?} later");
}

/// Returns the gaps between the five transmissions of each of several unacknowledged exchanges.
pub fn gaps_under_total_loss<C: Controller>(controller: &C, exchanges: usize) -> Vec<Vec<Duration>> {
    let mut now = Instant::from_millis(1_000);
    let mut peer = controller.peer(now);
    let mut all = Vec::new();
    for _ in 0..exchanges {
        let (mut flight, mut sent, mut gaps) = (C::Flight::default(), Vec::new(), Vec::new());
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
        let event = Abandoned { now, reason: AbandonReason::GaveUp, sent: &sent, load: Load::default() };
        controller.abandoned(&mut peer, &flight, &event);
        all.push(gaps);
    }
    all
}

/// Checks that two controllers give equal results under all plans.
///
/// # Panics
/// If a plan violates this.
pub fn answer_alike<A: Controller + Debug, B: Controller>(one: &A, other: &B, bounds: Bounds) {
    under_any_plan(|plan| {
        let traces = [trace(one, bounds, plan), trace(other, bounds, plan)];
        assert!(traces[0] == traces[1], "{one:?} is answered for otherwise: {}", difference(&traces));
    });
}

fn trace<C: Controller>(controller: &C, bounds: Bounds, plan: &Plan) -> String {
    let mut endpoint = Endpoint::new(controller, bounds, plan);
    endpoint.run(plan);
    endpoint.trace
}

/// Returns the first different line of two traces.
fn difference(traces: &[String; 2]) -> String {
    let mut lines = traces.each_ref().map(|trace| trace.lines());
    loop {
        match lines.each_mut().map(Iterator::next) {
            [None, None] => return "in nothing".to_owned(),
            [one, other] if one == other => {}
            both => return both.map(|line| line.unwrap_or("nothing")).join(", or "),
        }
    }
}

fn under_any_plan(check: impl Fn(&Plan)) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let outcome = quiet::quietly(|| {
        runner.run(&plans(), |plan| {
            check(&plan);
            Ok(())
        })
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, plan)) => {
            let (problem, plan) = shortened(format!("{reason}{}", quiet::place()), plan, check);
            panic!("{problem}\n{plan}");
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// Removes each event without which a plan still fails: the runner removes none after it has made
/// others smaller.
fn shortened(mut problem: String, mut plan: Plan, check: impl Fn(&Plan)) -> (String, Plan) {
    let mut place = 0;
    while place < plan.steps.len() {
        let mut shorter = plan.clone();
        shorter.steps.remove(place);
        match quiet::panic_message(|| check(&shorter)) {
            Some(found) => (problem, plan, place) = (found, shorter, 0),
            None => place += 1,
        }
    }
    (problem, plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use conche_cc::bdp::Bdp;
    use conche_cc::cocoa::Cocoa;
    use conche_cc::wiopt::SemiDynamic;

    fn refused(test: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let panic = std::panic::catch_unwind(test).expect_err("a promise is not kept");
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn a_timer_beyond_the_cap_is_found() {
        let bounds = Bounds { cap: Duration::from_secs(30), ..Bounds::default() };
        let said = refused(move || keeps_its_promises(&Cocoa::default(), bounds));
        assert!(said.contains("timer of") || said.contains("RTO of"), "{said}");
    }

    #[test]
    fn a_violation_is_a_message_of_a_few_lines() {
        let bounds = Bounds { cap: Duration::from_secs(30), ..Bounds::default() };
        let said = refused(move || keeps_its_promises(&Cocoa::default(), bounds));
        let [problem, plan, steps @ ..] = &*said.lines().collect::<Vec<_>>() else { panic!("{said}") };
        assert!(problem.contains("30s") && plan.starts_with("with these events, from "), "{said}");
        assert!(!steps.is_empty() && steps.len() < 40 && steps[0].starts_with("  Submit"), "{said}");
    }

    #[test]
    fn an_rto_that_stays_high_is_found() {
        let said = refused(|| recovers(&SemiDynamic::default(), Bounds::default()));
        assert!(said.contains("after 200 clean exchanges"), "{said}");
    }

    #[test]
    fn copies_at_an_even_pace_are_found() {
        let said = refused(|| slows_down_under_total_loss(&Bdp::default()));
        assert!(said.contains("the gap between copies"), "{said}");
    }

    #[test]
    fn different_answers_are_found() {
        let said = refused(|| answer_alike(&Cocoa::default(), &Bdp::default(), Bounds::default()));
        assert!(said.contains("answered for otherwise"), "{said}");
    }
}
