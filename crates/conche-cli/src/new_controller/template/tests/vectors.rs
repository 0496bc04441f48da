//! Checks the controller against the event traces in `vectors.json`.

use conche_conformance::vectors::{check_with, run};
use twice_peak::TwicePeak;

#[test]
fn every_vector_passes() {
    let report = check_with(include_str!("vectors.json"), |vector| run(TwicePeak::default(), vector)).expect("a file of vectors");
    let failures: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
