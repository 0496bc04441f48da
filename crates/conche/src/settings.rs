//! What client and server have in common: the endpoint's configuration, and which controller is for whom.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use conche_proto::cc::temper::Temper;
use conche_proto::cc::{AnyController, Controller};
use conche_proto::{Endpoint, EndpointConfig};
use ipnet::IpNet;
use thiserror::Error;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::driver::{Address, Binding, Company, Driver, Handle, Handlers, Protecting, Role, Socket, Start, Waiting};
#[cfg(feature = "edhoc")]
use crate::edhoc::{Party, Responding};
#[cfg(feature = "oscore")]
use crate::oscore::Keys;
use crate::paths::{PathStore, Sharing};
use crate::prefixes::Prefixes;
use crate::security::Security;
use crate::server::Router;
use crate::watch::Watchers;

/// A controller that a client or a server can have: any [`Controller`] that other threads may use. There is nothing to
/// implement.
pub trait SharedController: Controller<Peer: Send, Flight: Send> + Clone + Send + Sync + 'static {}

impl<C: Controller<Peer: Send, Flight: Send> + Clone + Send + Sync + 'static> SharedController for C {}

#[derive(Clone, Debug)]
pub(crate) struct Settings<C = AnyController> {
    pub(crate) config: EndpointConfig,
    pub(crate) controller: C,
    /// Controllers for prefixes.
    prefixes: Prefixes<C>,
    pub(crate) sharing: Sharing,
    pub(crate) store: Option<PathStore>,
    pub(crate) waiting: Waiting,
    /// The name of the only network interface to use.
    pub(crate) interface: Option<String>,
    /// Groups that a server joins, with the index of the interface for each.
    pub(crate) groups: Vec<(IpAddr, u32)>,
    /// ICMP errors do not end Confirmable exchanges.
    pub(crate) retry_unreachable: bool,
    /// For how long a client looks for answers without sleeping.
    pub(crate) busy_poll: Duration,
    pub(crate) watchers: Watchers,
    /// What is secured, and by what.
    pub(crate) security: Security,
    #[cfg(feature = "oscore")]
    pub(crate) oscore: Protection,
    #[cfg(feature = "edhoc")]
    pub(crate) edhoc: Agreement,
}

/// With whom OSCORE keys are agreed on (RFC 9528).
#[cfg(feature = "edhoc")]
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    /// As a server.
    pub(crate) served: Option<Party>,
    /// For destinations.
    pub(crate) toward: Prefixes<Party>,
    /// With so many destinations at a time.
    pub(crate) most: usize,
}

#[cfg(feature = "edhoc")]
impl Default for Agreement {
    fn default() -> Self {
        Self { served: None, toward: Prefixes::default(), most: 1024 }
    }
}

/// Which requests are protected with which keys (RFC 8613).
#[cfg(feature = "oscore")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Protection {
    /// Those of clients.
    pub(crate) served: Vec<Keys>,
    /// Those for destinations.
    pub(crate) toward: Prefixes<Keys>,
    /// A server answers no others.
    pub(crate) only: bool,
}

impl Default for Settings {
    /// temper: of all that adapt, it loses least over what was measured, and does least harm to those beside it.
    fn default() -> Self {
        Self {
            config: EndpointConfig::default(),
            controller: Temper::default().into(),
            prefixes: Prefixes::default(),
            sharing: Sharing::default(),
            store: None,
            waiting: Waiting::default(),
            interface: None,
            groups: Vec::new(),
            retry_unreachable: false,
            busy_poll: Duration::ZERO,
            watchers: Watchers::default(),
            security: Security::default(),
            #[cfg(feature = "oscore")]
            oscore: Protection::default(),
            #[cfg(feature = "edhoc")]
            edhoc: Agreement::default(),
        }
    }
}

impl<C> Settings<C> {
    /// The same settings with a controller of another type; those for prefixes are forgotten.
    pub(crate) fn with_controller<D>(self, controller: D) -> Settings<D> {
        let Self { config, sharing, store, waiting, interface, groups, security, .. } = self;
        let (retry_unreachable, busy_poll, watchers) = (self.retry_unreachable, self.busy_poll, self.watchers);
        let prefixes = Prefixes::default();
        Settings {
            config,
            controller,
            prefixes,
            sharing,
            store,
            waiting,
            interface,
            groups,
            retry_unreachable,
            busy_poll,
            watchers,
            security,
            #[cfg(feature = "oscore")]
            oscore: self.oscore,
            #[cfg(feature = "edhoc")]
            edhoc: self.edhoc,
        }
    }

    /// Whether there are OSCORE keys for a destination.
    #[cfg(feature = "oscore")]
    pub(crate) fn keys_toward(&self) -> impl Fn(SocketAddr) -> bool + Send + Sync + use<C> {
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

    /// There are none.
    #[cfg(not(feature = "oscore"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn keys_toward(&self) -> impl Fn(SocketAddr) -> bool + Send + Sync + use<C> {
        |_| false
    }

    pub(crate) fn set_controller_for(&mut self, prefix: IpNet, controller: C) {
        self.prefixes.set(prefix, controller);
    }
}

impl<C: SharedController> Settings<C> {
    /// Why no endpoint could be made, if so.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.prefixes.len() > MOST_PREFIXES {
            return Err(ConfigError::TooManyPrefixes { count: self.prefixes.len() });
        }
        if let Some((prefix, length)) = self.sharing.impossible() {
            return Err(ConfigError::PathLength { prefix, length });
        }
        let bytes = self.config.limits.message_bytes;
        if let Some(longest) = self.security.longest_message().filter(|longest| bytes > *longest) {
            return Err(ConfigError::SecuredMessage { bytes, longest });
        }
        #[cfg(feature = "oscore")]
        if self.oscore.only && !self.has_keys() && !self.security.names_clients() {
            return Err(ConfigError::NobodyHasKeys);
        }
        for controller in self.prefixes.iter().map(|(_, controller)| controller).chain([&self.controller]) {
            for warning in self.config.validate_with(controller)? {
                warn!("{warning}");
            }
        }
        Ok(())
    }

    /// Clients may have keys, or get some.
    #[cfg(feature = "oscore")]
    pub(crate) fn has_keys(&self) -> bool {
        #[cfg(feature = "edhoc")]
        if self.edhoc.served.is_some() {
            return true;
        }
        !self.oscore.served.is_empty()
    }

    /// Opens a socket and starts to drive an endpoint on it.
    pub(crate) fn start(
        &self,
        binding: Binding,
        role: Role,
        router: Router,
        handlers: Handlers,
    ) -> Result<(Handle, JoinHandle<()>), StartError> {
        self.validate()?;
        self.drive((self.open(&binding, role)?, Company::default()), role, router, handlers)
    }

    /// Opens a socket.
    pub(crate) fn open(&self, binding: &Binding, role: Role) -> io::Result<Socket> {
        Socket::open(binding, self.interface.as_deref(), role)
    }

    /// Starts to drive an endpoint on a socket, which is closed together with those of its company.
    pub(crate) fn drive(
        &self,
        (socket, company): (Socket, Company),
        role: Role,
        router: Router,
        handlers: Handlers,
    ) -> Result<(Handle, JoinHandle<()>), StartError> {
        let sharing = Arc::new(self.sharing.clone());
        #[cfg_attr(not(feature = "oscore"), expect(unused_mut, reason = "it gets keys with the feature"))]
        let mut endpoint = self.endpoint(&sharing)?;
        #[cfg(feature = "oscore")]
        let protecting = {
            let mut protecting = Protecting::new(self.oscore.toward.clone(), self.oscore.only);
            for keys in &self.oscore.served {
                let taken = protecting.take(&mut endpoint, keys);
                taken
                    .map_err(|error| ConfigError::Keys { peer: keys.peer().to_string(), problem: error.to_string() })?;
            }
            #[cfg(feature = "edhoc")]
            let protecting = {
                let validated = self.config.validate_sources;
                let responding = self.edhoc.served.clone().map(|us| Responding::new(us, validated)).transpose();
                let responding = responding.map_err(|error| ConfigError::NoRandomness(error.to_string()))?;
                if let Some(responding) = responding.clone() {
                    endpoint.agree_on_keys(Box::new(move |now, c_r, message_3, add| {
                        responding.combined(now, c_r, message_3, add)
                    }));
                }
                protecting.with_edhoc(responding, &self.edhoc)
            };
            protecting
        };
        #[cfg(not(feature = "oscore"))]
        let protecting = Protecting;
        let start = Start {
            socket,
            company,
            security: Arc::new(self.security.clone()),
            groups: self.groups.clone(),
            role,
            router,
            handlers,
            waiting: self.waiting,
            retry_unreachable: self.retry_unreachable,
            busy_poll: self.busy_poll,
            watchers: self.watchers.clone(),
            protecting,
            store: self.store.clone().filter(|_| sharing.on),
            sharing,
            limits: self.config.limits.clone(),
            queue_lifetime: self.config.queue_lifetime,
        };
        Ok(Driver::start(start, endpoint)?)
    }

    /// An endpoint whose randomness comes from the operating system.
    fn endpoint(&self, sharing: &Arc<Sharing>) -> Result<Endpoint<Address, C>, ConfigError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| ConfigError::NoRandomness(error.to_string()))?;
        let mut config = self.config.clone();
        if !self.groups.is_empty() {
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
        Ok(endpoint)
    }
}

/// The endpoint tells 256 controllers apart, one of which is for what no prefix covers.
const MOST_PREFIXES: usize = 255;

/// Why no driver could be started.
#[derive(Debug, Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// Settings with which no endpoint can be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A setting of the endpoint makes no sense, or contradicts another one or a controller.
    #[error(transparent)]
    Endpoint(#[from] conche_proto::ConfigError),
    /// Messages that no record of DTLS carries.
    #[error("Limits::message_bytes is {bytes}: through sessions at most {longest} are possible")]
    SecuredMessage {
        /// Its value.
        bytes: usize,
        /// The largest that is possible.
        longest: usize,
    },
    /// Controllers for too many prefixes.
    #[error("controllers for {count} prefixes: at most {MOST_PREFIXES} can be told apart")]
    TooManyPrefixes {
        /// How many were given.
        count: usize,
    },
    /// Peers of a path are to have more bits in common than an address has.
    #[error("paths of {length} bits for {prefix}: its addresses have {}", .prefix.max_prefix_len())]
    PathLength {
        /// The prefix that it was said for.
        prefix: IpNet,
        /// What was said.
        length: u8,
    },
    /// Keys that cannot be used: others have the same names, another socket has them, or their numbers cannot be kept.
    #[cfg(feature = "oscore")]
    #[error("the OSCORE keys for {peer} cannot be used: {problem}")]
    Keys {
        /// Whom they are for, as [`Identity`](crate::oscore::Identity) shows it.
        peer: String,
        /// Why.
        problem: String,
    },
    /// Only who has keys is answered, and nobody has.
    #[cfg(feature = "oscore")]
    #[error(
        "secured_only answers nobody without keys: add some with ServerBuilder::oscore, edhoc or psk, or client_roots to a certificate"
    )]
    NobodyHasKeys,
    /// The operating system has no randomness, without which tokens could be guessed.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandomness(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use conche_proto::{Instant, Request, codec::Body, codec::Code};

    #[test]
    fn a_prefix_that_is_set_again_has_the_last_controller_whatever_follows_its_bits() {
        let mut settings = Settings::default();
        for prefix in ["10.1.2.3/8", "10.0.0.0/8"] {
            let controller = AnyController::by_name("default").expect("a known name");
            settings.set_controller_for(prefix.parse().expect("a prefix"), controller);
        }
        assert_eq!(settings.prefixes.len(), 1);
    }

    #[test]
    fn the_longest_prefix_chooses_the_controller_also_for_mapped_addresses() {
        let by_name = |name| AnyController::by_name(name).expect("a known name");
        let mut settings = Settings::default();
        settings.set_controller_for("10.0.0.0/8".parse().expect("a prefix"), by_name("default"));
        settings.set_controller_for("10.1.0.0/16".parse().expect("a prefix"), by_name("cocoa-s"));
        settings.set_controller_for("2001:db8::/32".parse().expect("a prefix"), by_name("cocoa2014"));
        let mut endpoint = settings.endpoint(&Arc::default()).expect("legal settings");
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
