//! The networks of the command are the files of `scenarios/networks`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use conche_lab::networks::{NETWORKS, Network};
use conche_lab::papers::Paper;
use conche_lab::scenario::{Axis, Controllers, Effort};

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
        let mut experiment = network.experiment(&Controllers::new());
        assert_eq!(experiment.name(), network.name);
        assert!(experiment.document().scenario().purpose.is_some(), "{}: no purpose", network.name);
        let effort = Effort { compares: true, quick: true, ..Effort::default() };
        experiment.adjust(&effort).unwrap_or_else(|error| panic!("{}: {error}", network.name));
        experiment.check().unwrap_or_else(|error| panic!("{}: {error}", network.name));
        assert!(Network::by_name(network.name).is_some());
        assert!(Paper::by_name(network.name).is_none(), "{} is a paper", network.name);
    }
}

#[test]
fn the_table_of_networks_has_a_row_for_each_with_its_points_and_purpose() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/networks/README.md");
    let readme = fs::read_to_string(readme).expect("the table of networks");
    let rows = || readme.lines().filter(|line| line.starts_with("| ["));
    for network in NETWORKS {
        let experiment = network.experiment(&Controllers::new());
        let scenario = experiment.document().scenario();
        let points = |axis: &Axis| axis.points().into_iter().map(|point| point.name).collect::<Vec<_>>().join(", ");
        let sweep: Vec<String> = scenario.sweep.iter().map(|axis| format!("{}: {}", axis.name, points(axis))).collect();
        let start = format!("| [{0}]({0}.toml) | ", network.name);
        let end = format!(" | {} | {} |", sweep.join("; "), scenario.purpose.expect("a purpose").name());
        assert!(rows().any(|row| row.starts_with(&start) && row.ends_with(&end)), "no row `{start}… {end}`");
    }
    assert_eq!(rows().count(), NETWORKS.len());
}
