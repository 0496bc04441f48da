//! The controllers with names: those of conche and of the program.

use std::sync::OnceLock;

use conche_proto::cc::any::{Controllers, Named};

/// Set once at the start of the program. Parsers of scenarios and arguments take no context, so
/// they read this static.
static KNOWN: OnceLock<Controllers> = OnceLock::new();

/// Adds the program's own controllers. Call it once, before any name is read; later calls have no
/// effect.
///
/// # Errors
/// If two controllers have the same name.
pub fn know(own: Vec<Named>) -> Result<(), &'static str> {
    let known = Controllers::with(own.leak())?;
    KNOWN.get_or_init(|| known);
    Ok(())
}

/// Returns all controllers.
#[must_use]
pub fn known() -> Controllers {
    KNOWN.get().copied().unwrap_or_default()
}
