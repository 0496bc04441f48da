//! [`Responder`]: the end that responds to a key exchange.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use lakers::{
    BufferMessage1, BufferMessage3, ConnId, CredentialTransfer, EDHOCMethod, EdhocResponder, EdhocResponderWaitM3,
};
use zeroize::Zeroizing;

use super::backend::{Backend, STATIC};
use super::keys::PublicKey;
use super::wire::{self, Message1};
use super::{Agreed, Error, KEY_LENGTH, METHOD, Own, Peers, PrivateKey, SUITE};
use crate::oscore::EndId;

/// An exchange started by another end, waiting for message_3. The peer is not known yet.
///
/// Private keys are wiped on drop; the secrets derived by `lakers` are not.
pub struct Responder {
    waiting: EdhocResponderWaitM3<Backend>,
    c_i: EndId,
    c_r: EndId,
}

impl Responder {
    /// Processes message_1; returns the exchange with message_2. `c_r` must be unused by this end;
    /// `ephemeral` must be a new random key, used only here.
    ///
    /// # Errors
    /// The first applicable [`Error`]; no exchange was started.
    pub fn answer(
        own: &Arc<Own>,
        c_r: EndId,
        ephemeral: PrivateKey,
        message_1: &[u8],
    ) -> Result<(Self, Vec<u8>), Error> {
        let Message1 { g_x, c_i, .. } = Self::read(message_1)?;
        PublicKey::new(g_x).ok_or(Error::NoPoint)?;
        if c_i == c_r {
            return Err(Error::SameIds);
        }
        let message_1 = BufferMessage1::new_from_slice(message_1).map_err(|_| Error::Malformed)?;
        let credential = own.credential().for_lakers()?;
        let backend = Backend { own: Arc::clone(own), ephemeral };
        let responder = EdhocResponder::new(backend, EDHOCMethod::StatStat, STATIC, credential);
        let (processed, ..) = responder.process_message_1(&message_1)?;
        let id = ConnId::from_slice(c_r.as_slice()).ok_or(Error::Malformed)?;
        let (waiting, message_2) = processed.prepare_message_2(CredentialTransfer::ByReference, Some(id), &None)?;
        Ok((Self { waiting, c_i, c_r }, message_2.as_slice().to_vec()))
    }

    /// Checks whether [`answer`](Self::answer) could process a message_1, at a small part of the
    /// cost: the key may still not be a point on the curve. Messages that fail the check need not
    /// be counted.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Method`], [`Error::Suite`], [`Error::Ead`], or
    /// [`Error::NoPoint`] if the key has a wrong length.
    pub fn check(message_1: &[u8]) -> Result<(), Error> {
        Self::read(message_1).map(drop)
    }

    fn read(message_1: &[u8]) -> Result<Message1<'_>, Error> {
        let read = Message1::parse(message_1, SUITE)?;
        if read.method != METHOD {
            return Err(Error::Method);
        }
        if read.suites.selected != SUITE || read.suites.ours_before {
            return Err(Error::Suite);
        }
        if read.g_x.len() != KEY_LENGTH {
            return Err(Error::NoPoint);
        }
        Ok(read)
    }

    /// Returns the connection identifier of this end.
    #[must_use]
    pub const fn c_r(&self) -> EndId {
        self.c_r
    }

    /// Processes message_3, and completes the exchange if a known peer sent it. Returns the result
    /// and message_4, which confirms the keys to a peer that waits for it.
    ///
    /// # Errors
    /// Any [`Error`] of a message. The exchange is over.
    pub fn finish(self, message_3: &[u8], peers: &Peers) -> Result<(Agreed, Vec<u8>), Error> {
        // `lakers` accepts only one encoding of a byte string.
        let message_3 = wire::write_bytes(wire::only_bytes(message_3)?);
        let message_3 = BufferMessage3::new_from_slice(&message_3).map_err(|_| Error::Malformed)?;
        let (processing, id, ead) = self.waiting.parse_message_3(&message_3)?;
        let kid = wire::kid(id.as_full_value())?;
        // The label of external authorization data takes one byte.
        let ead = ead.map_or(0, |ead| 1 + ead.value.map_or(0, |value| value.len));
        if !peers.leave_room_for(kid.len(), ead) {
            return Err(Error::Ead);
        }
        let known = peers.get(kid);
        // An unknown key ID takes the same computation: the time must not reveal which ones exist.
        let peer = known.or_else(|| peers.any()).ok_or(Error::UnknownCredential)?;
        let verified = processing.verify_message_3(peer.for_lakers()?);
        known.ok_or(Error::UnknownCredential)?;
        let (processed, _) = verified?;
        let (mut done, message_4) = processed.prepare_message_4(&None)?;
        let agreed = Agreed::new((self.c_i, self.c_r), peer, |label, length| {
            Zeroizing::new(done.edhoc_exporter(label, &[], length)).iter().take(length).copied().collect()
        });
        Ok((agreed, message_4.as_slice().to_vec()))
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("c_r", &self.c_r).finish_non_exhaustive()
    }
}
