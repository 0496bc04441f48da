//! Wired networks: links with rate, delay, jitter, loss and queues, and the topology that they form.
//!
//! ```text
//!   frame ─> duplicate? ─> queue ─> serialise at the rate ─> lost? ─> delay + jitter ─> next node
//!                            └─ full, or managed ([`Aqm`]): dropped
//! ```
//!
//! The queue and the delay line are apart: what is on the wire takes no room in the queue (unlike Linux netem, whose
//! `limit` counts both). A frame that is lost on the wire has used its share of the link.
//!
//! A first-in first-out queue before a constant rate needs no event for a frame's departure, which is known when the frame
//! comes. Links with active queue management, with a [`LinkTrace`] for a rate, or that change during the run have one for
//! each.

mod aqm;
mod buffer;
mod delay;
mod link;
mod loss;
mod network;
mod opportunities;
mod queue;
mod service;
mod topology;

pub use aqm::{Aqm, CoDel, Pie, Red};
pub use delay::{Distribution, Jitter, Order};
pub use link::LinkConfig;
pub use loss::{Loss, LossProcess};
pub use opportunities::{LinkTrace, TraceError};
pub use queue::{DropTail, InService, Limit};
pub use service::{Service, Stalls};
pub use topology::{Topology, TopologyError};

pub(crate) use network::{Forwarded, Network, Surroundings};
