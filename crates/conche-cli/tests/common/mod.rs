//! Runs the command, and servers that end with their test.

#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../../conche/tests/common/own_address.rs"]
pub mod own_address;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// Without the user's settings.
pub fn conche() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conche"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONCHE_")) {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", "/nowhere").env("APPDATA", "/nowhere");
    command
}

#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub fn run(command: &mut Command) -> Ended {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Ended {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is text"),
        stderr: String::from_utf8(output.stderr).expect("standard error is text"),
    }
}

/// A process that is killed on drop.
#[derive(Debug)]
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// SIGINT would kill the process before.
    #[cfg(target_os = "linux")]
    pub fn catches_interrupts(&self) {
        let status = format!("/proc/{}/status", self.0.id());
        let catches = || {
            let status = std::fs::read_to_string(&status).expect("it runs");
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask of signals");
            u64::from_str_radix(caught.trim(), 16).expect("hexadecimal") & 0b10 != 0
        };
        while !catches() {
            std::thread::yield_now();
        }
    }

    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").arg(format!("-{name}")).arg(self.0.id().to_string()).status();
        assert!(kill.expect("there is a kill command").success());
    }

    pub fn status(mut self) -> Option<i32> {
        self.0.wait().expect("it can be waited for").code()
    }
}

pub fn serve() -> (Process, SocketAddr) {
    listening(conche().args(["serve", "--demo", "--bind", "127.0.0.1:0"]))
}

pub fn listening(command: &mut Command) -> (Process, SocketAddr) {
    let mut server = Process(command.stdout(Stdio::piped()).spawn().expect("the command starts"));
    let mut line = String::new();
    let mut stdout = BufReader::new(server.0.stdout.take().expect("it is piped"));
    stdout.read_line(&mut line).expect("it announces itself");
    let address = line.trim().strip_prefix("listening on ").and_then(|uri| uri.split_once("://")?.1.parse().ok());
    let address = address.unwrap_or_else(|| panic!("an announcement: {line:?}"));
    // The pipe must stay open.
    std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
    (server, address)
}
