//! Installs, compiles and starts test programs on other implementations.

use std::fs;
use std::path::Path;
use std::process::{self, Child};

use anyhow::{Context, Result};

use crate::{Command, Project, packages};

/// Version of aiocoap in the Python index.
pub const AIOCOAP: &str = "0.4.17";

/// Version of Californium in tools/interop/californium/pom.xml.
pub const CALIFORNIUM: &str = "3.14.0";

/// Version of go-coap in tools/bench-peers/go-coap/go.mod.
pub const GO_COAP: &str = "3.5.4";

/// Version of node-coap in tools/bench-peers/node-coap/package.json.
pub const NODE_COAP: &str = "1.5.0";

/// Version of coap-rs in tools/bench-peers/coap-rs/Cargo.toml.
pub const COAP_RS: &str = "0.29.0";

/// No later version before 4.0 was published.
pub const CALIFORNIUM_OSCORE: &str = "3.13.0";

/// Version of Leshan in tools/interop/leshan/pom.xml.
const LESHAN: &str = "2.0.0-M18";

/// Requirements of C programs: a program or header, and its Debian package.
pub const C: [(&str, &str); 1] = [("gcc", "gcc")];
/// Requirements of programs on libcoap.
pub const LIBCOAP: [(&str, &str); 2] = [C[0], ("/usr/include/coap3/coap.h", "libcoap3-dev")];
/// aiocoap's DTLS (tinydtls), which has no wheel.
const DTLS_SOCKET: [(&str, &str); 5] =
    [C[0], ("make", "make"), ("autoreconf", "autoconf"), ("aclocal", "automake"), (PYTHON_HEADER, "python3-dev")];
/// Requirements of programs on Californium.
pub const JAVA: [(&str, &str); 2] = [("javac", "default-jdk-headless"), ("mvn", "maven")];

/// Succeeds if C modules for Python can be compiled.
const PYTHON_HEADER: &str =
    "python3 -c import sysconfig as s, os, sys; sys.exit(not os.path.isfile(s.get_path('include') + '/Python.h'))";

/// Links libcoap with DTLS by OpenSSL.
pub const WITH_LIBCOAP_DTLS: &[&str] = &["-lcoap-3-openssl"];

/// Compiles a C program, unless it is current. The first source includes the others.
pub fn compile_c(project: &Project, sources: &[&str], program: &str, libraries: &[&str]) -> Result<()> {
    if is_current(program, sources) {
        return Ok(());
    }
    let arguments = ["-Wall", "-Wextra", "-Werror", "-O2", "-o", program].into_iter().chain(sources.first().copied());
    Command::new("gcc", arguments.chain(libraries.iter().copied())).unshown().run(project)
}

/// Compiles changed programs on Californium. Returns their class path.
pub fn compile_californium(project: &Project, sources: &[&str], classes: &str) -> Result<String> {
    let jars = [
        format!("californium-core-{CALIFORNIUM}"),
        format!("scandium-{CALIFORNIUM}"),
        format!("cf-oscore-{CALIFORNIUM_OSCORE}"),
    ];
    compile_java(project, "californium", &jars, sources, classes)
}

/// Fetches Leshan and compiles its programs, if missing. Returns their class path.
pub fn leshan(project: &Project) -> Result<String> {
    packages::ensure(project, &JAVA)?;
    let source = |class| project.root.join(format!("tools/interop/leshan/{class}.java")).to_string_lossy().into_owned();
    let sources = ["Server", "Device", "Credentials"].map(source);
    let sources: Vec<_> = sources.iter().map(String::as_str).collect();
    let classes = project.target().join("tools/interop/leshan/classes").to_string_lossy().into_owned();
    let jars = ["server", "client"].map(|part| format!("leshan-tl-cf-{part}-coap-{LESHAN}"));
    compile_java(project, "leshan", &jars, &sources, &classes)
}

/// Fetches the libraries of `tools/interop/PEER/pom.xml`, unless these jars are there, and compiles
/// changed programs. Returns the class path.
fn compile_java(project: &Project, peer: &str, jars: &[String], sources: &[&str], classes: &str) -> Result<String> {
    let libraries = project.target().join(format!("interop/{peer}/lib"));
    let path = format!("{}/*", libraries.display());
    if !jars.iter().all(|jar| libraries.join(format!("{jar}.jar")).is_file()) {
        let pom = project.root.join(format!("tools/interop/{peer}/pom.xml")).to_string_lossy().into_owned();
        let output = format!("-DoutputDirectory={}", libraries.display());
        let goal = ["-q", "-B", "-f", &pom, "dependency:copy-dependencies", &output, "-DincludeScope=runtime"];
        // Maven prints colour codes even without messages.
        Command::new("mvn", goal).unshown().output(project)?;
    }
    let class = |source: &&str| {
        let name = source.rsplit('/').next().unwrap_or(source);
        format!("{classes}/{}", name.replace(".java", ".class"))
    };
    if !sources.iter().map(class).all(|class| is_current(&class, sources)) {
        let arguments = ["-nowarn", "-cp", &path, "-d", classes];
        Command::new("javac", arguments.into_iter().chain(sources.iter().copied())).unshown().run(project)?;
    }
    Ok(format!("{path}:{classes}"))
}

/// Builds the programs of a Go module, each named after its package.
pub fn build_go(project: &Project, sources: &str, programs: &str) -> Result<()> {
    packages::ensure(project, &[("go", "golang-go")])?;
    fs::create_dir_all(programs).with_context(|| format!("cannot make {programs}"))?;
    Command::new("go", ["build", "-C", sources, "-o", &format!("{programs}/"), "./..."]).unshown().run(project)
}

/// Installs scripts and the packages of package-lock.json into a directory.
pub fn install_node(project: &Project, sources: &str, scripts: &[&str], directory: &Path) -> Result<()> {
    packages::ensure(project, &[("node", "nodejs"), ("npm", "npm")])?;
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let source = |name: &str| Path::new(sources).join(name);
    for name in ["package.json", "package-lock.json"].iter().chain(scripts) {
        let source = source(name);
        fs::copy(&source, directory.join(name)).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    let installed = directory.join("node_modules/.package-lock.json");
    if !is_current(&installed.to_string_lossy(), &[&source("package-lock.json").to_string_lossy()]) {
        let directory = directory.to_string_lossy();
        let arguments = ["--prefix", &directory, "ci", "--silent", "--no-audit", "--no-fund"];
        Command::new("npm", arguments).unshown().output(project)?;
    }
    Ok(())
}

/// Returns a Python with aiocoap.
pub fn aiocoap(project: &Project) -> Result<String> {
    packages::ensure_python(project, "aiocoap", &format!("aiocoap=={AIOCOAP}"))
}

/// Returns a Python with aiocoap, its OSCORE, EDHOC and DTLS, apart from the measured one.
pub fn secured_aiocoap(project: &Project) -> Result<String> {
    let needs: Vec<_> = packages::PYTHON.into_iter().chain(DTLS_SOCKET).collect();
    packages::ensure(project, &needs)?;
    packages::ensure_python(project, "aiocoap-secured", &format!("aiocoap[oscore,tinydtls]=={AIOCOAP}"))
}

/// Whether a product is at least as new as its sources.
pub fn is_current(product: &str, sources: &[&str]) -> bool {
    let changed = |path: &str| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    changed(product).is_some_and(|built| sources.iter().all(|source| changed(source).is_some_and(|at| at <= built)))
}

/// Removes the user's settings from a program's environment.
pub fn without_settings(command: &mut process::Command) {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONCHE_")) {
        command.env_remove(name);
    }
}

/// A process that is killed on drop.
#[derive(Debug)]
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_product_missing_or_older_than_its_source_is_not_current() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let [source, product] = ["source", "product"].map(file);
        fs::write(&source, "").expect("it can be written");
        assert!(!is_current(&product, &[&source]));
        fs::write(&product, "").expect("it can be written");
        assert!(is_current(&product, &[&source]));
        let later = fs::metadata(&product).and_then(|metadata| metadata.modified()).expect("it is there")
            + Duration::from_secs(1);
        fs::File::options()
            .write(true)
            .open(&source)
            .and_then(|file| file.set_modified(later))
            .expect("it can be touched");
        assert!(!is_current(&product, &[&source]));
    }
}
