//! The scripts that fuzzing of the endpoint starts from and what it once found, and random ones.

use std::path::Path;

use proptest::prelude::*;

use crate::model::script;

#[test]
fn every_seed_of_the_endpoint_target_passes() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/endpoint");
    let mut seeds = 0;
    for entry in std::fs::read_dir(&directory).expect("the seeds are checked in") {
        let path = entry.expect("the seeds can be listed").path();
        // Captured and shown only when the seed fails.
        println!("{}", path.display());
        script::run(&std::fs::read(&path).expect("a seed can be read"));
        seeds += 1;
    }
    assert!(seeds >= 20, "only {seeds} seeds in {}", directory.display());
}

proptest! {
    #[test]
    fn whatever_a_script_does_every_exchange_ends_once(script in prop::collection::vec(any::<u8>(), 0..800)) {
        script::run(&script);
    }
}
