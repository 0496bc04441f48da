//! Sender keys in use by this program. Two sockets with the same key and numbers would reveal both
//! of their messages (RFC 8613 §3.3).

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::Context;

/// Hashes of the senders in use, with a random key. Different senders collide with probability
/// 2^-64; one of them is then refused.
static IN_USE: LazyLock<(RandomState, Mutex<HashSet<u64>>)> = LazyLock::new(Default::default);

/// Exclusive use of a sender key and its nonces in this program, until drop.
#[derive(Debug)]
pub(super) struct SenderInUse(u64);

impl SenderInUse {
    /// Returns `None` if the sender is in use already.
    pub(super) fn new(context: &Context) -> Option<Self> {
        let mut hasher = IN_USE.0.build_hasher();
        context.hash_sender(&mut hasher);
        let hash = hasher.finish();
        // Constructed only after a successful insert: dropping it would remove the other's entry,
        // and wait for the lock.
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
