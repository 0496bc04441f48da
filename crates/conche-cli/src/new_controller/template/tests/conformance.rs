//! The conformance suite of all controllers. A failed test prints the shortest plan of events that
//! fails.

use conche_conformance::{Bounds, suite};
use twice_peak::TwicePeak;

#[test]
fn it_keeps_its_promises() {
    suite::keeps_its_promises(&TwicePeak, Bounds::default());
}

#[test]
fn it_recovers() {
    suite::recovers(&TwicePeak, Bounds::default());
}

#[test]
fn it_slows_down_under_total_loss() {
    suite::slows_down_under_total_loss(&TwicePeak);
}
