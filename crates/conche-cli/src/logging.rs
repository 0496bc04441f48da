//! What goes to standard error besides errors: `tracing` events, as many as `-v` asks for.

use std::io;

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, registry};

use crate::Global;
use crate::request::Progress;
use crate::trace::{self, Trace};

/// Sends events to standard error: warnings, with `-v` every message, with `-vv` also what the client does. `CONCHE_LOG` says it more finely, in the
/// grammar of [`EnvFilter`]. Where the user is told of an exchange that takes long, `progress` hears of it.
pub fn start(global: &Global, progress: Option<Progress>) {
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (_, 0 | 1) => "warn",
        (_, 2) => "conche=debug,warn",
        _ => "trace,conche::message=off",
    };
    let filter = EnvFilter::try_from_env("CONCHE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let printed = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(console::colors_enabled_stderr())
        .with_target(false)
        .with_filter(filter);
    let heard =
        progress.map(|progress| progress.with_filter(EnvFilter::new(format!("conche=debug,{}=trace", trace::TARGET))));
    let messages = || EnvFilter::new(format!("{}=trace", trace::TARGET));
    let traced = (global.verbose > 0).then(|| Trace::start().with_filter(messages()));
    registry().with(printed).with(heard).with(traced).init();
}
