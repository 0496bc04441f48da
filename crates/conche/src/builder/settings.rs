//! [`Settings`]: settings common to clients and servers, except for their controllers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use conche_proto::EndpointConfig;

use crate::driver::Waiting;
#[cfg(feature = "edhoc")]
use crate::edhoc::Party;
use crate::error::ConfigError;
#[cfg(feature = "oscore")]
use crate::oscore::Keys;
use crate::paths::{PathStore, Sharing};
#[cfg(feature = "oscore")]
use crate::prefixes::Prefixes;
#[cfg(feature = "dtls")]
use crate::security::Security;
use crate::telemetry::watch::Watchers;

#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) config: EndpointConfig,
    pub(crate) sharing: Sharing,
    pub(crate) store: Option<PathStore>,
    pub(crate) waiting: Waiting,
    /// The name of the only network interface to use.
    pub(crate) interface: Option<String>,
    /// Multicast groups that a server joins, each with an interface index.
    pub(crate) groups: Vec<(IpAddr, u32)>,
    /// Whether ICMP errors do not end Confirmable exchanges.
    pub(crate) retry_unreachable: bool,
    /// Maximum time that a client polls for responses without sleeping.
    pub(crate) busy_poll: Duration,
    pub(crate) watchers: Watchers,
    /// The credentials of DTLS sessions.
    #[cfg(feature = "dtls")]
    pub(crate) security: Security,
    /// Whether a server refuses unauthenticated requests.
    pub(crate) secured_only: bool,
    #[cfg(feature = "oscore")]
    pub(crate) oscore: OscoreSettings,
    #[cfg(feature = "edhoc")]
    pub(crate) edhoc: EdhocSettings,
}

/// EDHOC parties (RFC 9528).
#[cfg(feature = "edhoc")]
#[derive(Clone, Debug)]
pub(crate) struct EdhocSettings {
    /// As responder, for clients.
    pub(crate) served: Option<Party>,
    /// As initiator, by destination.
    pub(crate) toward: Prefixes<Party>,
    /// Maximum number of destinations with keys.
    pub(crate) most: usize,
}

#[cfg(feature = "edhoc")]
impl Default for EdhocSettings {
    fn default() -> Self {
        Self { served: None, toward: Prefixes::default(), most: 1024 }
    }
}

/// OSCORE keys (RFC 8613).
#[cfg(feature = "oscore")]
#[derive(Clone, Debug, Default)]
pub(crate) struct OscoreSettings {
    /// Of clients.
    pub(crate) served: Vec<Keys>,
    /// By destination.
    pub(crate) toward: Prefixes<Keys>,
}

impl Settings {
    /// Returns whether a destination has OSCORE keys.
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

    /// Without OSCORE no destination has keys.
    #[cfg(not(feature = "oscore"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn keys_toward(&self) -> impl Fn(SocketAddr) -> bool + Send + Sync + use<> {
        |_| false
    }

    /// Returns the error that keeps an endpoint from being made, with any controllers.
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

    /// Whether clients may have OSCORE keys, now or after EDHOC.
    #[cfg(feature = "oscore")]
    pub(crate) fn has_keys(&self) -> bool {
        #[cfg(feature = "edhoc")]
        if self.edhoc.served.is_some() {
            return true;
        }
        !self.oscore.served.is_empty()
    }

    /// Returns whether a request can be authenticated, by keys or by its session.
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
