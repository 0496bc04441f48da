//! [`Scarcity`]: the destinations to which a socket has few message IDs left, which whoever has other sockets wants to know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Address;

/// Until when they are few. Each destination here was sent tens of thousands of messages in [EXCHANGE_LIFETIME], so there are not many.
///
/// [EXCHANGE_LIFETIME]: conche_proto::TransmissionParameters::exchange_lifetime
#[derive(Debug, Default)]
pub(super) struct Scarcity {
    /// There is one: most sockets never have any.
    some: AtomicBool,
    until: Mutex<HashMap<Address, Instant>>,
}

impl Scarcity {
    pub(super) fn begins(&self, to: Address, until: Instant) {
        self.lock().insert(to, until);
        self.some.store(true, Ordering::Release);
    }

    /// Whether there may be few toward some destination.
    pub(super) fn has_some(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    /// Whether there are few toward this destination.
    pub(super) fn is_of(&self, to: Address) -> bool {
        let mut all = self.lock();
        let now = Instant::now();
        all.retain(|_, until| *until > now);
        self.some.store(!all.is_empty(), Ordering::Release);
        all.contains_key(&to)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
