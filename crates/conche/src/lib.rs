//! CoAP client and server for tokio, with selectable congestion control.
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
//! The [tour of the server](server) shows routing, state, layers, JSON and CBOR.
//!
//! # Guarantees
//!
//! - One task per socket drives one sans-I/O [`Endpoint`](conche_proto::Endpoint), which the
//!   simulator also runs. A server may have several [workers](server::ServerBuilder::workers).
//! - Dropping a request's future cancels the request. A slow handler's response is sent separately;
//!   a handler that panics returns 5.00.
//! - A request's [`timeout`](client::RequestBuilder::timeout) bounds the whole request.
//!   [`Error::was_sent`] reports whether repeating it could have an effect twice.
//! - A send that the operating system refuses fails at once with [`Error::Send`]. On Linux, so does
//!   a request to a closed port, unless
//!   [`retry_unreachable`](client::ClientBuilder::retry_unreachable) is set.
//! - Payloads larger than a message are transferred block-wise (RFC 7959); each block is subject to
//!   congestion control.
//! - A server with several addresses answers from the one that the request was sent to. After
//!   [`join_group`](server::ServerBuilder::join_group), it answers multicast requests, which
//!   [`multicast`](Client::multicast) sends, after a random leisure.
//!
//! # Waiting and limits
//!
//! Requests queue per destination; [`Client`] documents order and maximum time. All state that a
//! peer or a program can fill is bounded:
//!
//! - Waiting requests: [`Error::Busy`]. Setting: [`Waiting`](client::Waiting); for
//!   [`try_send`](client::RequestBuilder::try_send): `queue_per_peer` and `queue` of [`Limits`].
//! - Payload of a request or its response, at the client: [`Error::RequestTooLarge`] or
//!   [`Error::ResponseTooLarge`]. Setting: [`body_limit`](client::ClientBuilder::body_limit).
//! - Payload of a request, at the server: 4.13. Setting:
//!   [`body_limit`](server::ServerBuilder::body_limit).
//! - Exchanges, recently used destinations, or observations: [`Error::Busy`]. Settings:
//!   `exchanges`, `peers` and `subscriptions` of [`Limits`].
//! - Observers of a server: a response without Observe. Settings: [`Limits`].
//! - Waiting handlers: 5.03 with Max-Age. Setting:
//!   [`concurrency`](server::ServerBuilder::concurrency).
//! - Deduplication state: 5.03. Setting: `deduplication_bytes` of [`Limits`].
//!
//! # Congestion control
//!
//! A client or server has one controller for all peers, or one per
//! [prefix](client::ClientBuilder::controller_for). [`AnyController`] selects one by name;
//! [`own_controller`](client::ClientBuilder::own_controller) accepts your own [`cc::Controller`].
//! The endpoint applies its [`Envelope`] to every controller. [`Client::snapshot`] returns the
//! state of a path, and [`Client::reset_path`] discards it.
//!
//! A new peer starts with path state [shared](client::ClientBuilder::share_paths) on its host or
//! network. A [file](client::ClientBuilder::path_store) keeps it across restarts.
//!
//! # Observing and caching
//!
//! [`Client::observe`] returns a stream of a resource's states, an
//! [`Observation`](client::Observation). A [`Notifier`](server::Notifier) makes a server's resource
//! observable (RFC 7641).
//!
//! A client's [`cache`](client::ClientBuilder::cache), off by default, reuses a response until its
//! Max-Age expires, then validates its ETag (RFC 7252 §5.6).
//!
//! # Security
//!
//! `coap` is unprotected. The feature `dtls` adds `coaps` with pre-shared keys or certificates; a
//! server with it can accept only DTLS. The features `oscore` and `edhoc` protect requests and
//! responses end to end. [`security::Identity`] is the authenticated client.
//!
//! # Logs
//!
//! Events and spans go to [`tracing`](https://docs.rs/tracing). To print them:
//!
//! ```
//! tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).init();
//! ```
//!
//! - DEBUG: a span per exchange, with its transmissions, RTO and queueing time; a span per handled
//!   request, in which the handler runs.
//! - DEBUG, target `conche::path`: shared path state (`srtt`, `rttvar`, `age_s` in seconds), before
//!   the first request to a peer without its own.
//! - DEBUG, target `conche::unreachable`: an ICMP error about a `peer`, with its
//!   [`kind`](std::io::ErrorKind). Linux only.
//! - TRACE, target `conche::message`: each datagram as bytes (`datagram`) and decoded (`decoded`),
//!   with its `peer` and, if sent, its `attempt`: 0 for the first transmission.
//! - WARN: legal but unwise settings, refused requests, and responses that cannot be sent.
//! - ERROR: a panic in code that serves one peer, such as a handler. Messages that a peer can cause
//!   are limited to one per second.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `json`, `cbor`: `Json` and `Cbor` as handler arguments and results.
//! - `serde`: [`Query`](server::Query) into a struct; implied by the two above.
//! - `event-log`: [`watch::EventLog`](watch), a socket's events as qlog.
//! - `pcapng`: [`watch::Capture`](watch), its datagrams for Wireshark.
//! - `dtls`: `coaps` for clients and servers ([`security`]).
//! - `oscore`: end-to-end protection (RFC 8613) with credentials in files.
//! - `edhoc`: EDHOC key exchange for OSCORE (RFC 9528).
//! - `metrics`: [`Client::metrics`](Client) and [`Server::metrics`](Server), OpenMetrics text for
//!   Prometheus.

#![forbid(unsafe_code)]

mod address;
pub mod body;
mod builder;
pub mod client;
mod clock;
mod driver;
mod dtls;
#[cfg(feature = "edhoc")]
pub mod edhoc;
mod error;
mod fence;
mod files;
#[cfg(feature = "oscore")]
pub mod oscore;
mod paths;
mod prefixes;
mod problem;
mod refusal;
pub mod security;
pub mod server;
mod service;
mod socket;
mod telemetry;
pub mod uri;

pub use conche_proto::cc::{self, AnyController};
pub use conche_proto::codec::{self, Code, ContentFormat, OptionNumber, Token};
pub use conche_proto::{
    ControllerId, Ecn, EndpointConfig, Envelope, ExchangeStats, Failure, Limits, Multicast, ObserverChecks,
    PeerSnapshot, QBlock, Reliability, RequestError, ResponseLimit, SourceValidation, Stats, StreamEnd,
    SubscriptionEnd, TransmissionParameters,
};
pub use ipnet::IpNet;

pub use builder::Builder;
pub use client::{Client, Error};
pub use driver::SharedController;
pub use error::ConfigError;
pub use problem::Problem;
pub use server::Server;
#[cfg(feature = "metrics")]
pub use telemetry::metrics;
pub use telemetry::watch;
pub use uri::{Uri, UriError};
