//! Named controllers: those of conche and of the program.

use std::sync::OnceLock;

use conche_proto::cc::any::{Controllers, Named};

/// Parsers take no context.
static KNOWN: OnceLock<Controllers> = OnceLock::new();

/// Adds the program's controllers. Only the first call has an effect, before any name is read.
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
