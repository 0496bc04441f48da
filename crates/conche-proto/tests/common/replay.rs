//! Runs the checked-in inputs of a fuzz target.

use std::path::Path;

pub fn replay(target: &str, least: usize, body: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(&directory).expect("the seeds are checked in") {
        let path = entry.expect("the seeds can be listed").path();
        let seed = std::fs::read(&path).expect("a seed can be read");
        // Captured; shown only if the seed fails.
        println!("{}", path.display());
        body(&seed);
        seeds += 1;
    }
    assert!(seeds >= least, "only {seeds} seeds in {}", directory.display());
}
