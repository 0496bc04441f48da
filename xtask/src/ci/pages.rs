//! Uses the web pages in chromium: the playground, whose results it compares with the command's, and the live view.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::playground::{self, Profile};
use crate::project::Project;
use tool_support::{Command, packages, peers};

const TESTS: &str = "tools/pages";
const RESULTS: &str = "results.test.mjs";
const PLAYGROUND: &str = "playground.test.mjs";
const LIVE: &str = "live.test.mjs";
const SHARED: &str = "chromium.mjs";
/// Scenarios to compare.
const EXAMPLES: &str = "scenarios/examples";
/// Further ones: with DTLS, and with radios.
const OTHERS: [&str; 2] = ["scenarios/lossy-handshakes.toml", "scenarios/networks/thread-reports.toml"];

/// Installs the programs.
pub fn prepare_live(project: &Project) -> Result<()> {
    packages::ensure_programs(project)?;
    let scripts = [RESULTS, PLAYGROUND, LIVE, SHARED];
    peers::install_node(project, &project.root.join(TESTS).to_string_lossy(), &scripts, &directory(project))
}

pub fn live(project: &Project) -> Result<()> {
    prepare_live(project)?;
    test(LIVE, project)?.run(project)
}

/// Compiles the WebAssembly, which takes two minutes of a processor, and installs the programs.
pub fn prepare_playground(project: &Project) -> Result<()> {
    prepare_live(project)?;
    playground::build(project, &site(project), Profile::Test)
}

pub fn playground(project: &Project) -> Result<()> {
    prepare_playground(project)?;
    for script in [RESULTS, PLAYGROUND] {
        test(script, project)?.env("PLAYGROUND", site(project)).env("SCENARIOS", scenarios(project)?).run(project)?;
    }
    Ok(())
}

fn directory(project: &Project) -> PathBuf {
    project.target().join("pages")
}

/// Returns the command that runs a script. The `conche` in its environment is the one compiled for the tests.
fn test(script: &str, project: &Project) -> Result<Command> {
    let conche = project.target().join("debug/conche");
    if !conche.is_file() {
        bail!("{} is missing: `cargo xtask ci compile` builds it", conche.display());
    }
    Ok(Command::new("node", ["--test", &directory(project).join(script).to_string_lossy()]).env("CONCHE", &conche))
}

/// Returns the directory of the playground's files, apart from those that `cargo xtask playground` optimizes.
fn site(project: &Project) -> PathBuf {
    directory(project).join("site")
}

/// Returns the paths of the scenarios, one a line.
fn scenarios(project: &Project) -> Result<String> {
    let entries = fs::read_dir(project.root.join(EXAMPLES)).with_context(|| format!("cannot list {EXAMPLES}"))?;
    let mut paths = OTHERS.map(|path| project.root.join(path)).to_vec();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.sort_unstable();
    Ok(paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>().join("\n"))
}
