//! Our programs on each implementation: built from `bench/peers` into `target/bench-peers`, with what is missing fetched.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result};

use super::peer::Peer;
use crate::ci::command::Command;
use crate::ci::packages;
use crate::peers;
use crate::project::Project;

/// What must be installed for those that interop does not know: a program, and the Debian package that holds it.
const GO: [(&str, &str); 1] = [("go", "golang-go")];
const NODE: [(&str, &str); 2] = [("node", "nodejs"), ("npm", "npm")];

/// Our own programs.
const OURS: &str = "build --release -p conche-cli -p conche --bin conche --example bench_server --example bench_client";

/// The command line of a program.
pub type Program = Vec<String>;

/// Where programs are.
pub struct Setup<'a> {
    project: &'a Project,
    directory: PathBuf,
    servers: BTreeMap<Peer, Program>,
    clients: BTreeMap<Peer, Program>,
}

impl<'a> Setup<'a> {
    /// Builds the generator, and the floor, which serves clients as well.
    pub fn prepare(project: &'a Project) -> Result<Self> {
        let directory = project.target().join("bench-peers");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Command::cargo(OURS).unshown().run(project)?;
        let (servers, clients) = (BTreeMap::new(), BTreeMap::new());
        let mut setup = Self { project, directory, servers, clients };
        setup.build(Peer::Raw)?;
        Ok(setup)
    }

    /// Builds what there is of an implementation, with what it needs.
    pub fn build(&mut self, peer: Peer) -> Result<()> {
        let server = self.server_of(peer)?;
        self.servers.insert(peer, server);
        if peer.has_client() {
            let client = self.client_of(peer)?;
            self.clients.insert(peer, client);
        }
        Ok(())
    }

    /// The server of an implementation that has been built.
    pub fn server(&self, peer: Peer) -> Result<&Program> {
        self.servers.get(&peer).context("it has not been built")
    }

    /// The same for its client.
    pub fn client(&self, peer: Peer) -> Result<&Program> {
        self.clients.get(&peer).context("it has not been built")
    }

    /// The load generator.
    pub fn generator(&self) -> String {
        self.ours("conche")
    }

    fn server_of(&self, peer: Peer) -> Result<Program> {
        let project = self.project;
        Ok(match peer {
            Peer::Raw => {
                packages::ensure(project, &peers::C)?;
                vec![self.c(peer, "server", &[])?]
            }
            Peer::Conche => vec![self.ours("examples/bench_server")],
            Peer::Libcoap => {
                packages::ensure(project, &peers::LIBCOAP)?;
                vec![self.c(peer, "server", peers::WITH_LIBCOAP)?]
            }
            Peer::Californium => {
                packages::ensure(project, &peers::JAVA)?;
                let (source, classes) = (self.source(peer, "Server.java"), self.built("californium"));
                let path = peers::compile_californium(project, &[&source], &classes)?;
                ["java", "-cp", &path, "Server"].map(str::to_owned).into()
            }
            Peer::GoCoap => {
                packages::ensure(project, &GO)?;
                let program = self.built("go-coap");
                let sources = self.source(peer, "");
                Command::new("go", ["build", "-C", &sources, "-o", &program, "."]).unshown().run(project)?;
                vec![program]
            }
            Peer::CoapRs => {
                let (manifest, target) = (self.source(peer, "Cargo.toml"), self.built("coap-rs"));
                let arguments = "build --release --locked --quiet --manifest-path";
                let build = Command::cargo(arguments).argument(&manifest).argument("--target-dir").argument(&target);
                build.unshown().run(project)?;
                vec![format!("{target}/release/server")]
            }
            Peer::NodeCoap => {
                packages::ensure(project, &NODE)?;
                self.node_coap()?
            }
            Peer::Aiocoap => {
                packages::ensure(project, &packages::PYTHON)?;
                vec![peers::aiocoap(project)?, self.source(peer, "server.py")]
            }
        })
    }

    fn client_of(&self, peer: Peer) -> Result<Program> {
        Ok(vec![match peer {
            Peer::Libcoap => self.c(peer, "client", peers::WITH_LIBCOAP)?,
            _ => self.ours("examples/bench_client"),
        }])
    }

    /// A file beside the programs for what one of them says of errors.
    pub fn errors(&self, name: &str) -> Result<fs::File> {
        let path = self.directory.join(format!("{name}.log"));
        let file = fs::File::options().create(true).append(true).open(&path);
        file.with_context(|| format!("cannot write {}", path.display()))
    }

    fn c(&self, peer: Peer, part: &str, libraries: &[&str]) -> Result<String> {
        let program = self.built(&format!("{}-{part}", peer.word()));
        peers::compile_c(self.project, &self.source(peer, &format!("{part}.c")), &program, libraries)?;
        Ok(program)
    }

    /// npm installs beside package.json, so that this and the program are copied.
    fn node_coap(&self) -> Result<Program> {
        let directory = self.directory.join(Peer::NodeCoap.word());
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        for name in ["package.json", "package-lock.json", "server.js"] {
            let source = self.source(Peer::NodeCoap, name);
            fs::copy(&source, directory.join(name)).with_context(|| format!("cannot copy {source}"))?;
        }
        let text = |name: &str| directory.join(name).to_string_lossy().into_owned();
        if !peers::is_current(
            &text("node_modules/.package-lock.json"),
            &[&self.source(Peer::NodeCoap, "package-lock.json")],
        ) {
            let arguments = ["--prefix", &text(""), "ci", "--silent", "--no-audit", "--no-fund"];
            Command::new("npm", arguments).unshown().run(self.project)?;
        }
        Ok(vec!["node".to_owned(), text("server.js")])
    }

    fn source(&self, peer: Peer, name: &str) -> String {
        self.project.root.join("bench/peers").join(peer.word()).join(name).to_string_lossy().into_owned()
    }

    fn built(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    fn ours(&self, name: &str) -> String {
        self.project.target().join("release").join(name).to_string_lossy().into_owned()
    }
}

/// The version of an implementation that is measured.
pub fn version(project: &Project, peer: Peer) -> Result<String> {
    match (peer, peer.version()) {
        (_, Some(version)) => Ok(version.to_owned()),
        (Peer::Libcoap, None) => {
            Command::new("dpkg-query", ["-W", "-f", "${Version}", "libcoap3-dev"]).unshown().output(project)
        }
        (_, None) => Ok("–".to_owned()),
    }
}

/// Starts a program on one core, without standard input; what it says of errors goes to this file.
pub fn start(
    program: &[String],
    core: &str,
    arguments: &[String],
    [output, errors]: [process::Stdio; 2],
) -> Result<process::Child> {
    let mut command = process::Command::new("taskset");
    command.args(["-c", core]).args(program).args(arguments);
    // Free of the caller's own settings.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONCHE_")) {
        command.env_remove(name);
    }
    command.stdin(process::Stdio::null()).stdout(output).stderr(errors);
    command.spawn().context("cannot start taskset, which util-linux has")
}
