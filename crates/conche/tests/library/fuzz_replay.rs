//! The seeds of the fuzz target, replayed: what fuzzing once found, and the corpus that it starts from, stay sound.

use std::path::Path;

#[path = "../../../../fuzz/bodies/credentials.rs"]
mod body;

#[test]
fn every_seed_of_the_credentials_target_passes() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/credentials");
    let mut seeds = 0;
    for entry in std::fs::read_dir(&directory).expect("the seeds are checked in") {
        let path = entry.expect("the seeds can be listed").path();
        // Captured and shown only when the seed fails.
        println!("{}", path.display());
        body::run(&std::fs::read(&path).expect("a seed can be read"));
        seeds += 1;
    }
    assert!(seeds >= 10);
}
