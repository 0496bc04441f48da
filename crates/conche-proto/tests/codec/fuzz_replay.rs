//! Replays the seeds of the fuzz targets: the initial corpus and past findings.

#[path = "../../../../fuzz/bodies/decode.rs"]
mod decode;
#[path = "../../../../fuzz/bodies/link_format.rs"]
mod link_format;
#[path = "../common/replay.rs"]
mod replay;
#[path = "../../../../fuzz/bodies/roundtrip.rs"]
mod roundtrip;
#[path = "../../../../fuzz/bodies/uri.rs"]
mod uri;

use replay::replay;

#[test]
fn every_seed_of_the_decode_target_passes() {
    replay("decode", 20, decode::run);
}

#[test]
fn every_seed_of_the_roundtrip_target_passes() {
    replay("roundtrip", 20, roundtrip::run);
}

#[test]
fn every_seed_of_the_link_format_target_passes() {
    replay("link_format", 20, link_format::run);
}

#[test]
fn every_seed_of_the_uri_target_passes() {
    replay("uri", 20, uri::run);
}
