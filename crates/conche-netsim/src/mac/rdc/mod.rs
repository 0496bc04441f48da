//! Radio duty cycling: attempts, and when the receiver is on.
//!
//! | file | contents |
//! |---|---|
//! | `always_on` | attempts to receivers that are always on (Contiki's NullRDC, TinyOS's default) |
//! | `contikimac` | attempts to receivers that sleep most of the time |
//! | `reception` | received frames: duplicates, acknowledgments |

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
    /// As ContikiMAC schedules it. Requires acknowledgments, and uses only turnarounds of
    /// [`AttemptConfig`](super::AttemptConfig).
    ContikiMac(ContikiMac),
}
