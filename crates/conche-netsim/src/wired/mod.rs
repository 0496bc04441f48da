//! Wired networks: links with rate, delay, jitter, loss and queues, and their topology.
//!
//! ```text
//!   frame ─> duplicate? ─> queue ─> serialise at the rate ─> lost? ─> delay + jitter ─> next node
//!                            │└─ until the receiver wakes ([`Wakes`]) and the duty cycle permits
//!                            └─ full, or managed ([`Aqm`]): dropped
//! ```
//!
//! Frames on the wire take no room in the queue (netem's `limit` counts both). A frame lost on the
//! wire has used the link.
//!
//! With a constant rate, a FIFO queue knows departures at arrival, without an event each.

mod aqm;
mod buffer;
mod change_error;
mod delay;
mod link;
mod link_trace;
mod loss;
mod nat;
mod network;
mod queue;
mod rate_trace;
mod service;
mod topology;
mod wakes;

pub use aqm::{Aqm, CoDel, Pie, Red};
pub use change_error::ChangeError;
pub use delay::{Distribution, Jitter, Order};
pub use link::LinkConfig;
pub use link_trace::{LinkTrace, TraceError};
pub use loss::{Loss, LossProcess};
pub use nat::Addresses;
pub use queue::{DropTail, InService, Limit};
pub use rate_trace::{RateTrace, RateTraceError};
pub use service::{Service, Stalls};
pub use topology::{Topology, TopologyError};
pub use wakes::Wakes;

pub(crate) use network::{ForwardOutcome, Network};
