//! The seeds of the fuzz targets, replayed.

#[path = "../../../../fuzz/bodies/oscore_message.rs"]
mod oscore_message;
#[path = "../../../../fuzz/bodies/oscore_option.rs"]
mod oscore_option;
#[path = "../common/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn every_seed_of_the_option_target_passes() {
    replay("oscore_option", oscore_option::run);
}

#[test]
fn every_seed_of_the_message_target_passes() {
    replay("oscore_message", oscore_message::run);
}
