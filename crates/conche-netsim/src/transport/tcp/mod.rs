//! A bulk transfer over a simplified TCP, as nodes with little memory run it (WiOpt'12; RFC 793, RFC 5681 for slow start).
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
//! | module | what it holds |
//! |---|---|
//! | [`segment`] | what is sent |
//! | [`sender`] | the window and the retransmission queue |
//! | `window` | how many segments may be on their way |
//! | [`receiver`] | acknowledgments, cumulative or one for each segment |
//!
//! Sequence numbers count segments, not bytes, and all segments are of one size. There is no congestion avoidance (the
//! window's limit takes its place) and no fast retransmission but in a sender with [`Sender::with_reno`], and no FIN: the transfer is over when its last segment is
//! acknowledged. Timers come from a congestion [`Controller`](conche_proto::cc::Controller): each segment is an exchange.
//!
//! Neither side does any I/O: segments and time come in, segments and a time to wake up go out.

mod exchange;
pub mod receiver;
pub mod segment;
pub mod sender;
mod window;

pub use receiver::Receiver;
pub use segment::Segment;
pub use sender::{Output, Sender, SenderConfig, SenderStats, State};

/// What an acknowledgment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acknowledgments {
    /// All segments before the one that it names have arrived (RFC 793). A later one makes an earlier one needless.
    Cumulative,
    /// The segment that it names has arrived: one acknowledgment for each segment.
    Positive,
}
