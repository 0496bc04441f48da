//! [`IdExhaustion`]: destinations for which a socket has few message IDs left, so that a client
//! with several sockets can switch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Address;

/// Destinations with few message IDs, and until when. Each has received tens of thousands of
/// messages within [EXCHANGE_LIFETIME], so there are few.
///
/// [EXCHANGE_LIFETIME]: conche_proto::TransmissionParameters::exchange_lifetime
#[derive(Debug, Default)]
pub(super) struct IdExhaustion {
    /// Whether there may be any; most sockets never have one.
    some: AtomicBool,
    until: Mutex<HashMap<Address, Instant>>,
}

impl IdExhaustion {
    pub(super) fn begins(&self, to: Address, until: Instant) {
        self.lock().insert(to, until);
        self.some.store(true, Ordering::Release);
    }

    /// Whether any destination may have few message IDs.
    pub(super) fn has_some(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    /// Whether this destination has few message IDs.
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
