//! The message layer (RFC 7252 §4): message IDs, deduplication, and what is left of Non-confirmable messages.
//!
//! Retransmission is where the exchange that it serves is: see [`exchange`](crate::exchange).

mod deduplication;
mod ids;
mod rejectable;

pub(crate) use deduplication::{Deduplication, Received, Remembered, Reply};
pub(crate) use ids::{GROUP_IDS, NextId, UsedIds};
pub(crate) use rejectable::Rejectable;
