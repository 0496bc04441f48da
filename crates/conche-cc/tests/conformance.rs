//! The conformance suite, applied to every controller.

use core::time::Duration;

use conche_cc::AnyController;
use conche_cc::any::{ALL, Named};
use conche_cc::bdp::Bdp;
use conche_cc::cocoa::{Cocoa, CocoaPlusPlus};
use conche_cc::linux::Linux;
use conche_cc::parameters::{Parameters, Range, Value};
use conche_cc::temper::Temper;
use conche_conformance::{Bounds, checks, suite};

#[allow(dead_code, reason = "its row in the feature table")]
#[path = "../../conche-cli/src/new_controller/template/full/lib.rs"]
mod full_template;
#[allow(dead_code, reason = "its row in the feature table")]
#[path = "../../conche-cli/src/new_controller/template/src/lib.rs"]
mod rule_template;

/// The exceptions, each documented by its algorithm.
fn bounds(named: &Named) -> Bounds {
    Bounds {
        cap: Duration::from_secs(if named.name() == "linux" { 120 } else { 60 }),
        backoff_never_shrinks: !["fasor", "fasor-pseudo", "mrp", "cocoa-plus-plus"].contains(&named.name()),
    }
}

/// With the exemptions that [`Check::exemption`](conche_conformance::Check::exemption) derives from
/// the feature table.
#[test]
fn every_controller_passes_all_checks_that_apply_to_its_features() {
    let failed: Vec<_> = ALL
        .iter()
        .flat_map(|named| {
            let violations = checks::violations(&named.controller(), &named.features, bounds(named));
            violations.into_iter().map(move |violation| format!("{}: {violation}", named.name()))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Each parameter of temper alone, then all of them, at either end of its range.
#[test]
fn temper_keeps_its_promises_with_extreme_parameters() {
    let ends = |range| match range {
        Range::Span(min, max) => [min, max].map(Value::Span),
        Range::Factor(min, max) => [min, max].map(Value::Factor),
        Range::Count(min, max) => [min, max].map(Value::Count),
        other => panic!("{other:?} has no ends"),
    };
    let bounds = Bounds { cap: Duration::from_secs(600), ..Bounds::default() };
    for end in [0, 1] {
        let mut all = Temper::default();
        for (index, (description, _)) in AnyController::from(all).parameters().enumerate() {
            let value = ends(description.range)[end];
            let mut one = Temper::default();
            assert!(one.assign(index, value) && all.assign(index, value), "{} = {value}", description.name);
            suite::keeps_its_promises(&one, bounds);
        }
        suite::keeps_its_promises(&all, bounds);
    }
}

#[test]
fn an_enum_of_controllers_answers_as_they_do() {
    let bounds = Bounds { cap: Duration::from_secs(120), ..Bounds::default() };
    suite::answer_alike(&Cocoa::default(), &AnyController::from(Cocoa::default()), bounds);
    suite::answer_alike(&Linux::default(), &AnyController::from(Linux::default()), bounds);
    suite::answer_alike(&Bdp::default(), &AnyController::from(Bdp::default()), bounds);
}

#[test]
#[cfg(feature = "alloc")]
fn a_wrapped_controller_answers_as_it_does_and_keeps_its_promises() {
    use conche_cc::dynamic::DynController;
    for named in ALL {
        let wrapped = AnyController::from(DynController::new(named.controller()));
        suite::answer_alike(&named.controller(), &wrapped, bounds(named));
    }
}

/// A rule as an `RtoRule` equals a hand-written implementation of the full trait.
#[test]
fn a_rule_answers_as_the_same_algorithm_with_the_full_trait() {
    let (mut full, mut rule) = (full_template::TwicePeak::default(), rule_template::TwicePeak::default());
    suite::answer_alike(&full, &rule, Bounds::default());
    full.set("factor", "3").expect("a parameter");
    rule.set("factor", "3").expect("a parameter");
    assert_eq!((full.factor.permille(), rule.factor.permille()), (3_000, 3_000));
    suite::answer_alike(&full, &rule, Bounds::default());
}

/// BDP-CoAP as printed has pacing instead of backoff; `binary_backoff` adds it. Without a delay
/// gradient, CoCoA++ shrinks its timers.
#[test]
fn the_rate_falls_under_total_loss() {
    let printed_without = |named: &&Named| named.name().starts_with("bdp");
    suite::slows_down_under_total_loss(&Bdp { binary_backoff: true, ..Bdp::default() });
    for named in ALL.iter().filter(printed_without) {
        let gaps = suite::gaps_under_total_loss(&named.controller(), 1).remove(0);
        assert!(gaps.iter().all(|gap| *gap == gaps[0]), "{}: its documentation says otherwise", named.name());
    }
    let gaps = suite::gaps_under_total_loss(&CocoaPlusPlus::default(), 1).remove(0);
    assert!(gaps.is_sorted_by(|one, next| next < one), "{gaps:?}");
}

/// ComMag'16, Table 1.
#[test]
fn no_peer_takes_more_bytes_than_published() {
    let published: Vec<_> =
        ALL.iter().filter_map(|named| Some((named, usize::from(named.features.published_bytes?)))).collect();
    assert!(published.len() >= 6, "the table has six rows");
    for (named, bytes) in published {
        assert!(named.features.peer_bytes <= bytes, "{}: {} bytes", named.name(), named.features.peer_bytes);
    }
}
