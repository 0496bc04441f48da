//! Usable and unusable directories.

use super::*;
use crate::{CellId, Kept, Sample};

fn origin(text: &str) -> Origin {
    let files = vec![("links.csv".to_owned(), "from,to\n0,1\n".to_owned())];
    Origin { name: "small".to_owned(), text: text.to_owned(), files, settings: "abc".to_owned(), ..Origin::default() }
}

fn program(hash: &str) -> Program {
    Program { version: "0.1.0".to_owned(), commit: None, dirty: None, sha256: Some(hash.to_owned()) }
}

fn open(directory: &Path, origin: &Origin, program: Program) -> Result<(Store, Vec<String>), StoreError> {
    let origins = std::slice::from_ref(origin);
    let command = vec!["conche".to_owned(), "run".to_owned()];
    Store::open(Begin { directory, program, command, threads: 2, origins, with_exchanges: false, overwrites: false })
}

fn kept() -> [Kept; 1] {
    let (scheme, unit, sample) = ("mine".to_owned(), "s".to_owned(), Sample::One(0.3));
    [Kept { phase: None, scheme, unit, values: Vec::new(), sample }]
}

fn run() -> Run {
    let (scenario, settings) = ("small".to_owned(), "abc".to_owned());
    Run { scenario, settings, cell: CellId::default(), replication: 0, seed: 1 }
}

#[test]
fn what_was_kept_is_taken_and_the_manifest_says_how_it_ended() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let origin = origin("name = \"small\"");
    let (store, _) = open(directory.path(), &origin, program("a")).expect("it is empty");
    assert_eq!(store.taken(&run(), Some), None);
    store.keep(&run(), 3, None, &kept());
    let manifest = || fs::read_to_string(directory.path().join("manifest.json")).expect("it is there");
    assert!(manifest().contains("\"state\": \"running\""), "{}", manifest());
    drop(store);
    let (store, notes) = open(directory.path(), &origin, program("a")).expect("the same");
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(store.taken(&run(), Some), Some(vec![Sample::One(0.3)]));
    let (scenario, cell, problem) = ("small".to_owned(), "mine".to_owned(), "it fell over".to_owned());
    let failures = [crate::Failure { scenario, cell, replication: 1, seed: 2, problem }];
    let finished = Finished { values: b"{}\n", text: "Small\n", runs: 2, failures: &failures, ..Finished::default() };
    store.finish("small", &finished).expect("it can be written");
    store.close().expect("it can be written");
    assert!(manifest().contains("\"state\": \"failed\"") && manifest().contains("it fell over"), "{}", manifest());
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).expect("it is there");
    assert_eq!((read("figures.ndjson").as_str(), read("small.txt").as_str()), ("{}\n", "Small\n"));
    assert_eq!(read("scenarios/small.toml"), "name = \"small\"");
    assert_eq!(read("scenarios/links.csv"), "from,to\n0,1\n");
}

#[test]
fn a_directory_of_something_else_is_refused_with_what_it_holds() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let first = origin("a = 1");
    drop(open(directory.path(), &first, program("a")).expect("it is empty"));
    let refused = |origin: &Origin, program: Program| match open(directory.path(), origin, program) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was opened"),
    };
    let named = Origin { name: "large".to_owned(), ..first.clone() };
    let problem = refused(&named, program("a"));
    assert!(problem.contains("results of small, not of large; name another directory"), "{problem}");
    let problem = refused(&origin("a = 2"), program("a"));
    assert!(problem.contains("another scenario small: its scenarios/small.toml"), "{problem}");
    let files = vec![("links.csv".to_owned(), "from,to\n".to_owned())];
    let problem = refused(&Origin { files, ..first.clone() }, program("a"));
    assert!(problem.contains("its scenarios/links.csv"), "{problem}");
    let problem = refused(&first, program("b"));
    assert!(problem.contains("another build of conche, 0.1.0 (commit unknown)"), "{problem}");
    fs::write(directory.path().join("manifest.json"), "{}").expect("it can be written");
    assert!(refused(&first, program("a")).contains("its manifest.json is of schema 0"));
    fs::write(directory.path().join("manifest.json"), "{").expect("it can be written");
    assert!(refused(&first, program("a")).contains("its manifest.json is no JSON"));
    fs::remove_file(directory.path().join("manifest.json")).expect("it is there");
    assert!(refused(&first, program("a")).contains("a runs.ndjson without a manifest.json"));
}

#[test]
fn overwriting_begins_anew() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (first, second) = (origin("a = 1"), origin("a = 2"));
    let (store, _) = open(directory.path(), &first, program("a")).expect("it is empty");
    store.keep(&run(), 3, None, &kept());
    drop(store);
    let origins = std::slice::from_ref(&second);
    let (program, command) = (program("a"), Vec::new());
    let directory = directory.path();
    let begin = Begin { directory, program, command, threads: 1, origins, with_exchanges: false, overwrites: true };
    let (store, _) = Store::open(begin).expect("whatever was there");
    assert_eq!(store.taken(&run(), Some), None);
}

#[test]
fn a_place_that_is_no_directory_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("file");
    fs::write(&path, "").expect("it can be written");
    let problem = open(&path, &origin(""), program("a")).map(drop).expect_err("it is a file").to_string();
    assert!(problem.contains("cannot write results into") && problem.contains("name a directory"), "{problem}");
}
