//! The lab for a web page: checks and runs scenarios, and draws their report.
//!
//! `cargo xtask playground` compiles the program to WebAssembly for WASI, and `web` has the page. It
//! reads one [`Request`] in JSON from standard input. It prints JSON lines: while it runs a
//! scenario, numbers, the share of the work that is done; then the value. Results are identical to
//! those of `conche run`.

mod experiment;
mod offer;

use std::io::{self, Write};
use std::process::ExitCode;

use conche_lab::campaign::Progress;
use conche_lab::scenario::Effort;
use serde::{Deserialize, Serialize};

/// A question of the page, such as `{"check": {"scenario": "…", "options": {"quick": true}}}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    /// Lists the scenarios to start from.
    Examples,
    /// Lists the controllers.
    Controllers,
    /// Checks an experiment: `null` or a problem.
    Check(Experiment),
    /// Runs an experiment: `{"Ok": outcome}` or `{"Err": problem}`.
    Run(Experiment),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Experiment {
    scenario: String,
    options: Effort,
}

fn main() -> ExitCode {
    let answered = serde_json::from_reader(io::stdin().lock()).map_err(io::Error::from).and_then(answer);
    answered.map_or_else(
        |error| {
            eprintln!("the simulator cannot answer: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn answer(request: Request) -> io::Result<()> {
    match request {
        Request::Examples => print(&offer::examples()),
        Request::Controllers => print(&offer::controllers()),
        Request::Check(Experiment { scenario, options }) => print(&experiment::check(&scenario, &options)),
        Request::Run(Experiment { scenario, options }) => {
            let watch = |Progress { done, total, .. }: Progress| {
                // The value below fails, too.
                let _ = print(&(done as f64 / total.max(1) as f64));
            };
            print(&experiment::run(&scenario, &options, &watch))
        }
    }
}

fn print(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    io::stdout().lock().write_all(&line)
}
