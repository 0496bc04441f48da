//! [`Initiator`]: the end that starts a key exchange.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use lakers::{
    BufferMessage2, ConnId, CredentialTransfer, EDHOCMethod, EDHOCSuite, EdhocInitiator, EdhocInitiatorWaitM2,
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::backend::{Backend, STATIC, extract, kdf};
use super::keys::PublicKey;
use super::wire::{self, Plaintext2};
use super::{Agreed, Credential, Error, Own, Peers, PrivateKey};
use crate::oscore::EndId;

/// A started exchange that waits for message_2.
///
/// Private keys are wiped on drop; the secrets derived by `lakers` are not.
pub struct Initiator {
    waiting: EdhocInitiatorWaitM2<Backend>,
    own: Arc<Own>,
    c_i: EndId,
    ephemeral: PrivateKey,
    /// H(message_1).
    hash: [u8; 32],
    /// The only accepted peer.
    expected: Option<Arc<Credential>>,
}

impl Initiator {
    /// Starts an exchange; returns it with message_1. `c_i` must be unused by this end; `ephemeral`
    /// must be a new random key, used only here.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no message can be built, which is not expected.
    pub fn begin(own: Arc<Own>, c_i: EndId, ephemeral: PrivateKey) -> Result<(Self, Vec<u8>), Error> {
        let backend = Backend { own: Arc::clone(&own), ephemeral: ephemeral.clone() };
        let mut initiator = EdhocInitiator::new(backend, EDHOCMethod::StatStat, EDHOCSuite::CipherSuite2);
        initiator.set_identity(STATIC, own.credential().for_lakers()?);
        let id = ConnId::from_slice(c_i.as_slice()).ok_or(Error::Malformed)?;
        let (waiting, message_1) = initiator.prepare_message_1(Some(id), &None)?;
        let hash = Sha256::digest(message_1.as_slice()).into();
        Ok((Self { waiting, own, c_i, ephemeral, hash, expected: None }, message_1.as_slice().to_vec()))
    }

    /// Accepts only this peer. Otherwise, any peer passed to [`finish`](Self::finish) is accepted,
    /// independent of the address from which it responds.
    #[must_use]
    pub fn expecting(self, peer: Arc<Credential>) -> Self {
        Self { expected: Some(peer), ..self }
    }

    /// Processes message_2, and completes the exchange if a known peer sent it. Returns the result
    /// and message_3.
    ///
    /// # Errors
    /// [`Error::OtherPeer`] if the peer is authentic but not [the expected one](Self::expecting),
    /// and any other [`Error`] of a message. The exchange is over.
    pub fn finish(self, message_2: &[u8], peers: &Peers) -> Result<(Agreed, Vec<u8>), Error> {
        let (g_y, ciphertext_2) = wire::message_2(message_2)?;
        // Check the message before `lakers` parses it.
        let plaintext_2 = self.decrypt(g_y, ciphertext_2)?;
        let Plaintext2 { c_r, sealed } = Plaintext2::parse(&plaintext_2)?;
        if c_r == self.c_i {
            return Err(Error::SameIds);
        }
        let peer = peers.get(sealed.kid).ok_or(Error::UnknownCredential)?;
        if !peers.leave_room_for(sealed.kid.len(), sealed.ead) {
            return Err(Error::Ead);
        }
        // In the encoding of `lakers`.
        let message_2 = wire::write_bytes(&[g_y, ciphertext_2].concat());
        let message_2 = BufferMessage2::new_from_slice(&message_2).map_err(|_| Error::Malformed)?;
        let (processing, ..) = self.waiting.parse_message_2(&message_2)?;
        let processed = processing.verify_message_2(peer.for_lakers()?)?;
        // Before message_3, which would reveal this end's identity.
        if let Some(expected) = self.expected.filter(|expected| *expected != *peer) {
            return Err(Error::OtherPeer { expected, found: Arc::clone(peer) });
        }
        let (waiting, message_3, _) = processed.prepare_message_3(CredentialTransfer::ByReference, &None)?;
        let mut done = waiting.completed_without_message_4()?;
        let agreed = Agreed::new((c_r, self.c_i), peer, |label, length| {
            Zeroizing::new(done.edhoc_exporter(label, &[], length)).iter().take(length).copied().collect()
        });
        Ok((agreed, message_3.as_slice().to_vec()))
    }

    /// Returns this end's credential.
    #[must_use]
    pub fn own(&self) -> &Credential {
        self.own.credential()
    }

    /// Decrypts ciphertext_2 (RFC 9528 §5.3.2).
    fn decrypt(&self, g_y: &[u8], ciphertext_2: &[u8]) -> Result<Vec<u8>, Error> {
        let shared = self.ephemeral.agree(&PublicKey::new(g_y).ok_or(Error::NoPoint)?);
        let transcript = [wire::write_bytes(g_y), wire::write_bytes(&self.hash)].concat();
        let th_2: [u8; 32] = Sha256::digest(transcript).into();
        let prk_2e = Zeroizing::new(extract(&th_2, &*shared));
        let mut text = alloc::vec![0; ciphertext_2.len()];
        kdf(&prk_2e, 0, &th_2, &mut text);
        text.iter_mut().zip(ciphertext_2).for_each(|(mask, byte)| *mask ^= byte);
        Ok(text)
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator").field("c_i", &self.c_i).finish_non_exhaustive()
    }
}
