//! The command as a user runs it: output and exit status. One test program, since each that links
//! the command takes seconds to build.
#![allow(missing_docs, reason = "a test")]

mod bench;
mod bench_secured;
mod cli;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod credentials;
#[cfg(unix)]
mod edhoc;
mod experiments;
mod observe;
mod output;
mod recording;
mod report;
mod results;
mod security;
mod serving;
mod shell;
