//! [`Sender`]: the peer that a response or a notification came from.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::security::Identity;

/// The sender of a response: its address, and its identity where keys authenticate one.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) address: SocketAddr,
    pub(crate) identity: Option<Arc<Identity>>,
}

/// A sender that no keys authenticate.
impl From<SocketAddr> for Sender {
    fn from(address: SocketAddr) -> Self {
        Self { address, identity: None }
    }
}
