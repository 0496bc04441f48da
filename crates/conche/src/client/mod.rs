//! Requesting resources.

mod error;
mod request;
mod response;

pub use error::Error;
pub use request::RequestBuilder;
pub use response::Response;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use conche_proto::cc::AnyController;
use conche_proto::codec::Code;
use conche_proto::{Course, EndpointConfig};
use ipnet::IpNet;

use crate::driver::{Driver, Handle, Opening, Outcome, Role};
use crate::server::Router;
use crate::settings::{ConfigError, Settings};
use crate::uri::{Host, Uri, UriError};

/// A CoAP client. Cloning it is cheap; all clones share their sockets, queues and what was learnt of the paths.
///
/// It opens one socket for IPv4 and one for IPv6 when they are needed first, each driven by a task of its own that ends
/// with the last clone.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use conche::{Client, ContentFormat};
///
/// let client = Client::new();
/// let response = client.get("coap://[2001:db8::1]/temperature").await?;
/// println!("{:?}: {}", response.code(), response.text()?);
///
/// client.put("coap://[2001:db8::1]/setpoint").payload(ContentFormat::TEXT_PLAIN, "21.5").await?.successful()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    v4: Mutex<Option<Handle>>,
    v6: Mutex<Option<Handle>>,
}

impl Client {
    /// A client with CoCoA (draft-ietf-core-cocoa-03) as its congestion control and RFC 7252's parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    /// A client with other settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    fn with(settings: Settings) -> Self {
        Self { shared: Arc::new(Shared { settings, v4: Mutex::default(), v6: Mutex::default() }) }
    }

    /// GET: reads a resource (RFC 7252 §5.8.1).
    pub fn get(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::GET, uri)
    }

    /// POST: has a resource process the payload (RFC 7252 §5.8.2).
    pub fn post(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::POST, uri)
    }

    /// PUT: makes a resource, or replaces it (RFC 7252 §5.8.3).
    pub fn put(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::PUT, uri)
    }

    /// DELETE: removes a resource (RFC 7252 §5.8.4).
    pub fn delete(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        self.request(Code::DELETE, uri)
    }

    /// A request with any method. A URI that is malformed is reported when the request is sent.
    pub fn request(&self, method: Code, uri: impl TryInto<Uri, Error: Into<UriError>>) -> RequestBuilder {
        RequestBuilder::new(self.clone(), method, uri.try_into().map_err(Into::into))
    }

    /// Pings the host that a URI names (RFC 7252 §4.3): asks whether its CoAP endpoint is there, and how far away.
    ///
    /// # Errors
    /// As for a request.
    pub async fn ping(&self, uri: impl TryInto<Uri, Error: Into<UriError>>) -> Result<Course, Error> {
        let uri = uri.try_into().map_err(|error| Error::Uri(error.into()))?;
        let mut failure = None;
        for address in resolve(&uri).await? {
            match self.open(address, Opening::Ping).await {
                Ok(Outcome::Pong { course } | Outcome::Response { course, .. }) => return Ok(course),
                Err(error) if error.is_worth_another_address() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| Error::no_address(&uri)))
    }

    async fn open(&self, to: SocketAddr, what: Opening) -> Result<Outcome, Error> {
        let exchange = self.handle(to)?.open(to, what).map_err(|error| Error::exchange(to, error))?;
        exchange.await.map_err(|error| Error::exchange(to, error))
    }

    /// The driver for a destination, started if there is none.
    fn handle(&self, to: SocketAddr) -> Result<Handle, Error> {
        let (slot, any): (_, SocketAddr) = match to {
            SocketAddr::V4(_) => (&self.shared.v4, (Ipv4Addr::UNSPECIFIED, 0).into()),
            SocketAddr::V6(_) => (&self.shared.v6, (Ipv6Addr::UNSPECIFIED, 0).into()),
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = slot.as_ref().filter(|handle| !handle.is_stopped()) {
            return Ok(handle.clone());
        }
        let endpoint = self.shared.settings.endpoint()?;
        // Whatever requests arrive, an empty router answers with 4.04.
        let (handle, _task) = Driver::start(any, Role::Client, endpoint, Router::new(), 0).map_err(Error::Socket)?;
        Ok(slot.insert(handle).clone())
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

/// The addresses that a URI's host has, in the order of preference that the operating system gives them.
async fn resolve(uri: &Uri) -> Result<Vec<SocketAddr>, Error> {
    let name = match uri.host() {
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, uri.port())]),
        Host::Scoped { address, zone } => format!("{address}%{zone}"),
        Host::Name(name) => name.clone(),
    };
    let found = tokio::net::lookup_host((name.as_str(), uri.port())).await.map(Iterator::collect);
    found.map_err(|source| Error::Resolve { host: name, source })
}

/// Makes a [`Client`].
///
/// ```
/// use conche::{AnyController, Client};
///
/// let client = Client::builder()
///     .controller(AnyController::by_name("cocoa-s")?)
///     .controller_for("2001:db8::/32".parse()?, AnyController::by_name("default")?)
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ClientBuilder {
    settings: Settings,
}

impl ClientBuilder {
    /// Congestion control toward all destinations for which no other is set.
    pub fn controller(mut self, controller: impl Into<AnyController>) -> Self {
        self.settings.controller = controller.into();
        self
    }

    /// Congestion control toward the destinations of a prefix. The longest prefix decides.
    pub fn controller_for(mut self, prefix: IpNet, controller: impl Into<AnyController>) -> Self {
        self.settings.set_controller_for(prefix, controller.into());
        self
    }

    /// Transmission parameters, limits and the safety envelope.
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.settings.config = config;
        self
    }

    /// The client. Sockets are opened when they are needed.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn build(self) -> Result<Client, ConfigError> {
        self.settings.validate()?;
        Ok(Client::with(self.settings))
    }
}
