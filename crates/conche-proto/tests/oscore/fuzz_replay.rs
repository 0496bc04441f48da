//! The seeds of the fuzz targets, replayed.

#[path = "../../../../fuzz/bodies/oscore_endpoints.rs"]
mod oscore_endpoints;
#[path = "../../../../fuzz/bodies/oscore_message.rs"]
mod oscore_message;
#[path = "../../../../fuzz/bodies/oscore_option.rs"]
mod oscore_option;
#[path = "../common/replay.rs"]
mod replay;

use proptest::prelude::*;
use replay::replay;

#[test]
fn every_seed_of_the_option_target_passes() {
    replay("oscore_option", oscore_option::run);
}

#[test]
fn every_seed_of_the_message_target_passes() {
    replay("oscore_message", oscore_message::run);
}

#[test]
fn every_seed_of_the_endpoints_target_passes() {
    replay("oscore_endpoints", oscore_endpoints::run);
}

proptest! {
    #[test]
    fn whatever_happens_between_two_endpoints_nobody_is_fooled_and_no_nonce_is_used_twice(
        script in prop::collection::vec(any::<u8>(), 0..1_500),
    ) {
        oscore_endpoints::run(&script);
    }
}
