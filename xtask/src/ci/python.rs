//! Builds the Python package in a virtual environment, and runs its tests and its type checker.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::project::Project;
use tool_support::{Command, packages, peers};

const PACKAGE: &str = "bindings/python";
const MANIFEST: &str = "bindings/python/Cargo.toml";
/// Versions of the tools in the Python index.
const TOOLS: [&str; 3] = ["maturin==1.16.0", "pyright==1.1.414", "pytest==9.2.0"];

/// Installs the tools and builds the package. Without optimization, that takes about a minute and a
/// half of a processor.
pub fn prepare(project: &Project) -> Result<()> {
    install_tools(project)?;
    cargo(project, "build --quiet --locked").patient().run(project)
}

pub fn run(project: &Project) -> Result<()> {
    install_tools(project)?;
    Command::cargo(&format!("fmt --manifest-path {MANIFEST} --check")).run(project)?;
    cargo(project, "clippy --quiet --locked").argument("--").argument("-Dwarnings").run(project)?;
    install_package(project)?;
    let python = program(project, "python");
    Command::new(&python, ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", PACKAGE]).run(project)?;
    let arguments = ["--project", PACKAGE, "--pythonpath", python.as_str()];
    Command::new(&program(project, "pyright"), arguments).run(project)
}

fn cargo(project: &Project, arguments: &str) -> Command {
    let command = Command::cargo(&format!("{arguments} --manifest-path {MANIFEST}"));
    command.env("CARGO_TARGET_DIR", directory(project).join("build"))
}

fn directory(project: &Project) -> PathBuf {
    project.target().join("python")
}

/// Returns a program of the virtual environment.
fn program(project: &Project, name: &str) -> String {
    directory(project).join("environment/bin").join(name).to_string_lossy().into_owned()
}

/// A file lists the installed requirements, once all are.
fn install_tools(project: &Project) -> Result<()> {
    let aiocoap = format!("aiocoap[oscore]=={}", peers::AIOCOAP);
    let requirements: Vec<_> = TOOLS.into_iter().chain([aiocoap.as_str()]).collect();
    let environment = directory(project).join("environment");
    let installed = environment.join("requirements.txt");
    let wanted = requirements.join("\n");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    packages::ensure(project, &packages::PYTHON)?;
    Command::new("python3", ["-m", "venv", &environment.to_string_lossy()]).unshown().run(project)?;
    pip(project, requirements).run(project)?;
    fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))
}

/// Installs a wheel, which must contain everything that the package needs.
fn install_package(project: &Project) -> Result<()> {
    let wheels = directory(project).join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let out = wheels.to_string_lossy().into_owned();
    let build = ["build", "--quiet", "--locked", "--profile", "dev", "--manifest-path", MANIFEST, "--out", &out];
    let target = directory(project).join("build");
    Command::new(&program(project, "maturin"), build).env("CARGO_TARGET_DIR", target).run(project)?;
    let entries = fs::read_dir(&wheels).with_context(|| format!("cannot list {out}"))?;
    let Some(wheel) = entries.filter_map(Result::ok).next() else { bail!("maturin wrote no wheel to {out}") };
    pip(project, ["--no-deps", "--force-reinstall", &wheel.path().to_string_lossy()]).run(project)
}

fn pip<'a>(project: &Project, arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    Command::new(&program(project, "python"), install.into_iter().chain(arguments)).unshown()
}
