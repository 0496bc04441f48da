//! A directory's tables, read by pyarrow.
//!
//! `CONCHE_PYTHON` names a Python with pyarrow. Default: `python3` of the PATH.

use std::path::Path;
use std::process::Command;

use conche_results::{Begin, CellId, ExchangeRow, Finished, Origin, Program, RowOf, Run, RunRow, Store};

fn open(directory: &Path) -> Store {
    let program = Program { version: "0.1.0".to_owned(), commit: None, dirty: None, sha256: Some("a".to_owned()) };
    let origin = Origin { name: "small".to_owned(), axes: vec!["clients".to_owned()], ..Origin::default() };
    let (origins, command) = (&[origin], Vec::new());
    let begin = Begin { directory, program, command, threads: 1, origins, with_exchanges: true, overwrites: false };
    Store::open(begin).expect("it can be opened").0
}

fn cell(replication: u32) -> CellId {
    let axes = [("clients".to_owned(), "2".to_owned())].into();
    CellId { axes: if replication == 0 { axes } else { [].into() }, ..CellId::default() }
}

fn run(replication: u32) -> Run {
    let (scenario, seed) = ("small".to_owned(), u64::MAX - u64::from(replication));
    Run { scenario, settings: String::new(), cell: cell(replication), replication, seed }
}

fn keep(store: &Store, replication: u32, exchanges: u32) {
    let (run, cell) = (run(replication), cell(replication));
    let of = RowOf { scenario: "small", cell: &cell, scheme: "CoCoA+ \u{fc}", replication, seed: run.seed };
    let mut rows = store.exchange_rows().expect("exchanges are kept");
    for number in 0..exchanges {
        let is_answered = number % 3 != 1;
        let row = ExchangeRow {
            of,
            traffic: "gets",
            client: number,
            server: 1,
            start_s: f64::from(number),
            end_s: f64::from(number) + 0.1,
            transmissions: 2,
            unnecessary: 1,
            is_answered,
            rtt_s: is_answered.then(|| f64::from(number) / 7.0),
        };
        rows.push(&row).expect("values of the columns");
    }
    store.keep(&run, 3, Some(&rows), &[]);
}

fn python(directory: &Path, script: &str) {
    let python = std::env::var("CONCHE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = format!(
        "import pathlib, sys\nimport pyarrow as pa, pyarrow.parquet as pq\nd = pathlib.Path(sys.argv[1])\n{script}"
    );
    let output = Command::new(python).arg("-c").arg(script).arg(directory).output().expect("a Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "needs pyarrow"]
fn types_values_and_nulls_are_read_in_every_row_group() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = open(directory.path());
    keep(&store, 0, 5);
    keep(&store, 1, 70_000);
    store.close().expect("it can be written");
    // The second campaign takes one run from the first, after its footer, and adds another.
    let store = open(directory.path());
    assert!(store.taken(&run(1), |_| Some(())).is_some());
    keep(&store, 0, 3);
    let mut rows = store.run_rows();
    let cell = cell(0);
    let of = RowOf { scenario: "small", cell: &cell, scheme: "mine", replication: 0, seed: u64::MAX };
    let row = RunRow { of, phase: None, row: "mine/2", metric: "loss", unit: "%", value: 0.1 + 0.2 };
    rows.push(&row).expect("values of the columns");
    store.add_runs(rows);
    store.finish("small", &Finished::default()).expect("it can be written");
    store.close().expect("it can be written");
    python(
        directory.path(),
        "
f = pq.ParquetFile(d / 'exchanges.parquet')
text, number, real = pa.string(), pa.int32(), pa.float64()
common = [('paper', text, False), ('part', text, True), ('axis.clients', text, True), ('mix', text, True),
          ('scheme', text, False), ('replication', number, False), ('seed', pa.uint64(), False)]
def schema(columns):
    return pa.schema([pa.field(*column) for column in common + columns])
wanted = schema([('traffic', text, False), ('client', number, False), ('server', number, False),
    ('start_s', real, False), ('end_s', real, False), ('transmissions', number, False), ('unnecessary', number, False),
    ('outcome', text, False), ('rtt_s', real, True)])
assert f.schema_arrow.equals(wanted) and not f.schema_arrow.metadata, f.schema_arrow
assert f.metadata.num_rows == 70003 and f.metadata.num_row_groups == 2, f.metadata
for group, count, replication in [(0, 70000, 1), (1, 3, 0)]:
    rows = f.read_row_group(group).to_pylist()
    assert len(rows) == count
    for n, row in enumerate(rows):
        assert row == {'paper': 'small', 'part': None, 'axis.clients': '2' if replication == 0 else None, 'mix': None,
            'scheme': 'CoCoA+ \u{fc}', 'replication': replication, 'seed': 2**64 - 1 - replication, 'traffic': 'gets',
            'client': n, 'server': 1, 'start_s': n, 'end_s': n + 0.1, 'transmissions': 2, 'unnecessary': 1,
            'outcome': 'failed' if n % 3 == 1 else 'answered', 'rtt_s': None if n % 3 == 1 else n / 7}, (n, row)
first = f.metadata.row_group(0)
assert first.column(4).total_compressed_size < 300, 'a column of one value takes next to nothing'
assert first.column(5).statistics.min == first.column(5).statistics.max == 1
# A filter on statistics reads one row group of the two.
assert pq.read_table(d / 'exchanges.parquet', filters=[('replication', '=', 0)]).num_rows == 3
runs = pq.ParquetFile(d / 'runs.parquet')
wanted = schema([('phase', text, True), ('row', text, False), ('metric', text, False), ('unit', text, False),
    ('value', real, False)])
assert runs.schema_arrow.equals(wanted), runs.schema_arrow
[row] = runs.read().to_pylist()
assert row['value'] == 0.1 + 0.2 and row['phase'] is None and row['seed'] == 2**64 - 1, row
",
    );
}

#[test]
#[ignore = "needs pyarrow"]
fn tables_without_rows_have_their_columns() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = open(directory.path());
    store.finish("small", &Finished::default()).expect("it can be written");
    store.close().expect("it can be written");
    python(
        directory.path(),
        "
for name, columns in [('runs', 12), ('exchanges', 16)]:
    f = pq.ParquetFile(d / f'{name}.parquet')
    assert f.metadata.num_rows == 0 and len(f.schema_arrow.names) == columns, f.schema_arrow
    assert f.read().num_rows == 0
",
    );
}
