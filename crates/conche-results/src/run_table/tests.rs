//! Files that are complete, truncated, continued, damaged.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tempfile::TempDir;

use super::*;
use crate::origin::{Axis, Labels};
use crate::tables::About;
use crate::{CellHash, CellId, ExchangeRow, ExchangeRows, Origin, RowOf};

const ABOUT: About<'_> = About { version: "0.1.0", options: "--quick" };

struct Fixture {
    path: PathBuf,
    _directory: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { path: directory.path().join("exchanges.parquet"), _directory: directory }
    }

    fn open(&self) -> RunTable {
        let axis = Axis { name: "clients".to_owned(), labels: Labels::Texts };
        let origin = Origin { axes: vec![axis], ..Origin::default() };
        RunTable::open(&self.path, Shape::exchanges(&[origin], &ABOUT)).expect("it can be opened")
    }

    fn read(&self) -> Vec<(Field, Field)> {
        let file = SerializedFileReader::new(File::open(&self.path).expect("it is there")).expect("a Parquet file");
        let metadata = file.metadata();
        for (number, group) in (0..).zip(metadata.row_groups()) {
            assert_eq!(group.ordinal(), Some(number));
        }
        let value = |row: &parquet::record::Row, name: &str| {
            row.get_column_iter().find(|(column, _)| *column == name).expect("a column").1.clone()
        };
        let rows = file.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
        rows.map(|row| (value(&row, "replication"), value(&row, "rtt_s"))).collect()
    }
}

fn run(replication: u32) -> RunId {
    CellHash::new("small", "", &CellId::default(), &[]).run(replication, u64::MAX)
}

fn close(exchanges: &RunTable, runs: &[(u32, &Vec<u64>)]) -> HashMap<RunId, Vec<u64>> {
    let runs: Vec<_> = runs.iter().map(|(replication, place)| (run(*replication), (*place).clone())).collect();
    let places = exchanges.write_in_order(&runs, runs.len()).expect("it can be written");
    exchanges.replace().expect("it can be replaced");
    places
}

fn append(exchanges: &RunTable, replication: u32) -> Vec<u64> {
    let mut rows = ExchangeRows::new(exchanges.shape().clone());
    let cell = CellId::default();
    let of = RowOf { scenario: "small", cell: &cell, scheme: Some("mine"), replication, seed: u64::MAX };
    for rtt_s in [Some(f64::from(replication) / 7.0), None] {
        let row = ExchangeRow {
            of,
            traffic: "gets",
            client: "client[1]",
            server: "server",
            start_s: 0.5,
            end_s: 1.5,
            transmissions: 1,
            unnecessary: 0,
            is_answered: rtt_s.is_some(),
            rtt_s,
        };
        rows.push(&row).expect("values of the columns");
    }
    exchanges.write(rows.written(run(replication))).expect("it can be written")
}

fn rows_of(replications: &[i32]) -> Vec<(Field, Field)> {
    let rows = |&replication: &i32| {
        let rtt_s = Field::Double(f64::from(replication) / 7.0);
        [(Field::Int(replication), rtt_s), (Field::Int(replication), Field::Null)]
    };
    replications.iter().flat_map(rows).collect()
}

#[test]
fn a_file_continues_after_its_footer_or_without_one() {
    for is_closed in [true, false] {
        let fixture = Fixture::new();
        let exchanges = fixture.open();
        let mut places = [2, 0, 1].map(|replication| append(&exchanges, replication));
        if is_closed {
            let moved = close(&exchanges, &[(0, &places[1]), (1, &places[2]), (2, &places[0])]);
            assert_eq!(fixture.read(), rows_of(&[0, 1, 2]));
            places = [2, 0, 1].map(|replication| moved[&run(replication)].clone());
        }
        let exchanges = fixture.open();
        let new = append(&exchanges, 3);
        close(&exchanges, &[(0, &places[1]), (2, &places[0]), (3, &new)]);
        assert_eq!(fixture.read(), rows_of(&[0, 2, 3]), "closed: {is_closed}");
    }
}

#[test]
fn the_order_of_writing_has_no_effect_on_the_file() {
    let files = [[0, 1, 2], [2, 0, 1]].map(|order| {
        let fixture = Fixture::new();
        let exchanges = fixture.open();
        let places: BTreeMap<u32, Vec<u64>> =
            order.into_iter().map(|replication| (replication, append(&exchanges, replication))).collect();
        let runs: Vec<(u32, &Vec<u64>)> = places.iter().map(|(replication, place)| (*replication, place)).collect();
        close(&exchanges, &runs);
        fs::read(&fixture.path).expect("it is there")
    });
    assert!(files[0] == files[1]);
}

#[test]
fn rows_are_imported_from_another_table() {
    let (from, to) = (Fixture::new(), Fixture::new());
    let (there, here) = (from.open(), to.open());
    append(&there, 0);
    let place = append(&there, 1);
    let before = fs::read(&from.path).expect("it is there");
    let there = RunTable::open_stored(&from.path, there.shape().clone()).expect("it can be opened");
    let own = append(&here, 0);
    assert_eq!(here.import(&there, run(0), &place).expect("readable"), None, "another run is there");
    let imported = here.import(&there, run(1), &place).expect("readable").expect("it is there");
    assert!(fs::read(&from.path).expect("it is there") == before, "a part is only read");
    close(&here, &[(0, &own), (1, &imported)]);
    assert_eq!(to.read(), rows_of(&[0, 1]));
}

#[test]
fn a_file_without_exchanges_has_the_columns() {
    let fixture = Fixture::new();
    let exchanges = fixture.open();
    let rows = ExchangeRows::new(exchanges.shape().clone());
    let place = exchanges.write(rows.written(run(0))).expect("it can be written");
    assert!(exchanges.has(run(0), &place));
    close(&exchanges, &[(0, &place)]);
    let file = SerializedFileReader::new(File::open(&fixture.path).expect("it is there")).expect("a Parquet file");
    let columns: Vec<_> = file.metadata().file_metadata().schema_descr().columns().to_vec();
    assert_eq!(columns.first().map(|column| column.name().to_owned()).as_deref(), Some("scenario"));
    assert_eq!((columns.len(), file.num_row_groups()), (16, 0));
}

#[test]
fn a_run_that_is_not_at_its_place_is_not_found() {
    let fixture = Fixture::new();
    let exchanges = fixture.open();
    let place = append(&exchanges, 0);
    let whole = fs::read(&fixture.path).expect("it is there");
    assert!(exchanges.has(run(0), &place) && !exchanges.has(run(1), &place));
    for wrong in [&[] as &[u64], &[4], &[4, 1], &[u64::MAX, 1], &[5, place[1]], &[4, place[1] - 1]] {
        assert!(!exchanges.has(run(0), wrong), "{wrong:?}");
    }
    for length in [4, whole.len() / 2, whole.len() - 1] {
        fs::write(&fixture.path, &whole[..length]).expect("it can be written");
        assert!(!fixture.open().has(run(0), &place), "{length} bytes");
    }
    fs::write(&fixture.path, &whole).expect("it can be written");
    let other = RunTable::open(&fixture.path, Shape::exchanges(&[], &ABOUT)).expect("it can be opened");
    assert!(!other.has(run(0), &place), "the table has no axis");
}
