//! Drivers that end together: those of one address.

use std::sync::Arc;

use tokio::sync::watch;

/// What a driver knows of those that it ends together with. Clones are of the same company; a driver alone is one, too.
///
/// Each socket of an address that is closed makes the kernel hand out clients anew, to workers that do not know them: what one still
/// expects, such as the acknowledgement of a response, would come to another one.
#[derive(Clone, Debug)]
pub(crate) struct Company {
    /// Kept by each that still has something to do; nothing is ever sent. One that fails drops it, too.
    busy: Option<Arc<watch::Sender<()>>>,
    others: watch::Receiver<()>,
}

impl Default for Company {
    fn default() -> Self {
        let (busy, others) = watch::channel(());
        Self { busy: Some(Arc::new(busy)), others }
    }
}

impl Company {
    /// This one has nothing left to do, and will have nothing to do any more.
    pub(super) fn has_done(&mut self) {
        self.busy = None;
    }

    /// None has anything left to do.
    pub(super) fn have_all_done(&self) -> bool {
        self.others.has_changed().is_err()
    }

    /// Waits until none has anything left to do.
    pub(super) async fn all_done(&mut self) {
        while self.others.changed().await.is_ok() {}
    }
}
