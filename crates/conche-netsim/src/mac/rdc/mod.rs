//! Radio duty cycling: how one attempt gets a frame over the air, and when the receiver is on.
//!
//! | file | what it holds |
//! |---|---|
//! | `always_on` | attempts to receivers that are always on (Contiki's NullRDC, TinyOS's default) |
//! | `contikimac` | attempts to receivers that sleep most of the time |
//! | `reception` | what a station does with the frames that it receives: copies, acknowledgments |

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
    /// While ContikiMAC has them on. Frames to one neighbour need acknowledgments, and of
    /// [`AttemptConfig`](super::AttemptConfig) all turnarounds count here.
    ContikiMac(ContikiMac),
}
