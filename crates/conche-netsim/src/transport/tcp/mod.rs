//! A bulk transfer over a simplified TCP of memory-constrained nodes (WiOpt'12; RFC 793, RFC 5681
//! for slow start).
//!
//! ```text
//!   sender                 receiver
//!     │ ─── SYN ────────────> │       the handshake's round trip is the first that the controller is told of
//!     │ <────── SYN-ACK ───── │
//!     │ ─── data 0 ─────────> │       the window begins at one segment, grows by one with each ACK of new data,
//!     │ <──────────── ACK 1 ─ │       and no further than its limit
//!     │ ─── data 1, data 2 ─> │
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`segment`] | segments |
//! | [`sender`] | send window, its size, and retransmission queue |
//! | [`receiver`] | acknowledgments, cumulative or one for each segment |
//!
//! Sequence numbers count segments, all of one size. The window's limit replaces congestion
//! avoidance, and there is no fast retransmission, except with [`Sender::with_reno`]. The last
//! acknowledgment, not a FIN, ends the transfer. Timeouts come from a congestion
//! [`Controller`](conche_proto::cc::Controller), with segments as exchanges.
//!
//! Neither side does I/O.

pub mod receiver;
pub mod segment;
pub mod sender;

pub use receiver::Receiver;
pub use segment::Segment;
pub use sender::{Output, Sender, SenderConfig, SenderStats, State};

/// The meaning of an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acknowledgments {
    /// All earlier segments have arrived (RFC 793); a later acknowledgment supersedes it.
    Cumulative,
    /// The given segment has arrived; one acknowledgment each.
    Positive,
}
