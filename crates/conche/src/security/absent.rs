//! Without the feature `dtls` nothing is secured.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Security;
