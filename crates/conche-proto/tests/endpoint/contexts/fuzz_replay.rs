//! Replays the seeds of the fuzz targets.

#[cfg(feature = "edhoc")]
#[path = "../../../../../fuzz/bodies/edhoc.rs"]
mod edhoc;
#[path = "../../../../../fuzz/bodies/oscore_endpoints.rs"]
mod oscore_endpoints;
#[path = "../../../../../fuzz/bodies/oscore_ends.rs"]
mod oscore_ends;
#[path = "../../../../../fuzz/bodies/oscore_message.rs"]
mod oscore_message;
#[path = "../../../../../fuzz/bodies/oscore_option.rs"]
mod oscore_option;

use crate::replay::replay;
use proptest::prelude::*;

#[test]
fn every_seed_of_the_option_target_passes() {
    replay("oscore_option", 20, oscore_option::run);
}

#[test]
fn every_seed_of_the_message_target_passes() {
    replay("oscore_message", 20, oscore_message::run);
}

#[test]
fn every_seed_of_the_endpoints_target_passes() {
    replay("oscore_endpoints", 20, oscore_endpoints::run);
}

#[cfg(feature = "edhoc")]
#[test]
fn every_seed_of_the_edhoc_target_passes() {
    replay("edhoc", 20, edhoc::run);
}

#[cfg(feature = "edhoc")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn edhoc_under_any_attack_script_completes_with_trusted_peers_only(
        script in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        edhoc::run(&script);
    }
}

proptest! {
    #[test]
    fn oscore_under_any_attack_script_accepts_no_forgery_and_reuses_no_nonce(
        script in prop::collection::vec(any::<u8>(), 0..1_500),
    ) {
        oscore_endpoints::run(&script);
    }
}
