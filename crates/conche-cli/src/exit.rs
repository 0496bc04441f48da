//! Exit status and error output.

use std::io;
use std::process::ExitCode;

use conche::{Error, Failure};
use serde::Serialize;

use crate::credentials::is_not_about_credentials;
use crate::error::{Interrupted, NoAnswer, NoSuccess, Reported, UsageError};
use crate::json;
use crate::runtime::{self, INTERRUPTED};
use crate::show;

pub const HELP: &str = "Exit status: 0 success; 1 other failure; 2 usage or configuration; 3 timeout or unreachable; \
                        4 response 4.xx; 5 response 5.xx; 6 security; 130 interrupted.";

/// Prints the error, if any, and returns the exit status. With `json`, standard output also gets an
/// object.
pub fn report(outcome: anyhow::Result<()>, json: bool) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(print_error(&error, json)),
    }
}

/// Makes Ctrl-C and SIGTERM end a computation, after `clear` has removed the progress display.
/// `is_kept`: the command can continue later.
pub fn on_interrupt(json: bool, is_kept: bool, clear: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        // Without a handler the signals end the process without a message.
        if runtime::wait_for_stop(runtime::GRACE).is_ok() {
            clear();
            let message = match is_kept {
                true => "the experiment is not over; give the same command again, and it goes on",
                false => "the experiment is not over and has no results",
            };
            let error = anyhow::Error::from(Interrupted).context(message);
            std::process::exit(print_error(&error, json).into());
        }
    });
}

fn print_error(error: &anyhow::Error, json: bool) -> u8 {
    let (status, hint) = (status(error), hint(error));
    if json && !error.is::<Reported>() {
        print_object(status, &format!("{error:#}"), hint);
    }
    show::note(format_args!("conche: {}", show::escape_lines(&format!("{error:#}"))));
    if let Some(hint) = hint {
        show::note(format_args!("hint: {hint}"));
    }
    status
}

/// Prints a usage error, help or version, and exits.
pub fn usage(error: &clap::Error) -> ! {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        print_object(2, first.trim_start_matches("error: "), None);
    }
    error.exit()
}

#[derive(Serialize)]
struct Object<'a> {
    schema: u32,
    error: &'a str,
    kind: &'static str,
    status: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

fn print_object(status: u8, error: &str, hint: Option<&str>) {
    let kind = match status {
        2 => "usage",
        3 => "timeout-or-unreachable",
        4 | 5 => "response",
        6 => "security",
        INTERRUPTED => "interrupted",
        _ => "failure",
    };
    // A failed write is ignored: standard error gets the text anyway.
    let _ = json::print(&Object { schema: 1, error, kind, status, hint });
}

fn library(error: &anyhow::Error) -> Option<&Error> {
    error.downcast_ref().or_else(|| error.downcast_ref().map(|Reported(error)| error))
}

/// Returns the usual cause of an error, if the error itself does not state it.
fn hint(error: &anyhow::Error) -> Option<&'static str> {
    match library(error)? {
        Error::Failed { failure: Failure::Unreachable, .. } => Some(
            "usually no server listens on that port: does it run, and are address and port right? \
                 --retry-unreachable waits for one that restarts",
        ),
        Error::RequestTooLarge { .. } => Some("this command's limit is 16 MiB"),
        Error::ResponseTooLarge { .. } => Some(
            "this command's limit is 16 MiB; with -o FILE, and without --json and --q-block, what is larger is written while it comes, with -o - to standard output",
        ),
        Error::Group { .. } => Some("this command asks one host at a time"),
        Error::Send { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Some("usually a firewall on this machine forbids it, or it is a broadcast address")
        }
        Error::Handshake { source, .. } if source.is_timeout_or_unreachable() => {
            Some("does a server of coaps listen on that port? It has another one than that of coap, usually 5684")
        }
        Error::Handshake { source, .. } => of_alert(source.alert()?),
        Error::Failed { failure: Failure::NotAuthenticated(_), .. } => Some(
            "usually the credentials of client and server are no pair, or one of the files is a copy that was used elsewhere",
        ),
        Error::Edhoc { .. } => Some(
            "client and server have to know each other's credentials: conche keygen --edhoc makes a pair of files that do",
        ),
        _ => None,
    }
}

/// Returns the usual cause of a server's alert during the handshake (RFC 5246 §7.2, RFC 4279 §2).
fn of_alert(alert: u8) -> Option<&'static str> {
    match alert {
        51 | 115 => Some("does the server's file have this identity, with the same key as --psk-key-file?"),
        40 => Some(
            "-u with --psk-key-file is for servers that know us by a key, --ca for those that show a certificate, with --cert \
             and --key if they ask for ours",
        ),
        42..=48 => Some("--cert with --key is what the server is shown"),
        _ => None,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn status(error: &anyhow::Error) -> u8 {
    if error.is::<UsageError>() {
        return 2;
    }
    if error.is::<Interrupted>() {
        return INTERRUPTED;
    }
    if error.is::<NoAnswer>() {
        return 3;
    }
    if let Some(NoSuccess { code }) = error.downcast_ref() {
        return if code.starts_with('4') { 4 } else { 5 };
    }
    match error.downcast_ref() {
        Some(conche_bench::Error::Plan(_) | conche_bench::Error::Request { .. }) => return 2,
        Some(conche_bench::Error::Refused { .. }) => return 3,
        Some(conche_bench::Error::Keys(error)) => return if is_not_about_credentials(error) { 1 } else { 2 },
        Some(conche_bench::Error::Context { .. }) => return 2,
        Some(
            conche_bench::Error::Handshake { is_silent, .. } | conche_bench::Error::NotProtected { is_silent, .. },
        ) => return if *is_silent { 3 } else { 6 },
        _ => {}
    }
    match library(error) {
        Some(Error::Uri(_) | Error::Request(_) | Error::Config(_) | Error::Group { .. }) => 2,
        Some(Error::Response { code, .. }) if code.is_client_error() => 4,
        Some(Error::Response { code, .. }) if code.is_server_error() => 5,
        Some(Error::Failed { failure: Failure::NotAuthenticated(_), .. }) => 6,
        Some(Error::Handshake { source, .. }) if !source.is_timeout_or_unreachable() => 6,
        Some(Error::Edhoc { .. } | Error::UnexpectedPeer { .. }) => 6,
        Some(error) if error.is_timeout_or_unreachable() => 3,
        _ => 1,
    }
}
