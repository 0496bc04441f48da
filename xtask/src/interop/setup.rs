//! What the run needs: our command, the peers' libraries, and our programs on them, all built into `target/interop`.

use std::fs;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result};

use super::party::{Peer, Role};
use crate::ci::command::Command;
use crate::ci::packages;
use crate::peers;
use crate::project::Project;

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
    /// Where Java finds Californium and our programs on it.
    class_path: String,
}

impl Setup {
    /// Installs and builds what these peers need, as far as it is missing.
    pub fn prepare(project: &Project, wanted: &[Peer]) -> Result<Self> {
        let directory = project.target().join("interop");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let (sources, ours) = (project.root.join("interop"), project.target().join("debug"));
        let mut setup = Self { directory, sources, ours, class_path: String::new() };
        let mut needs = Vec::new();
        for peer in wanted {
            match peer {
                Peer::Libcoap => needs.extend(peers::LIBCOAP),
                Peer::Aiocoap => needs.extend(packages::PYTHON),
                Peer::Californium => needs.extend(peers::JAVA),
                Peer::Conche => {}
            }
        }
        packages::ensure(project, &needs)?;
        for peer in wanted {
            match peer {
                Peer::Libcoap => setup.build_libcoap(project)?,
                Peer::Aiocoap => drop(peers::aiocoap(project)?),
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
                peers::without_settings(&mut command);
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
                command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &self.class_path, class]);
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
        ["client", "server"].iter().try_for_each(|part| {
            let (source, program) = (self.source(&format!("libcoap/{part}.c")), self.text(&format!("libcoap-{part}")));
            peers::compile_c(project, &source, &program, peers::WITH_LIBCOAP)
        })
    }

    fn build_californium(&mut self, project: &Project) -> Result<()> {
        let (client, server) = (self.source("californium/Client.java"), self.source("californium/Server.java"));
        self.class_path = peers::compile_californium(project, &[&client, &server], &self.text("californium/classes"))?;
        Ok(())
    }
}
