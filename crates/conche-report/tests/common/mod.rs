//! Result directories with invented values.

use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use conche_lab::comparison::{CellComparison, Entry, rows};
use conche_lab::papers::{PAPERS, Paper};
use conche_lab::results::comparison::to_ndjson;
use conche_lab::scenario::Unit;
use conche_lab::scenario::{Better, Controllers, Purpose, Scenario, Value, matches_any};
use conche_results::{Begin, CellHash, CellId, Origin, Program, RowOf, Run, SeriesRow, Store};

/// Writes all values of these papers' scenarios, and runs.
pub fn write(directory: &Path, papers: &[&str]) {
    let scenarios = directory.join("scenarios");
    fs::create_dir_all(&scenarios).expect("a directory");
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for entry in fs::read_dir(beside).expect("scenarios").map(|entry| entry.expect("an entry").path()) {
        if entry.is_file() {
            fs::copy(&entry, scenarios.join(entry.file_name().expect("a name"))).expect("a copy");
        }
    }
    let (mut values, mut runs, mut entries) = (String::new(), String::new(), Vec::new());
    for paper in papers {
        let paper = PAPERS.iter().find(|known| known.name == *paper).expect("a paper");
        of_paper(paper, &mut values, &mut runs);
        exchanges(paper.name, &mut runs);
        entries.push(format!(
            r#"{{"name":"{0}","title":"{0}","extent":"3 replications","seed":1,"file":"scenarios/{0}.toml","settings":"s","runs":9,"cpu_s":1.5}}"#,
            paper.name
        ));
    }
    let manifest = format!(
        r#"{{"schema":1,"state":"complete","command":["conche","reproduce"],"started":"2026-01-02T03:04:05Z","scenarios":[{}]}}"#,
        entries.join(",")
    );
    fs::write(directory.join("manifest.json"), manifest).expect("written");
    fs::write(directory.join("figures.ndjson"), values).expect("written");
    fs::write(directory.join("runs.ndjson"), runs).expect("written");
}

fn of_paper(paper: &Paper, values: &mut String, runs: &mut String) {
    let experiment = paper.experiment(&Controllers::new());
    let document = experiment.document();
    let mut number = 1.0;
    let mut known = HashSet::new();
    for cell in document.cells() {
        let phases = cell.scenario.phases.iter().map(|phase| format!("/{}", phase.name));
        let stretches: Vec<String> = [String::new()].into_iter().chain(phases).collect();
        for scheme in &cell.schemes {
            for value in cell.scenario.values.iter().filter(|value| cell.is_among(&value.only, scheme)) {
                for stretch in &stretches {
                    let row = cell.row(value.row.as_deref(), scheme) + stretch;
                    for column in columns(value).into_iter().filter(|of| known.insert((row.clone(), of.clone()))) {
                        number = (number * 7.0 + 3.0) % 997.0;
                        let item = item(value, &row, &column, document.scenario());
                        one(paper.name, [item, &row, &column], number, values, runs);
                    }
                }
            }
        }
    }
}

/// Adds a comparison of three controllers over two cells per paper, the last with a gap.
#[allow(dead_code, reason = "not all tests need them")]
pub fn compare(directory: &Path, papers: &[&str]) {
    let entry = |controller: &str, runs: &[f64]| Entry {
        controller: controller.to_owned(),
        value: runs.first().map(|_| runs.iter().sum::<f64>() / runs.len() as f64),
        per_replication: runs.to_vec(),
    };
    let cell = |paper: &str, name: &str, other: &[f64]| CellComparison {
        scenario: paper.to_owned(),
        name: name.to_owned(),
        column: "fct_median_s".to_owned(),
        purpose: None,
        unit: Unit::Seconds,
        better: Better::Lower,
        is_unnecessary: false,
        entries: vec![entry("cocoa", &[1.0, 1.1, 1.2]), entry("default", &[3.0, 3.2, 3.4]), entry("<own>", other)],
    };
    let of_paper = |paper: &&str| [cell(paper, "random/400", &[1.0, 1.1, 1.3]), cell(paper, "random/1", &[])];
    let cells: Vec<CellComparison> = papers.iter().flat_map(of_paper).collect();
    let lines = to_ndjson(&rows(&cells, None)).expect("memory");
    fs::write(directory.join("comparison.ndjson"), lines).expect("written");
}

/// Adds a comparison of 23 controllers over a network of each purpose: times, and unnecessary
/// retransmissions that fall as times rise.
#[allow(dead_code, reason = "not all tests need them")]
pub fn networks(directory: &Path) {
    let cell = |(purpose, column, unit): (Purpose, &str, Unit)| {
        let entry = |number: u32| {
            let place = f64::from(number * 7 % 23);
            let value =
                if unit == Unit::Seconds { 1.0 + place / 10.0 } else { 10.0 / (1.0 + place) + f64::from(number % 5) };
            Entry {
                controller: if number == 4 { "default".to_owned() } else { format!("controller-{number}") },
                value: Some(value),
                per_replication: vec![value * 0.99, value * 1.01],
            }
        };
        CellComparison {
            scenario: format!("of-{}", purpose.name()),
            name: "random/400".to_owned(),
            column: column.to_owned(),
            purpose: Some(purpose),
            unit,
            better: Better::Lower,
            is_unnecessary: unit == Unit::Percent,
            entries: (0..23).map(entry).collect(),
        }
    };
    let of = |purpose| [(purpose, "due_s", Unit::Seconds), (purpose, "unnecessary_percent", Unit::Percent)];
    let cells: Vec<CellComparison> = [Purpose::Design, Purpose::Judgement].into_iter().flat_map(of).map(cell).collect();
    let lines = to_ndjson(&rows(&cells, None)).expect("memory");
    fs::write(directory.join("comparison.ndjson"), lines).expect("written");
}

fn one(paper: &str, [item, row, column]: [&str; 3], value: f64, values: &mut String, runs: &mut String) {
    let (low, high) = (value * 0.9, value * 1.1);
    writeln!(
        values,
        r#"{{"schema":1,"scenario":"{paper}","item":"{item}","row":"{row}","column":"{column}","unit":"s","published":{value},"measured":{value},"ci95":[{low},{high}],"runs":3}}"#,
    )
    .expect("memory");
    for replication in 0..3_u32 {
        let seed = conche_lab::campaign::seed_of(1, replication);
        let of_run = value * (0.9 + 0.1 * f64::from(replication));
        let flows = [0.5, 1.0, 1.5].map(|of| (of_run * of * 1000.0).round());
        let sample = match column.starts_with("fct_") {
            true => format!(r#"{{"each":[[{},{},{}],1000.0]}}"#, flows[0], flows[1], flows[2]),
            false => format!(r#"{{"one":{of_run}}}"#),
        };
        writeln!(
            runs,
            r#"{{"schema":1,"kind":"run","scenario":"{paper}","settings":"s","replication":{replication},"seed":{seed},"outcome":[{{"figures":[{{"item":"{item}","row":"{row}","column":"{column}"}}],"sample":{sample}}}]}}"#,
        )
        .expect("memory");
    }
}

fn exchanges(paper: &str, runs: &mut String) {
    let seed = conche_lab::campaign::seed_of(1, 0);
    for cell in [1, 2] {
        let of = |which: &str| {
            format!(
                r#"{{"which":"{which}","scheme":"default","traffic":"t","client":0,"server":1,"start_s":1,"lasted_s":{cell}.5,"is_answered":{},"copies":[[0,1],[1,2]]}}"#,
                cell == 1
            )
        };
        let all = ["slowest", "median", "most-copies"].map(of).join(",");
        writeln!(
            runs,
            r#"{{"schema":1,"kind":"run","scenario":"{paper}","settings":"s","cell":{{"axes":{{"clients":"{cell}"}},"schemes":["default"]}},"replication":0,"seed":{seed},"timelines":[{all}],"outcome":[]}}"#,
        )
        .expect("memory");
    }
}

fn columns(value: &Value) -> Vec<String> {
    let labels: &[&str] = if value.column.contains("{}") { &["1", "2", "3"] } else { &[""] };
    labels.iter().map(|label| value.column.replace("{}", label)).collect()
}

fn item<'a>(value: &'a Value, row: &str, column: &str, scenario: &'a Scenario) -> &'a str {
    let known =
        || scenario.items.iter().find(|item| matches_any(&item.rows, row) && matches_any(&item.columns, column));
    value.item.as_deref().or_else(|| known().map(|item| item.name.as_str())).unwrap_or("grid")
}

/// Writes time series of two schemes in a cell, each with this many clients, and of a link.
#[allow(dead_code, reason = "not all tests need them")]
pub fn series(directory: &Path, scenario: &str, clients: u32) {
    let origin = Origin { name: "small".to_owned(), seed: 1, text: scenario.to_owned(), ..Origin::default() };
    let begin = Begin {
        directory,
        program: Program::default(),
        command: vec!["conche".to_owned()],
        options: String::new(),
        effort: serde_json::Value::Null,
        shard: None,
        threads: 1,
        plan: Vec::new(),
        origins: std::slice::from_ref(&origin),
        with_exchanges: false,
        series: Some(Duration::from_secs(1)),
        overwrites: false,
    };
    let (store, _) = Store::open(begin).expect("a directory");
    for (scheme, factor) in [("slow", 2.0), ("fast", 1.0)] {
        let cell = CellId { schemes: vec![scheme.to_owned()], ..CellId::default() };
        let (replication, seed) = (0, conche_lab::campaign::seed_of(1, 0));
        let id = CellHash::new("small", "", &cell, &[]).run(replication, seed);
        let mut tables = store.run_tables(id).expect("tables");
        let rows = tables.series.as_mut().expect("series");
        let of = RowOf { scenario: "small", cell: &cell, scheme: Some(scheme), replication, seed };
        let names: Vec<String> = (1..=clients).map(|client| format!("client{client}")).collect();
        let mut push = |time_s: f64, subject: &str, peer: Option<&str>, quantity: &str, value: f64| {
            rows.push(&SeriesRow { of, time_s, subject, peer, quantity, value }).expect("a row");
        };
        for (name, value) in names.iter().zip(1_u32..) {
            push(0.0, name, Some("server"), "rto_s", factor * f64::from(value));
        }
        push(3.0, "wire", None, "queue_packets", 7.0);
        push(9.0, "client1", Some("server"), "rto_s", 31.0);
        let settings = String::new();
        let run = Run { id, scenario: "small".to_owned(), settings, cell: cell.clone(), replication, seed };
        store.keep(&run, 1, tables, &[]);
    }
    store.close().expect("written");
}

#[allow(dead_code, reason = "not all tests need them")]
pub fn figures_of(papers: &[&str]) -> Vec<String> {
    let paper =
        |name: &&str| PAPERS.iter().find(|known| known.name == *name).expect("a paper").experiment(&Controllers::new());
    let titles = |name| -> Vec<String> {
        paper(name).document().scenario().plots.iter().map(|plot| plot.title.clone()).collect()
    };
    papers.iter().flat_map(titles).collect()
}
