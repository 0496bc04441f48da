//! The steps of an attempt and of an acknowledgment.
//!
//! ```text
//!   sender    │ CCA │ prepare │ turnaround ░░│ frame ▓▓▓▓▓▓▓▓│ wait for the ACK ....      │ spacing │
//!   receiver  │                              │ ............. │ turnaround ░░│ ACK ▓▓▓│
//! ```
//!
//! A station does not receive while it switches and transmits. While an acknowledgment is due, its
//! attempts find the channel busy.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    #[default]
    Idle,
    /// Clear channel assessment.
    Assessing,
    /// The channel was clear; the receiver is still on.
    Preparing,
    /// Switching from receiving to transmitting.
    Switching,
    Transmitting,
    AwaitingAck,
    /// Duty cycling: the channel is busy after the frame; the signal is being read.
    ReadingAck,
}

/// The acknowledgment that the station has to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reply {
    #[default]
    None,
    /// Being switched to, or transmitted.
    Ack {
        /// Sequence number of the acknowledged frame.
        dsn: u8,
    },
}
