//! Builds conche's command, and the test programs on peers' libraries, into `target/interop`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result};

use crate::emulation::Slots;
use crate::endpoint::{Peer, Protection, Role};
use crate::mode::{self, Mode};
use tool_support::Command;
use tool_support::Project;
use tool_support::packages;
use tool_support::peers;

/// With the features and profile of `cargo test`, so that nothing is compiled twice.
const OURS: &str = "build --workspace --all-features --profile test --bin conche --example interop_client";

pub struct Setup {
    directory: PathBuf,
    sources: PathBuf,
    ours: PathBuf,
    class_path: String,
    python: String,
    /// For emulations.
    pub slots: Slots,
}

impl Setup {
    pub fn prepare(project: &Project, wanted: &[Peer], emulations: usize) -> Result<Self> {
        let directory = project.target().join("interop");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let (sources, ours) = (project.root.join("tools/interop"), project.target().join("debug"));
        let mut setup = Self {
            directory,
            sources,
            ours,
            class_path: String::new(),
            python: String::new(),
            slots: Slots::new(emulations),
        };
        let mut needs = Vec::new();
        for peer in wanted {
            match peer {
                Peer::Libcoap | Peer::LibcoapOpenssl | Peer::LibcoapGnutls => needs.extend(peers::LIBCOAP),
                Peer::Californium => needs.extend(peers::JAVA),
                // Their builds install their requirements.
                Peer::Aiocoap | Peer::GoCoap | Peer::NodeCoap | Peer::Conche => {}
            }
        }
        packages::ensure(project, &needs)?;
        for peer in wanted {
            match peer {
                Peer::Libcoap | Peer::LibcoapOpenssl | Peer::LibcoapGnutls => setup.build_libcoap(project, *peer)?,
                Peer::Aiocoap => setup.python = peers::secured_aiocoap(project)?,
                Peer::Californium => setup.build_californium(project)?,
                Peer::GoCoap => peers::build_go(project, &setup.source("go-coap"), &setup.text("go-coap"))?,
                Peer::NodeCoap => {
                    let (sources, scripts) = (setup.source("node-coap"), ["client.js", "server.js"]);
                    peers::install_node(project, &sources, &scripts, &setup.path("node-coap"))?;
                }
                Peer::Conche => Command::cargo(OURS).unshown().run(project)?,
            }
        }
        Ok(setup)
    }

    pub fn credentials(&self, name: &str) -> Result<PathBuf> {
        let directory = self.path("credentials").join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
        }
        mode::copy_credentials(&self.sources.join("credentials"), &directory)?;
        Ok(directory)
    }

    /// Returns the `conche` command.
    pub fn conche(&self) -> process::Command {
        let mut command = process::Command::new(self.ours.join("conche"));
        peers::without_settings(&mut command);
        command
    }

    /// Returns an empty directory for an emulation.
    pub fn emulation(&self, name: &str) -> Result<PathBuf> {
        let directory = self.path("emulated").join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(directory)
    }

    /// Returns the command of an implementation's client, or of its server at an address.
    pub fn program(&self, peer: Peer, part: Role, protection: Protection<'_>, bind: SocketAddr) -> process::Command {
        let name = if part == Role::Client { "client" } else { "server" };
        let mut command = match (peer, part) {
            (Peer::Conche, Role::Client) => process::Command::new(self.ours.join("examples/interop_client")),
            (Peer::Conche, Role::Server) => return self.our_server(protection, bind),
            (Peer::Libcoap | Peer::LibcoapOpenssl | Peer::LibcoapGnutls, _) => {
                process::Command::new(self.path(&format!("libcoap-{}-{name}", tls_of(peer))))
            }
            (Peer::Aiocoap, _) => {
                let mut command = process::Command::new(&self.python);
                command.arg(self.sources.join(format!("aiocoap/{name}.py")));
                // Avoids cache files beside the sources.
                command.env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            (Peer::GoCoap, _) => process::Command::new(self.path("go-coap").join(name)),
            (Peer::NodeCoap, _) => {
                let mut command = process::Command::new("node");
                command.arg(self.path("node-coap").join(format!("{name}.js")));
                command
            }
            (Peer::Californium, _) => {
                let mut command = process::Command::new("java");
                let class = if part == Role::Client { "Client" } else { "Server" };
                // The programs run for seconds only, too short for optimising compilers.
                command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
                // A statistics file is named after the process ID, which namespaces have in common.
                command.args(["-XX:-UsePerfData", "-cp", &self.class_path, class]);
                command
            }
        };
        if part == Role::Server {
            command.arg(bind.ip().to_string()).arg(bind.port().to_string());
        }
        if let (Some(network), Role::Client) = (protection.mode.network(), part) {
            command.env("BLOCK_SIZE", network.block.to_string());
        }
        if protection.mode.is_secured() {
            command.arg(protection.mode.name()).arg(protection.credentials);
        }
        command
    }

    fn our_server(&self, Protection { mode, credentials }: Protection<'_>, bind: SocketAddr) -> process::Command {
        let mut command = self.conche();
        command.args(["serve", "--demo", "--bind", &bind.to_string()]);
        let files: &[(&str, &str)] = match mode {
            Mode::Plain | Mode::Anrw18 | Mode::Lossy | Mode::Radio => &[],
            Mode::Psk => &[("--psk-keys", "psk")],
            Mode::Certificate => &[("--cert", "server.pem"), ("--key", "server.key")],
            Mode::Mutual => &[("--cert", "server.pem"), ("--key", "server.key"), ("--client-ca", "ca.pem")],
            Mode::Oscore => &[("--oscore", "oscore-server")],
        };
        for (option, file) in files {
            command.arg(option).arg(credentials.join(file));
        }
        command
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

    fn build_libcoap(&self, project: &Project, peer: Peer) -> Result<()> {
        let library = format!("-lcoap-3-{}", tls_of(peer));
        let headers = ["address", "credentials"].map(|name| self.source(&format!("libcoap/{name}.h")));
        ["client", "server"].iter().try_for_each(|part| {
            let source = self.source(&format!("libcoap/{part}.c"));
            let program = self.text(&format!("libcoap-{}-{part}", tls_of(peer)));
            peers::compile_c(project, &[&source, &headers[0], &headers[1]], &program, &[&library])
        })
    }

    fn build_californium(&mut self, project: &Project) -> Result<()> {
        let sources = ["Client", "Server", "Security"].map(|class| self.source(&format!("californium/{class}.java")));
        let sources: Vec<_> = sources.iter().map(String::as_str).collect();
        self.class_path = peers::compile_californium(project, &sources, &self.text("californium/classes"))?;
        Ok(())
    }
}

/// TLS part of a Debian library name of libcoap.
fn tls_of(peer: Peer) -> &'static str {
    match peer {
        Peer::LibcoapOpenssl => "openssl",
        Peer::LibcoapGnutls => "gnutls",
        _ => "notls",
    }
}
