//! A directory's tables, read by pyarrow.
//!
//! `CONCHE_PYTHON` names a Python with pyarrow. Default: `python3` of the PATH.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use conche_results::{
    Axis, Begin, CellHash, CellId, ExchangeRow, Finished, Labels, Origin, Program, RowOf, Run, RunRow, RunTables,
    SeriesRow, Store,
};

fn open(directory: &Path) -> Store {
    let program = Program { version: "0.1.0".to_owned(), commit: None, dirty: None, sha256: Some("a".to_owned()) };
    let axis = |name: &str, labels| Axis { name: name.to_owned(), labels };
    let axes = vec![
        axis("clients", Labels::Integers([("2".to_owned(), 2)].into())),
        axis("delay", Labels::Numbers([("400ms".to_owned(), 0.4)].into(), Some("s"))),
    ];
    let origins = &[Origin { name: "small".to_owned(), axes, seed: 5, ..Origin::default() }];
    let (command, options, series) = (Vec::new(), "--quick".to_owned(), Some(Duration::from_secs(1)));
    let begin = Begin {
        directory,
        program,
        command,
        options,
        effort: serde_json::Value::Null,
        shard: None,
        threads: 1,
        origins,
        plan: vec![run(1).id, run(0).id],
        with_exchanges: true,
        series,
        overwrites: false,
    };
    Store::open(begin).expect("it can be opened").0
}

fn cell(replication: u32) -> CellId {
    let axes = [("clients", "2"), ("delay", "400ms")].map(|(axis, label)| (axis.to_owned(), label.to_owned())).into();
    CellId { axes: if replication == 0 { axes } else { [].into() }, ..CellId::default() }
}

fn run(replication: u32) -> Run {
    let (scenario, seed) = ("small".to_owned(), u64::MAX - u64::from(replication));
    let cell = cell(replication);
    let id = CellHash::new("small", "", &cell, &[]).run(replication, seed);
    Run { id, scenario, settings: String::new(), cell, replication, seed }
}

fn keep(store: &Store, replication: u32, exchanges: u32) {
    let (run, cell) = (run(replication), cell(replication));
    let of = RowOf { scenario: "small", cell: &cell, scheme: Some("CoCoA+ \u{fc}"), replication, seed: run.seed };
    let RunTables { exchanges: Some(mut rows), series: Some(mut series) } =
        store.run_tables(run.id).expect("in memory")
    else {
        panic!("both are kept");
    };
    for number in 0..exchanges {
        let is_answered = number % 3 != 1;
        let client = format!("client[{number}]");
        let row = ExchangeRow {
            of,
            traffic: "gets",
            client: &client,
            server: "server",
            start_s: f64::from(number),
            end_s: f64::from(number) + 0.1,
            transmissions: 2,
            unnecessary: 1,
            is_answered,
            rtt_s: is_answered.then(|| f64::from(number) / 7.0),
        };
        rows.push(&row).expect("values of the columns");
    }
    let of_link = RowOf { scheme: None, ..of };
    for (of, subject, peer, quantity) in
        [(of, "client[0]", Some("server"), "rto_s"), (of_link, "uplink", None, "queue_packets")]
    {
        let row = SeriesRow { of, time_s: 1.0, subject, peer, quantity, value: 2.0 };
        series.push(&row).expect("values of the columns");
    }
    store.keep(&run, 3, RunTables { exchanges: Some(rows), series: Some(series) }, &[]);
}

fn python(directory: &Path, script: &str) {
    let python = std::env::var("CONCHE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = format!(
        "import json, pathlib, sys\nimport pyarrow as pa, pyarrow.parquet as pq\nd = pathlib.Path(sys.argv[1])\n{script}"
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
    // The second campaign takes one run from the first.
    let store = open(directory.path());
    assert!(store.taken(run(1).id, |_| Some(())).is_some());
    keep(&store, 0, 3);
    let mut rows = store.run_rows();
    let cell = cell(0);
    let of = RowOf { scenario: "small", cell: &cell, scheme: Some("mine"), replication: 0, seed: u64::MAX };
    let row = RunRow { of, phase: None, row: "mine/2", column: "loss", unit: "%", value: 0.1 + 0.2 };
    rows.push(&row).expect("values of the columns");
    store.add_runs(rows);
    store.finish("small", &Finished::default()).expect("it can be written");
    store.close().expect("it can be written");
    python(
        directory.path(),
        "
f = pq.ParquetFile(d / 'exchanges.parquet')
text, number, real = pa.string(), pa.int32(), pa.float64()
common = [('scenario', text, False), ('part', text, True), ('axis.clients', pa.int64(), True), ('axis.delay_s', real, True),
          ('mix', text, True), ('scheme', text, False), ('replication', number, False), ('seed', pa.uint64(), False)]
def schema(columns, common=common):
    return pa.schema([pa.field(*column) for column in common + columns])
def check_metadata(metadata):
    assert metadata[b'conche.version'] == b'0.1.0' and metadata[b'conche.options'] == b'--quick', metadata
    [scenario] = json.loads(metadata[b'conche.scenarios'])
    assert (scenario['name'], scenario['seed'], len(scenario['sha256'])) == ('small', 5, 64), scenario
wanted = schema([('traffic', text, False), ('client', text, False), ('server', text, False),
    ('start_s', real, False), ('end_s', real, False), ('transmissions', number, False), ('unnecessary', number, False),
    ('outcome', text, False), ('rtt_s', real, True)])
assert f.schema_arrow.equals(wanted), f.schema_arrow
check_metadata(f.metadata.metadata)
assert f.metadata.num_rows == 70003 and f.metadata.num_row_groups == 2, f.metadata
for group, count, replication in [(0, 70000, 1), (1, 3, 0)]:
    rows = f.read_row_group(group).to_pylist()
    assert len(rows) == count
    for n, row in enumerate(rows):
        assert row == {'scenario': 'small', 'part': None, 'axis.clients': 2 if replication == 0 else None,
            'axis.delay_s': 0.4 if replication == 0 else None, 'mix': None, 'scheme': 'CoCoA+ \u{fc}', 'replication': replication, 'seed': 2**64 - 1 - replication, 'traffic': 'gets',
            'client': f'client[{n}]', 'server': 'server', 'start_s': n, 'end_s': n + 0.1, 'transmissions': 2, 'unnecessary': 1,
            'outcome': 'failed' if n % 3 == 1 else 'answered', 'rtt_s': None if n % 3 == 1 else n / 7}, (n, row)
first = f.metadata.row_group(0)
assert first.column(5).total_compressed_size < 300, 'a column of one value takes next to nothing'
assert first.column(6).statistics.min == first.column(6).statistics.max == 1
# A filter on statistics reads one row group of the two.
assert pq.read_table(d / 'exchanges.parquet', filters=[('replication', '=', 0)]).num_rows == 3
runs = pq.ParquetFile(d / 'runs.parquet')
wanted = schema([('phase', text, True), ('row', text, False), ('column', text, False), ('unit', text, False),
    ('value', real, False)])
assert runs.schema_arrow.equals(wanted), runs.schema_arrow
[row] = runs.read().to_pylist()
assert row['value'] == 0.1 + 0.2 and row['phase'] is None and row['seed'] == 2**64 - 1, row
check_metadata(runs.metadata.metadata)
series = pq.ParquetFile(d / 'series.parquet')
wanted = schema([('time_s', real, False), ('subject', text, False), ('peer', text, True), ('quantity', text, False),
    ('value', real, False)], [(name, kind, name == 'scheme' or nullable) for name, kind, nullable in common])
assert series.schema_arrow.equals(wanted), series.schema_arrow
check_metadata(series.metadata.metadata)
rows = series.read().to_pylist()
assert [(row['subject'], row['peer'], row['replication']) for row in rows] == [('client[0]', 'server', 1),
    ('uplink', None, 1), ('client[0]', 'server', 0), ('uplink', None, 0)], rows
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
for name, columns in [('runs', 13), ('exchanges', 17), ('series', 13)]:
    f = pq.ParquetFile(d / f'{name}.parquet')
    assert f.metadata.num_rows == 0 and len(f.schema_arrow.names) == columns, f.schema_arrow
    assert f.read().num_rows == 0
",
    );
}
