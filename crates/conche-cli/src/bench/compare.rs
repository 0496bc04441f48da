//! `conche bench compare FIRST SECOND`: ratios between two results.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use conche_bench::Report;
use conche_bench::compare::{Compared, Verdict, caveats, compare};
use conche_bench::report::SCHEMA;
use serde::Serialize;
use serde_json::Value;

use crate::Global;
use crate::error::{UsageError, unreadable};
use crate::json;
use crate::show::{self, Grid};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Output of `conche bench --json`, the reference.
    #[arg(value_name = "FIRST")]
    first: PathBuf,
    /// Output of `conche bench --json` to compare with it.
    #[arg(value_name = "SECOND")]
    second: PathBuf,
}

pub(super) fn run(args: &Args, global: &Global) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        schema: u32,
        #[serde(flatten)]
        compared: &'a Compared,
    }
    let (first, second) = (read(&args.first)?, read(&args.second)?);
    let compared = compare(&first, &second);
    if global.json {
        for compared in &compared {
            json::print(&Line { schema: SCHEMA, compared })?;
        }
    } else {
        writeln!(io::stdout(), "{}", table(&compared).laid_out())?;
    }
    if !global.quiet {
        caveats(&first, &second)
            .iter()
            .for_each(|caveat| show::note(format_args!("warning: {}", show::escape(caveat))));
        for (path, report) in [(&args.first, &first), (&args.second, &second)] {
            for warning in &report.warnings {
                show::note(format_args!("warning: {}: {}", path.display(), show::escape(warning)));
            }
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let text = std::fs::read(path).map_err(unreadable(path))?;
    let wrong = |why: String| UsageError(format!("{} is no result of `conche bench --json`: {why}", path.display()));
    let objects: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(&text).into_iter().collect();
    let objects = objects.map_err(|error| wrong(error.to_string()))?;
    if let Some(error) = objects.iter().find_map(|object| object.get("error")?.as_str()) {
        let problem = format!("the test has failed ({}); compare tests that have ended well", show::escape(error));
        return Err(wrong(problem).into());
    }
    let [report] = <[Value; 1]>::try_from(objects).map_err(|objects| {
        wrong(format!("it holds {} JSON objects instead of one; keep each result in a file of its own", objects.len()))
    })?;
    let report: Report = serde_json::from_value(report).map_err(|error| wrong(error.to_string()))?;
    match report.schema {
        SCHEMA => Ok(report),
        other => Err(wrong(format!("its schema is {other}, and this program knows {SCHEMA}")).into()),
    }
}

fn table(compared: &[Compared]) -> Grid {
    let header = ["quantity", "first", "second", "ratio", "95 % interval", "the second is"];
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
    let cells = |row: &Compared| {
        let interval = match (row.low, row.high) {
            (Some(low), Some(high)) => format!("{low:.3} … {high:.3}"),
            _ => "–".to_owned(),
        };
        let verdict = match row.verdict() {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Undecided => "undecided",
        };
        let name = row.quantity.replace('_', " ").replace("per s", "a second");
        vec![name, number(row.first), number(row.second), number(row.ratio), interval, verdict.to_owned()]
    };
    Grid {
        header: header.map(str::to_owned).into(),
        names: 1,
        numbers: 1..5,
        rows: compared.iter().map(cells).collect(),
    }
}
