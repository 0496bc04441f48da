//! Keeps path state: recalls, stores, discards and logs it.

use std::future::Future;
use std::time::Duration;

use conche_proto::Instant;
use tokio::sync::oneshot;
use tracing::debug;

use super::{Address, Driver, Service, SharedController};
use crate::paths::PathStore;

/// Also the maximum loss on a crash.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);

const TARGET: &str = "conche::path";

pub(super) struct PathKeeper {
    store: PathStore,
    max_paths: usize,
    stored_until: Instant,
    due: Instant,
}

impl PathKeeper {
    pub(super) fn new(store: PathStore, max_paths: usize, now: Instant) -> Self {
        Self { store, max_paths, stored_until: now, due: now + WRITE_INTERVAL }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    pub(super) async fn recall_paths(&mut self) {
        let Some(keeper) = &mut self.path_keeper else { return };
        for (path, group) in keeper.store.recall(self.now, keeper.max_paths).await {
            self.endpoint.remember_path(path, group);
        }
        self.now = self.clock.now();
    }

    /// The returned future need not be awaited.
    pub(super) fn keep_paths(&mut self) -> impl Future<Output = ()> + use<C, S> {
        let writing = self.path_keeper.as_mut().map(|keeper| {
            let stored_until = std::mem::replace(&mut keeper.stored_until, self.now);
            keeper.due = self.now + WRITE_INTERVAL;
            keeper.store.learn(self.now, self.endpoint.paths().filter(|(_, group)| group.heard() >= stored_until));
            keeper.store.write(keeper.max_paths)
        });
        async {
            if let Some(writing) = writing {
                // The write does not panic, but a runtime that shuts down may not start it.
                let _ = writing.await;
            }
        }
    }

    pub(super) fn keep_paths_in_time(&mut self) {
        if self.path_keeper.as_ref().is_some_and(|keeper| keeper.due <= self.now) {
            drop(self.keep_paths());
        }
    }

    pub(super) fn keep_paths_and_report(&mut self, done: oneshot::Sender<()>) {
        let kept = self.keep_paths();
        tokio::spawn(async move {
            kept.await;
            let _ = done.send(());
        });
    }

    /// Discards the state of a peer and its path.
    pub(super) fn reset_path(&mut self, peer: &Address) {
        if let (Some(keeper), Some(path)) = (&self.path_keeper, self.sharing.path(peer)) {
            keeper.store.forget(path);
        }
        self.endpoint.forget_path(peer);
        self.endpoint.reset_path(self.now, peer);
    }

    /// Logs the shared state that a new peer starts with.
    pub(super) fn log_path(&self, peer: &Address) {
        if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) || self.endpoint.snapshot(peer).is_some() {
            return;
        }
        let known = self.endpoint.path(peer).and_then(|group| Some((group.learnt()?, self.now - group.heard())));
        let Some(((srtt, rttvar), age)) = known else { return };
        debug!(target: TARGET, %peer, ?srtt, ?rttvar, age_s = age.as_secs(), "known of the path");
    }
}
