//! Random runs of two endpoints, including the seeds of fuzzing.

#[path = "../../../../fuzz/bodies/hostile_endpoint.rs"]
mod hostile_endpoint;

use proptest::prelude::*;

use crate::replay::replay;

#[test]
fn every_seed_of_the_hostile_endpoint_target_passes() {
    replay("hostile_endpoint", 20, hostile_endpoint::run);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_limits_applications_and_attackers_do_nothing_panics_and_nothing_is_left(
        seed in any::<[u8; 8]>(),
        choices in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        hostile_endpoint::run(&[&seed[..], &choices].concat());
    }
}
