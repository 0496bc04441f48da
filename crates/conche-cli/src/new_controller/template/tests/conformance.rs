//! The conformance suite of all controllers. A failure names each violated check with the shortest
//! events that violate it. `FEATURES` determines the checks that apply.

use conche_conformance::{Bounds, suite};
use twice_peak::{FEATURES, TwicePeak};

#[test]
fn it_conforms() {
    suite::conforms(&TwicePeak::default(), &FEATURES, Bounds::default());
}
