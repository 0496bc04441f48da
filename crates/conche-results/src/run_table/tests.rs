//! Files that are complete, truncated, continued, damaged.

use std::fs;
use std::path::PathBuf;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tempfile::TempDir;

use super::*;
use crate::origin::{Axis, Labels};
use crate::tables::About;
use crate::{CellId, ExchangeRow, ExchangeRows, Origin, RowOf};

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

fn run(replication: u32) -> Run {
    let (scenario, seed) = ("small".to_owned(), u64::MAX);
    Run { scenario, settings: String::new(), cell: CellId::default(), replication, seed }
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
    exchanges.write(&run(replication), rows.written()).expect("it can be written")
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
        let places = [0, 1, 2].map(|replication| append(&exchanges, replication));
        if is_closed {
            exchanges.close().expect("it can be written");
            assert_eq!(fixture.read(), rows_of(&[0, 1, 2]));
        }
        let exchanges = fixture.open();
        exchanges.keep(&run(2), exchanges.find(&places[2]).expect("it is there"));
        append(&exchanges, 3);
        exchanges.keep(&run(0), exchanges.find(&places[0]).expect("it is there"));
        exchanges.close().expect("it can be written");
        assert_eq!(fixture.read(), rows_of(&[0, 2, 3]), "closed: {is_closed}, in the order of replications");
    }
}

#[test]
fn a_file_without_exchanges_has_the_columns() {
    let fixture = Fixture::new();
    let exchanges = fixture.open();
    let rows = ExchangeRows::new(exchanges.shape().clone());
    let place = exchanges.write(&run(0), rows.written()).expect("it can be written");
    assert_eq!(exchanges.find(&place).map(|groups| groups.len()), Some(0));
    exchanges.close().expect("it can be written");
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
    assert!(exchanges.find(&place).is_some());
    for wrong in [&[] as &[u64], &[4], &[4, 1], &[u64::MAX, 1], &[5, place[1]], &[4, place[1] - 1], &[0, 4, 1]] {
        assert!(exchanges.find(wrong).is_none(), "{wrong:?}");
    }
    for length in [4, whole.len() / 2, whole.len() - 1] {
        fs::write(&fixture.path, &whole[..length]).expect("it can be written");
        assert!(fixture.open().find(&place).is_none(), "{length} bytes");
    }
    fs::write(&fixture.path, &whole).expect("it can be written");
    let other = RunTable::open(&fixture.path, Shape::exchanges(&[], &ABOUT)).expect("it can be opened");
    assert!(other.find(&place).is_none(), "the table has no axis");
}
