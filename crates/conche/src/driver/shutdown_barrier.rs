//! Shutdown barrier shared by the workers of one server address.

use std::sync::Arc;

use tokio::sync::watch;

/// Shutdown barrier of drivers that end together. Clones share it; a single driver has its own.
///
/// Closing one socket of an address makes the kernel redistribute clients to workers that do not
/// know them: datagrams that a worker still expects, such as the acknowledgement of a response,
/// would arrive at another one.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownBarrier {
    /// Held by each driver with work left; nothing is ever sent. A driver that fails drops it, too.
    busy: Option<Arc<watch::Sender<()>>>,
    others: watch::Receiver<()>,
}

impl Default for ShutdownBarrier {
    fn default() -> Self {
        let (busy, others) = watch::channel(());
        Self { busy: Some(Arc::new(busy)), others }
    }
}

impl ShutdownBarrier {
    /// Reports that this driver has no work left, for good.
    pub(super) fn finish(&mut self) {
        self.busy = None;
    }

    /// Whether no driver has work left.
    pub(super) fn have_all_done(&self) -> bool {
        self.others.has_changed().is_err()
    }

    /// Waits until no driver has work left.
    pub(super) async fn all_done(&mut self) {
        while self.others.changed().await.is_ok() {}
    }
}
