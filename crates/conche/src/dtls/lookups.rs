//! [`Lookups`]: the tasks that look up pre-shared keys of handshakes.

use std::collections::HashMap;

use conche_dtls::{Secret, SessionId};
use tokio::task::{AbortHandle, JoinSet};

use crate::fence::Fence;
use crate::security::KeyLookup;

/// Each handshake has at most one task, so the limits of handshakes apply.
#[derive(Debug)]
pub(super) struct Lookups {
    tasks: JoinSet<FoundKey>,
    by_session: HashMap<SessionId, AbortHandle>,
    fence: Fence,
}

#[derive(Debug)]
pub(crate) struct FoundKey {
    pub(super) session: SessionId,
    pub(super) key: Option<Secret>,
}

impl Lookups {
    pub(super) fn new(fence: Fence) -> Self {
        Self { tasks: JoinSet::new(), by_session: HashMap::new(), fence }
    }

    pub(super) fn begin(&mut self, lookup: &KeyLookup, session: SessionId, identity: Vec<u8>) {
        let lookup = lookup.clone();
        let task = self.tasks.spawn(async move { FoundKey { session, key: lookup.key(identity).await } });
        self.by_session.insert(session, task);
    }

    /// The handshake has ended.
    pub(super) fn cancel(&mut self, session: SessionId) {
        if let Some(task) = self.by_session.remove(&session) {
            task.abort();
        }
    }

    /// Waits forever while no task runs. A panic counts as an unknown identity.
    pub(super) async fn next(&mut self) -> FoundKey {
        loop {
            let Some(ended) = self.tasks.join_next().await else { std::future::pending().await };
            let found = ended.or_else(|error| {
                let panicked = self.by_session.iter().find(|(_, task)| task.id() == error.id());
                let session = *panicked.ok_or(())?.0;
                self.fence.count("a key lookup", 1);
                Ok::<_, ()>(FoundKey { session, key: None })
            });
            if let Ok(found) = found
                && self.by_session.remove(&found.session).is_some()
            {
                return found;
            }
        }
    }
}
