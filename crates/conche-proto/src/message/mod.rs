//! The message layer (RFC 7252 §4): message IDs and deduplication.
//!
//! Retransmission is where the exchange that it serves is: see [`exchange`](crate::exchange).

mod arena;
mod deduplication;
mod ids;

pub(crate) use deduplication::{Deduplication, Received, Reply};
pub(crate) use ids::MessageIds;
