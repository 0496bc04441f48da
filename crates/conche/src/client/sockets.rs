//! Which driver a request goes to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Error;
use crate::driver::{Address, Binding, Handle, Handlers, Role};
use crate::server::Router;
use crate::settings::{Settings, SharedController};

/// The sockets of a client.
#[derive(Debug)]
pub(super) enum Sockets {
    /// Its own, opened when they are needed.
    Own { start: Start, v4: Slot, v6: Slot },
    /// The one of a server.
    Server(Handle),
}

/// A socket that may be open, and how to open it.
#[derive(Debug)]
pub(super) struct Slot {
    binding: Binding,
    handle: Mutex<Option<Handle>>,
}

/// Starts a driver, whatever its controller.
pub(super) struct Start(Box<dyn Fn(Binding) -> Result<Handle, Error> + Send + Sync>);

impl Sockets {
    pub(super) fn own<C: SharedController>(settings: Settings<C>, v4: Binding, v6: Binding) -> Self {
        let start = move |binding| {
            // Whatever requests arrive, an empty router answers with 4.04.
            let (handle, _task) = settings.start(binding, Role::Client, Router::new(), Handlers::default())?;
            Ok(handle)
        };
        let [v4, v6] = [v4, v6].map(|binding| Slot { binding, handle: Mutex::default() });
        Self::Own { start: Start(Box::new(start)), v4, v6 }
    }

    /// The driver for a destination, started if there is none, and what it calls that destination.
    pub(super) fn toward(&self, to: SocketAddr) -> Result<(Handle, Address), Error> {
        // A mapped address is one of IPv4, which an IPv6 socket of its own does not reach.
        let to = Address::from(to).canonical();
        let handle = match self {
            Self::Server(handle) => handle.clone(),
            Self::Own { start, v4, v6 } => {
                let slot = if to.is_ipv4() { v4 } else { v6 };
                let mut open = slot.lock();
                match open.as_ref().filter(|handle| !handle.is_stopped()) {
                    Some(handle) => handle.clone(),
                    None => open.insert((start.0)(slot.binding.clone())?).clone(),
                }
            }
        };
        match handle.reach(to) {
            Some(address) => Ok((handle, address)),
            None => Err(Error::IpVersion { peer: to, local: handle.local() }),
        }
    }

    /// The drivers that run.
    pub(super) fn open(&self) -> Vec<Handle> {
        match self {
            Self::Server(handle) => vec![handle.clone()],
            Self::Own { v4, v6, .. } => [v4, v6].into_iter().filter_map(|slot| slot.lock().clone()).collect(),
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Handle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Start")
    }
}
