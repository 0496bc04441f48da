//! CoAP applications that send and answer requests in a simulated network, and record what becomes of each exchange.
//!
//! ```text
//!   Flow ─> Requester ──request──> network ──> Responder
//!              │   <──response──              │
//!              └─> Exchange                   └─> Arrival
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `flow` | what one requester asks of one peer: when, how often, how much |
//! | `requester` | opens exchanges as its flows say, and records them |
//! | `responder` | answers, and records what arrives |
//! | `recorded` | a controller that records the timeouts that it answers |
//! | `application` | the two as one type, to sit on the nodes of a simulation |

mod application;
mod flow;
mod recorded;
mod requester;
mod responder;

pub use application::{Application, Parameters, Timer, host};
pub use flow::{Flow, Limit, Pace, Segment, body_of};
pub use recorded::{Recorded, Timeout};
pub use requester::{Exchange, Requester, Tally};
pub use responder::{Answers, Arrival, Responder};

#[cfg(test)]
mod tests;
