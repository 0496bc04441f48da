//! The message layer (RFC 7252 §4): message IDs, deduplication, and matching of Resets to
//! Non-confirmable responses.
//!
//! Retransmission is part of the [`exchange`](crate::exchange).

mod deduplication;
mod ids;
mod rejectable;

pub(crate) use deduplication::{Deduplication, Received, Remembered, Reply};
pub(crate) use ids::{GROUP_IDS, NextId, UsedIds};
pub(crate) use rejectable::Rejectable;
