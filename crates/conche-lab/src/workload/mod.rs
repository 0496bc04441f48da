//! CoAP applications in a simulated network, which record each exchange.
//!
//! ```text
//!   Flow ─> Requester ──request──> network ──> Responder
//!              │   <──response──              │
//!              └─> Exchange                   └─> Arrival
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `flow` | requests to one peer: schedule, concurrency and size |
//! | `requester` | opens the exchanges of its flows, and records them |
//! | `responder` | answers requests, and records arrivals |
//! | `publisher`, `subscriber` | serves topics that change, and observes them (RFC 7641) |
//! | `secured` | DTLS sessions between an endpoint and the network |
//! | `open_sender` | a sender without an endpoint or congestion control |
//! | `timeout_probe` | a controller wrapper that exposes the timeouts it returns |
//! | `timeouts` | the timeout of each transmission of a host |
//! | `application` | the application on a simulated node |
//! | `host` | the host on a node: an endpoint, a sender without one, or a mote |

mod application;
mod flow;
mod host;
mod open_sender;
mod publisher;
mod requester;
mod responder;
mod secured;
mod subscriber;
mod timeout_probe;
mod timeouts;

pub use application::{Application, Timer, config, host};
pub use flow::{Flow, Limit, Pace, Segment, body_of};
pub use host::AnyHost;
pub use open_sender::OpenSender;
pub use publisher::{Publisher, Topic};
pub use requester::{Exchange, Requester, Tally};
pub use responder::{Arrival, Responder};
pub use secured::{HandshakeCounts, Log, Secured};
pub use subscriber::{ReceivedState, Subscriber};
pub use timeouts::{Timeout, Timeouts};
