//! Builds the Python package `conche` and installs it into a virtual environment.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{Command, Project, packages, peers};

/// Directory of the package.
pub const PACKAGE: &str = "bindings/python";
/// Its manifest for cargo.
pub const MANIFEST: &str = "bindings/python/Cargo.toml";

/// Versions in the Python index.
const TOOLS: [&str; 13] = [
    "gymnasium==1.4.0",
    "ipykernel==7.4.0",
    "maturin==1.16.0",
    "moto[server]==5.2.5",
    "nbclient==0.11.0",
    "obstore==0.12.1",
    "optuna==5.0.0",
    "pandas==3.1.1",
    "polars==2.1.0",
    "pyarrow==26.0.1",
    "pyright==1.1.414",
    "pytest==9.2.0",
    "ray==2.60.0",
];

/// Returns a Python with the package, built in this profile of cargo, and the tools of its tests.
pub fn conche(project: &Project, profile: &str) -> Result<String> {
    let environment = install_tools(project, profile)?;
    let wheels = environment.join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let out = wheels.to_string_lossy().into_owned();
    let build = ["build", "--quiet", "--locked", "--profile", profile, "--manifest-path", MANIFEST, "--out", &out];
    let maturin = Command::new(&program(&environment, "maturin"), build);
    maturin.env("CARGO_TARGET_DIR", target(project)).run(project)?;
    let entries = fs::read_dir(&wheels).with_context(|| format!("cannot list {out}"))?;
    let Some(wheel) = entries.filter_map(Result::ok).next() else { bail!("maturin wrote no wheel to {out}") };
    let python = program(&environment, "python");
    pip(&python, ["--no-deps", "--force-reinstall", &wheel.path().to_string_lossy()]).run(project)?;
    Ok(python)
}

/// Returns a cargo command for the package, with the target directory of [`conche`].
pub fn cargo(project: &Project, arguments: &str) -> Command {
    Command::cargo(&format!("{arguments} --manifest-path {MANIFEST}")).env("CARGO_TARGET_DIR", target(project))
}

fn target(project: &Project) -> PathBuf {
    project.target().join("python/build")
}

/// Returns a program of a virtual environment.
fn program(environment: &Path, name: &str) -> String {
    environment.join("bin").join(name).to_string_lossy().into_owned()
}

/// Makes a virtual environment in `target/python` with the tools, if missing. A file in it lists
/// them, once all are installed.
pub fn install_tools(project: &Project, profile: &str) -> Result<PathBuf> {
    let aiocoap = format!("aiocoap[oscore]=={}", peers::AIOCOAP);
    let requirements: Vec<_> = TOOLS.into_iter().chain([aiocoap.as_str()]).collect();
    let environment = project.target().join("python").join(profile);
    let installed = environment.join("requirements.txt");
    let wanted = requirements.join("\n");
    if !fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        packages::ensure(project, &packages::PYTHON)?;
        Command::new("python3", ["-m", "venv", &environment.to_string_lossy()]).unshown().run(project)?;
        pip(&program(&environment, "python"), requirements).run(project)?;
        fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))?;
    }
    Ok(environment)
}

fn pip<'a>(python: &str, arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    Command::new(python, install.into_iter().chain(arguments)).unshown()
}
