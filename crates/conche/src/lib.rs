//! CoAP for tokio: a [`Client`] and a [`Server`] whose congestion control is safe, fast and yours to choose.
//!
//! ```
//! use conche::server::{Path, get};
//! use conche::{AnyController, Client, Server};
//!
//! async fn greet(Path(name): Path<String>) -> String {
//!     format!("hello, {name}")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().route("/greet/{name}", get(greet)).bind("127.0.0.1:0").await?;
//!
//! let client = Client::builder().controller(AnyController::by_name("cocoa")?).build()?;
//! let response = client.get(format!("coap://{}/greet/you", server.local_addr())).await?;
//! assert_eq!(response.text()?, "hello, you");
//! # Ok(())
//! # }
//! ```
//!
//! # What a user can rely on
//!
//! - Each socket has one task that drives one sans-I/O [`Endpoint`](conche_proto::Endpoint): the same protocol that the
//!   simulator runs. Retransmission, deduplication, separate responses and congestion control are its affair.
//! - Dropping a request's future cancels it and frees what it holds. A handler that takes long becomes a separate
//!   response by itself; one that panics becomes 5.00.
//! - Nothing that a peer or a program can fill is unbounded, and what is full is an error: [`Error::Busy`],
//!   [`Error::Refused`], or 5.03 to the peer.
//! - Where the operating system tells of ICMP errors (Linux), a request to a port that nobody listens on fails at once.
//! - Each exchange has a [`tracing`](https://docs.rs/tracing) span at level DEBUG, with its transmissions, the RTO and
//!   how long it was queued.
//!
//! | module | what it holds |
//! |---|---|
//! | [`client`] | [`Client`], requests and responses |
//! | [`server`] | [`Server`], routing, handlers and what they take and return |
//! | [`uri`] | `coap` URIs |
//! | `driver` | the task behind each socket |

#![forbid(unsafe_code)]

pub mod client;
mod driver;
pub mod server;
mod settings;
pub mod uri;

pub use client::{Client, Error};
pub use conche_proto::cc::{self, AnyController};
pub use conche_proto::codec::{self, Code, ContentFormat, OptionNumber, Token};
pub use conche_proto::{
    ControllerId, Course, EndpointConfig, Envelope, Failure, Limits, PeerSnapshot, Reliability, RequestError, Stats,
    TransmissionParameters,
};
pub use ipnet::IpNet;
pub use server::Server;
pub use settings::{ConfigError, SharedController};
pub use uri::{Uri, UriError};
