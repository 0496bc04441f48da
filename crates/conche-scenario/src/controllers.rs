//! The controllers that this program knows by name: conche's, and its own.

use std::sync::OnceLock;

use conche_proto::cc::any::{Controllers, Named};

/// Said once, when the program begins. What reads a name is a parser of a scenario or of an argument, and nobody can hand
/// those anything: they look here.
static KNOWN: OnceLock<Controllers> = OnceLock::new();

/// Says which controllers there are beside conche's. To be called once, before any name is read; later calls change nothing.
///
/// # Errors
/// A name that two would have.
pub fn know(own: Vec<Named>) -> Result<(), &'static str> {
    let known = Controllers::with(own.leak())?;
    KNOWN.get_or_init(|| known);
    Ok(())
}

/// All controllers.
#[must_use]
pub fn known() -> Controllers {
    KNOWN.get().copied().unwrap_or_default()
}
