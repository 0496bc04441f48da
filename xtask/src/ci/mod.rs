//! `cargo xtask ci`: all checks that must pass before a change is merged, fastest first.

mod background;
mod guide;
mod interop;
mod pages;
mod prefetch;
mod python;
mod user_controller;

use std::env;
use std::process;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use crate::project::Project;
use crate::{compliance, papers, readme, tidy};
use background::Background;
use prefetch::Prefetch;
use tool_support::{Command, packages};

#[derive(clap::Args)]
pub struct Options {
    /// Run these steps only (see --list).
    steps: Vec<String>,
    /// List the steps.
    #[arg(long)]
    list: bool,
}

struct Step {
    name: &'static str,
    what: &'static str,
    advice: &'static str,
    /// Preparation that may run during earlier steps.
    prefetch: Option<fn(&Project) -> Result<()>>,
    /// Whether it runs beside the steps between [`COMPILED`] and itself; such steps come last, and
    /// need no results of the others.
    background: bool,
    run: fn(&Project) -> Result<()>,
}

const COMPILED: &str = "compile";

const STEPS: [Step; 18] = [
    Step {
        name: "fmt",
        what: "the sources are formatted",
        advice: "run `cargo fmt --all`",
        ..Step::new(|project| Command::cargo("fmt --all --check").run(project))
    },
    Step {
        name: "tidy",
        what: "headers, invariants, layers, links, quoted code, origins of data, licences",
        advice: "mend the lines listed above; `cargo xtask tidy` runs this step alone",
        ..Step::new(|project| tidy::run(project, &tidy::Options::default()))
    },
    Step {
        name: "clippy",
        what: "no warning of the compiler or of clippy, with and without the optional features; benches compile",
        advice: "mend the warnings; an `#[allow]` needs a `reason`",
        ..Step::new(clippy)
    },
    Step {
        name: "doc",
        what: "the documentation builds without a warning",
        advice: "mend the links and missing documentation named above",
        ..Step::new(|project| {
            Command::cargo("doc --workspace --all-features --no-deps").env("RUSTDOCFLAGS", "-D warnings").run(project)
        })
    },
    Step {
        name: "embedded",
        what: "conche-cc and conche-proto build for microcontrollers without an operating system",
        advice: "these crates are no_std: use core and alloc, and dependencies with `default-features = false`",
        ..Step::new(embedded)
    },
    Step {
        name: "examples",
        what: "the examples build, and those that need nobody else run",
        advice: "adapt the example that fails to the changed interface, or mend what it shows",
        ..Step::new(examples)
    },
    Step {
        name: COMPILED,
        what: "the tests compile",
        advice: "adapt the test to the changed interface",
        ..Step::new(|project| test_command()?.argument("--no-run").argument("--quiet").run(project))
    },
    Step {
        name: "test",
        what: "the README's test command, and the controllers without a heap",
        advice: "run the failed test alone: `cargo test -p CRATE --all-features NAME`",
        ..Step::new(test)
    },
    Step {
        name: "fuzz",
        what: "the fuzz targets are formatted and compile",
        advice: "run `cargo fmt --manifest-path fuzz/Cargo.toml`, and adapt the target to the changed interface",
        prefetch: Some(check_fuzz_targets),
        ..Step::new(|project| {
            Command::cargo("fmt --manifest-path fuzz/Cargo.toml --check").run(project)?;
            check_fuzz_targets(project)
        })
    },
    Step {
        name: "python",
        what: "the Python package builds, its types are complete, and it works with aiocoap",
        advice: "mend what is named above; bindings/python/README.md has the layout of the package",
        prefetch: Some(python::prepare),
        ..Step::new(python::run)
    },
    Step {
        name: "compliance",
        what: "every requirement of RFC 7252 and its extensions has a test, or a reason to have none",
        advice: "write the test and name the requirement in a comment: `// RFC 7252 §4.2 (Q08)`",
        ..Step::new(|project| compliance::run(project, &compliance::Options::default()))
    },
    Step {
        name: "readme",
        what: "the commands of the README and the guide work, or fail as they say",
        advice: "mend the document, or what it promises",
        prefetch: Some(build_command),
        ..Step::new(readme::run)
    },
    Step {
        name: "guide",
        what: "the guide builds as a book",
        advice: "mend the chapter or docs/guide/book.toml; `mdbook serve docs/guide` shows the book",
        prefetch: Some(guide::prepare),
        ..Step::new(guide::run)
    },
    Step {
        name: "live",
        what: "the page of `conche run --live` and `conche emulate --live` works in chromium",
        advice: "mend what is named above; `conche run gprs --live` shows the page",
        prefetch: Some(pages::prepare_live),
        ..Step::new(pages::live)
    },
    Step {
        name: "playground",
        what: "the lab in a browser has the results of the command, and its page works in chromium",
        advice: "mend what is named above; `cargo xtask playground` and `conche playground` show the page",
        prefetch: Some(pages::prepare_playground),
        ..Step::new(pages::playground)
    },
    Step {
        name: "papers",
        what: "the papers give the figures that are recorded in scenarios/recorded",
        advice: "find out why the figures listed above moved; if it is meant, `cargo xtask papers --record`, and say so",
        ..Step::new(|project| papers::run(project, &papers::Options::default()))
    },
    Step {
        name: "interop",
        what: "tests that need other programs; compares docs/interop.md with the cases against libcoap, aiocoap, Californium, go-coap, node-coap",
        advice: "run what failed alone: `cargo test -p CRATE NAME -- --ignored`, `cargo xtask interop --case ID --peer NAME`",
        prefetch: Some(interop::prepare),
        ..Step::new(interop::run)
    },
    Step {
        name: "own",
        what: "a crate that `conche new-controller` writes passes its tests, and such a controller is in every paper",
        advice: "run `conche new-controller my-rto --directory target/my-rto` and its tests; adapt src/new_controller/template",
        background: true,
        ..Step::new(user_controller::run)
    },
];

impl Step {
    const fn new(run: fn(&Project) -> Result<()>) -> Self {
        Self { name: "", what: "", advice: "", prefetch: None, background: false, run }
    }
}

pub fn run(project: &Project, options: &Options) -> Result<()> {
    if options.list {
        for step in &STEPS {
            println!("{:<11} {}", step.name, step.what);
        }
        return Ok(());
    }
    let steps = chosen(&options.steps)?;
    // Explicitly chosen steps run alone and in their order.
    let prefetch = options.steps.is_empty().then(|| Prefetch::begin(project, &by_need(&steps)));
    let mut background: Option<Background> = None;
    let start = Instant::now();
    for (step, number) in steps.iter().zip(1..) {
        println!("\n=== [{number}/{}] {}: {}", steps.len(), step.name, step.what);
        let step_start = Instant::now();
        let outcome = match &background {
            Some(lane) if step.background => lane.wait_for(step),
            _ => prepared(prefetch.as_ref(), step).and_then(|()| (step.run)(project)),
        };
        outcome.map_err(|error| {
            let Step { name, advice, .. } = step;
            if background.is_some() {
                // Printed early, as the step beside has to end first.
                eprintln!("step `{name}` failed: {error:#}");
            }
            anyhow!("step `{name}` failed: {error:#}\nWhat to do: {advice}.\nThen again: cargo xtask ci {name}")
        })?;
        println!("=== {} passed in {:.0?}", step.name, step_start.elapsed());
        if prefetch.is_some() && step.name == COMPILED {
            let waiting: Vec<_> = steps.iter().copied().filter(|step| step.background).collect();
            waiting.iter().try_for_each(|step| prepared(prefetch.as_ref(), step))?;
            let names: Vec<_> = waiting.iter().map(|step| step.name).collect();
            println!("beside what follows, until it is their turn to be shown: {}", names.join(", "));
            background = Some(Background::begin(project, &waiting, single_step_command));
        }
    }
    if options.steps.is_empty() {
        println!("\n=== All passed in {:.0?}; so did every test that the compliance matrix names.", start.elapsed());
    }
    Ok(())
}

/// Orders preparations by need: steps that run beside others come first.
fn by_need(steps: &[&'static Step]) -> Vec<&'static Step> {
    let (background, others): (Vec<_>, Vec<_>) = steps.iter().partition(|step| step.background);
    [background, others].concat()
}

fn prepared(prefetch: Option<&Prefetch>, step: &Step) -> Result<()> {
    prefetch.map_or(Ok(()), |prefetch| prefetch.wait_for(step))
}

fn single_step_command(step: &Step) -> Result<process::Command> {
    let mut command = process::Command::new(env::current_exe().context("this program does not know its own file")?);
    command.args(["ci", step.name]);
    Ok(command)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Step>> {
    if let Some(unknown) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        bail!("there is no step `{unknown}`; `cargo xtask ci --list` lists them");
    }
    Ok(STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name)).collect())
}

/// Also checks libraries and programs without optional features; the last run only rechecks
/// packages with features. `conche-proto` and `conche` come first and alone: dependents would
/// enable features of them in a workspace build.
fn clippy(project: &Project) -> Result<()> {
    for scope in [
        "-p conche-proto --lib",
        "-p conche --lib",
        "--workspace --lib --bins",
        "--workspace --all-targets --all-features",
    ] {
        Command::cargo(&format!("clippy {scope} -- -D warnings")).run(project)?;
    }
    Ok(())
}

/// conche-cc alone builds without a heap; together with conche-proto it uses one.
fn embedded(project: &Project) -> Result<()> {
    const SMALLEST: &str = "thumbv6m-none-eabi";
    const LARGER: &str = "thumbv7em-none-eabihf";
    for target in [SMALLEST, LARGER] {
        packages::ensure_target(project, target)?;
    }
    let both = format!("--target {SMALLEST} --target {LARGER}");
    for packages in ["-p conche-cc", "-p conche-cc -p conche-proto", "-p conche-proto --features oscore"] {
        Command::cargo(&format!("build {packages} --lib {both}")).run(project)?;
    }
    // EDHOC counts references to credentials, which needs atomic operations.
    Command::cargo(&format!("build -p conche-proto --features edhoc --lib --target {LARGER}")).run(project)
}

/// Self-contained examples, which fail if a result differs from their description.
const SELF_CONTAINED: &str = "\
    quickstart authorised certificates edhoc event_log exchange exposed gateway group large_body \
    lwm2m_device metrics mistakes observe oscore own_controller own_parameters paths secured service \
    shared_state stream";

/// With the features and profile of the tests, so that nothing is compiled twice: `cargo run` would
/// select the features of one package.
fn examples(project: &Project) -> Result<()> {
    Command::cargo("build --workspace --all-features --examples --profile test").run(project)?;
    let directory = project.target().join("debug/examples");
    for example in SELF_CONTAINED.split_whitespace() {
        Command::new(&directory.join(example).to_string_lossy(), []).run(project)?;
    }
    Ok(())
}

fn check_fuzz_targets(project: &Project) -> Result<()> {
    Command::cargo("check --quiet --manifest-path fuzz/Cargo.toml").patient().run(project)
}

fn build_command(project: &Project) -> Result<()> {
    Command::cargo("build --release --quiet").patient().run(project)
}

fn test_command() -> Result<Command> {
    Ok(Command::cargo(readme::TEST_COMMAND.strip_prefix("cargo ").context("the test command is cargo's")?))
}

fn test(project: &Project) -> Result<()> {
    test_command()?.run(project)?;
    Command::cargo("test -p conche-cc --lib --tests").run(project)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_in_declared_order_for_any_order_of_arguments() {
        let names: Vec<_> =
            chosen(&["clippy".to_owned(), "fmt".to_owned()]).expect("known").iter().map(|s| s.name).collect();
        assert_eq!(names, ["fmt", "clippy"]);
        assert_eq!(chosen(&[]).expect("all").len(), STEPS.len());
    }

    #[test]
    fn background_steps_are_prepared_first_and_shown_last() {
        let steps = chosen(&[]).expect("all");
        let background = steps.iter().filter(|step| step.background).count();
        assert!(by_need(&steps)[..background].iter().all(|step| step.background));
        assert!(steps[steps.len() - background..].iter().all(|step| step.background));
        assert!(background > 0 && steps.iter().any(|step| step.name == COMPILED));
    }

    #[test]
    fn an_unknown_step_is_refused() {
        assert!(chosen(&["lint".to_owned()]).is_err());
    }
}
