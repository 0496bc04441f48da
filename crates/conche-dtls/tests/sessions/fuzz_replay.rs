//! The seeds of the fuzz target, replayed: what fuzzing once found, and the corpus that it starts from, stay sound.

#[path = "../../../../fuzz/bodies/sessions.rs"]
mod body;
#[path = "../../../conche-proto/tests/common/replay.rs"]
mod replay;

#[test]
fn every_seed_of_the_sessions_target_passes() {
    replay::replay("sessions", 10, body::run);
}
