//! What is between two ends, or takes the place of one: somebody on the path, and an end of DTLS by hand.

mod foe;
mod hand;

use std::time::Duration;

use conche::security::Secret;

pub use foe::{Act, Foe, Toward};
pub use hand::Hand;

/// Longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(20);

/// The key of the one client.
pub fn keys(identity: &[u8]) -> Option<Secret> {
    (identity == b"lamp").then(|| Secret::new(*b"sesame"))
}
