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
//! The [tour of the server](server) shows routing, state, layers, JSON and CBOR.
//!
//! # What a user can rely on
//!
//! - Each socket has one task that drives one sans-I/O [`Endpoint`](conche_proto::Endpoint): the same protocol that the
//!   simulator runs. A server may have [several](server::ServerBuilder::workers) of both, on a thread each. Retransmission, deduplication, separate responses and congestion control are its affair.
//! - Dropping a request's future cancels it and frees what it holds. A handler that takes long becomes a separate
//!   response by itself; one that panics becomes 5.00. A server that is shut down answers 5.03 what it gives up.
//! - A request's [`timeout`](client::RequestBuilder::timeout) bounds everything, and [`Error::was_sent`] tells whether
//!   sending it again could have an effect twice.
//! - What the operating system refuses to send fails at once with [`Error::Send`]. Where it tells of ICMP errors (Linux),
//!   so does a request to a port that nobody listens on, unless
//!   [`retry_unreachable`](client::ClientBuilder::retry_unreachable) says otherwise.
//! - Payloads of requests and responses are whole in both roles: what does not fit into a message goes block by block
//!   (RFC 7959), each block under congestion control and in turn with other requests.
//! - A server that has several addresses answers from the one that it was asked at. Where it
//!   has [joined a group](server::ServerBuilder::join_group), it answers what comes to that at leisure; a client asks one with
//!   [`multicast`](Client::multicast).
//!
//! # Waiting and limits
//!
//! Requests wait for their turn: [`Client`] says in which order and for how long. Nothing that a peer or a program can fill
//! is unbounded, and what is full is said:
//!
//! | what is full | who learns of it | setting |
//! |---|---|---|
//! | requests that wait | [`Error::Busy`] | [`Waiting`](client::Waiting) |
//! | requests that wait, as far as [`try_send`](client::RequestBuilder::try_send) likes | [`Error::Busy`] | [`Limits`]: `queue_per_peer`, `queue` |
//! | the payload of a request, or of its response | [`Error::RequestTooLarge`], [`Error::ResponseTooLarge`] | [`body_limit`](client::ClientBuilder::body_limit) |
//! | the payload of a request to a server | the client: 4.13 | [`body_limit`](server::ServerBuilder::body_limit) |
//! | exchanges, destinations used lately, or observations | [`Error::Busy`] | [`Limits`]: `exchanges`, `peers`, `subscriptions` |
//! | observers of a server | the client: a response without Observe | [`Limits`]: `observers`, `observers_per_peer` |
//! | handlers that wait for something | the client: 5.03 with Max-Age | [`concurrency`](server::ServerBuilder::concurrency) |
//! | what is remembered of requests received | the client: 5.03 | [`Limits`]: `deduplication_bytes` |
//!
//! # Congestion control
//!
//! A client or server has one controller for all peers or one for each [prefix](client::ClientBuilder::controller_for).
//! [`AnyController`] is one of this crate's, chosen by name at run time. One of your own implements [`cc::Controller`], whose
//! documentation says what it is told and asked, and goes to
//! [`own_controller`](client::ClientBuilder::own_controller); the endpoint holds its [`Envelope`] around every controller.
//! [`Client::snapshot`] shows what a controller knows of a path, [`Client::reset_path`] has it forget that.
//!
//! A peer of which nothing is known begins with what others of its path, which is its host or its network, have
//! [found out](client::ClientBuilder::share_paths). A [file](client::ClientBuilder::path_store) keeps that over a restart.
//!
//! # Observing
//!
//! [`Client::observe`] gives an [`Observation`](client::Observation), a stream of a resource's states; a server's resource
//! is observed by clients once it has a [`Notifier`](server::Notifier) (RFC 7641). Notifications pass the congestion control
//! of the path to each observer; one that is slow misses what is out of date and gets the last state.
//!
//! # Caching
//!
//! A client with a [`cache`](client::ClientBuilder::cache) uses a response again until its Max-Age has passed, and then validates
//! it by its ETag (RFC 7252 §5.6). There is none unless it is asked for.
//!
//! # Who may talk to whom
//!
//! `coap` protects nothing. With the feature `dtls` a client asks `coaps` URIs and a server answers nothing else, by
//! pre-shared keys or certificates; with `oscore` and `edhoc` requests and responses themselves are protected, through whatever they go. All of
//! the above holds as it is. A handler or layer learns from [`security::Identity`] who asks.
//!
//! # Both roles on one socket
//!
//! [`Server::client`] sends from the server's socket, for protocols in which a node is known by one address, as in LwM2M.
//!
//! # Logs
//!
//! Events and spans go to [`tracing`](https://docs.rs/tracing). A program shows them by installing a subscriber, such as
//! that of `tracing-subscriber`:
//!
//! ```
//! tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).init();
//! ```
//!
//! - DEBUG: a span for each exchange, with its transmissions, the RTO and how long it was queued; a span for each request
//!   that is handled, in which the handler runs.
//! - DEBUG, target `conche::path`: what is known of the path to a peer of which nothing else is (`srtt`, `rttvar`, `copies` beyond
//!   the first, `age_s` in seconds), before a request to it leaves.
//! - TRACE, target `conche::message`: each datagram that is sent or received, as bytes (`datagram`) and decoded (`decoded`), with its
//!   `peer` and, if it is sent, its `attempt`: 0 for the first copy.
//! - WARN: a setting that is legal but unwise; requests that are refused and responses that cannot be sent.
//! - ERROR: code that serves one peer panicked, such as a handler. Messages that a peer can cause are
//!   limited to one a second, with the number of those held back.
//!
//! # Features
//!
//! None is on by default.
//!
//! | cargo feature | what it adds |
//! |---|---|
//! | `json`, `cbor` | `Json` and `Cbor` as arguments and results of handlers |
//! | `serde` | [`Query`](server::Query) with a struct; part of the two above |
//! | `event-log` | [`watch::EventLog`](watch): what happens on a socket, as qlog |
//! | `pcapng` | [`watch::Capture`](watch): its datagrams, for Wireshark |
//! | `dtls` | `coaps` URIs, and servers that answer them: DTLS with pre-shared keys or certificates ([`security`]) |
//! | `oscore` | `oscore`: requests and responses that only client and server can read (RFC 8613); credentials in files |
//! | `edhoc` | `edhoc`: client and server agree on such keys over the wire (RFC 9528) |
//! | `metrics` | [`Client::metrics`](Client), [`Server::metrics`](Server): OpenMetrics text for Prometheus |
//!
//! # Modules
//!
//! | module | what it holds |
//! |---|---|
//! | [`client`] | [`Client`], requests and responses |
//! | [`body`] | bodies that go block by block while they are made or used |
//! | [`server`] | [`Server`], routing, handlers and what they take and return |
//! | [`security`] | who may talk to whom over DTLS, and who asks |
//! | `oscore`, `edhoc` | keys that protect from end to end, and how they are agreed on |
//! | [`uri`] | `coap` and `coaps` URIs |
//! | [`watch`] | what happens on the sockets, for logs and captures |
//! | `driver` | the task behind each socket |

#![forbid(unsafe_code)]

mod bell;
pub mod body;
mod builder;
pub mod client;
mod controllers;
mod driver;
#[cfg(feature = "edhoc")]
pub mod edhoc;
mod fence;
mod files;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "oscore")]
pub mod oscore;
mod paths;
mod prefixes;
mod problem;
pub mod security;
pub mod server;
mod settings;
mod throttle;
pub mod uri;
pub mod watch;

pub use builder::Builder;
pub use client::{Client, Error};
pub use conche_proto::cc::{self, AnyController};
pub use conche_proto::codec::{self, Code, ContentFormat, OptionNumber, Token};
pub use conche_proto::{
    ControllerId, Course, Ecn, EndpointConfig, Envelope, Failure, Limits, Multicast, ObserverChecks, PeerSnapshot,
    QBlock, Reliability, RequestError, ResponseLimit, SourceValidation, Stats, StreamEnd, SubscriptionEnd,
    TransmissionParameters,
};
pub use controllers::SharedController;
pub use ipnet::IpNet;
pub use problem::Problem;
pub use server::Server;
pub use settings::ConfigError;
pub use uri::{Uri, UriError};
