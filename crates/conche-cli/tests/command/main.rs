//! Tests of the command as a process. One test program, as each takes seconds to link.
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
#[cfg(unix)]
mod emulate;
mod experiments;
#[cfg(unix)]
mod live;
#[cfg(target_os = "linux")]
mod multicast;
mod observe;
mod output;
mod recording;
mod report;
mod results;
mod security;
mod serving;
mod shell;
