//! Test peers: an on-path attacker, and a DTLS endpoint under the test's control.

mod attacker;
mod manual;

use std::time::Duration;

use conche::security::Secret;

pub use attacker::{Act, OnPathAttacker, Toward};
pub use manual::ManualEndpoint;

/// Longer than any step of these tests.
pub const LONG: Duration = Duration::from_secs(20);

pub fn keys(identity: &[u8]) -> Option<Secret> {
    (identity == b"lamp").then(|| Secret::new(*b"sesame"))
}
