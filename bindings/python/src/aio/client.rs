//! [`Client`]: starts requests, whose responses appear in the queue.

use bytes::Bytes;
use conche::client::RequestBuilder;
use conche::{Code, OptionNumber};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::message::{Failure, RawOption, Received};
use super::observation::Observation;
use super::queue::{Outcome, Queue};
use super::runtime;
use super::settings::{ClientSettings, seconds};

/// A client of the crate `conche`.
#[pyclass(frozen, module = "conche._conche")]
pub struct Client(conche::Client);

impl Client {
    pub fn of_server(client: conche::Client) -> Self {
        Self(client)
    }
}

#[pymethods]
impl Client {
    #[new]
    fn new(settings: ClientSettings) -> PyResult<Self> {
        let built = settings.builder()?.build();
        built.map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Starts a request, and returns the key of its response.
    #[expect(clippy::too_many_arguments, reason = "a structure would cost time for each request")]
    fn request(
        &self,
        queue: &Queue,
        method: u8,
        uri: &str,
        payload: &[u8],
        options: Vec<RawOption>,
        timeout: Option<f64>,
        confirmable: bool,
    ) -> PyResult<u64> {
        let request = self.build(method, uri, payload, options, timeout, confirmable)?;
        let response = request.send();
        runtime::spawn(queue.outbox(), async move {
            match response.await {
                Ok(response) => Outcome::Received(Received::from(response)),
                Err(error) => Outcome::Failed(Failure::from(error)),
            }
        })
    }

    /// Prepares an observation.
    fn observe(
        &self,
        method: u8,
        uri: &str,
        payload: &[u8],
        options: Vec<RawOption>,
        timeout: Option<f64>,
    ) -> PyResult<Observation> {
        let request = self.build(method, uri, payload, options, timeout, true)?;
        Ok(Observation::new(request.observe()))
    }

    /// Closes the client within this number of seconds.
    fn close(&self, queue: &Queue, within: f64) -> PyResult<u64> {
        let (client, within) = (self.0.clone(), seconds("within", within)?);
        runtime::spawn(queue.outbox(), async move {
            client.close(within).await;
            Outcome::Done
        })
    }

    /// Cancels a request.
    #[staticmethod]
    fn cancel(key: u64) -> PyResult<()> {
        runtime::cancel(key)
    }
}

impl Client {
    fn build(
        &self,
        method: u8,
        uri: &str,
        payload: &[u8],
        options: Vec<RawOption>,
        timeout: Option<f64>,
        confirmable: bool,
    ) -> PyResult<RequestBuilder> {
        let mut request = self.0.request(Code(method), uri);
        for (number, value) in options {
            request = request.option(OptionNumber(number), &value);
        }
        if !payload.is_empty() {
            request = request.bytes(Bytes::copy_from_slice(payload));
        }
        if let Some(timeout) = timeout {
            request = request.timeout(seconds("timeout", timeout)?);
        }
        Ok(if confirmable { request } else { request.non() })
    }
}

/// The runtime's thread drops the client, with its sockets.
impl Drop for Client {
    fn drop(&mut self) {
        let client = self.0.clone();
        runtime::run(move || drop(client));
    }
}
