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
//! | `publisher`, `subscriber` | serves what changes, and observes it (RFC 7641) |
//! | `secured` | sessions of DTLS between an endpoint and the network |
//! | `unaware` | sends at a pace without an endpoint, whatever happens to it |
//! | `recorded` | a controller that tells the timeouts that it answers |
//! | `timeouts` | the timeout of each copy that a host sends |
//! | `application` | requester and responder as one type, on an endpoint |
//! | `occupant` | what sits on a node of a simulation: an endpoint, a sender without one, or a mote |

mod application;
mod flow;
mod occupant;
mod publisher;
mod recorded;
mod requester;
mod responder;
mod secured;
mod subscriber;
mod timeouts;
mod unaware;

pub use application::{Application, Timer, config, host};
pub use flow::{Flow, Limit, Pace, Segment, body_of};
pub use occupant::Occupant;
pub use publisher::{Publisher, Topic};
pub use requester::{Exchange, Requester, Tally};
pub use responder::{Arrival, Responder};
pub use secured::{Handshaken, Log, Secured};
pub use subscriber::{Heard, Subscriber};
pub use timeouts::{Timeout, Timeouts};
pub use unaware::Unaware;
