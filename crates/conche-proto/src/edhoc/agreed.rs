//! [`Agreed`]: the result of a key exchange.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Credential;
use crate::oscore::{Credentials, EndId, Secret};

/// Length of the master secret in bytes: a key of AES-CCM-16-64-128 (RFC 9528 appendix A.1).
const SECRET: usize = 16;

/// Length of the master salt in bytes (RFC 9528 appendix A.1).
const SALT: usize = 8;

/// The negotiated credentials, and the authenticated peer.
#[derive(Clone)]
pub struct Agreed {
    /// New credentials, known only to this exchange.
    pub credentials: Credentials,
    /// Credential of the authenticated peer.
    pub peer: Arc<Credential>,
}

impl Agreed {
    /// Derives the credentials. `export` is EDHOC_Exporter (RFC 9528 §4.2.1) with a label and a
    /// length. The sender ID of each end is the identifier that the other end chose for itself
    /// (appendix A.1).
    pub(super) fn new(
        (sender_id, recipient_id): (EndId, EndId),
        peer: &Arc<Credential>,
        mut export: impl FnMut(u8, usize) -> Vec<u8>,
    ) -> Self {
        let secret = Secret::from(export(0, SECRET));
        let master_salt = export(1, SALT);
        let credentials = Credentials { master_salt, ..Credentials::new(secret, sender_id, recipient_id) };
        Self { credentials, peer: Arc::clone(peer) }
    }
}

impl fmt::Debug for Agreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Agreed({:?})", self.peer)
    }
}
