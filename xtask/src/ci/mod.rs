//! `cargo xtask ci`: everything that has to pass before a change is merged, in order of how soon it tells.
//!
//! | module | what it holds |
//! |---|---|
//! | [`command`] | a command that is shown, run and judged |
//! | [`interop`] | the tests that need other programs |
//! | [`packages`] | what the machine must have: compiler targets, Debian packages |

pub mod command;
mod interop;
mod packages;

use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use crate::project::Project;
use crate::{compliance, readme, tidy};
use command::Command;

/// What to run.
#[derive(clap::Args)]
pub struct Options {
    /// Run these steps only (see --list).
    steps: Vec<String>,
    /// List the steps.
    #[arg(long)]
    list: bool,
}

/// One step.
struct Step {
    name: &'static str,
    what: &'static str,
    /// What to do when it fails.
    advice: &'static str,
    run: fn(&Project) -> Result<()>,
}

const STEPS: [Step; 11] = [
    Step {
        name: "fmt",
        what: "the sources are formatted",
        advice: "run `cargo fmt --all`",
        run: |project| Command::cargo("fmt --all --check").run(project),
    },
    Step {
        name: "tidy",
        what: "headers, lengths, invariants, layers, links, origins of data, licences",
        advice: "mend the lines listed above; `cargo xtask tidy` runs this step alone",
        run: tidy::run,
    },
    Step {
        name: "clippy",
        what: "no warning of the compiler or of clippy",
        advice: "mend the warnings; an `#[allow]` needs a `reason`",
        run: |project| Command::cargo("clippy --workspace --all-targets -- -D warnings").run(project),
    },
    Step {
        name: "doc",
        what: "the documentation builds without a warning",
        advice: "mend the links and missing documentation named above",
        run: |project| Command::cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings").run(project),
    },
    Step {
        name: "embedded",
        what: "conche-cc and conche-proto build for microcontrollers without an operating system",
        advice: "these crates are no_std: use core and alloc, and dependencies with `default-features = false`",
        run: embedded,
    },
    Step {
        name: "examples",
        what: "the examples build",
        advice: "adapt the example that fails to the changed interface",
        run: |project| Command::cargo("build --workspace --examples --profile test").run(project),
    },
    Step {
        name: "test",
        what: "the README's test command",
        advice: "run the failed test alone: `cargo test -p CRATE NAME`",
        run: |project| {
            let arguments = readme::TEST_COMMAND.strip_prefix("cargo ").context("the test command is cargo's")?;
            Command::cargo(arguments).run(project)
        },
    },
    Step {
        name: "interop",
        what: "tests that need other programs: libcoap and Wireshark",
        advice: "run the failed test alone: `cargo test -p CRATE NAME -- --ignored`",
        run: interop::run,
    },
    Step {
        name: "fuzz",
        what: "the fuzz targets are formatted and compile",
        advice: "run `cargo fmt --manifest-path fuzz/Cargo.toml`, and adapt the target to the changed interface",
        run: |project| {
            Command::cargo("fmt --manifest-path fuzz/Cargo.toml --check").run(project)?;
            Command::cargo("check --manifest-path fuzz/Cargo.toml").run(project)
        },
    },
    Step {
        name: "compliance",
        what: "every requirement of RFC 7252 §4 and §5 has a test",
        advice: "write the test and name the requirement in a comment: `// RFC 7252 §4.2 (Q08)`",
        run: |project| compliance::run(project, &compliance::Options::default()),
    },
    Step {
        name: "readme",
        what: "the README's commands work, and its code is that of an example",
        advice: "mend README.md, or what it promises",
        run: readme::run,
    },
];

/// Runs the steps and stops at the first that fails.
pub fn run(project: &Project, options: &Options) -> Result<()> {
    if options.list {
        for step in &STEPS {
            println!("{:<11} {}", step.name, step.what);
        }
        return Ok(());
    }
    let steps = chosen(&options.steps)?;
    let start = Instant::now();
    for (step, number) in steps.iter().zip(1..) {
        println!("\n=== [{number}/{}] {}: {}", steps.len(), step.name, step.what);
        let step_start = Instant::now();
        (step.run)(project).map_err(|error| {
            let Step { name, advice, .. } = step;
            anyhow!("step `{name}` failed: {error:#}\nWhat to do: {advice}.\nThen again: cargo xtask ci {name}")
        })?;
        println!("=== {} passed in {:.0?}", step.name, step_start.elapsed());
    }
    if options.steps.is_empty() {
        println!("\n=== All passed in {:.0?}; so did every test that the compliance matrix names.", start.elapsed());
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Step>> {
    if let Some(unknown) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        bail!("there is no step `{unknown}`; `cargo xtask ci --list` lists them");
    }
    Ok(STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name)).collect())
}

fn embedded(project: &Project) -> Result<()> {
    let mut arguments = "build -p conche-cc -p conche-proto --lib".to_owned();
    for target in ["thumbv6m-none-eabi", "thumbv7em-none-eabihf"] {
        packages::ensure_target(project, target)?;
        arguments += &format!(" --target {target}");
    }
    Command::cargo(&arguments).run(project)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_in_their_order_whatever_the_order_of_their_names() {
        let names: Vec<_> =
            chosen(&["clippy".to_owned(), "fmt".to_owned()]).expect("known").iter().map(|s| s.name).collect();
        assert_eq!(names, ["fmt", "clippy"]);
        assert_eq!(chosen(&[]).expect("all").len(), STEPS.len());
    }

    #[test]
    fn an_unknown_step_is_refused() {
        assert!(chosen(&["lint".to_owned()]).is_err());
    }
}
