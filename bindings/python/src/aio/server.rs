//! [`Server`]: leaves requests in the queue as [`Call`]s, which Python answers.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use conche::server::{IntoResponse, Request, Resource, Response};
use conche::{Code, ContentFormat, OptionNumber, server};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tokio::sync::oneshot;

use super::client::Client;
use super::message::{Failure, RawOption, options};
use super::queue::{Outbox, Outcome, Queue};
use super::runtime;
use super::settings::{ServerSettings, seconds};

/// A running server of the crate `conche`.
#[pyclass(frozen, module = "conche._conche")]
pub struct Server {
    server: Arc<conche::Server>,
}

#[pymethods]
impl Server {
    /// Host and port that it is bound to.
    #[getter]
    fn address(&self) -> (String, u16) {
        let address = self.server.local_addr();
        (address.ip().to_string(), address.port())
    }

    /// A client that sends from the server's socket.
    fn client(&self) -> Client {
        Client::of_server(self.server.client())
    }

    /// Shuts the server down within this number of seconds.
    fn close(&self, queue: &Queue, within: f64) -> PyResult<u64> {
        let ended = self.server.shutdown(seconds("within", within)?);
        runtime::spawn(queue.outbox(), async move {
            ended.await;
            Outcome::Done
        })
    }

    /// Waits until the server ends.
    fn wait(&self, queue: &Queue) -> PyResult<u64> {
        let server = Arc::clone(&self.server);
        runtime::spawn(queue.outbox(), async move {
            match server.wait().await {
                Ok(()) => Outcome::Done,
                Err(stopped) => Outcome::Failed(Failure::new("closed", stopped.to_string(), false)),
            }
        })
    }
}

/// A route: its path, the methods with their handlers' numbers, the notifier of an observable
/// resource, link attributes, and whether it is hidden.
type RouteParts = (String, Vec<(u8, usize)>, Option<Py<Notifier>>, Vec<(String, String)>, bool);

/// Starts a server. Requests appear in the queue as pairs of `key` and a [`Call`]; the key that
/// this returns receives the [`Server`].
#[pyfunction]
pub fn serve(
    queue: &Queue,
    address: String,
    settings: ServerSettings,
    routes: Vec<RouteParts>,
) -> PyResult<(u64, u64)> {
    let server_key = runtime::new_key()?;
    let mut builder = settings.builder()?;
    for (path, handlers, notifier, attributes, hidden) in routes {
        let mut resource = Resource::new();
        for (method, handler) in handlers {
            let calls = Calls { outbox: queue.outbox(), server: server_key, handler };
            resource = resource.on(Code(method), move |request: Request| calls.call(request));
        }
        for (name, value) in &attributes {
            resource = resource.attribute(name, value);
        }
        if let Some(notifier) = &notifier {
            resource = resource.observed_by(&notifier.get().0);
        }
        builder = builder.route(&path, if hidden { resource.hidden() } else { resource });
    }
    let started = runtime::spawn(queue.outbox(), async move {
        match builder.bind(&address).await {
            Ok(server) => Outcome::Serving(Server { server: Arc::new(server) }),
            Err(error) => {
                let kind = match error {
                    server::BindError::Socket { .. } | server::BindError::Resolve(_) | server::BindError::NoAddress => {
                        "network"
                    }
                    _ => "config",
                };
                Outcome::Failed(Failure::new(kind, error.to_string(), false))
            }
        }
    })?;
    Ok((server_key, started))
}

/// A handler in Python.
#[derive(Clone)]
struct Calls {
    outbox: Outbox,
    server: u64,
    handler: usize,
}

impl Calls {
    fn call(&self, request: Request) -> impl Future<Output = Response> + Send + use<> {
        let Self { outbox, server, handler } = self.clone();
        async move {
            let (respond, response) = oneshot::channel();
            let method = request.method();
            let Ok(key) = runtime::new_key() else { return Response::new(Code::INTERNAL_SERVER_ERROR) };
            outbox.push(server, Outcome::Call(Call { key, handler, request, respond: Mutex::new(Some(respond)) }));
            let mut waiting = Waiting { outbox, key, answered: false };
            let response = response.await;
            waiting.answered = true;
            match response {
                Ok(response) => response.build(method),
                // Python forgot the call: its event loop has ended.
                Err(_) => Response::new(Code::SERVICE_UNAVAILABLE),
            }
        }
    }
}

/// Reports a request that needs no response any more.
struct Waiting {
    outbox: Outbox,
    key: u64,
    answered: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.answered {
            self.outbox.push(self.key, Outcome::Abandoned);
        }
    }
}

/// A request for a handler in Python.
#[pyclass(frozen, module = "conche._conche")]
pub struct Call {
    /// Of the message that nobody waits for the response any more.
    #[pyo3(get)]
    key: u64,
    #[pyo3(get)]
    handler: usize,
    request: Request,
    respond: Mutex<Option<oneshot::Sender<Answer>>>,
}

struct Answer {
    code: Option<u8>,
    format: Option<u16>,
    payload: Bytes,
    options: Vec<RawOption>,
}

impl Answer {
    fn build(self, method: Code) -> Response {
        let code = self.code.map_or_else(|| ().into_response(method).code(), Code);
        let response = Response::new(code);
        let response = match self.format {
            Some(format) => response.payload(ContentFormat(format), self.payload),
            None => match String::from_utf8(self.payload.into()) {
                Ok(text) => Response::diagnostic(code, text),
                Err(bytes) => response.payload(ContentFormat::OCTET_STREAM, bytes.into_bytes()),
            },
        };
        self.options.iter().fold(response, |response, (number, value)| response.option(OptionNumber(*number), value))
    }
}

#[pymethods]
impl Call {
    #[getter]
    fn method(&self) -> u8 {
        self.request.method().0
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.request.payload())
    }

    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> Vec<(u16, Bound<'py, PyBytes>)> {
        options(py, self.request.message())
    }

    #[getter]
    fn captures(&self) -> Vec<String> {
        self.request.captures().map(|capture| capture.text().into_owned()).collect()
    }

    #[getter]
    fn peer(&self) -> (String, u16) {
        let peer = self.request.peer();
        (peer.ip().to_string(), peer.port())
    }

    #[getter]
    fn peer_identity(&self) -> Option<String> {
        self.request.extension::<conche::security::Identity>().map(ToString::to_string)
    }

    #[getter]
    fn path(&self) -> String {
        self.request.message().uri_path()
    }

    #[getter]
    fn for_observers(&self) -> bool {
        self.request.is_for_observers()
    }

    /// Responds. A second response has no effect.
    fn respond(&self, code: Option<u8>, format: Option<u16>, payload: &[u8], options: Vec<RawOption>) -> PyResult<()> {
        if let Some(code) = code.filter(|code| !Code(*code).is_response()) {
            return Err(PyValueError::new_err(format!("{} is no code of a response", Code(code))));
        }
        let answer = Answer { code, format, payload: Bytes::copy_from_slice(payload), options };
        let respond = self.respond.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(respond) = respond {
            let _ = respond.send(answer);
        }
        Ok(())
    }
}

/// Notifies the observers of a route.
#[pyclass(frozen, module = "conche._conche")]
pub struct Notifier(server::Notifier);

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> Self {
        Self(server::Notifier::new())
    }

    fn notify(&self) {
        self.0.notify();
    }

    fn notify_path(&self, path: &str) {
        self.0.notify_path(path);
    }

    #[getter]
    fn observers(&self) -> usize {
        self.0.observers()
    }
}
