//! Complete, truncated, damaged and foreign journals.

use super::*;
use crate::run::CellHash;

fn run(replication: u32) -> Run {
    let axes = [("clients".to_owned(), "2".to_owned())].into();
    let cell = CellId { axes, schemes: vec!["mine".to_owned()], ..CellId::default() };
    let seed = u64::MAX - 1;
    let id = CellHash::new("small", "abc", &cell, &[]).run(replication, seed);
    Run { id, scenario: "small".to_owned(), settings: "abc".to_owned(), cell, replication, seed }
}

fn open(path: &Path) -> (Journal, Vec<String>) {
    Journal::open(path, false).expect("it can be opened")
}

fn kept(number: u32) -> [Kept; 1] {
    let sample = Sample::Labelled(vec![("sum".to_owned(), 0.1 + 0.2), ("number".to_owned(), f64::from(number))]);
    [Kept { phase: None, scheme: "mine".to_owned(), unit: "s".to_owned(), values: Vec::new(), sample }]
}

fn three(path: &Path) {
    let (journal, notes) = open(path);
    assert!(notes.is_empty(), "{notes:?}");
    (0..3).for_each(|number| {
        journal.add(&run(number), 7, Places { exchanges: Some(vec![1, 2]), series: None }, &[], &kept(number))
    });
    assert!(journal.problem().is_none());
}

#[test]
fn a_run_is_found_with_the_very_numbers_that_it_gave() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("runs.ndjson");
    three(&path);
    let (journal, notes) = open(&path);
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(journal.samples(run(2).id), Some(kept(2).map(|kept| kept.sample).into()));
    assert_eq!(journal.places(run(2).id), Some(Places { exchanges: Some(vec![1, 2]), series: None }));
    assert!(journal.samples(run(3).id).is_none());
}

#[test]
fn a_journal_cut_off_anywhere_keeps_its_whole_lines_and_continues() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("runs.ndjson");
    three(&path);
    let whole = std::fs::read(&path).expect("it is there");
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).expect("it can be written");
        let lines = whole[..length].iter().filter(|byte| **byte == b'\n').count();
        let (journal, notes) = open(&path);
        let is_torn = length > 0 && whole[length - 1] != b'\n';
        assert_eq!(notes.len(), usize::from(is_torn), "{notes:?}");
        let found = (0..3).filter(|number| journal.samples(run(*number).id).is_some());
        assert_eq!(found.count(), lines, "after {length} bytes");
        (u32::try_from(lines).expect("few")..3).for_each(|number| {
            journal.add(&run(number), 7, Places { exchanges: Some(vec![1, 2]), series: None }, &[], &kept(number));
        });
        drop(journal);
        assert!(std::fs::read(&path).expect("it is there") == whole, "after {length} bytes");
    }
}

#[test]
fn malformed_journal_lines_are_reported() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("runs.ndjson");
    three(&path);
    let whole = std::fs::read_to_string(&path).expect("it is there");
    std::fs::write(&path, format!("what is this?\n{}", whole.replace("\"schema\":1", "\"schema\":2")))
        .expect("written");
    let (journal, notes) = open(&path);
    assert_eq!(notes, ["4 lines are not read: they are no run of schema 1"]);
    assert!(journal.samples(run(0).id).is_none());
}

#[test]
fn runs_of_the_plan_come_first_with_their_new_places() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("runs.ndjson");
    three(&path);
    let (journal, _) = open(&path);
    assert_eq!(journal.others(&[run(2).id, run(7).id].into()), 2);
    let order = journal.in_order(&[run(2).id, run(7).id, run(1).id]);
    assert_eq!(order, [run(2).id, run(1).id, run(0).id], "then the others");
    let moved = |id, places: &Places| match id == run(1).id {
        true => Places { exchanges: Some(vec![9, 9]), series: None },
        false => places.clone(),
    };
    journal.write_in_order(&order, moved).expect("written");
    journal.replace().expect("replaced");
    drop(journal);
    let mut found = Vec::new();
    let each = |id, _: &str, places: Places| {
        found.push((id, places.exchanges));
        Ok(())
    };
    Journal::read(&path, each).expect("a journal");
    let [one, other] = [Some(vec![1, 2]), Some(vec![9, 9])];
    assert_eq!(found, [(run(2).id, one.clone()), (run(1).id, other), (run(0).id, one)]);
    let (journal, _) = open(&path);
    assert_eq!(journal.samples(run(1).id), Some(kept(1).map(|kept| kept.sample).into()));
}

#[test]
fn one_process_at_a_time_has_a_journal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("runs.ndjson");
    let first = open(&path);
    let second = Journal::open(&path, false);
    assert!(second.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy));
    drop(first);
    open(&path);
}
