//! What this program protects with: two sockets with the same key and the same numbers would give both of their messages away
//! (RFC 8613 §3.3).

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::Context;

/// Hashes, with a key that nobody knows, of what is in use. Two that differ have the same one with a probability of 2^-64, and then one
/// of them is refused.
static IN_USE: LazyLock<(RandomState, Mutex<HashSet<u64>>)> = LazyLock::new(Default::default);

/// Nothing else in this program protects with the same key and nonces, as long as this is there.
#[derive(Debug)]
pub(super) struct SenderInUse(u64);

impl SenderInUse {
    /// `None` if something does already.
    pub(super) fn new(context: &Context) -> Option<Self> {
        let mut hasher = IN_USE.0.build_hasher();
        context.hash_sender(&mut hasher);
        let hash = hasher.finish();
        // Not made before it is known to be new: its drop would take the other one out, and wait for the lock.
        in_use().insert(hash).then(|| Self(hash))
    }
}

impl Drop for SenderInUse {
    fn drop(&mut self) {
        in_use().remove(&self.0);
    }
}

fn in_use() -> MutexGuard<'static, HashSet<u64>> {
    IN_USE.1.lock().unwrap_or_else(PoisonError::into_inner)
}
