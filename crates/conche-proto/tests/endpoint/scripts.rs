//! The initial fuzzing scripts of the endpoint, past findings, and random scripts, each under every
//! focus.

use std::path::Path;

use proptest::prelude::*;

use crate::model::focus::Focus;
use crate::model::script;

#[test]
fn every_seed_of_the_endpoint_targets_passes() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/endpoint");
    let mut seeds = 0;
    for entry in std::fs::read_dir(&directory).expect("the seeds are checked in") {
        let path = entry.expect("the seeds can be listed").path();
        // Captured, and shown only if the seed fails.
        println!("{}", path.display());
        let seed = std::fs::read(&path).expect("a seed can be read");
        Focus::ALL.iter().for_each(|focus| script::run(focus, &seed));
        seeds += 1;
    }
    assert!(seeds >= 20, "only {seeds} seeds in {}", directory.display());
}

#[test]
fn every_focus_is_a_fuzz_target() {
    let manifest = include_str!("../../../../fuzz/Cargo.toml");
    for Focus { name, .. } in Focus::ALL {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}

proptest! {
    #[test]
    fn whatever_a_script_does_every_exchange_ends_once(
        focus in 0..Focus::ALL.len(),
        script in prop::collection::vec(any::<u8>(), 0..800),
    ) {
        script::run(&Focus::ALL[focus], &script);
    }

    #[test]
    fn no_message_id_is_used_again_within_its_lifetime_where_all_peers_have_room(
        script in prop::collection::vec(any::<u8>(), 0..800),
    ) {
        script::run(&Focus::WITH_ROOM, &script);
    }
}
