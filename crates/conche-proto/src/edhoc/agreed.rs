//! [`Agreed`]: what both ends have at the end.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Credential;
use crate::oscore::{Credentials, EndId, Secret};

/// Bytes of the master secret: those of a key of AES-CCM-16-64-128 (RFC 9528 appendix A.1).
const SECRET: usize = 16;

/// Bytes of the master salt (RFC 9528 appendix A.1).
const SALT: usize = 8;

/// What the two ends have agreed on, and with whom.
#[derive(Clone)]
pub struct Agreed {
    /// New ones, of which only this exchange knows.
    pub credentials: Credentials,
    /// Who the other end has proved to be.
    pub peer: Arc<Credential>,
}

impl Agreed {
    /// `export` is EDHOC_Exporter (RFC 9528 §4.2.1), of a label and a length. The sender ID of each end is the identifier that the other one
    /// has given itself (appendix A.1).
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
