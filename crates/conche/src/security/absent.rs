//! Without the feature `dtls` nothing is secured.

#[derive(Clone, Debug, Default)]
pub(crate) struct Security(());

impl Security {
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn longest_message(&self) -> Option<usize> {
        None
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn share(&mut self, _drivers: usize) {}

    #[cfg(feature = "oscore")]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn names_peers(&self) -> bool {
        false
    }
}
