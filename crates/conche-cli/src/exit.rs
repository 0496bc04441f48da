//! Exit status and error output.

use std::io;
use std::process::ExitCode;

use conche::server::BindError;
use conche::{Error, Failure};
use serde::Serialize;

use crate::credentials::is_not_about_credentials;
use crate::error::{Interrupted, NoAnswer, NoSuccess, Plain, Reported, Unreadable, UsageError};
use crate::json;
use crate::live;
use crate::runtime::{self, INTERRUPTED};
use crate::show;
use crate::trace;

/// Exit statuses and their meaning.
pub const STATUSES: [(u8, &str); 9] = [
    (0, "success"),
    (1, "other failure"),
    (2, "usage or configuration"),
    (3, "timeout or unreachable"),
    (4, "response 4.xx"),
    (5, "response 5.xx"),
    (6, "security"),
    (7, "emulation too late"),
    (INTERRUPTED, "interrupted"),
];

pub fn help() -> String {
    let statuses = STATUSES.map(|(status, meaning)| format!("{status} {meaning}")).join("; ");
    format!("Exit status: {statuses}.")
}

/// Prints the error, if any, on standard error, with `json` as an object, and returns the exit
/// status.
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
            let error = Interrupted(match is_kept {
                true => "interrupted; rerun the same command to resume",
                false => "interrupted; no results (with -o DIR, an experiment can be resumed)",
            });
            std::process::exit(print_error(&error.into(), json).into());
        }
    });
}

fn print_error(error: &anyhow::Error, json: bool) -> u8 {
    let (status, hint) = (status(error), hint(error));
    if json {
        print_object(kind(error, status), status, &text(error), hint);
        return status;
    }
    show::note(format_args!("conche: {}", show::escape_lines(&text(error))));
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
        print_object("usage", 2, first.trim_start_matches("error: "), live_hint(error).as_deref());
        std::process::exit(2);
    }
    match live_hint(error) {
        None => error.exit(),
        Some(hint) => {
            // Without standard error, the exit status remains.
            let _ = error.print();
            show::note(format_args!("hint: {hint}"));
            std::process::exit(error.exit_code());
        }
    }
}

/// Names the `=` that an address after `--live` needs: without it, the address is an operand.
fn live_hint(error: &clap::Error) -> Option<String> {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    live::separated(arguments).filter(|_| error.kind() == clap::error::ErrorKind::UnknownArgument)
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

fn kind(error: &anyhow::Error, status: u8) -> &'static str {
    #[cfg(unix)]
    if error.is::<crate::emulate::ProgramFailed>() {
        return "program";
    }
    // Other systems have no programs.
    let _ = error;
    match status {
        2 => "usage",
        3 => "timeout-or-unreachable",
        4 | 5 => "response",
        6 => "security",
        7 => "lateness",
        INTERRUPTED => "interrupted",
        _ => "failure",
    }
}

fn print_object(kind: &'static str, status: u8, error: &str, hint: Option<&str>) {
    // Without standard error, the exit status remains.
    let _ = json::write(&Object { schema: 1, error, kind, status, hint }, &mut io::stderr().lock());
}

fn text(error: &anyhow::Error) -> String {
    match library(error) {
        // The library's text names a method; the hint names the option.
        Some(Error::Group { peer }) => format!("{peer} is a multicast address"),
        _ => format!("{error:#}"),
    }
}

fn library(error: &anyhow::Error) -> Option<&Error> {
    let reported = || error.downcast_ref().map(|Reported(error)| error);
    error.downcast_ref().or_else(reported).or_else(|| error.downcast_ref().map(|Plain(error)| error))
}

/// Returns the usual cause, if the error does not state it.
fn hint(error: &anyhow::Error) -> Option<&'static str> {
    of_address(error)
        .or_else(|| of_plain(error.downcast_ref()?))
        .or_else(|| of_no_answer(error))
        .or_else(|| of_library(library(error)?))
}

fn of_no_answer(error: &anyhow::Error) -> Option<&'static str> {
    error.downcast_ref::<NoAnswer>()?;
    trace::unreachable_kind().map(|kind| of_unreachable(Some(kind)))
}

fn of_plain(Plain(error): &Plain) -> Option<&'static str> {
    match error {
        Error::Failed { failure: Failure::TimedOut | Failure::NoResponse | Failure::Deadline, .. } => Some(
            "is the server on, and the port right? One that speaks only DTLS, as 5684 usually does, needs coaps://",
        ),
        _ => None,
    }
}

fn of_address(error: &anyhow::Error) -> Option<&'static str> {
    let io_error = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(BindError::Socket { cause, .. }) => Some(cause),
        _ => match cause.downcast_ref() {
            Some(Error::Socket(cause)) => Some(cause),
            _ => cause.downcast_ref(),
        },
    })?;
    match io_error.kind() {
        io::ErrorKind::AddrInUse => {
            Some("another program uses this port: stop it, or choose another port with --bind; port 0 takes a free one")
        }
        io::ErrorKind::AddrNotAvailable => Some("--bind needs an address of this machine, such as 127.0.0.1 or [::]"),
        _ => None,
    }
}

fn of_library(error: &Error) -> Option<&'static str> {
    match error {
        Error::Failed { failure: Failure::Unreachable, .. } => Some(of_unreachable(trace::unreachable_kind())),
        Error::RequestTooLarge { .. } => Some("the limit is 16 MiB; -f FILE without --q-block sends up to 1 GiB"),
        Error::ResponseTooLarge { .. } => {
            Some("the limit is 16 MiB; -o FILE (- is standard output) without --json and --q-block has none")
        }
        Error::Group { .. } => Some("this command sends to one host; `conche get --multicast` reads from a group"),
        Error::Send { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
            Some("usually a firewall on this machine forbids it, or it is a broadcast address")
        }
        Error::Send { cause, .. } if is_unroutable(cause.kind()) => Some(of_unreachable(Some(cause.kind()))),
        Error::Handshake { cause, .. } if cause.is_timeout_or_unreachable() => Some(match trace::unreachable_kind() {
            Some(kind) if kind != io::ErrorKind::ConnectionRefused => of_unreachable(Some(kind)),
            _ => "usually no coaps server listens on that port; its default is 5684, that of coap 5683",
        }),
        Error::Handshake { cause, .. } => of_alert(cause.alert()?),
        Error::Failed { failure: Failure::NotAuthenticated(_), .. } => Some(
            "usually the credentials of client and server do not match, or one of the files is a copy that was used elsewhere",
        ),
        Error::Edhoc { .. } => {
            Some("client and server need each other's credentials: `conche keygen --edhoc NAME` writes both files")
        }
        _ => None,
    }
}

fn is_unroutable(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable)
}

/// Only Linux reports the kind.
fn of_unreachable(kind: Option<io::ErrorKind>) -> &'static str {
    match kind {
        Some(io::ErrorKind::ConnectionRefused) => {
            "no server listens on that port: does it run, and is the port right? --retry-unreachable waits for one \
             that restarts"
        }
        Some(io::ErrorKind::HostUnreachable) => {
            "the host does not answer on its network: is it on, and its address right?"
        }
        Some(io::ErrorKind::NetworkUnreachable) => {
            "no route leads to this address: is it right, and is this machine on the network?"
        }
        Some(io::ErrorKind::PermissionDenied) => "a firewall on the path rejects the request",
        _ => "the host is off, its address is wrong, or no server listens on that port",
    }
}

/// Of a server's alert in the handshake (RFC 5246 §7.2, RFC 4279 §2).
fn of_alert(alert: u8) -> Option<&'static str> {
    match alert {
        51 | 115 => Some("the server has no such identity, or another key for it than --psk-key-file"),
        40 => Some(
            "a server with pre-shared keys needs -u and --psk-key-file; one with a certificate needs --ca, and --cert \
             and --key if it authenticates its clients",
        ),
        42..=48 => Some("the server does not accept the certificate of --cert"),
        _ => None,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn status(error: &anyhow::Error) -> u8 {
    if error.is::<UsageError>() || error.is::<Unreadable>() {
        return 2;
    }
    if error.is::<Interrupted>() {
        return INTERRUPTED;
    }
    #[cfg(unix)]
    {
        if let Some(crate::emulate::ProgramFailed { status, .. }) = error.downcast_ref() {
            return *status;
        }
        if error.is::<crate::emulate::Late>() {
            return 7;
        }
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
        Some(
            Error::Uri(_)
            | Error::Request(_)
            | Error::Config(_)
            | Error::Group { .. }
            | Error::NoGroup { .. }
            | Error::SecuredGroup,
        ) => 2,
        Some(Error::Response { code, .. }) if code.is_client_error() => 4,
        Some(Error::Response { code, .. }) if code.is_server_error() => 5,
        Some(Error::Failed { failure: Failure::NotAuthenticated(_), .. }) => 6,
        Some(Error::Handshake { cause, .. }) if !cause.is_timeout_or_unreachable() => 6,
        Some(Error::Edhoc { .. } | Error::UnexpectedPeer { .. }) => 6,
        Some(error) if error.is_timeout_or_unreachable() => 3,
        _ => 1,
    }
}
