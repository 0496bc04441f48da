//! CoAP server: a tour.
//!
//! A [`Server`] is a socket with a [`Router`], which maps requests by path to a [`Resource`] and by
//! method to a [`Handler`]: an async function with arguments extracted from the request, whose
//! result becomes the response.
//!
//! # Routing
//!
//! ```
//! use conche::ContentFormat;
//! use conche::server::{Path, Router, get};
//!
//! async fn read(Path(sensor): Path<u32>) -> String {
//!     format!("sensor {sensor} is fine")
//! }
//!
//! async fn calibrate(Path(_sensor): Path<u32>) {}
//!
//! async fn file(Path(segments): Path<Vec<String>>) -> String {
//!     segments.join(" > ")
//! }
//!
//! let sensors = Router::new().route("/", get(async || "all are fine").title("Sensors").format(ContentFormat::TEXT_PLAIN));
//! let sensors = sensors.route("/{id}", get(read).post(calibrate));
//! let router: Router = Router::new()
//!     .nest("/sensors", sensors)
//!     .route("/files/{*path}", get(file))
//!     .fallback(async || (conche::Code::NOT_FOUND, "see /.well-known/core"));
//! ```
//!
//! `/.well-known/core` lists routes without captures. Contradictory routes, and handlers with
//! another number of captures than their route, are errors of [`ServerBuilder::bind`].
//!
//! # Extracting
//!
//! If an argument cannot be extracted, its error response is sent and the handler does not run.
//! [`extract`] lists arguments and their codes. Arguments that consume the request come last.
//!
//! ```
//! use conche::server::{Conditions, Path, Peer, Query, Rejection, Router, Text, put};
//!
//! async fn write(
//!     Peer(from): Peer,
//!     Path((floor, room)): Path<(i8, String)>,
//!     conditions: Conditions,
//!     query: Query,
//!     Text(text): Text,
//! ) -> Result<(), Rejection> {
//!     let priority: Option<u8> = query.parse_optional("priority")?;
//!     conditions.check(None)?;
//!     println!("{from} sets {room} on floor {floor} to {text} with priority {priority:?}");
//!     Ok(())
//! }
//!
//! let router: Router = Router::new().route("/floors/{floor}/rooms/{room}", put(write));
//! ```
//!
//! # Answering
//!
//! A handler returns a type that implements [`IntoResponse`]: text, bytes, a pair of
//! [`ContentFormat`](crate::ContentFormat) and bytes, a [`Code`](crate::Code) alone or with one of
//! these, `()`, an [`Option`] (4.04), a [`Result`], or a [`Response`] with any options. The method
//! implies the code unless given. A format that the client does not accept becomes 4.06. If the
//! handler takes long, the response is sent separately.
//!
//! ```
//! use std::time::Duration;
//!
//! use conche::server::{Response, Router, get};
//! use conche::{Code, ContentFormat};
//!
//! async fn measure() -> Response {
//!     tokio::time::sleep(Duration::from_secs(5)).await;
//!     Response::new(Code::CONTENT).payload(ContentFormat::OCTET_STREAM, vec![7, 7]).etag(b"v1").max_age(Duration::from_secs(5))
//! }
//!
//! let router: Router = Router::new().route("/measurement", get(measure));
//! ```
//!
//! # State
//!
//! [`State`] is a clone of the router's state, or of a part that [`FromRef`] returns. A `Router<S>`
//! lacks its state; only a `Router` can be served.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use conche::server::{Router, State, Text, get};
//!
//! type Notes = Arc<Mutex<Vec<String>>>;
//!
//! async fn add(State(notes): State<Notes>, Text(note): Text) {
//!     notes.lock().expect("no handler panics").push(note);
//! }
//!
//! async fn all(State(notes): State<Notes>) -> String {
//!     notes.lock().expect("no handler panics").join("\n")
//! }
//!
//! let router: Router = Router::new().route("/notes", get(all).post(add)).with_state(Notes::default());
//! ```
//!
//! # Observing
//!
//! A [`Notifier`] makes a resource observable (RFC 7641). On a change, the handler runs once for
//! all equal observations.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! use conche::server::{Notifier, Router, State, get};
//!
//! #[derive(Clone, Default)]
//! struct Door { open: Arc<AtomicBool>, moved: Notifier }
//!
//! async fn read(State(door): State<Door>) -> &'static str {
//!     if door.open.load(Ordering::Relaxed) { "open" } else { "closed" }
//! }
//!
//! async fn toggle(State(door): State<Door>) {
//!     door.open.fetch_xor(true, Ordering::Relaxed);
//!     door.moved.notify();
//! }
//!
//! let door = Door::default();
//! let resource = get(read).put(toggle).observed_by(&door.moved);
//! let router: Router = Router::new().route("/door", resource).with_state(door);
//! ```
//!
//! # JSON and CBOR
//!
//! The features `json` and `cbor` add `Json` and `Cbor` as arguments and results, and structs in
//! [`Query`].
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use conche::server::{Json, Query, Router, post};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Reading { celsius: f32 }
//!
//! #[derive(Deserialize)]
//! struct Correction { offset: Option<f32> }
//!
//! async fn correct(Query(by): Query<Correction>, Json(reading): Json<Reading>) -> Json<Reading> {
//!     Json(Reading { celsius: reading.celsius + by.offset.unwrap_or(0.1) })
//! }
//!
//! let router: Router = Router::new().route("/correction", post(correct));
//! # }
//! ```
//!
//! # Layers
//!
//! [`Router::layer`] and [`Resource::layer`] wrap handlers in [`tower`](https://docs.rs/tower)
//! layers. [`from_fn`] makes a layer from an async function; [`handle_error`] turns errors of
//! services such as `tower`'s timeout into responses. [`Router::into_service`] allows tests without
//! a socket.
//!
//! ```
//! use conche::server::{Next, Request, Response, Router, from_fn, get};
//! use tower::limit::GlobalConcurrencyLimitLayer;
//!
//! async fn log(request: Request, next: Next) -> Response {
//!     let asked = format!("{request:?}");
//!     let response = next.run(request).await;
//!     println!("{asked}: {}", response.code());
//!     response
//! }
//!
//! let expensive = get(async || "42").layer(GlobalConcurrencyLimitLayer::new(4));
//! let router: Router = Router::new().route("/answer", expensive).layer(from_fn(log));
//! ```
//!
//! # Errors
//!
//! [`Rejection`] carries a code and a text for humans; custom error types implement
//! [`IntoResponse`]:
//!
//! ```
//! use conche::Code;
//! use conche::server::{IntoResponse, Response, Router, get};
//!
//! struct Failed(std::io::Error);
//!
//! impl From<std::io::Error> for Failed {
//!     fn from(error: std::io::Error) -> Self {
//!         Self(error)
//!     }
//! }
//!
//! impl IntoResponse for Failed {
//!     fn into_response(self, _method: Code) -> Response {
//!         Response::diagnostic(Code::INTERNAL_SERVER_ERROR, self.0.kind().to_string())
//!     }
//! }
//!
//! async fn read() -> Result<String, Failed> {
//!     Ok(std::fs::read_to_string("/sys/class/thermal/thermal_zone0/temp")?)
//! }
//!
//! let router: Router = Router::new().route("/temperature", get(read));
//! ```
//!
//! A handler that panics becomes 5.00 and a log line.
//!
//! # Tracing
//!
//! Each request has a span at level DEBUG; server errors are logged at ERROR. To show both with
//! `RUST_LOG=conche=debug`:
//!
//! ```no_run
//! use tracing_subscriber::EnvFilter;
//!
//! tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).init();
//! ```
//!
//! # Limits
//!
//! Payloads larger than a message are transferred block-wise (RFC 7959), up to the 64 KiB of
//! [`ServerBuilder::body_limit`]. [`Router::max_payload`] sets a lower limit for payloads, answered
//! with 4.13. [`BodyStream`] and [`Response::stream`] have no limit.
//!
//! Beyond [`ServerBuilder::concurrency`] waiting handlers, the response is 5.03. Move long
//! computations to `tokio::task::spawn_blocking`, as they delay all other handlers.
//!
//! # Congestion control
//!
//! Congestion control governs separate responses and notifications, with
//! [`ServerBuilder::controller`] or, for a prefix, [`ServerBuilder::controller_for`]; see
//! [`cc`](crate::cc).

mod builder;
mod workers;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use conche_proto::{PeerSnapshot, Stats};
use thiserror::Error;
use tokio::task::JoinError;

use crate::client::Client;
pub use crate::service::*;
pub use builder::{BindError, ServerBuilder, ServerRole, WorkersError};
use workers::Workers;

/// A running CoAP server. Dropping it stops it at once; [`shutdown`](Self::shutdown) lets it
/// finish.
///
/// All methods take `&self`: tasks that need the server, such as one that serves its metrics, share
/// it in an [`Arc`](std::sync::Arc).
///
/// ```
/// use conche::{Client, Server};
/// use conche::server::get;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().route("/hello", get(async || "world")).bind("127.0.0.1:0").await?;
///
/// let uri = format!("coap://{}/hello", server.local_addr());
/// assert_eq!(Client::new().get(uri).await?.text()?, "world");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    workers: Workers,
    client: Client,
}

impl Server {
    fn new(workers: Workers, client: Client) -> Self {
        Self { workers, client }
    }

    /// Returns a builder for a server without resources.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Returns the address that the server is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.workers.first().local()
    }

    /// Returns the counters of its endpoints, summed over all [workers](ServerBuilder::workers).
    pub async fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for handle in self.workers.handles() {
            sum += handle.stats().await.unwrap_or_default();
        }
        sum
    }

    /// Returns OpenMetrics text of the server, like [`Client::metrics`](crate::Client::metrics).
    #[cfg(feature = "metrics")]
    pub async fn metrics(&self, destinations: usize) -> String {
        crate::driver::metrics(self.workers.handles(), destinations).await
    }

    /// Returns the path state of a client, or `None` without state.
    pub async fn snapshot(&self, peer: SocketAddr) -> Option<PeerSnapshot> {
        for handle in self.workers.handles() {
            if let Some(snapshot) = handle.snapshot(peer).await {
                return Some(snapshot);
            }
        }
        None
    }

    /// Discards a client's path state, including shared state. Outstanding separate responses keep
    /// their timers.
    pub async fn reset_path(&self, peer: SocketAddr) {
        for handle in self.workers.handles() {
            handle.reset_path(peer).await;
        }
    }

    /// Returns a client that sends from this server's socket, for protocols such as LwM2M that
    /// identify a node by one address. It has the server's settings and ends with the server.
    ///
    /// Over `coaps` it opens sessions with [`outgoing_psk`](ServerBuilder::outgoing_psk) and
    /// [`outgoing_roots`](ServerBuilder::outgoing_roots). Sessions that clients opened carry only
    /// requests with [`expect_peer`](crate::client::RequestBuilder::expect_peer).
    ///
    /// With several [workers](ServerBuilder::workers) it has its own sockets and outlives the
    /// server: a response to the server's address could arrive at another worker.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Shuts the server down, in at most `within`, and waits until it has ended.
    ///
    /// New requests are answered with 5.03. Handlers may finish until a quarter of the time (at
    /// most 5 s) is left; others are dropped and answered with 5.03 and Max-Age. Observations end
    /// with 5.03; an [`Observation`](crate::client::Observation) registers again after its Max-Age.
    /// The shutdown also waits for requests of this server's [`client`](Self::client), including
    /// new ones, and for acknowledgements of Confirmable responses.
    ///
    /// It begins when the future is first polled, and continues if the future is dropped. A second
    /// call can shorten its time.
    pub fn shutdown(&self, within: Duration) -> impl Future<Output = ()> + Send + use<> {
        let handles: Vec<_> = self.workers.handles().cloned().collect();
        let ended = self.workers.all_ended();
        async move {
            handles.into_iter().for_each(|handle| handle.shutdown(within));
            ended.await;
        }
    }

    /// Waits until the server ends: by [`shutdown`](Self::shutdown), or because its task fails.
    /// Cancel safe.
    ///
    /// ```no_run
    /// # async fn example(server: conche::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// # let stop_signal = std::future::pending::<()>();
    /// tokio::select! {
    ///     ended = server.wait() => ended?,
    ///     () = stop_signal => server.shutdown(std::time::Duration::from_secs(2)).await,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Why the server ended, unless it was shut down; the same on later calls. With several
    /// [workers](ServerBuilder::workers), the first end is reported at once: shut the server down,
    /// or the kernel redistributes half or more of the others' clients, which lose their
    /// deduplication state and observations.
    pub async fn wait(&self) -> Result<(), Stopped> {
        self.workers.ended().await
    }
}

/// Reason why a server ended without being shut down.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Stopped {
    /// The task that drives its socket panicked, which is a bug in this crate.
    #[error("the task that drives the server's socket panicked: {0}")]
    Panicked(String),
    /// The runtime that it was started on ended.
    #[error("the runtime that the server was started on has ended")]
    Runtime,
}

impl From<JoinError> for Stopped {
    fn from(error: JoinError) -> Self {
        let Ok(panic) = error.try_into_panic() else { return Self::Runtime };
        let text = match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic.downcast_ref().copied().unwrap_or("without a text").to_owned(),
        };
        Self::Panicked(text)
    }
}
