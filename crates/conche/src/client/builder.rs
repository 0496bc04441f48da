//! How a client is made.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use conche_proto::cc::AnyController;

use super::Client;
use super::sockets::Sockets;
use crate::builder::Builder;
use crate::driver::Binding;
use crate::settings::{ConfigError, SharedController};

/// Makes a [`Client`].
pub type ClientBuilder<C = AnyController> = Builder<ClientRole, C>;

/// What only clients have: where they send from.
#[derive(Clone, Debug)]
pub struct ClientRole {
    v4: Binding,
    v6: Binding,
}

impl Default for ClientRole {
    fn default() -> Self {
        Self {
            v4: Binding::Address((Ipv4Addr::UNSPECIFIED, 0).into()),
            v6: Binding::Address((Ipv6Addr::UNSPECIFIED, 0).into()),
        }
    }
}

impl<C: SharedController> Builder<ClientRole, C> {
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

    /// The client. Sockets are opened when they are needed.
    ///
    /// # Errors
    /// If the settings contradict each other.
    pub fn build(self) -> Result<Client, ConfigError> {
        self.settings.validate()?;
        Ok(Client::with(Sockets::own(self.settings, self.role.v4, self.role.v6)))
    }

    fn slot(&mut self, address: SocketAddr) -> &mut Binding {
        if address.ip().to_canonical().is_ipv4() { &mut self.role.v4 } else { &mut self.role.v6 }
    }
}
