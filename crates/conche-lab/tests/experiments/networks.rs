//! The networks of the command are the files of `scenarios/networks`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use conche_lab::networks::{NETWORKS, Network};
use conche_lab::papers::Paper;
use conche_lab::scenario::Effort;

#[test]
fn every_file_of_the_folder_is_a_network() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/networks");
    let files = fs::read_dir(directory).expect("networks").map(|entry| entry.expect("an entry").path());
    let files: BTreeSet<String> = files
        .filter(|file| file.extension() == Some(OsStr::new("toml")))
        .map(|file| file.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let known: BTreeSet<String> = NETWORKS.iter().map(|network| network.name.to_owned()).collect();
    assert_eq!(known, files);
}

#[test]
fn every_network_has_its_name_a_purpose_and_comparable_values() {
    for network in NETWORKS {
        let mut experiment = network.experiment();
        assert_eq!(experiment.name(), network.name);
        assert!(experiment.document().scenario().purpose.is_some(), "{}: no purpose", network.name);
        let effort = Effort { compares: true, quick: true, ..Effort::default() };
        experiment.adjust(&effort).unwrap_or_else(|error| panic!("{}: {error}", network.name));
        experiment.check().unwrap_or_else(|error| panic!("{}: {error}", network.name));
        assert!(Network::by_name(network.name).is_some());
        assert!(Paper::by_name(network.name).is_none(), "{} is a paper", network.name);
    }
}
