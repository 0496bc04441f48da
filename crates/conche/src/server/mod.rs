//! Serving resources: a tour.
//!
//! A [`Server`] is a socket with a [`Router`], which leads each request by its path to a [`Resource`] and by its method to
//! a [`Handler`], an async function. What the function takes is made from the request, what it returns becomes the
//! response. Whoever knows axum knows this; what is different is that a request is complete when it is handled, and its
//! response when it is returned.
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
//! `/.well-known/core` is there by itself and lists what has no captures, with what [`Resource`] was told of it. Routes
//! that contradict each other are an error of [`ServerBuilder::bind`], as are handlers that take another number of
//! captures than their route has.
//!
//! # Extracting
//!
//! An argument is something that can be had from a request, and what cannot be had answers the request instead of the
//! handler: [`extract`] lists what there is, with the codes, and shows how to write one. Those that consume the request
//! come last.
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
//! A request with If-Match or If-None-Match reaches only handlers that take [`Conditions`]; others do not understand these
//! critical options, so that the answer is 4.02.
//!
//! # Answering
//!
//! A handler returns what is [`IntoResponse`]: a text, bytes, a pair of [`ContentFormat`](crate::ContentFormat) and bytes,
//! a [`Code`](crate::Code) alone or with one of these, `()`, an [`Option`] (4.04), a [`Result`], or a [`Response`] with
//! any options. The code follows from the method unless it is given. A representation in another format than the client
//! accepts becomes 4.06. A handler may take its time: after a while the request is acknowledged, and the response follows
//! separately.
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
//! What handlers share is the state of their router; [`State`] is a clone of it, or of a part that [`FromRef`] takes out.
//! A `Router<S>` waits for a state, and only a `Router`, which waits for none, can be served.
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
//! # Being observed
//!
//! Clients may observe a resource that has a [`Notifier`] (RFC 7641). When the program says that there is something new, the
//! handler runs once for all who ask the same, and its answer goes to each of them as the path to it has room.
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
//! With the features `json` and `cbor`, `Json` and `Cbor` are arguments and results. The feature `serde`, which both
//! include, lets [`Query`] be a struct.
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
//! Handlers are [`tower`](https://docs.rs/tower) services to [`Router::layer`] and [`Resource::layer`], which put
//! `tower`'s or one's own layers around them. [`from_fn`] makes a layer of an async function, [`handle_error`] a response
//! of what a service such as `tower`'s timeout fails with. In a test, [`Router::into_service`] needs no socket.
//!
//! ```
//! use conche::server::{Next, Request, Response, Router, from_fn, get};
//! use tower::limit::GlobalConcurrencyLimitLayer;
//!
//! async fn log(request: Request, next: Next) -> Response {
//!     let asked = format!("{request:?}");
//!     let response = next.run(request).await;
//!     println!("{asked}: {:?}", response.code());
//!     response
//! }
//!
//! let expensive = get(async || "42").layer(GlobalConcurrencyLimitLayer::new(4));
//! let router: Router = Router::new().route("/answer", expensive).layer(from_fn(log));
//! ```
//!
//! # Errors
//!
//! An error is a response. [`Rejection`] is one with a text for humans; an error type of one's own implements
//! [`IntoResponse`], so that handlers can use `?`:
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
//! A handler that panics becomes 5.00, and a line in the log. [`Server::wait`] tells when the server itself has ended.
//!
//! # Tracing
//!
//! Each request has a span at level DEBUG, in which its handler runs; what goes wrong on the server's side is logged at
//! ERROR. A program sees nothing of this without a subscriber, such as this one, for which `RUST_LOG=conche=debug` tells
//! more:
//!
//! ```no_run
//! use tracing_subscriber::EnvFilter;
//!
//! tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).init();
//! ```
//!
//! # Limits
//!
//! What does not fit into a message goes block by block (RFC 7959), without the handler's doing: it gets the whole payload and
//! returns the whole response. Both may have 64 KiB, which [`ServerBuilder::body_limit`] changes; [`Router::max_payload`]
//! sets a lower limit for payloads, beyond which the answer is 4.13. [`ServerBuilder::concurrency`] bounds the handlers that wait at the same time; beyond
//! that the answer is 5.03. What is larger than memory goes as a stream: a [`BodyStream`] takes a payload of any size as it
//! comes, and [`Response::stream`] makes one while it is sent. A handler that computes for long holds up all others: such work belongs into
//! `tokio::task::spawn_blocking`.
//!
//! # Congestion control
//!
//! It governs separate responses, which a server retransmits as a client does its requests.
//! [`ServerBuilder::controller`] chooses one for all clients and [`ServerBuilder::controller_for`] one for those of a
//! prefix. [`cc`](crate::cc) has them; one of one's own implements its trait [`Controller`](crate::cc::Controller).

mod answer;
mod builder;
pub mod extract;
mod fresh;
mod handler;
mod listen;
mod middleware;
pub(crate) mod notifier;
mod request;
mod response;
pub mod routing;
mod secured;
mod workers;

pub use answer::Answer;
pub use builder::{BindError, ServerBuilder, ServerRole, WorkersError};
#[cfg(feature = "cbor")]
pub use extract::Cbor;
#[cfg(feature = "json")]
pub use extract::Json;
pub use extract::{
    Arguments, BodyStream, Conditions, Extension, FromRef, FromRequest, FromRequestParts, Path, Payload, Peer, Query,
    Rejection, State, Text,
};
pub use fresh::{NoRandomness, RequireFresh};
pub use handler::Handler;
pub use listen::{Server, Stopped};
pub use middleware::{FromFn, HandleError, Next, from_fn, handle_error};
pub use notifier::Notifier;
pub use request::{Capture, Request};
pub use response::{IntoResponse, Response};
pub use routing::{
    RequestService, Resource, Route, RouteError, RouteFuture, Router, delete, fetch, get, ipatch, patch, post, put,
};
pub use secured::RequireSecured;
pub(crate) use secured::unprotected;

pub(crate) use extract::Rest;
pub(crate) use routing::Dispatch;
