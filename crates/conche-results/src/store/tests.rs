//! Usable and unusable directories.

use super::*;
use crate::{Axis, CellHash, CellId, Kept, Labels, RowOf, RunRow, Sample};

fn origin(text: &str) -> Origin {
    let files = vec![("links.csv".to_owned(), "from,to\n0,1\n".to_owned())];
    Origin { name: "small".to_owned(), text: text.to_owned(), files, settings: "abc".to_owned(), ..Origin::default() }
}

fn program(hash: &str) -> Program {
    Program { version: "0.1.0".to_owned(), commit: None, dirty: None, sha256: Some(hash.to_owned()) }
}

fn begin<'a>(directory: &'a Path, program: Program, command: Vec<String>, origins: &'a [Origin]) -> Begin<'a> {
    let (threads, options) = (2, String::new());
    Begin {
        directory,
        program,
        command,
        options,
        effort: serde_json::Value::Null,
        shard: None,
        threads,
        origins,
        plan: vec![run().id],
        with_exchanges: false,
        series: None,
        overwrites: false,
    }
}

fn open(directory: &Path, origin: &Origin, program: Program) -> Result<(Store, Vec<String>), StoreError> {
    let origins = std::slice::from_ref(origin);
    let command = vec!["conche".to_owned(), "run".to_owned()];
    Store::open(begin(directory, program, command, origins))
}

fn kept() -> [Kept; 1] {
    let (scheme, unit, sample) = ("mine".to_owned(), "s".to_owned(), Sample::One(0.3));
    [Kept { phase: None, scheme, unit, values: Vec::new(), sample }]
}

fn run() -> Run {
    let (scenario, settings) = ("small".to_owned(), "abc".to_owned());
    let cell = CellId::default();
    let id = CellHash::new("small", "abc", &cell, &[]).run(0, 1);
    Run { id, scenario, settings, cell, replication: 0, seed: 1 }
}

#[test]
fn stored_runs_are_reused_and_the_manifest_states_the_outcome() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let origin = origin("name = \"small\"");
    let (store, _) = open(directory.path(), &origin, program("a")).expect("it is empty");
    assert_eq!(store.taken(run().id, Some), None);
    store.keep(&run(), 3, RunTables::default(), &kept());
    let manifest = || fs::read_to_string(directory.path().join("manifest.json")).expect("it is there");
    assert!(manifest().contains("\"state\": \"running\""), "{}", manifest());
    drop(store);
    let (store, notes) = open(directory.path(), &origin, program("a")).expect("the same");
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(store.taken(run().id, Some), Some(vec![Sample::One(0.3)]));
    let (scenario, cell, problem) = ("small".to_owned(), "mine".to_owned(), "it fell over".to_owned());
    let failures = [crate::Failure { run: run().id, scenario, cell, replication: 1, seed: 2, problem }];
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
fn a_directory_with_other_results_is_refused_with_its_contents() {
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
    open(directory.path(), &first, program("b")).expect("runs are known by the versions of their algorithms");
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
    store.keep(&run(), 3, RunTables::default(), &kept());
    drop(store);
    let origins = std::slice::from_ref(&second);
    let (program, command) = (program("a"), Vec::new());
    let directory = directory.path();
    let begin = Begin { overwrites: true, ..begin(directory, program, command, origins) };
    let (store, _) = Store::open(begin).expect("whatever was there");
    assert_eq!(store.taken(run().id, Some), None);
}

#[test]
fn a_place_that_is_no_directory_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("file");
    fs::write(&path, "").expect("it can be written");
    let problem = open(&path, &origin(""), program("a")).map(drop).expect_err("it is a file").to_string();
    assert!(problem.contains("cannot write results into") && problem.contains("name a directory"), "{problem}");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_first_run() {
    for name in ["figures.ndjson", "small.txt", "runs.parquet"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(directory.path().join(name)).expect("it can be made");
        let refused = open(directory.path(), &origin(""), program("a")).map(drop);
        let problem = refused.expect_err("a directory has its name").to_string();
        assert!(problem.contains(name) && problem.contains("name another directory"), "{problem}");
    }
}

fn column(directory: &Path, name: &str) -> (String, Vec<String>) {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let file = SerializedFileReader::new(File::open(directory.join("runs.parquet")).expect("it is there"));
    let file = file.expect("a Parquet file");
    let columns = file.metadata().file_metadata().schema_descr().columns().to_vec();
    let of = columns.iter().find(|column| column.name() == name).unwrap_or_else(|| panic!("no column {name}"));
    let row = |row: parquet::errors::Result<parquet::record::Row>| {
        let row = row.expect("a row");
        row.get_column_iter().find(|(column, _)| *column == name).expect("a column").1.to_string()
    };
    (format!("{:?}", of.physical_type()), file.get_row_iter(None).expect("rows").map(row).collect())
}

#[test]
fn columns_of_axes_have_the_types_and_units_of_their_labels_and_the_file_its_origin() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let directory = tempfile::tempdir().expect("a temporary directory");
    let axis = |name: &str, labels| Axis { name: name.to_owned(), labels };
    let numbers = |of: &[(&str, f64)], unit| {
        Labels::Numbers(of.iter().map(|(label, number)| ((*label).to_owned(), *number)).collect(), unit)
    };
    let axes = vec![
        axis("clients", Labels::Integers([("2".to_owned(), 2)].into())),
        axis("delay", numbers(&[("400ms", 0.4)], Some("s"))),
        axis("rate_bit_per_s", numbers(&[("30kbit/s", 30_000.0)], Some("bit_per_s"))),
        axis("loss", numbers(&[("0.5", 0.5)], None)),
        axis("kind", Labels::Texts),
    ];
    let origin = Origin { axes, seed: 7, ..origin("a = 1") };
    let other = vec![axis("loss", Labels::Integers([("1".to_owned(), 1)].into())), axis("clients", Labels::Texts)];
    let other = Origin { name: "other".to_owned(), axes: other, ..Origin::default() };
    let origins = [origin, other];
    let begin = begin(directory.path(), program("a"), Vec::new(), &origins);
    let (store, _) = Store::open(Begin { options: "--quick".to_owned(), ..begin }).expect("it is empty");
    let mut rows = store.run_rows();
    let labels = [("clients", "2"), ("delay", "400ms"), ("rate_bit_per_s", "30kbit/s"), ("loss", "0.5"), ("kind", "x")];
    let axes = labels.map(|(axis, label)| (axis.to_owned(), label.to_owned())).into();
    let cell = CellId { axes, ..CellId::default() };
    let of = RowOf { scenario: "small", cell: &cell, scheme: Some("mine"), replication: 0, seed: 1 };
    let row = RunRow { of, phase: None, row: "mine/2", column: "loss", unit: "%", value: 0.3 };
    rows.push(&row).expect("values of the columns");
    let wrong = CellId { axes: [("delay".to_owned(), "soon".to_owned())].into(), ..CellId::default() };
    assert!(store.run_rows().push(&RunRow { of: RowOf { cell: &wrong, ..of }, ..row }).is_err(), "no such label");
    store.add_runs(rows);
    store.finish("small", &Finished::default()).expect("it can be written");
    for (name, kind, value) in [
        ("axis.clients", "BYTE_ARRAY", "\"2\""),
        ("axis.delay_s", "DOUBLE", "0.4"),
        ("axis.rate_bit_per_s", "DOUBLE", "30000.0"),
        ("axis.loss", "DOUBLE", "0.5"),
        ("axis.kind", "BYTE_ARRAY", "\"x\""),
        ("replication", "INT32", "0"),
    ] {
        assert_eq!(column(directory.path(), name), (kind.to_owned(), vec![value.to_owned()]), "{name}");
    }
    let file = File::open(directory.path().join("runs.parquet")).expect("it is there");
    let file = SerializedFileReader::new(file).expect("a Parquet file");
    let pairs = file.metadata().file_metadata().key_value_metadata().expect("metadata").clone();
    let of = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    assert_eq!((of("conche.version"), of("conche.options")), (Some("0.1.0".into()), Some("--quick".into())));
    let scenarios = of("conche.scenarios").expect("scenarios");
    let hash = crate::origin::sha256(b"a = 1");
    assert!(scenarios.contains("\"name\":\"small\",\"seed\":7") && scenarios.contains(&hash), "{scenarios}");
}
