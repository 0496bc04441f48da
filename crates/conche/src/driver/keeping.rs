//! What a driver does with what is known of paths: it recalls, keeps, forgets and tells it.

use std::future::Future;
use std::time::Duration;

use conche_proto::Instant;
use tokio::sync::oneshot;
use tracing::debug;

use super::{Address, Driver};
use crate::controllers::SharedController;
use crate::paths::PathStore;

/// So much of what was learnt is lost at most if a program does not end by itself.
const EACH: Duration = Duration::from_secs(60);

/// The target of events that tell what is known of a path.
const TARGET: &str = "conche::path";

/// A store, and what it has been told.
pub(super) struct Keeping {
    store: PathStore,
    /// It keeps so many paths.
    most: usize,
    /// What was heard since then it has not been told.
    told: Instant,
    due: Instant,
}

impl Keeping {
    pub(super) fn new(store: PathStore, most: usize, now: Instant) -> Self {
        Self { store, most, told: now, due: now + EACH }
    }

    /// When it is told next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }
}

impl<C: SharedController> Driver<C> {
    /// Begins with what was known of paths.
    pub(super) async fn recall_paths(&mut self) {
        let Some(keeping) = &mut self.keeping else { return };
        for (path, group) in keeping.store.recall(self.now, keeping.most).await {
            self.endpoint.remember_path(path, group);
        }
        self.now = self.clock.now();
    }

    /// Has the store written with what was learnt. Nobody has to wait for it.
    pub(super) fn keep_paths(&mut self) -> impl Future<Output = ()> + use<C> {
        let writing = self.keeping.as_mut().map(|keeping| {
            let told = std::mem::replace(&mut keeping.told, self.now);
            keeping.due = self.now + EACH;
            keeping.store.learn(self.now, self.endpoint.paths().filter(|(_, group)| group.heard() >= told));
            keeping.store.write(keeping.most)
        });
        async {
            if let Some(writing) = writing {
                // It does not panic by our doing; a runtime that ends may not let it begin.
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
            // If nobody waits any more, that is no error.
            let _ = done.send(());
        });
    }

    /// Forgets what was learnt of a peer, and of its path with it: that is what it would begin with.
    pub(super) fn reset_path(&mut self, peer: &Address) {
        if let (Some(keeping), Some(path)) = (&self.keeping, self.sharing.path(peer)) {
            keeping.store.forget(path);
        }
        self.endpoint.forget_path(peer);
        self.endpoint.reset_path(self.now, peer);
    }

    /// Tells what a peer begins with of which nothing else is known.
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
