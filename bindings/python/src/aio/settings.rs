//! Settings of clients and servers, from dictionaries with the keyword arguments of their classes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use conche::cc::any::Controllers;
use conche::codec::BlockSize;
use conche::oscore::{Credentials, EndId, Keys};
use conche::security::{OwnCertificate, Roots, Secret};
use conche::server::ServerRole;
use conche::{AnyController, Builder, IpNet, client::CacheLimits, client::ClientRole};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// Settings of both roles.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Common {
    cc: Option<String>,
    cc_for: Vec<(String, String)>,
    body_limit: Option<usize>,
    block_size: Option<usize>,
    retry_unreachable: bool,
}

/// Settings of a client.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ClientSettings {
    common: Common,
    bind: Option<String>,
    timeout: Option<f64>,
    cache: bool,
    psk: Option<(Vec<u8>, Vec<u8>)>,
    roots: Option<Vec<u8>>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    oscore: Option<Py<OscoreKeys>>,
}

/// Settings of a server.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ServerSettings {
    common: Common,
    psk: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    client_roots: Option<Vec<u8>>,
    oscore: Vec<Py<OscoreKeys>>,
    secured_only: bool,
    concurrency: Option<usize>,
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn controller(text: &str) -> PyResult<AnyController> {
    Controllers::default().configured(text).map(|(_, controller)| controller).map_err(invalid)
}

/// Returns a time in seconds as a duration.
pub fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("{name} is a number of seconds, at least 0, not {value}")))
}

impl Common {
    fn apply<R>(self, mut builder: Builder<R>) -> PyResult<Builder<R>> {
        if let Some(cc) = self.cc {
            builder = builder.controller(controller(&cc)?);
        }
        for (prefix, cc) in self.cc_for {
            let prefix: IpNet = prefix.parse().map_err(|error| {
                PyValueError::new_err(format!(
                    "cc_for: {prefix:?} is no prefix of addresses, such as \"2001:db8::/32\": {error}"
                ))
            })?;
            builder = builder.controller_for(prefix, controller(&cc)?);
        }
        if let Some(bytes) = self.body_limit {
            builder = builder.body_limit(bytes);
        }
        if let Some(bytes) = self.block_size {
            let size = BlockSize::fitting(bytes).filter(|size| size.bytes() == bytes).ok_or_else(|| {
                PyValueError::new_err(format!("block_size is 16, 32, 64, 128, 256, 512 or 1024 bytes, not {bytes}"))
            })?;
            builder = builder.block_size(size);
        }
        Ok(builder.retry_unreachable(self.retry_unreachable))
    }
}

fn own_certificate((certificate, key): (Vec<u8>, Vec<u8>)) -> PyResult<OwnCertificate> {
    OwnCertificate::from_pem(&certificate, &key).map_err(invalid)
}

impl ClientSettings {
    pub fn builder(self) -> PyResult<Builder<ClientRole>> {
        let mut builder = self.common.apply(conche::Client::builder())?;
        if let Some(address) = self.bind {
            let address: SocketAddr = address.parse().map_err(|_| {
                PyValueError::new_err(format!(
                    "bind is an IP address and a port, such as \"192.0.2.1:0\" or \"[2001:db8::1]:5683\", not {address:?}"
                ))
            })?;
            builder = builder.bind(address);
        }
        if let Some(timeout) = self.timeout {
            builder = builder.timeout(seconds("timeout", timeout)?);
        }
        if self.cache {
            builder = builder.cache(CacheLimits::default());
        }
        if let Some((identity, key)) = self.psk {
            builder = builder.psk(identity, Secret::new(key)).map_err(invalid)?;
        }
        if let Some(roots) = self.roots {
            builder = builder.roots(Roots::from_pem(&roots).map_err(invalid)?);
        }
        if let Some(own) = self.certificate {
            builder = builder.certificate(own_certificate(own)?);
        }
        if let Some(keys) = self.oscore {
            builder = builder.oscore(keys.get().0.clone());
        }
        Ok(builder)
    }
}

impl ServerSettings {
    pub fn builder(self) -> PyResult<Builder<ServerRole>> {
        // Every handler waits for Python: with a task from the start, one beyond the limit is
        // refused before it fills the queue of an event loop that is busy.
        let mut builder = self.common.apply(conche::Server::builder())?.spawn_handlers();
        if let Some(pairs) = self.psk {
            let keys: Vec<_> = pairs.into_iter().map(|(identity, key)| (identity, Secret::new(key))).collect();
            builder = builder.psk(move |identity: &[u8]| {
                keys.iter().find(|(known, _)| known == identity).map(|(_, key)| key.clone())
            });
        }
        if let Some(own) = self.certificate {
            builder = builder.certificate(own_certificate(own)?);
        }
        if let Some(roots) = self.client_roots {
            builder = builder.client_roots(Roots::from_pem(&roots).map_err(invalid)?);
        }
        for keys in self.oscore {
            builder = builder.oscore(keys.get().0.clone());
        }
        if self.secured_only {
            builder = builder.secured_only();
        }
        if let Some(handlers) = self.concurrency {
            builder = builder.concurrency(handlers);
        }
        Ok(builder)
    }
}

/// One end's OSCORE credentials (RFC 8613) for one peer.
#[pyclass(frozen, module = "conche.aio")]
pub struct OscoreKeys(Keys);

#[pymethods]
impl OscoreKeys {
    #[new]
    #[pyo3(signature = (secret, *, sender_id, recipient_id, salt = Vec::new(), id_context = None))]
    fn new(
        secret: Vec<u8>,
        sender_id: Vec<u8>,
        recipient_id: Vec<u8>,
        salt: Vec<u8>,
        id_context: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let id = |name: &str, bytes: Vec<u8>| {
            EndId::new(&bytes)
                .ok_or_else(|| PyValueError::new_err(format!("{name} has at most 7 bytes, not {}", bytes.len())))
        };
        let credentials = Credentials::new(secret, id("sender_id", sender_id)?, id("recipient_id", recipient_id)?);
        let credentials =
            Credentials { master_salt: salt, id_context: id_context.map(Vec::into_boxed_slice), ..credentials };
        Keys::for_this_run(credentials).map(Self).map_err(invalid)
    }

    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        Keys::open(path).map(Self).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    fn __repr__(&self) -> String {
        format!("<OscoreKeys for the peer {}>", self.0.peer())
    }
}
