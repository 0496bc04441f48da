//! The steps of one attempt, and of an acknowledgment.
//!
//! ```text
//!   sender    │ CCA │ prepare │ turnaround ░░│ frame ▓▓▓▓▓▓▓▓│ wait for the ACK ....      │ spacing │
//!   receiver  │                              │ ............. │ turnaround ░░│ ACK ▓▓▓│
//! ```
//!
//! A station is deaf while it switches and transmits. It has one transmitter: while it owes an acknowledgment, its own
//! attempts find the channel busy.

/// Where the station's attempt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// There is none.
    #[default]
    Idle,
    /// Clear channel assessment.
    Assessing,
    /// The channel was clear; the receiver is still on.
    Preparing,
    /// From receiving to transmitting.
    Switching,
    /// The frame is on the air.
    Transmitting,
    /// The frame has ended.
    AwaitingAck,
    /// Duty cycling: something is on the air after the frame, and is read.
    ReadingAck,
}

/// Where the acknowledgment is that the station owes someone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reply {
    /// It owes none.
    #[default]
    None,
    /// It switches to transmission, or transmits.
    Ack {
        /// The sequence number of the frame that is acknowledged.
        dsn: u8,
    },
}
