//! What the run needs: our command, the peers' libraries, and our programs on them, all built into `target/interop`.

use std::fs;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result};

use super::party::{Peer, Role};
use crate::ci::command::Command;
use crate::ci::packages;
use crate::project::Project;

/// The version of aiocoap.
const AIOCOAP: &str = "0.4.17";
/// The file by which the version of Californium shows that pom.xml names.
const CALIFORNIUM: &str = "californium-core-3.14.0.jar";

/// What must be installed: a program, a header or a module of Python, and the Debian package that holds it.
const LIBCOAP: [(&str, &str); 2] = [("gcc", "gcc"), ("/usr/include/coap3/coap.h", "libcoap3-dev")];
const JAVA: [(&str, &str); 2] = [("javac", "default-jdk-headless"), ("mvn", "maven")];

/// Our programs. They have the features and the profile that `cargo test` gives them, so that behind it nothing is compiled.
const OURS: &str = "build --workspace --all-features --profile test --bin conche --example interop_client";

/// Where everything is, once it is built.
pub struct Setup {
    /// Our programs, and what they need.
    directory: PathBuf,
    /// Their sources.
    sources: PathBuf,
    /// Where cargo leaves our programs.
    ours: PathBuf,
}

impl Setup {
    /// Installs and builds what these peers need, as far as it is missing.
    pub fn prepare(project: &Project, peers: &[Peer]) -> Result<Self> {
        let directory = project.target().join("interop");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let setup = Self { directory, sources: project.root.join("interop"), ours: project.target().join("debug") };
        let mut needs = Vec::new();
        for peer in peers {
            match peer {
                Peer::Libcoap => needs.extend(LIBCOAP),
                Peer::Aiocoap => needs.extend(packages::PYTHON),
                Peer::Californium => needs.extend(JAVA),
                Peer::Conche => {}
            }
        }
        packages::ensure(project, &needs)?;
        for peer in peers {
            match peer {
                Peer::Libcoap => setup.build_libcoap(project)?,
                Peer::Aiocoap => drop(packages::ensure_python(project, "aiocoap", ("aiocoap", AIOCOAP))?),
                Peer::Californium => setup.build_californium(project)?,
                Peer::Conche => Command::cargo(OURS).unshown().run(project)?,
            }
        }
        Ok(setup)
    }

    /// The program that is an implementation's client or server.
    pub fn program(&self, peer: Peer, part: Role) -> process::Command {
        let name = if part == Role::Client { "client" } else { "server" };
        match (peer, part) {
            (Peer::Conche, Role::Client) => process::Command::new(self.ours.join("examples/interop_client")),
            (Peer::Conche, Role::Server) => {
                let mut command = process::Command::new(self.ours.join("conche"));
                // Free of the caller's own settings.
                for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONCHE_")) {
                    command.env_remove(name);
                }
                command.args(["serve", "--demo", "--bind", "127.0.0.1:0"]);
                command
            }
            (Peer::Libcoap, _) => process::Command::new(self.path(&format!("libcoap-{name}"))),
            (Peer::Aiocoap, _) => {
                let mut command = process::Command::new(self.path("aiocoap/bin/python"));
                command.arg(self.sources.join(format!("aiocoap/{name}.py")));
                command
            }
            (Peer::Californium, _) => {
                let mut command = process::Command::new("java");
                let class = if part == Role::Client { "Client" } else { "Server" };
                // They live for seconds: what a compiler would find out in minutes is not worth its time.
                command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &self.class_path(), class]);
                command
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn source(&self, name: &str) -> String {
        self.sources.join(name).to_string_lossy().into_owned()
    }

    fn build_libcoap(&self, project: &Project) -> Result<()> {
        for part in ["client", "server"] {
            let (source, program) = (self.source(&format!("libcoap/{part}.c")), self.text(&format!("libcoap-{part}")));
            if is_current(&program, &[&source]) {
                continue;
            }
            let arguments = ["-Wall", "-Wextra", "-Werror", "-O1", "-o", &program, &source, "-lcoap-3-notls"];
            Command::new("gcc", arguments).unshown().run(project)?;
        }
        Ok(())
    }

    fn build_californium(&self, project: &Project) -> Result<()> {
        let libraries = self.text("californium/lib");
        if !self.path("californium/lib").join(CALIFORNIUM).is_file() {
            let (pom, output) = (self.source("californium/pom.xml"), format!("-DoutputDirectory={libraries}"));
            let goal = ["-q", "-B", "-f", &pom, "dependency:copy-dependencies", &output, "-DincludeScope=runtime"];
            Command::new("mvn", goal).unshown().run(project)?;
        }
        let (client, server) = (self.source("californium/Client.java"), self.source("californium/Server.java"));
        let classes = self.text("californium/classes");
        if is_current(&format!("{classes}/Client.class"), &[&client, &server]) {
            return Ok(());
        }
        let path = format!("{libraries}/*");
        Command::new("javac", ["-nowarn", "-cp", &path, "-d", &classes, &client, &server]).unshown().run(project)
    }

    fn class_path(&self) -> String {
        format!("{}/*:{}", self.text("californium/lib"), self.text("californium/classes"))
    }
}

/// What is built is no older than what it is built from.
fn is_current(product: &str, sources: &[&str]) -> bool {
    let changed = |path: &str| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    changed(product).is_some_and(|built| sources.iter().all(|source| changed(source).is_some_and(|at| at <= built)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_does_not_exist_or_is_older_than_a_source_is_not_current() {
        let project = Project::find().expect("a checkout");
        let directory = project.target().join("interop-test");
        fs::create_dir_all(&directory).expect("it can be made");
        let [source, product] = ["source", "product"].map(|name| directory.join(name).to_string_lossy().into_owned());
        let _ = fs::remove_file(&product);
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
