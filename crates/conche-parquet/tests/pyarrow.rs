//! What is written, read back by pyarrow.
//!
//! `CONCHE_PYTHON` names a Python that has it; without, it is the `python3` of the PATH.

use std::path::Path;
use std::process::Command;

use conche_parquet::{Column, Kind, RowGroup, Rows, Value, Writer};

fn columns() -> Vec<Column> {
    vec![
        Column::new("scheme", Kind::Text),
        Column::optional("phase", Kind::Text),
        Column::new("replication", Kind::Int32),
        Column::new("seed", Kind::Uint64),
        Column::optional("value", Kind::Double),
        Column::optional("absent", Kind::Text),
    ]
}

/// Rows of which some columns repeat themselves and others do not, with gaps.
fn rows(count: u32) -> Rows {
    let mut rows = Rows::new(&columns());
    for number in 0..count {
        let phase = format!("phase {number}");
        let row = [
            Value::Text(if number < 3 { "default" } else { "CoCoA+ \u{fc}" }),
            if number % 2 == 0 { Value::Text(&phase) } else { Value::None },
            Value::Int32(-1),
            Value::Uint64(u64::MAX - u64::from(number)),
            if number % 3 == 1 { Value::None } else { Value::Double(f64::from(number) / 7.0) },
            Value::None,
        ];
        rows.push(row).expect("values of their columns");
    }
    rows
}

/// Runs a script that has the file as `f`, and what is wrong with it as an exception.
fn check(file: &[u8], script: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("table.parquet");
    std::fs::write(&path, file).expect("it can be written");
    check_at(&path, script);
}

fn check_at(path: &Path, script: &str) {
    let python = std::env::var("CONCHE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = format!("import pyarrow as pa, pyarrow.parquet as pq, sys\nf = pq.ParquetFile(sys.argv[1])\n{script}");
    let output = Command::new(python).arg("-c").arg(script).arg(path).output().expect("a Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What `rows` gives, in Python.
const EXPECTED: &str = "
def expected(count):
    rows = range(count)
    return pa.table({
        'scheme': ['default' if n < 3 else 'CoCoA+ \u{fc}' for n in rows],
        'phase': pa.array([f'phase {n}' if n % 2 == 0 else None for n in rows], pa.string()),
        'replication': pa.array([-1 for n in rows], pa.int32()),
        'seed': pa.array([2**64 - 1 - n for n in rows], pa.uint64()),
        'value': pa.array([None if n % 3 == 1 else n / 7 for n in rows], pa.float64()),
        'absent': pa.array([None for n in rows], pa.string()),
    })
";

#[test]
#[ignore = "needs pyarrow"]
fn types_values_and_gaps_are_read_in_every_row_group() {
    let mut table = Writer::begin(Vec::new(), columns()).expect("memory");
    for count in [1, 5, 0, 70_000] {
        table.write(&rows(count)).expect("memory");
    }
    let file = table.finish().expect("memory");
    check(
        &file,
        &format!(
            "{EXPECTED}
assert f.metadata.num_rows == 70006 and f.metadata.num_row_groups == 3, f.metadata
for group, count in enumerate([1, 5, 70000]):
    read, wanted = f.read_row_group(group), expected(count)
    assert read.schema.types == wanted.schema.types, read.schema
    assert read.to_pydict() == wanted.to_pydict(), group
assert [field.nullable for field in f.schema_arrow] == [False, True, False, False, True, True]
last = f.metadata.row_group(2)
assert last.column(2).has_dictionary_page and not last.column(3).has_dictionary_page
assert last.column(2).total_compressed_size < 100, 'a column of one value takes next to nothing'
"
        ),
    );
}

#[test]
#[ignore = "needs pyarrow"]
fn a_table_without_rows_has_its_columns() {
    let file = Writer::begin(Vec::new(), columns()).expect("memory").finish().expect("memory");
    check(
        &file,
        "assert f.metadata.num_rows == 0 and f.metadata.num_row_groups == 0
assert f.schema_arrow.names == ['scheme', 'phase', 'replication', 'seed', 'value', 'absent'], f.schema_arrow
assert f.read().num_rows == 0",
    );
}

#[test]
#[ignore = "needs pyarrow"]
fn a_file_goes_on_after_its_footer_or_without_one() {
    let mut table = Writer::begin(Vec::new(), columns()).expect("memory");
    let kept = table.write(&rows(4)).expect("memory").to_numbers();
    table.write(&rows(9)).expect("memory");
    let mut file = table.finish().expect("memory");
    let position = file.len() as u64;
    let kept = RowGroup::from_numbers(&kept, columns().len(), position).expect("it is there");
    let mut table = Writer::resume(&mut file, position, columns());
    table.keep(kept);
    table.write(&rows(6)).expect("memory");
    table.finish().expect("memory");
    check(
        &file,
        &format!("{EXPECTED}\nassert f.read().to_pydict() == pa.concat_tables([expected(4), expected(6)]).to_pydict()"),
    );
}

#[test]
fn rows_that_are_not_of_the_table_are_refused() {
    let mut rows = Rows::new(&columns()[..1]);
    assert!(rows.push([Value::Int32(1)]).is_err_and(|error| error.to_string().contains("`scheme`")));
    let mut rows = Rows::new(&columns()[..1]);
    assert!(rows.push([Value::None]).is_err(), "the column is not optional");
    assert!(Rows::new(&columns()[..1]).push([]).is_err());
    assert!(Rows::new(&columns()[..1]).push([Value::Text("a"), Value::Text("b")]).is_err());
    let mut table = Writer::begin(Vec::new(), columns()).expect("memory");
    assert!(table.write(&Rows::new(&columns()[..1])).is_err());
}
