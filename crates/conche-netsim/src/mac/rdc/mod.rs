//! Radio duty cycling: attempts, and when receivers are on.
//!
//! | file | contents |
//! |---|---|
//! | `always_on` | attempts to receivers that are always on (Contiki's NullRDC, TinyOS's default) |
//! | `contikimac` | attempts to receivers that sleep most of the time |
//! | `reception` | received frames |

mod always_on;
mod contikimac;
mod reception;

pub use contikimac::ContikiMac;
pub(super) use contikimac::DutyCycle;

/// When receivers are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rdc {
    /// Always.
    #[default]
    AlwaysOn,
    /// As scheduled by ContikiMAC. Requires acknowledgments; uses only the turnarounds of
    /// [`AttemptConfig`](super::AttemptConfig).
    ContikiMac(ContikiMac),
}
