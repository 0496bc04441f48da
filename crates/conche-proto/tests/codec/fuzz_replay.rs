//! The seeds of the fuzz targets, replayed: what fuzzing once found, and the corpus that it starts from, stay sound.

use std::path::Path;

#[path = "../../../../fuzz/bodies/decode.rs"]
mod decode;
#[path = "../../../../fuzz/bodies/link_format.rs"]
mod link_format;
#[path = "../../../../fuzz/bodies/roundtrip.rs"]
mod roundtrip;
#[path = "../../../../fuzz/bodies/uri.rs"]
mod uri;

#[test]
fn every_seed_of_the_decode_target_passes() {
    replay("decode", decode::run);
}

#[test]
fn every_seed_of_the_roundtrip_target_passes() {
    replay("roundtrip", roundtrip::run);
}

#[test]
fn every_seed_of_the_link_format_target_passes() {
    replay("link_format", link_format::run);
}

#[test]
fn every_seed_of_the_uri_target_passes() {
    replay("uri", uri::run);
}

fn replay(target: &str, body: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(&directory).expect("the seeds are checked in") {
        let path = entry.expect("the seeds can be listed").path();
        let seed = std::fs::read(&path).expect("a seed can be read");
        // Captured and shown only when the seed fails.
        println!("{}", path.display());
        body(&seed);
        seeds += 1;
    }
    assert!(seeds >= 20, "only {seeds} seeds in {}", directory.display());
}
