//! How a client is made.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use conche_proto::EndpointConfig;
use conche_proto::cc::AnyController;
use ipnet::IpNet;

use super::Client;
use super::sockets::Sockets;
use crate::driver::{Binding, Waiting};
use crate::settings::{ConfigError, Settings, SharedController};

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
#[derive(Clone, Debug)]
#[must_use]
pub struct ClientBuilder<C = AnyController> {
    settings: Settings<C>,
    v4: Binding,
    v6: Binding,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            v4: Binding::Address((Ipv4Addr::UNSPECIFIED, 0).into()),
            v6: Binding::Address((Ipv6Addr::UNSPECIFIED, 0).into()),
        }
    }
}

impl<C: SharedController> ClientBuilder<C> {
    /// Congestion control toward all destinations for which no other is set.
    pub fn controller(mut self, controller: impl Into<C>) -> Self {
        self.settings.controller = controller.into();
        self
    }

    /// Congestion control toward the destinations of a prefix. The longest prefix decides.
    pub fn controller_for(mut self, prefix: IpNet, controller: impl Into<C>) -> Self {
        self.settings.set_controller_for(prefix, controller.into());
        self
    }

    /// Congestion control of your own: any [`Controller`](crate::cc::Controller). From here on all controllers are of its
    /// type, and those that were set for prefixes are forgotten.
    ///
    /// ```
    /// use conche::Client;
    /// use conche::cc::cocoa::Cocoa;
    ///
    /// // Where a controller of this crate stands for one of your own.
    /// let client: Client = Client::builder().own_controller(Cocoa::draft03()).build()?;
    /// # Ok::<(), conche::ConfigError>(())
    /// ```
    pub fn own_controller<D: SharedController>(self, controller: D) -> ClientBuilder<D> {
        let Self { settings, v4, v6 } = self;
        ClientBuilder { settings: settings.with_controller(controller), v4, v6 }
    }

    /// Transmission parameters, limits and the safety envelope.
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.settings.config = config;
        self
    }

    /// How many requests may wait for their turn.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.settings.waiting = waiting;
        self
    }

    /// Sends from this local address and port, toward destinations of the same IP version. Without it the operating system
    /// chooses both, which is what keeps an attacker off the path from guessing the port.
    pub fn bind(mut self, local: SocketAddr) -> Self {
        *self.slot(local) = Binding::Address(local);
        self
    }

    /// Sends from a UDP socket of the caller's, toward destinations of its IP version. The client makes it non-blocking and
    /// enlarges its buffers; nobody else may receive from it.
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        // What is wrong with a socket that has no address, its first use tells.
        let local = socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::UNSPECIFIED, 0).into());
        *self.slot(local) = Binding::Socket(Arc::new(socket));
        self
    }

    /// Sends and receives only through this network interface, such as `"eth0"`. Only on Linux; elsewhere, and where the
    /// interface cannot be used, requests fail with [`Error::Socket`](crate::Error::Socket).
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.settings.interface = Some(name.into());
        self
    }

    /// Whether Confirmable requests go on being retransmitted when an ICMP error says that nobody listens at the
    /// destination or that there is no way to it.
    ///
    /// By default such a request fails at once. RFC 7252 §4.2 allows both: ICMP errors "may, after appropriate vetting, be
    /// used to inform the application of a failure", which the endpoint does with those that quote a datagram of ours that
    /// is outstanding. A mistyped port, a server that is not running and a host's next address are found at once that way.
    /// What it costs: a server that reboots, and so is gone for seconds only, fails the requests that meet the pause, where
    /// retransmission would have ridden it out. Whoever talks to known devices for a long time wants `true`.
    pub fn retry_unreachable(mut self, retry: bool) -> Self {
        self.settings.retry_unreachable = retry;
        self
    }

    /// The client. Sockets are opened when they are needed.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn build(self) -> Result<Client, ConfigError> {
        self.settings.validate()?;
        Ok(Client::with(Sockets::own(self.settings, self.v4, self.v6)))
    }

    fn slot(&mut self, address: SocketAddr) -> &mut Binding {
        if address.ip().to_canonical().is_ipv4() { &mut self.v4 } else { &mut self.v6 }
    }
}
