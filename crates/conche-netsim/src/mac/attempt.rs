//! The steps of an attempt and of an acknowledgment.
//!
//! ```text
//!   sender    │ CCA │ prepare │ turnaround ░░│ frame ▓▓▓▓▓▓▓▓│ wait for the ACK ....      │ spacing │
//!   receiver  │                              │ ............. │ turnaround ░░│ ACK ▓▓▓│
//! ```
//!
//! A station does not receive while it switches and transmits. It has one transmitter: while an
//! acknowledgment is due, its own attempts find the channel busy.

/// The current step of the station's attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// No attempt.
    #[default]
    Idle,
    /// Clear channel assessment.
    Assessing,
    /// The channel was clear; the receiver is still on.
    Preparing,
    /// Switching from receiving to transmitting.
    Switching,
    /// The frame is being transmitted.
    Transmitting,
    /// The frame has ended.
    AwaitingAck,
    /// Duty cycling: the channel is busy after the frame, and the signal is being read.
    ReadingAck,
}

/// The state of the acknowledgment that the station has to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reply {
    /// None is due.
    #[default]
    None,
    /// The station switches to transmission, or transmits it.
    Ack {
        /// Sequence number of the acknowledged frame.
        dsn: u8,
    },
}
