//! Requirements beyond a Rust toolchain: compiler targets, and Debian and Python packages.

use std::env;
use std::path::Path;
use std::process;

use anyhow::{Context, Result, bail};

use crate::{Command, Project};

const PROGRAMS: [(&str, &str); 4] =
    [("coap-server-notls", "libcoap3-bin"), ("tshark", "tshark"), ("chromium", "chromium"), ("ping", "iputils-ping")];

const PYARROW: &str = "pyarrow==26.0.1";

/// Requirements of a Python virtual environment.
pub const PYTHON: [(&str, &str); 1] = [("python3 -c import ensurepip", "python3-venv")];

/// Returns a Python with pyarrow.
pub fn ensure_pyarrow(project: &Project) -> Result<String> {
    ensure(project, &PYTHON)?;
    ensure_python(project, "pyarrow", PYARROW)
}

/// Installs `PACKAGE==VERSION`, if missing, into a virtual environment in `target/interop`, and
/// returns its Python. Extras are not checked.
pub fn ensure_python(project: &Project, environment: &str, requirement: &str) -> Result<String> {
    let (package, version) = requirement.split_once("==").context("a version is required")?;
    let directory = project.target().join("interop").join(environment).to_string_lossy().into_owned();
    let python = format!("{directory}/bin/python");
    let name = package.split('[').next().unwrap_or(package);
    let wanted = format!("import sys, importlib.metadata as m; sys.exit(m.version('{name}') != '{version}')");
    if process_succeeds(&python, &["-c", &wanted]) {
        return Ok(python);
    }
    Command::new("python3", ["-m", "venv", &directory]).unshown().run(project)?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement];
    Command::new(&python, pip).unshown().run(project)?;
    Ok(python)
}

/// Adds a compiler target with rustup, if missing.
pub fn ensure_target(project: &Project, target: &str) -> Result<()> {
    let installed = process::Command::new("rustup")
        .args(["target", "list", "--installed"])
        .current_dir(&project.root)
        .output()
        .with_context(|| format!("cannot start rustup; install the target {target} as your toolchain does it"))?;
    if String::from_utf8_lossy(&installed.stdout).lines().any(|line| line == target) {
        return Ok(());
    }
    Command::new("rustup", ["target", "add", target]).run(project)
}

/// Installs the programs of the interop tests, if missing.
pub fn ensure_programs(project: &Project) -> Result<()> {
    ensure(project, &PROGRAMS)
}

/// Installs missing packages; without root, fails with the command to run. A requirement is a
/// program, a file by absolute path, or a command that must succeed.
pub fn ensure(project: &Project, needs: &[(&str, &str)]) -> Result<()> {
    let missing = missing(needs, is_there);
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if !is_root()? {
        bail!("the interop tests need {packages}; run: sudo apt-get install --no-install-recommends {packages}");
    }
    let apt = |arguments: String| {
        let command = Command::new("apt-get", arguments.split_whitespace());
        command.env("DEBIAN_FRONTEND", "noninteractive").run(project)
    };
    apt("update -q".to_owned())?;
    apt(format!("install -q -y --no-install-recommends {packages}"))
}

fn missing<'a>(programs: &[(&str, &'a str)], is_there: impl Fn(&str) -> bool) -> Vec<&'a str> {
    programs.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
}

fn is_there(need: &str) -> bool {
    match need.split_once(' ') {
        Some((program, arguments)) => succeeds(program, arguments),
        None if need.starts_with('/') => Path::new(need).is_file(),
        None => is_on_path(need),
    }
}

fn succeeds(program: &str, arguments: &str) -> bool {
    let (flag, argument) = arguments.split_once(' ').unwrap_or((arguments, ""));
    process_succeeds(program, &[flag, argument])
}

fn process_succeeds(program: &str, arguments: &[&str]) -> bool {
    let status = process::Command::new(program).args(arguments).stderr(process::Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn is_root() -> Result<bool> {
    let id = process::Command::new("id").arg("-u").output().context("cannot start id")?;
    Ok(id.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_packages_of_missing_programs_are_named() {
        assert_eq!(missing(&PROGRAMS, |program| program == "tshark"), ["libcoap3-bin", "chromium", "iputils-ping"]);
        assert!(missing(&PROGRAMS, |_| true).is_empty());
        assert!(is_on_path("sh") && !is_on_path("no-such-program"));
        assert!(is_there("/bin/sh") && !is_there("/no/such/file"));
        assert!(is_there("sh -c true") && !is_there("sh -c false"));
    }
}
