//! [`Setup`]: all settings and controllers of a client or server, and its drivers.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use conche_proto::cc::AnyController;
use conche_proto::cc::temper::Temper;
use conche_proto::{Endpoint, EndpointConfig};
use ipnet::IpNet;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::address::Address;
#[cfg(feature = "oscore")]
use crate::driver::OscoreContexts;
use crate::driver::{Driver, Handle, Handlers, NoService, Service, SharedController, ShutdownBarrier, Start, Waiting};
#[cfg(feature = "edhoc")]
use crate::edhoc::{EdhocResponder, Party};
use crate::error::{ConfigError, MAX_PREFIXES, StartError};
use crate::fence::Fence;
#[cfg(feature = "oscore")]
use crate::oscore::Keys;
use crate::paths::{PathStore, Sharing};
use crate::prefixes::Prefixes;
#[cfg(feature = "dtls")]
use crate::security::Security;
use crate::service::Router;
use crate::socket::{Binding, Role, Socket};
use crate::telemetry::watch::Watchers;

#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) config: EndpointConfig,
    pub(crate) sharing: Sharing,
    pub(crate) store: Option<PathStore>,
    pub(crate) waiting: Waiting,
    pub(crate) interface: Option<String>,
    pub(crate) groups: Vec<(IpAddr, u32)>,
    pub(crate) retry_unreachable: bool,
    pub(crate) busy_poll: Duration,
    pub(crate) watchers: Watchers,
    #[cfg(feature = "dtls")]
    pub(crate) security: Security,
    pub(crate) secured_only: bool,
    #[cfg(feature = "oscore")]
    pub(crate) oscore: OscoreSettings,
    #[cfg(feature = "edhoc")]
    pub(crate) edhoc: EdhocSettings,
}

#[cfg(feature = "edhoc")]
#[derive(Clone, Debug)]
pub(crate) struct EdhocSettings {
    pub(crate) served: Option<Party>,
    pub(crate) toward: Prefixes<Party>,
    pub(crate) most: usize,
}

#[cfg(feature = "edhoc")]
impl Default for EdhocSettings {
    fn default() -> Self {
        Self { served: None, toward: Prefixes::default(), most: 1024 }
    }
}

#[cfg(feature = "oscore")]
#[derive(Clone, Debug, Default)]
pub(crate) struct OscoreSettings {
    pub(crate) served: Vec<Keys>,
    pub(crate) toward: Prefixes<Keys>,
}

impl Settings {
    #[cfg(feature = "oscore")]
    pub(crate) fn keys_toward(&self) -> impl Fn(SocketAddr) -> bool + Send + Sync + use<> {
        let toward = self.oscore.toward.clone();
        #[cfg(feature = "edhoc")]
        let agreed = self.edhoc.toward.clone();
        move |to| {
            #[cfg(feature = "edhoc")]
            if agreed.of(to.ip()).is_some() {
                return true;
            }
            toward.of(to.ip()).is_some()
        }
    }

    #[cfg(not(feature = "oscore"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn keys_toward(&self) -> impl Fn(SocketAddr) -> bool + Send + Sync + use<> {
        |_| false
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if let Some((prefix, length)) = self.sharing.impossible() {
            return Err(ConfigError::PathLength { prefix, length });
        }
        #[cfg(feature = "dtls")]
        self.security.validate(self.config.limits.message_bytes)?;
        #[cfg(feature = "edhoc")]
        if let Some((prefix, peers)) =
            self.edhoc.toward.iter().find_map(|(prefix, party)| Some((prefix, party.expected().err()?)))
        {
            return Err(ConfigError::EdhocPeer { prefix, peers });
        }
        #[cfg(any(feature = "dtls", feature = "oscore"))]
        if self.secured_only && !self.authenticates() {
            return Err(ConfigError::NoClientCredentials);
        }
        Ok(())
    }

    #[cfg(feature = "oscore")]
    pub(crate) fn has_keys(&self) -> bool {
        #[cfg(feature = "edhoc")]
        if self.edhoc.served.is_some() {
            return true;
        }
        !self.oscore.served.is_empty()
    }

    #[cfg(any(feature = "dtls", feature = "oscore"))]
    fn authenticates(&self) -> bool {
        #[cfg(feature = "oscore")]
        if self.has_keys() {
            return true;
        }
        #[cfg(feature = "dtls")]
        if self.security.names_peers() {
            return true;
        }
        false
    }
}

#[derive(Clone)]
pub(crate) struct Controllers<C> {
    pub(super) controller: C,
    prefixes: Prefixes<C>,
    /// Instantiates the driver for this controller type: here for this crate's own, so that
    /// programs need not compile it.
    drivers: fn(Self) -> Arc<dyn Drivers>,
}

/// Omits the function pointer: its address would reveal the layout of the process.
impl<C: fmt::Debug> fmt::Debug for Controllers<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, prefixes, drivers: _ } = self;
        f.debug_struct("Controllers").field("controller", controller).field("prefixes", prefixes).finish()
    }
}

impl Default for Controllers<AnyController> {
    /// temper has the least regret of all adaptive controllers over the measured cells and harms
    /// competing traffic least.
    fn default() -> Self {
        Self::new(Temper::default().into())
    }
}

impl<C: SharedController> Controllers<C> {
    pub(crate) fn new(controller: C) -> Self {
        Self { controller, prefixes: Prefixes::default(), drivers: |controllers| Arc::new(controllers) }
    }

    pub(crate) fn set_for(&mut self, prefix: IpNet, controller: C) {
        self.prefixes.set(prefix, controller);
    }

    pub(super) fn with(self, settings: Settings) -> Setup {
        Setup { settings, drivers: (self.drivers)(self) }
    }

    fn endpoint(&self, settings: &Settings, sharing: &Arc<Sharing>) -> Result<Endpoint<Address, C>, ConfigError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| ConfigError::NoRandomness(error.to_string()))?;
        let mut config = settings.config.clone();
        if !settings.groups.is_empty() {
            config.multicast.get_or_insert_default();
        }
        let mut endpoint = Endpoint::new(config, self.controller.clone(), seed)?;
        let controllers = self.prefixes.try_map(|controller| endpoint.add_controller(controller.clone()))?;
        endpoint.choose_controller(Box::new(move |peer: &Address| {
            controllers.of(peer.canonical().ip()).copied().unwrap_or_default()
        }));
        if sharing.on {
            let sharing = Arc::clone(sharing);
            endpoint.share_paths(Box::new(move |peer| sharing.path(peer)));
        }
        endpoint.set_source_groups(Box::new(|peer: &Address| peer.prefix()));
        endpoint.set_source_hosts(Box::new(|peer: &Address| peer.host()));
        Ok(endpoint)
    }

    fn drive<S: Service>(
        &self,
        settings: &Settings,
        on: SharedSocket,
        role: Role,
        served: Served<S>,
    ) -> Result<Started, StartError> {
        let sharing = Arc::new(settings.sharing.clone());
        let fence = Fence::default();
        #[cfg_attr(not(feature = "oscore"), expect(unused_mut, reason = "it gets keys with the feature"))]
        let mut endpoint = self.endpoint(settings, &sharing)?;
        #[cfg(feature = "oscore")]
        let oscore = {
            let mut oscore = OscoreContexts::new(settings.oscore.toward.clone());
            for keys in &settings.oscore.served {
                let taken = oscore.take(&mut endpoint, keys);
                taken
                    .map_err(|error| ConfigError::Keys { peer: keys.peer().to_string(), problem: error.to_string() })?;
            }
            #[cfg(feature = "edhoc")]
            let oscore = {
                let served = settings.edhoc.served.clone();
                let responder = served.map(|us| EdhocResponder::new(us, fence.clone())).transpose();
                let responder = responder.map_err(|error| ConfigError::NoRandomness(error.to_string()))?;
                if let Some(responder) = responder.clone() {
                    endpoint.agree_on_keys(Box::new(move |now, c_r, message_3, add| {
                        responder.combined(now, c_r, message_3, add)
                    }));
                }
                oscore.with_edhoc(responder, settings.edhoc.toward.clone(), settings.edhoc.most)
            };
            oscore
        };
        let start = Start {
            socket: on.socket,
            barrier: on.barrier,
            #[cfg(feature = "dtls")]
            security: Arc::new(settings.security.clone()),
            groups: settings.groups.clone(),
            role,
            service: served.service,
            handlers: served.handlers,
            waiting: settings.waiting,
            retry_unreachable: settings.retry_unreachable,
            busy_poll: settings.busy_poll,
            watchers: settings.watchers.clone(),
            #[cfg(feature = "oscore")]
            oscore,
            secured_only: settings.secured_only,
            fence,
            store: settings.store.clone().filter(|_| sharing.on),
            sharing,
            limits: settings.config.limits.clone(),
            queue_lifetime: settings.config.queue_lifetime,
        };
        Ok(Driver::start(start, endpoint)?)
    }
}

/// A socket for a driver. Sockets with one barrier close together.
pub(crate) struct SharedSocket {
    pub(crate) socket: Socket,
    pub(crate) barrier: ShutdownBarrier,
}

#[derive(Clone)]
pub(crate) struct Served<S> {
    pub(crate) service: Arc<S>,
    pub(crate) handlers: Handlers,
}

pub(crate) type Started = (Handle, JoinHandle<()>);

trait Drivers: Send + Sync {
    fn validate(&self, settings: &Settings) -> Result<(), ConfigError>;

    fn drive_client(&self, settings: &Settings, on: SharedSocket) -> Result<Started, StartError>;

    fn drive_server(
        &self,
        settings: &Settings,
        on: SharedSocket,
        served: Served<Router>,
    ) -> Result<Started, StartError>;
}

impl<C: SharedController> Drivers for Controllers<C> {
    fn validate(&self, settings: &Settings) -> Result<(), ConfigError> {
        if self.prefixes.len() > MAX_PREFIXES {
            return Err(ConfigError::TooManyPrefixes { count: self.prefixes.len() });
        }
        settings.validate()?;
        for controller in self.prefixes.iter().map(|(_, controller)| controller).chain([&self.controller]) {
            for warning in settings.config.validate_with(controller)? {
                warn!("{warning}");
            }
        }
        Ok(())
    }

    fn drive_client(&self, settings: &Settings, on: SharedSocket) -> Result<Started, StartError> {
        let served = Served { service: Arc::new(NoService), handlers: Handlers::default() };
        self.drive(settings, on, Role::Client, served)
    }

    fn drive_server(
        &self,
        settings: &Settings,
        on: SharedSocket,
        served: Served<Router>,
    ) -> Result<Started, StartError> {
        self.drive(settings, on, Role::Server, served)
    }
}

#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    drivers: Arc<dyn Drivers>,
}

impl Setup {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.drivers.validate(&self.settings)
    }

    pub(crate) fn open(&self, binding: &Binding, role: Role) -> io::Result<Socket> {
        Socket::open(binding, self.settings.interface.as_deref(), role)
    }

    pub(crate) fn start_client(&self, binding: &Binding) -> Result<Started, StartError> {
        self.validate()?;
        let socket = self.open(binding, Role::Client)?;
        self.drivers.drive_client(&self.settings, SharedSocket { socket, barrier: ShutdownBarrier::default() })
    }

    pub(crate) fn start_server(&self, binding: &Binding, served: Served<Router>) -> Result<Started, StartError> {
        self.validate()?;
        let socket = self.open(binding, Role::Server)?;
        self.drive_server(SharedSocket { socket, barrier: ShutdownBarrier::default() }, served)
    }

    pub(crate) fn drive_server(&self, on: SharedSocket, served: Served<Router>) -> Result<Started, StartError> {
        self.drivers.drive_server(&self.settings, on, served)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use conche_proto::{Instant, Request, codec::Body, codec::Code};

    #[test]
    fn setting_a_controller_again_for_a_prefix_ignores_its_host_bits() {
        let mut controllers = Controllers::default();
        for prefix in ["10.1.2.3/8", "10.0.0.0/8"] {
            let controller = AnyController::by_name("default").expect("a known name");
            controllers.set_for(prefix.parse().expect("a prefix"), controller);
        }
        assert_eq!(controllers.prefixes.len(), 1);
    }

    #[test]
    fn the_longest_prefix_chooses_the_controller_also_for_mapped_addresses() {
        let by_name = |name| AnyController::by_name(name).expect("a known name");
        let mut controllers = Controllers::default();
        controllers.set_for("10.0.0.0/8".parse().expect("a prefix"), by_name("default"));
        controllers.set_for("10.1.0.0/16".parse().expect("a prefix"), by_name("cocoa-s"));
        controllers.set_for("2001:db8::/32".parse().expect("a prefix"), by_name("cocoa2014"));
        let mut endpoint = controllers.endpoint(&Settings::default(), &Arc::default()).expect("legal settings");
        let mut controller = |peer: &str| {
            let peer = Address::from(peer.parse::<SocketAddr>().expect("an address"));
            endpoint.request(Instant::ZERO, peer, Request::new(Code::GET, Body::EMPTY)).expect("there is room");
            endpoint.snapshot(&peer).expect("there is a peer").controller
        };
        let ids = ["192.0.2.1:1", "10.2.0.1:1", "10.1.2.3:1", "[2001:db8::7]:1"].map(&mut controller);
        assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 4, "{ids:?}");
        assert_eq!(controller("[::ffff:10.1.9.9]:1"), ids[2]);
        assert_eq!(controller("[2001:db9::7]:1"), ids[0]);
    }
}
