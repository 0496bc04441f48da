//! Complete, truncated, damaged and foreign journals.

use super::*;

fn origins() -> Vec<Origin> {
    vec![Origin { name: "small".to_owned(), settings: "abc".to_owned(), ..Origin::default() }]
}

fn run(replication: u32) -> Run {
    let axes = [("clients".to_owned(), "2".to_owned())].into();
    let cell = CellId { axes, schemes: vec!["mine".to_owned()], ..CellId::default() };
    Run { scenario: "small".to_owned(), settings: "abc".to_owned(), cell, replication, seed: u64::MAX - 1 }
}

fn open(path: &Path) -> (Journal, Vec<String>) {
    Journal::open(path, &origins(), false).expect("it can be opened")
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
    assert_eq!(journal.samples(&run(2)), Some(kept(2).map(|kept| kept.sample).into()));
    assert_eq!(journal.exchanges(&run(2)), Some([1, 2].as_slice()));
    assert!(journal.samples(&run(3)).is_none());
    assert!(journal.samples(&Run { seed: 1, ..run(2) }).is_none(), "another seed is another run");
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
        let found = (0..3).filter(|number| journal.samples(&run(*number)).is_some());
        assert_eq!(found.count(), lines, "after {length} bytes");
        (u32::try_from(lines).expect("few")..3).for_each(|number| {
            journal.add(&run(number), 7, Places { exchanges: Some(vec![1, 2]), series: None }, &[], &kept(number));
        });
        drop(journal);
        assert!(std::fs::read(&path).expect("it is there") == whole, "after {length} bytes");
    }
}

#[test]
fn malformed_journal_lines_and_other_settings_are_reported() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("runs.ndjson");
    three(&path);
    let whole = std::fs::read_to_string(&path).expect("it is there");
    let other = whole.replace("\"abc\"", "\"quick\"");
    std::fs::write(&path, format!("what is this?\n{other}{}", whole.replace("\"schema\":1", "\"schema\":2")))
        .expect("written");
    let (journal, notes) = open(&path);
    assert_eq!(
        notes,
        [
            "4 lines are not read: they are no run of schema 1",
            "3 lines are not used: they are of other settings, such as --quick"
        ]
    );
    assert!(journal.samples(&run(0)).is_none());
}

#[test]
fn one_process_at_a_time_has_a_journal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("runs.ndjson");
    let first = open(&path);
    let second = Journal::open(&path, &origins(), false);
    assert!(second.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy));
    drop(first);
    open(&path);
}
