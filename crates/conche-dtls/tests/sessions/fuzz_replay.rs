//! Replays the seeds of the fuzz targets.

#[path = "../../../../fuzz/bodies/sessions.rs"]
mod body;
#[path = "../../../../fuzz/bodies/session_records.rs"]
mod records;
#[path = "../../../conche-proto/tests/common/replay.rs"]
mod replay;

#[test]
fn every_seed_of_the_sessions_target_passes() {
    replay::replay("sessions", 10, body::run);
}

#[test]
fn every_seed_of_the_session_records_target_passes() {
    replay::replay("session_records", 6, records::run);
}
