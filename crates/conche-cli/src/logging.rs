//! Prints `tracing` events on standard error, as selected by `-v`.

use std::env;
use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

use crate::Global;
use crate::error::UsageError;
use crate::request::Progress;
use crate::trace::{self, Trace, UnreachableKind};

/// Prints warnings by default, with `-v` every message, with `-vv` also the client's actions.
/// `CONCHE_LOG` overrides this with a filter in the syntax of [`Targets`]. `progress` receives the
/// events of long exchanges.
///
/// # Errors
/// If `CONCHE_LOG` is not a valid filter.
pub fn start(global: &Global, progress: Option<Progress>) -> Result<(), UsageError> {
    let printed = match (global.quiet, global.verbose) {
        (true, _) => only(LevelFilter::ERROR),
        (_, 0 | 1) => only(LevelFilter::WARN),
        (_, 2) => untraced(only(LevelFilter::WARN).with_target("conche", LevelFilter::DEBUG)),
        _ => untraced(only(LevelFilter::TRACE)),
    };
    let chosen = chosen()?;
    let printed = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(console::colors_enabled_stderr())
        .with_target(false)
        .with_filter(chosen.unwrap_or(printed));
    let messages = || Targets::new().with_target(trace::TARGET, LevelFilter::TRACE);
    let progress = progress.map(|progress| progress.with_filter(messages().with_target("conche", LevelFilter::DEBUG)));
    let filter = messages().with_target(trace::PATHS, LevelFilter::DEBUG);
    let traced = (global.verbose > 0).then(|| Trace::start().with_filter(filter));
    let kind = UnreachableKind.with_filter(Targets::new().with_target(trace::UNREACHABLE, LevelFilter::DEBUG));
    registry().with(printed).with(kind).with(progress).with(traced).init();
    Ok(())
}

fn untraced(targets: Targets) -> Targets {
    targets.with_target(trace::TARGET, LevelFilter::OFF).with_target(trace::PATHS, LevelFilter::OFF)
}

fn only(level: LevelFilter) -> Targets {
    Targets::new().with_default(level)
}

fn chosen() -> Result<Option<Targets>, UsageError> {
    let written = match env::var("CONCHE_LOG") {
        Ok(written) if !written.is_empty() => written,
        Ok(_) | Err(env::VarError::NotPresent) => return Ok(None),
        Err(error) => return Err(UsageError(format!("CONCHE_LOG: {error}"))),
    };
    let targets = written.parse().map_err(|error| {
        UsageError(format!("CONCHE_LOG: '{written}' is no filter ({error}); write 'warn', or 'warn,conche=debug'"))
    })?;
    Ok(Some(targets))
}
