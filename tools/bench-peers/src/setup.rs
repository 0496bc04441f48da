//! Builds the programs in `tools/bench-peers` into `target/bench-peers`, and fetches dependencies.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result};

use crate::credentials::Credentials;
use crate::load::Protection;
use crate::peer::Peer;
use tool_support::Command;
use tool_support::Project;
use tool_support::packages;
use tool_support::peers;
use tool_support::python;

const OURS: &str = "build --release -p conche-cli -p conche --bin conche --example bench_server --example bench_client";

pub type Program = Vec<String>;

pub struct Setup<'a> {
    project: &'a Project,
    directory: PathBuf,
    /// Server and client of each built implementation.
    programs: BTreeMap<Peer, [Program; 2]>,
}

impl<'a> Setup<'a> {
    /// Builds the generator, and the raw baseline, which also serves measured clients.
    pub fn prepare(project: &'a Project) -> Result<Self> {
        let directory = project.target().join("bench-peers");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Command::cargo(OURS).unshown().run(project)?;
        let mut setup = Self { project, directory, programs: BTreeMap::new() };
        setup.build(Peer::Raw)?;
        Ok(setup)
    }

    pub fn generator(&self) -> String {
        self.ours("conche")
    }

    /// Writes new credentials for one server and its clients.
    pub fn credentials(&self, protection: Protection) -> Result<Credentials> {
        Credentials::write(protection, &self.directory)
    }

    pub fn build(&mut self, peer: Peer) -> Result<()> {
        let programs = match peer {
            Peer::Raw | Peer::Libcoap => self.c(peer)?,
            Peer::Conche | Peer::ConcheBusyPoll => {
                [vec![self.ours("examples/bench_server")], vec![self.ours("examples/bench_client")]]
            }
            Peer::ConcheAsyncio => self.conche_asyncio()?,
            Peer::Californium => self.californium()?,
            Peer::GoCoap => self.go_coap()?,
            Peer::CoapRs => self.coap_rs()?,
            Peer::NodeCoap => self.node_coap()?,
            Peer::Aiocoap => self.aiocoap()?,
        };
        self.programs.insert(peer, programs);
        Ok(())
    }

    pub fn server(&self, peer: Peer, protection: Protection) -> Result<Program> {
        let [server, _] = self.programs(peer)?;
        Ok(match (peer, protection) {
            // OSCORE needs another Python environment, installed on demand.
            (Peer::Aiocoap, Protection::Oscore) => {
                let python = vec![peers::secured_aiocoap(self.project)?];
                python.into_iter().chain(server.iter().skip(1).cloned()).collect()
            }
            _ => server.clone(),
        })
    }

    pub fn client(&self, peer: Peer) -> Result<&Program> {
        self.programs(peer).map(|[_, client]| client)
    }

    fn programs(&self, peer: Peer) -> Result<&[Program; 2]> {
        self.programs.get(&peer).context("it has not been built")
    }

    /// Opens a program's log for standard error.
    pub fn errors(&self, name: &str) -> Result<fs::File> {
        let path = self.directory.join(format!("{name}.log"));
        let file = fs::File::options().create(true).append(true).open(&path);
        file.with_context(|| format!("cannot write {}", path.display()))
    }

    fn c(&self, peer: Peer) -> Result<[Program; 2]> {
        let (needs, libraries) = match peer {
            Peer::Libcoap => (&peers::LIBCOAP[..], peers::WITH_LIBCOAP_DTLS),
            _ => (&peers::C[..], &[][..]),
        };
        packages::ensure(self.project, needs)?;
        let compiled = |part: &str| -> Result<Program> {
            let program = self.built(&format!("{}-{part}", peer.word()));
            peers::compile_c(self.project, &[&self.source(peer, &format!("{part}.c"))], &program, libraries)?;
            Ok(vec![program])
        };
        Ok([compiled("server")?, compiled("client")?])
    }

    fn californium(&self) -> Result<[Program; 2]> {
        packages::ensure(self.project, &peers::JAVA)?;
        let peer = Peer::Californium;
        // Interop's class reads OSCORE credentials.
        let security = self.project.root.join("tools/interop/californium/Security.java").to_string_lossy().into_owned();
        let sources = [self.source(peer, "Server.java"), self.source(peer, "Client.java"), security];
        let path = peers::compile_californium(
            self.project,
            &sources.each_ref().map(String::as_str),
            &self.built(peer.word()),
        )?;
        Ok(["Server", "Client"].map(|class| ["java", "-cp", &path, class].map(str::to_owned).into()))
    }

    fn go_coap(&self) -> Result<[Program; 2]> {
        let programs = self.built(Peer::GoCoap.word());
        peers::build_go(self.project, &self.source(Peer::GoCoap, ""), &programs)?;
        Ok(["server", "client"].map(|part| vec![format!("{programs}/{part}")]))
    }

    fn coap_rs(&self) -> Result<[Program; 2]> {
        let (manifest, target) = (self.source(Peer::CoapRs, "Cargo.toml"), self.built(Peer::CoapRs.word()));
        let build = Command::cargo("build --release --locked --quiet --manifest-path").argument(&manifest);
        build.argument("--target-dir").argument(&target).unshown().run(self.project)?;
        Ok(["server", "client"].map(|part| vec![format!("{target}/release/{part}")]))
    }

    fn conche_asyncio(&self) -> Result<[Program; 2]> {
        let python = python::conche(self.project, "release")?;
        Ok(["server.py", "client.py"].map(|name| vec![python.clone(), self.source(Peer::ConcheAsyncio, name)]))
    }

    fn aiocoap(&self) -> Result<[Program; 2]> {
        packages::ensure(self.project, &packages::PYTHON)?;
        let python = peers::aiocoap(self.project)?;
        Ok(["server.py", "client.py"].map(|name| vec![python.clone(), self.source(Peer::Aiocoap, name)]))
    }

    fn node_coap(&self) -> Result<[Program; 2]> {
        let directory = self.directory.join(Peer::NodeCoap.word());
        peers::install_node(self.project, &self.source(Peer::NodeCoap, ""), &["client.js", "server.js"], &directory)?;
        let program = |name| vec!["node".to_owned(), directory.join(name).to_string_lossy().into_owned()];
        Ok(["server.js", "client.js"].map(program))
    }

    fn source(&self, peer: Peer, name: &str) -> String {
        self.project.root.join("tools/bench-peers").join(peer.word()).join(name).to_string_lossy().into_owned()
    }

    fn built(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    fn ours(&self, name: &str) -> String {
        self.project.target().join("release").join(name).to_string_lossy().into_owned()
    }
}

pub fn version(project: &Project, peer: Peer) -> Result<String> {
    match (peer, peer.version()) {
        (_, Some(version)) => Ok(version.to_owned()),
        (Peer::Libcoap, None) => {
            Command::new("dpkg-query", ["-W", "-f", "${Version}", "libcoap3-dev"]).unshown().output(project)
        }
        (_, None) => Ok("–".to_owned()),
    }
}

/// Starts a program on one core, without standard input.
pub fn start(
    program: &[String],
    core: &str,
    arguments: &[String],
    [output, errors]: [process::Stdio; 2],
) -> Result<process::Child> {
    let mut command = process::Command::new("taskset");
    command.args(["-c", core]).args(program).args(arguments);
    peers::without_settings(&mut command);
    command.stdin(process::Stdio::null()).stdout(output).stderr(errors);
    command.spawn().context("cannot start taskset, which util-linux has")
}
