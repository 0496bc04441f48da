//! Replays the fuzz target's seeds: earlier findings and the initial corpus.

#[path = "../../../../fuzz/bodies/credentials.rs"]
mod body;
#[path = "../../../conche-proto/tests/common/replay.rs"]
mod replay;

#[test]
fn every_seed_of_the_credentials_target_passes() {
    replay::replay("credentials", 10, body::run);
}
