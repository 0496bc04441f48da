//! The HTTP server of the live view, for pages of this machine only.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::Listener;
use futures_util::stream;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncRead, Join, ReadBuf};
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::control::{Control, Refusal, Request};
use super::frames::Frames;
use crate::error::UsageError;
use crate::runtime;

/// Maximum number of event streams.
const STREAMS: usize = 16;

/// Maximum number of connections.
const CONNECTIONS: usize = 64;

/// Time between looks for open streams, at the end.
const POLL: Duration = Duration::from_millis(5);

/// How long written answers may take to leave. Connections without a request stay open longer.
const FLUSH: Duration = Duration::from_millis(100);

/// Maximum size of a control.
const BODY: usize = 4096;

/// Files of the page: name, content type, text.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("web/index.html")),
    ("/icon.svg", "image/svg+xml", include_str!("web/icon.svg")),
    ("/live.css", "text/css; charset=utf-8", include_str!("web/live.css")),
    ("/controls.js", SCRIPT, include_str!("web/controls.js")),
    ("/dom.js", SCRIPT, include_str!("web/dom.js")),
    ("/format.js", SCRIPT, include_str!("web/format.js")),
    ("/graph.js", SCRIPT, include_str!("web/graph.js")),
    ("/layout.js", SCRIPT, include_str!("web/layout.js")),
    ("/link.js", SCRIPT, include_str!("web/link.js")),
    ("/live.js", SCRIPT, include_str!("web/live.js")),
    ("/plot.js", SCRIPT, include_str!("web/plot.js")),
    ("/record.js", SCRIPT, include_str!("web/record.js")),
    ("/sequence.js", SCRIPT, include_str!("web/sequence.js")),
];

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Nothing from elsewhere, and no frame of another page around this one.
const POLICY: &str = "default-src 'self'; frame-ancestors 'none'";

const JSON: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Passes a control on; `false` after the run.
pub type Sink = Box<dyn Fn(Request) -> bool + Send + Sync>;

/// A server in a thread of its own.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    network: Arc<Network>,
    frames: Arc<Frames>,
    streams: Arc<Semaphore>,
    shut_down: oneshot::Sender<()>,
    ended: std::sync::mpsc::Receiver<Infallible>,
}

/// The description of the network, with the current settings of its links.
#[derive(Debug)]
pub struct Network(Mutex<Value>);

impl Network {
    fn lock(&self) -> MutexGuard<'_, Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces values in the description of a link.
    pub fn set_link(&self, link: usize, settings: Value) {
        let mut network = self.lock();
        let link = network.get_mut("links").and_then(|links| links.get_mut(link)).and_then(Value::as_object_mut);
        if let (Some(link), Value::Object(settings)) = (link, settings) {
            link.extend(settings);
        }
    }
}

/// A listener with a limit of open connections; further ones wait.
struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

/// The receiving half of a connection, and its place.
struct Receiving {
    half: OwnedReadHalf,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Receiving {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.half).poll_read(cx, buf)
    }
}

impl Listener for Bounded {
    type Io = Join<Receiving, OwnedWriteHalf>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        // It is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        let (half, sending) = stream.into_split();
        (tokio::io::join(Receiving { half, _place: place }, sending), from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

struct Shared {
    hosts: Vec<String>,
    network: Arc<Network>,
    frames: Arc<Frames>,
    streams: Arc<Semaphore>,
    controls: Sink,
}

impl Server {
    /// Listens on the address and serves this description of the network.
    pub fn start(address: SocketAddr, network: Value, controls: Sink) -> anyhow::Result<Self> {
        let runtime = runtime::start()?;
        // A usage error: the hint for sockets of other commands is --bind.
        let listener = runtime::run(&runtime, TcpListener::bind(address)).map_err(|error| {
            UsageError(format!(
                "--live={address}: {error}; write another port, or none for a free one: --live[=ADDR:PORT]"
            ))
        })?;
        let address = listener.local_addr().context("the socket has no address")?;
        let frames = Arc::new(Frames::default());
        let streams = Arc::new(Semaphore::new(STREAMS));
        let mut hosts = vec![address.to_string(), format!("localhost:{}", address.port())];
        // Browsers omit the default port.
        if let Some(host) = hosts[0].strip_suffix(":80") {
            hosts.extend([host.to_owned(), "localhost".to_owned()]);
        }
        let network = Arc::new(Network(Mutex::new(network)));
        let (described, shown, open) = (Arc::clone(&network), Arc::clone(&frames), Arc::clone(&streams));
        let shared = Shared { hosts, network: described, frames: shown, streams: open, controls };
        let (shut_down, stopped) = oneshot::channel::<()>();
        let (sender, ended) = channel();
        let service = router(Arc::new(shared));
        thread::Builder::new().name("live view".to_owned()).spawn(move || {
            // Dropped at the end, which the receiver notices.
            let _sender = sender;
            let listener = Bounded { listener, places: Arc::new(Semaphore::new(CONNECTIONS)) };
            let serving = axum::serve(listener, service).with_graceful_shutdown(async {
                // A dropped sender stops it, too.
                let _ = stopped.await;
            });
            // Accepting goes on after errors.
            let _ = runtime::run(&runtime, serving.into_future());
        })?;
        Ok(Self { address, network, frames, streams, shut_down, ended })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Ends the streams after their last frame, for at most `grace`.
    pub fn close(self, grace: Duration) {
        self.frames.close();
        let deadline = Instant::now() + grace;
        while self.streams.available_permits() < STREAMS && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        // The thread has ended.
        let _ = self.shut_down.send(());
        match self.ended.recv_timeout(FLUSH) {
            Ok(never) => match never {},
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let pages = FILES.iter().fold(Router::new(), |router, (path, content_type, text)| {
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, *content_type)], *text) }))
    });
    let router = pages
        .route("/network", get(network))
        .route("/events", get(events))
        .route("/control", post(control))
        .fallback(async || refused(StatusCode::NOT_FOUND, "the live view has no such page"))
        .method_not_allowed_fallback(async || refused(StatusCode::METHOD_NOT_ALLOWED, "this page has another method"));
    let guard = middleware::from_fn_with_state(Arc::clone(&shared), guard);
    router.layer(DefaultBodyLimit::max(BODY)).layer(guard).with_state(shared)
}

#[derive(Serialize)]
struct Problem<'a> {
    error: &'a str,
}

fn refused(status: StatusCode, error: &str) -> Response {
    let body = serde_json::to_string(&Problem { error }).unwrap_or_default();
    (status, JSON, body).into_response()
}

/// Answers requests of its own page, with headers that confine it.
async fn guard(State(shared): State<Arc<Shared>>, request: HttpRequest, next: Next) -> Response {
    let mut response = match refusal(&shared.hosts, &request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Refuses requests that pages of other origins cause: by a foreign name of this address, or with a
/// foreign origin.
fn refusal(hosts: &[String], request: &HttpRequest) -> Option<Response> {
    let value = |name: HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
    let is_known = |host: &[u8]| hosts.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(host));
    if !value(header::HOST).is_some_and(is_known) {
        let address = hosts.first().map(String::as_str).unwrap_or_default();
        let port = address.rsplit(':').next().unwrap_or_default();
        let problem = format!(
            "Host: the live view is http://{}/, on this machine only; from another one, run `ssh -L \
             {port}:{address} HOST` there, with the same port at both ends, and open http://localhost:{port}/",
            hosts.join("/ or http://")
        );
        return Some(refused(StatusCode::MISDIRECTED_REQUEST, &problem));
    }
    let is_own = |origin: &[u8]| origin.strip_prefix(b"http://").is_some_and(is_known);
    // A link to the page has no origin, but its site.
    let is_link = value(SEC_FETCH_MODE) == Some(b"navigate") && request.uri().path() == "/";
    let is_own_site = |site: &[u8]| site == b"same-origin" || site == b"none" || is_link;
    if value(header::ORIGIN).is_none_or(is_own) && value(SEC_FETCH_SITE).is_none_or(is_own_site) {
        return None;
    }
    Some(refused(StatusCode::FORBIDDEN, "Origin: only the page of the live view may use it"))
}

async fn network(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    (JSON, shared.network.lock().to_string())
}

async fn events(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(place) = Arc::clone(&shared.streams).try_acquire_owned() else {
        let problem = format!("{STREAMS} pages are open already; close one");
        return refused(StatusCode::SERVICE_UNAVAILABLE, &problem);
    };
    let frames = stream::unfold((shared.frames.reader(), place), |(mut reader, place)| async {
        let (number, frame) = reader.next().await?;
        let event = Event::default().id(number.to_string()).data(&*frame);
        Some((Ok::<_, Infallible>(event), (reader, place)))
    });
    Sse::new(frames).keep_alive(KeepAlive::default()).into_response()
}

async fn control(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Ok(body) = body else {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, &format!("a control has at most {BODY} bytes"));
    };
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|of| of.to_str().ok()).unwrap_or_default();
    // Other types need no permission to be sent by a page of another origin.
    if !content_type.split(';').next().is_some_and(|of| of.trim().eq_ignore_ascii_case("application/json")) {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type: write application/json");
    }
    let outcome = async {
        let (answer, answered) = oneshot::channel();
        let request = Request { control: Control::read(&body)?, answer };
        let over = Refusal::Now("the run is over, or has not begun");
        if !(shared.controls)(request) {
            return Err(over);
        }
        answered.await.unwrap_or(Err(over))
    };
    match outcome.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error @ Refusal::Invalid(_)) => refused(StatusCode::BAD_REQUEST, &error.to_string()),
        Err(error @ Refusal::Now(_)) => refused(StatusCode::CONFLICT, &error.to_string()),
    }
}
