//! The crate of `conche new-controller` passes its tests, and the command includes such a
//! controller in every paper and in the ranking.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::project::Project;
use tool_support::Command;

/// Papers that must include the controller in their values.
const PAPERS: [&str; 5] = ["etfa14", "commag16", "bdp19", "wiopt12", "anrw18"];

pub fn run(project: &Project) -> Result<()> {
    written(project)?;
    in_every_paper(project)?;
    on_the_board(project)?;
    with_a_parameter(project)
}

/// Writes, compiles and tests the crate with the programs compiled for the tests.
fn written(project: &Project) -> Result<()> {
    let place = project.target().join("own");
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    let directory = place.join("own-rto");
    let (conche, shown) = (project.target().join("debug/conche"), directory.display().to_string());
    Command::new(&conche.to_string_lossy(), ["new-controller", "own-rto", "--directory", &shown]).run(project)?;
    // The versions of the other steps, which are available offline.
    fs::copy(project.root.join("Cargo.lock"), directory.join("Cargo.lock")).context("Cargo.lock cannot be copied")?;
    let manifest = directory.join("Cargo.toml").display().to_string();
    let cargo = |arguments: &str| {
        Command::cargo(arguments)
            .argument("--manifest-path")
            .argument(&manifest)
            // Reuses the dependencies that clippy has checked.
            .env("CARGO_TARGET_DIR", project.target())
            // Faster to compile: nothing is simulated here.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
    };
    // The command in the crate equals the example's, which runs below, so it only has to compile.
    cargo("check --offline --all-targets --features lab").run(project)?;
    cargo("test --offline").run(project)
}

/// Runs the example, which has the crate's controller in the command compiled for the tests.
fn in_every_paper(project: &Project) -> Result<()> {
    let example = project.target().join("debug/examples/twice_peak");
    let arguments = ["reproduce", "--json", "--runs", "1", "--quick", "--controllers", "twice-peak"];
    let figures = Command::new(&example.to_string_lossy(), arguments).output(project)?;
    for paper in PAPERS {
        let of_paper = format!("\"scenario\":\"{paper}\"");
        if !figures.lines().any(|line| line.contains(&of_paper) && line.contains("twice-peak")) {
            bail!("{paper} has no figure of a program's own controller");
        }
    }
    Ok(())
}

fn on_the_board(project: &Project) -> Result<()> {
    let example = project.target().join("debug/examples/twice_peak");
    let arguments = ["compare", "docs/guide/yard.toml", "--json", "--runs", "2", "--controllers", "default,twice-peak"];
    let lines = Command::new(&example.to_string_lossy(), arguments).output(project)?;
    let own = r#""kind":"controller","controller":"twice-peak""#;
    match lines.lines().filter(|line| line.contains(own)).count() {
        1 => Ok(()),
        number => bail!("a program's own controller has {number} lines on the board"),
    }
}

/// Sets the template's parameter on the command line and in a scenario.
fn with_a_parameter(project: &Project) -> Result<()> {
    let example = project.target().join("debug/examples/twice_peak");
    let conche =
        |arguments: &[&str]| Command::new(&example.to_string_lossy(), arguments.iter().copied()).output(project);
    let listed = conche(&["controllers", "twice-peak", "--parameters", "--json"])?;
    if !listed.contains(r#""parameter":"factor","default":"2""#) {
        bail!("a program's own controller has no parameter: {listed}");
    }
    let run = ["run", "docs/guide/yard.toml", "--quick", "--runs", "1", "--json"];
    conche(&[&run[..], &["--controllers", "twice-peak:factor=3"]].concat())?;
    let toml = fs::read_to_string(project.root.join("docs/guide/yard.toml")).context("docs/guide/yard.toml")?;
    let scheme = "\n[[schemes]]\nname = \"own\"\ncontroller = { twice-peak = { factor = 3 } }\n";
    let scenario = project.target().join("own/parameter.toml");
    fs::write(&scenario, toml + scheme).context("the scenario cannot be written")?;
    let run = ["run", &scenario.to_string_lossy(), "--quick", "--runs", "1", "--json", "--controllers", "own"];
    conche(&run)?;
    Ok(())
}
