//! A bulk transfer over a simplified TCP of memory-constrained nodes (WiOpt'12; RFC 793, RFC 5681
//! for slow start).
//!
//! ```text
//!   sender                 receiver
//!     │ ─── SYN ────────────> │       the controller's first round-trip sample
//!     │ <────── SYN-ACK ───── │
//!     │ ─── data 0 ─────────> │       the window starts at one segment and grows
//!     │ <──────────── ACK 1 ─ │       by one per ACK of new data, up to its limit
//!     │ ─── data 1, data 2 ─> │
//! ```
//!
//! Sequence numbers count segments of one size. Without [`Sender::with_reno`], the window's limit
//! replaces congestion avoidance and fast retransmission. The last acknowledgment, not a FIN, ends
//! the transfer. Timeouts come from a congestion [`Controller`](conche_proto::cc::Controller), with
//! segments as exchanges.

pub mod receiver;
pub mod segment;
pub mod sender;

pub use receiver::Receiver;
pub use segment::Segment;
pub use sender::{Output, Sender, SenderConfig, SenderStats, State};

/// The meaning of an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acknowledgments {
    /// All earlier segments have arrived (RFC 793); later ones supersede it.
    Cumulative,
    /// The given segment has arrived; one acknowledgment each.
    Positive,
}
