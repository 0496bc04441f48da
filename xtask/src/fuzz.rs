//! Runs the targets of `fuzz/` from their seeds and the corpus of earlier runs, and shows how to
//! reproduce failures. libFuzzer's output goes to a file.

use std::path::Path;
use std::process::{self, Stdio};
use std::{fs, io};

use anyhow::{Context, Result, bail, ensure};

use crate::project::Project;

#[derive(clap::Args)]
pub struct Options {
    /// Seconds to run each target.
    seconds: u32,
    /// Targets to run; by default all of fuzz/.
    targets: Vec<String>,
}

pub fn run(project: &Project, options: &Options) -> Result<()> {
    let all = targets(&fs::read_to_string(project.root.join("fuzz/Cargo.toml"))?)?;
    let chosen = if options.targets.is_empty() { all.clone() } else { options.targets.clone() };
    if let Some(unknown) = chosen.iter().find(|target| !all.contains(target)) {
        bail!("there is no fuzz target {unknown}: there are {}", all.join(", "));
    }
    check_tools()?;
    let mut found = Vec::new();
    for target in &chosen {
        let (summary, artifact) = fuzz(project, target, options.seconds)?;
        println!("{target:<12} {summary}");
        found.extend(artifact.map(|artifact| (target, artifact)));
    }
    for (target, artifact) in &found {
        eprintln!("{target}: {artifact}; reproduce with `cargo +nightly fuzz run {target} {artifact}`");
    }
    ensure!(found.is_empty(), "{} of {} targets found something: see above", found.len(), chosen.len());
    Ok(())
}

fn targets(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("fuzz/Cargo.toml")?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array).context("fuzz/Cargo.toml declares no [[bin]]")?;
    Ok(bins.iter().filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)).collect())
}

/// A target that runs scripts under a focus uses the seeds of all scripts.
fn seeds(project: &Project, target: &str) -> String {
    let own = format!("fuzz/seeds/{target}");
    let runs_scripts =
        || project.read(&format!("fuzz/fuzz_targets/{target}.rs")).is_ok_and(|text| text.contains("Focus::"));
    if !project.root.join(&own).is_dir() && runs_scripts() { "fuzz/seeds/endpoint".to_owned() } else { own }
}

fn check_tools() -> Result<()> {
    let works = |arguments: &[&str]| {
        let mut command = process::Command::new("cargo");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    ensure!(works(&["+nightly", "--version"]), "no nightly compiler: `rustup toolchain install nightly`");
    ensure!(works(&["+nightly", "fuzz", "--version"]), "no cargo-fuzz: `cargo install cargo-fuzz --locked`");
    Ok(())
}

/// Returns a summary line, and the input that made it fail.
fn fuzz(project: &Project, target: &str, seconds: u32) -> Result<(String, Option<String>)> {
    let (corpus, seeds) = (format!("fuzz/corpus/{target}"), seeds(project, target));
    let log = format!("fuzz/artifacts/{target}.log");
    for directory in [corpus.as_str(), "fuzz/artifacts"] {
        fs::create_dir_all(project.root.join(directory)).with_context(|| directory.to_owned())?;
    }
    let output = fs::File::create(project.root.join(&log)).with_context(|| log.clone())?;
    let time = format!("-max_total_time={seconds}");
    let mut command = process::Command::new("cargo");
    command.args(["+nightly", "fuzz", "run", target, &corpus]);
    command.args(Path::new(&project.root).join(&seeds).is_dir().then_some(&seeds));
    command.args(["--", &time, "-max_len=1024", "-print_final_stats=1"]);
    command.current_dir(&project.root).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output);
    let status = command.status().context("cannot start cargo")?;
    let text = read_lossy(&project.root.join(&log)).with_context(|| log.clone())?;
    let artifact = artifact(&text);
    ensure!(status.success() || artifact.is_some(), "{target} did not run: {}\nsee {log}", last_lines(&text, 20));
    if artifact.is_some() {
        let panic = text.lines().skip_while(|line| !line.contains("panicked at")).take(3);
        panic.for_each(|line| eprintln!("{line}"));
    }
    Ok((summary(&text, artifact.is_some()), artifact))
}

fn read_lossy(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

fn artifact(output: &str) -> Option<String> {
    output.lines().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim().to_owned())
}

fn summary(output: &str, found: bool) -> String {
    let after = |line: &str, word: &str| {
        line.split_once(word).and_then(|(_, rest)| rest.split_whitespace().next()).map(str::to_owned)
    };
    let last = |word: &str| output.lines().rev().find_map(|line| after(line, word));
    let executions = last("stat::number_of_executed_units:").or_else(|| {
        output.lines().rev().find_map(|line| after(line.strip_prefix('#')?, "").filter(|_| line.contains(" cov: ")))
    });
    let (executions, coverage) =
        (executions.unwrap_or_else(|| "?".into()), last(" cov:").unwrap_or_else(|| "?".into()));
    format!("{executions:>10} executions, coverage {coverage:>6}, findings {}", u8::from(found))
}

fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINISHED: &str = "#12\tNEW    cov: 91 ft: 9 corp: 1/4b\n#4096\tDONE   cov: 97 ft: 99 corp: 20/4b\n\
                            stat::number_of_executed_units: 4096\n";
    const FAILED: &str = "#12\tNEW    cov: 91 ft: 9 corp: 1/4b\nthread panicked at a.rs:1\n\
                          artifact_prefix='x/'; Test unit written to x/crash-1\n";

    #[test]
    fn a_run_is_summed_up_whether_it_finished_or_failed() {
        assert_eq!(summary(FINISHED, false).split_whitespace().next(), Some("4096"));
        assert!(summary(FINISHED, false).ends_with("coverage     97, findings 0"));
        assert_eq!(artifact(FINISHED), None);
        assert!(summary(FAILED, true).trim_start().starts_with("12 executions, coverage     91, findings 1"));
        assert_eq!(artifact(FAILED).as_deref(), Some("x/crash-1"));
    }

    #[test]
    fn every_target_has_seeds_to_start_from() {
        let project = Project::find().expect("a checkout");
        let manifest = fs::read_to_string(project.root.join("fuzz/Cargo.toml")).expect("it is checked in");
        for target in targets(&manifest).expect("it declares targets") {
            assert!(project.root.join(seeds(&project, &target)).is_dir(), "{target} has no seeds");
        }
    }
}
