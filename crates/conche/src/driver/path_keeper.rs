//! Keeps path state: recalls, stores, discards and logs it.

use std::future::Future;
use std::time::Duration;

use conche_proto::Instant;
use tokio::sync::oneshot;
use tracing::debug;

use super::{Address, Driver};
use crate::controllers::SharedController;
use crate::paths::PathStore;

/// Time between writes, and so the maximum loss if the program is killed.
const EACH: Duration = Duration::from_secs(60);

/// Log target of path state.
const TARGET: &str = "conche::path";

/// A store, and how far it is up to date.
pub(super) struct Keeping {
    store: PathStore,
    /// Maximum number of paths that it keeps.
    most: usize,
    /// Updates since this time are not in the store.
    told: Instant,
    due: Instant,
}

impl Keeping {
    pub(super) fn new(store: PathStore, most: usize, now: Instant) -> Self {
        Self { store, most, told: now, due: now + EACH }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }
}

impl<C: SharedController> Driver<C> {
    /// Loads stored path state.
    pub(super) async fn recall_paths(&mut self) {
        let Some(keeping) = &mut self.keeping else { return };
        for (path, group) in keeping.store.recall(self.now, keeping.most).await {
            self.endpoint.remember_path(path, group);
        }
        self.now = self.clock.now();
    }

    /// Starts to write updated path state. The returned future need not be awaited.
    pub(super) fn keep_paths(&mut self) -> impl Future<Output = ()> + use<C> {
        let writing = self.keeping.as_mut().map(|keeping| {
            let told = std::mem::replace(&mut keeping.told, self.now);
            keeping.due = self.now + EACH;
            keeping.store.learn(self.now, self.endpoint.paths().filter(|(_, group)| group.heard() >= told));
            keeping.store.write(keeping.most)
        });
        async {
            if let Some(writing) = writing {
                // The write does not panic, but a runtime that shuts down may not start it.
                let _ = writing.await;
            }
        }
    }

    pub(super) fn keep_paths_in_time(&mut self) {
        if self.keeping.as_ref().is_some_and(|keeping| keeping.due <= self.now) {
            drop(self.keep_paths());
        }
    }

    pub(super) fn keep_paths_and_tell(&mut self, done: oneshot::Sender<()>) {
        let kept = self.keep_paths();
        tokio::spawn(async move {
            kept.await;
            // A receiver that was dropped is not an error.
            let _ = done.send(());
        });
    }

    /// Discards the state of a peer and of its path, which the peer would otherwise start with.
    pub(super) fn reset_path(&mut self, peer: &Address) {
        if let (Some(keeping), Some(path)) = (&self.keeping, self.sharing.path(peer)) {
            keeping.store.forget(path);
        }
        self.endpoint.forget_path(peer);
        self.endpoint.reset_path(self.now, peer);
    }

    /// Logs the shared path state that a peer without its own state starts with.
    pub(super) fn tell_path(&self, peer: &Address) {
        if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) || self.endpoint.snapshot(peer).is_some() {
            return;
        }
        let known = self.endpoint.path(peer).and_then(|group| Some((group.learnt()?, self.now - group.heard())));
        let Some(((srtt, rttvar, copies), age)) = known else { return };
        let (copies, age_s) = (f64::from(copies) / 32.0, age.as_secs());
        debug!(target: TARGET, %peer, ?srtt, ?rttvar, copies, age_s, "known of the path");
    }
}
