//! [`Builder`]: the settings that clients and servers have in common.

use conche_proto::EndpointConfig;
use conche_proto::cc::AnyController;
use ipnet::IpNet;

use crate::driver::Waiting;
use crate::settings::{Settings, SharedController};

/// What makes a client or a server, with the settings that both have. What only one of them has stands with
/// [`ClientBuilder`](crate::client::ClientBuilder) and [`ServerBuilder`](crate::server::ServerBuilder).
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
pub struct Builder<R, C = AnyController> {
    pub(crate) settings: Settings<C>,
    pub(crate) role: R,
}

impl<R: Default> Default for Builder<R> {
    fn default() -> Self {
        Self { settings: Settings::default(), role: R::default() }
    }
}

impl<R, C: SharedController> Builder<R, C> {
    /// Congestion control toward all destinations for which no other is set. That of a server governs separate responses
    /// and the requests of its [`client`](crate::Server::client).
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
    pub fn own_controller<D: SharedController>(self, controller: D) -> Builder<R, D> {
        Builder { settings: self.settings.with_controller(controller), role: self.role }
    }

    /// Transmission parameters, limits and the safety envelope.
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.settings.config = config;
        self
    }

    /// How many requests may wait for their turn. Those of a server are of its [`client`](crate::Server::client).
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.settings.waiting = waiting;
        self
    }

    /// Sends and receives only through this network interface, such as `"eth0"`. Only on Linux; elsewhere, and where the
    /// interface cannot be used, requests fail with [`Error::Socket`](crate::Error::Socket), and a server does not start.
    pub fn interface(mut self, name: impl Into<String>) -> Self {
        self.settings.interface = Some(name.into());
        self
    }

    /// Whether Confirmable requests, and separate responses of a server, go on being retransmitted when an ICMP error says
    /// that nobody listens at the destination or that there is no way to it.
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
}
