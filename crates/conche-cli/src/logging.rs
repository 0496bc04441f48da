//! What goes to standard error besides errors: `tracing` events, as many as `-v` asks for.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::Global;

/// Sends events to standard error: warnings, with `-vv` every transmission. `CONCHE_LOG` says it more finely, in the
/// grammar of [`EnvFilter`].
pub fn start(global: &Global) {
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (_, 0 | 1) => "warn",
        (_, 2) => "conche=debug,warn",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("CONCHE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && !no_color())
        .with_target(false)
        .init();
}

/// <https://no-color.org>: set to anything but the empty string.
pub fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
