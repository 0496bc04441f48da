//! The implementations, and their client programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use tool_support::{Command, Project, packages, peers};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stack {
    /// With its default controller.
    Conche,
    /// With RFC 7252's default controller.
    ConcheDefault,
    /// With the controller of the Internet-Draft.
    ConcheCocoa,
    /// With the controller after Californium.
    ConcheCocoaCf,
    Libcoap,
    Aiocoap,
    Californium,
    CaliforniumCocoa,
    CaliforniumCocoaStrong,
    CaliforniumBasicRto,
    CaliforniumLinuxRto,
    CaliforniumPeakhopper,
    GoCoap,
    NodeCoap,
    CoapRs,
}

impl Stack {
    pub fn name(self) -> &'static str {
        match self {
            Self::Conche => "conche",
            Self::ConcheDefault => "conche, `default`",
            Self::ConcheCocoa => "conche, `cocoa`",
            Self::ConcheCocoaCf => "conche, `cocoa-cf`",
            Self::Libcoap => "libcoap",
            Self::Aiocoap => "aiocoap",
            Self::Californium => "Californium",
            Self::CaliforniumCocoa => "Californium, COCOA",
            Self::CaliforniumCocoaStrong => "Californium, COCOA_STRONG",
            Self::CaliforniumBasicRto => "Californium, BASIC_RTO",
            Self::CaliforniumLinuxRto => "Californium, LINUX_RTO",
            Self::CaliforniumPeakhopper => "Californium, PEAKHOPPER_RTO",
            Self::GoCoap => "go-coap",
            Self::NodeCoap => "node-coap",
            Self::CoapRs => "coap-rs",
        }
    }

    /// Name in arguments and file names.
    pub fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Value of the client's sixth argument.
    fn control(self) -> Option<&'static str> {
        match self {
            Self::ConcheDefault => Some("default"),
            Self::ConcheCocoa => Some("cocoa"),
            Self::ConcheCocoaCf => Some("cocoa-cf"),
            Self::CaliforniumCocoa => Some("COCOA"),
            Self::CaliforniumCocoaStrong => Some("COCOA_STRONG"),
            Self::CaliforniumBasicRto => Some("BASIC_RTO"),
            Self::CaliforniumLinuxRto => Some("LINUX_RTO"),
            Self::CaliforniumPeakhopper => Some("PEAKHOPPER_RTO"),
            _ => None,
        }
    }

    /// Whether its client is a native program: small, and quick to start.
    pub fn is_small(self) -> bool {
        matches!(self.implementation(), "conche" | "libcoap" | "go-coap" | "coap-rs")
    }

    /// The implementation, with the directory of its program in `tools/bench-peers`.
    fn implementation(self) -> &'static str {
        match self {
            Self::Conche | Self::ConcheDefault | Self::ConcheCocoa | Self::ConcheCocoaCf => "conche",
            Self::Libcoap => "libcoap",
            Self::Aiocoap => "aiocoap",
            Self::GoCoap => "go-coap",
            Self::NodeCoap => "node-coap",
            Self::CoapRs => "coap-rs",
            _ => "californium",
        }
    }

    /// Returns its version in words.
    pub fn version(self, project: &Project) -> Result<String> {
        Ok(match self.implementation() {
            "conche" => format!("conche {}", env!("CARGO_PKG_VERSION")),
            "libcoap" => {
                let query = Command::new("dpkg-query", ["-W", "-f", "${Version}", "libcoap3-dev"]);
                format!("libcoap {}", query.unshown().output(project)?)
            }
            "aiocoap" => format!("aiocoap {}", peers::AIOCOAP),
            "go-coap" => format!("go-coap {}", peers::GO_COAP),
            "node-coap" => format!("node-coap {}", peers::NODE_COAP),
            "coap-rs" => format!("coap-rs {}", peers::COAP_RS),
            _ => format!("Californium {}", peers::CALIFORNIUM),
        })
    }
}

/// Builds client programs into `target/implementations`.
#[derive(Debug)]
pub struct Builder<'a> {
    project: &'a Project,
    /// Directory of this program's results and programs.
    pub directory: PathBuf,
    /// Profile of cargo.
    profile: &'a str,
}

impl<'a> Builder<'a> {
    /// Builds conche's command and client.
    pub fn prepare(project: &'a Project, profile: &'a str) -> Result<Self> {
        let directory = project.target().join("implementations");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let build = "build -p conche-cli -p conche --bin conche --example sequential_client --profile";
        Command::cargo(build).argument(profile).unshown().run(project)?;
        Ok(Self { project, directory, profile })
    }

    /// Returns the `conche` command.
    pub fn conche(&self) -> PathBuf {
        self.ours("conche")
    }

    /// Returns the command line of a client, without its five arguments, and its sixth.
    pub fn build(&self, stack: Stack) -> Result<(Vec<String>, Option<&'static str>)> {
        let program = match stack.implementation() {
            "conche" => vec![text(&self.ours("examples/sequential_client"))],
            "libcoap" => {
                packages::ensure(self.project, &peers::LIBCOAP)?;
                let program = text(&self.directory.join("libcoap"));
                let source = self.source("libcoap/sequential.c");
                peers::compile_c(self.project, &[&source], &program, peers::WITH_LIBCOAP_DTLS)?;
                vec![program]
            }
            "aiocoap" => {
                packages::ensure(self.project, &packages::PYTHON)?;
                vec![peers::aiocoap(self.project)?, self.source("aiocoap/sequential.py")]
            }
            "go-coap" => {
                let programs = text(&self.directory.join("go-coap"));
                peers::build_go(self.project, &self.source("go-coap"), &programs)?;
                vec![format!("{programs}/sequential")]
            }
            "node-coap" => {
                let directory = self.directory.join("node-coap");
                peers::install_node(self.project, &self.source("node-coap"), &["sequential.js"], &directory)?;
                vec!["node".to_owned(), text(&directory.join("sequential.js"))]
            }
            "coap-rs" => {
                let target = text(&self.directory.join("coap-rs"));
                let build = Command::cargo("build --locked --quiet --bin sequential --manifest-path");
                let build = build.argument(&self.source("coap-rs/Cargo.toml")).argument("--target-dir");
                build.argument(&target).unshown().run(self.project)?;
                vec![format!("{target}/debug/sequential")]
            }
            _ => {
                packages::ensure(self.project, &peers::JAVA)?;
                let classes = text(&self.directory.join("californium"));
                let source = self.source("californium/Sequential.java");
                let path = peers::compile_californium(self.project, &[&source], &classes)?;
                // Many processes share few cores: fewer threads for the collector and the compiler.
                let java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp"];
                java.into_iter().chain([path.as_str(), "Sequential"]).map(str::to_owned).collect()
            }
        };
        Ok((program, stack.control()))
    }

    fn source(&self, path: &str) -> String {
        text(&self.project.root.join("tools/bench-peers").join(path))
    }

    fn ours(&self, name: &str) -> PathBuf {
        let directory = if self.profile == "dev" { "debug" } else { self.profile };
        self.project.target().join(directory).join(name)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
