//! The two ends of a key exchange, [`Initiator`] and [`Responder`], and [`HalfOpen`] exchanges.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use conche_cc::Instant;
use lakers::{
    BufferMessage1, BufferMessage2, BufferMessage3, ConnId, CredentialTransfer, EDHOCMethod, EDHOCSuite,
    EdhocInitiator, EdhocInitiatorWaitM2, EdhocResponder, EdhocResponderWaitM3,
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::backend::{Backend, STATIC, extract, kdf};
use super::credential::PublicKey;
use super::wire::{self, Message1, Plaintext2};
use super::{Credential, Error, KEY_LENGTH, METHOD, OwnCredential, PeerCredentials, PrivateKey, SUITE};
use crate::oscore::{Credentials, EndId, Secret};
use crate::shares::{Group, Shares};

/// An exchange that waits for message_2. Wipes private keys on drop, but not the secrets derived by
/// `lakers`.
pub struct Initiator {
    waiting: EdhocInitiatorWaitM2<Backend>,
    own: Arc<OwnCredential>,
    c_i: EndId,
    ephemeral: PrivateKey,
    /// H(message_1).
    hash: [u8; 32],
    /// The only accepted peer.
    expected: Option<Arc<Credential>>,
}

impl Initiator {
    /// Starts an exchange, with message_1. `c_i` must be unused by this end; `ephemeral` must be a
    /// new random key.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no message can be built, which is not expected.
    pub fn begin(own: Arc<OwnCredential>, c_i: EndId, ephemeral: PrivateKey) -> Result<(Self, Vec<u8>), Error> {
        let backend = Backend { own: Arc::clone(&own), ephemeral: ephemeral.clone() };
        let mut initiator = EdhocInitiator::new(backend, EDHOCMethod::StatStat, EDHOCSuite::CipherSuite2);
        initiator.set_identity(STATIC, own.credential().for_lakers()?);
        let id = ConnId::from_slice(c_i.as_slice()).ok_or(Error::Malformed)?;
        let (waiting, message_1) = initiator.prepare_message_1(Some(id), &None)?;
        let hash = Sha256::digest(message_1.as_slice()).into();
        Ok((Self { waiting, own, c_i, ephemeral, hash, expected: None }, message_1.as_slice().to_vec()))
    }

    /// Accepts only this peer. Otherwise [`finish`](Self::finish) accepts any known one, from any
    /// address.
    #[must_use]
    pub fn expecting(self, peer: Arc<Credential>) -> Self {
        Self { expected: Some(peer), ..self }
    }

    /// Processes message_2; returns the result and message_3 if a known peer sent it.
    ///
    /// # Errors
    /// [`Error::OtherPeer`] for an authentic but [unexpected](Self::expecting) peer; any other
    /// [`Error`] of a message. The exchange is over.
    pub fn finish(self, message_2: &[u8], peers: &PeerCredentials) -> Result<(Agreed, Vec<u8>), Error> {
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
        // Message_3 would reveal this end's identity.
        if let Some(expected) = self.expected.filter(|expected| *expected != *peer) {
            return Err(Error::OtherPeer { expected, found: Arc::clone(peer) });
        }
        let (waiting, message_3, _) = processed.prepare_message_3(CredentialTransfer::ByReference, &None)?;
        let mut done = waiting.completed_without_message_4()?;
        let agreed = Agreed::new(c_r, self.c_i, peer, |label, length| {
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

/// An exchange of an unauthenticated initiator that waits for message_3. Wipes private keys on
/// drop, but not the secrets derived by `lakers`.
pub struct Responder {
    waiting: EdhocResponderWaitM3<Backend>,
    c_i: EndId,
    c_r: EndId,
}

impl Responder {
    /// Processes message_1; returns the exchange with message_2. `c_r` must be unused by this end;
    /// `ephemeral` must be a new random key.
    ///
    /// # Errors
    /// The first applicable [`Error`]; no exchange was started.
    pub fn answer(
        own: &Arc<OwnCredential>,
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

    /// Checks a message_1 at a small part of the cost of [`answer`](Self::answer), which also
    /// checks that the key is a point on the curve. Messages that fail need not be counted.
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

    /// Processes message_3; returns the result and message_4, which confirms the keys, if a known
    /// peer sent it.
    ///
    /// # Errors
    /// Any [`Error`] of a message. The exchange is over.
    pub fn finish(self, message_3: &[u8], peers: &PeerCredentials) -> Result<(Agreed, Vec<u8>), Error> {
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
        // Continue with an unknown key ID: the time must not reveal which ones exist.
        let peer = known.or_else(|| peers.any()).ok_or(Error::UnknownCredential)?;
        let verified = processing.verify_message_3(peer.for_lakers()?);
        known.ok_or(Error::UnknownCredential)?;
        let (processed, _) = verified?;
        let (mut done, message_4) = processed.prepare_message_4(&None)?;
        let agreed = Agreed::new(self.c_i, self.c_r, peer, |label, length| {
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

/// A key of AES-CCM-16-64-128, in bytes (RFC 9528 appendix A.1).
const SECRET: usize = 16;

/// In bytes (RFC 9528 appendix A.1).
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
    /// `export` is EDHOC_Exporter (RFC 9528 §4.2.1) with a label and a length. Each end's sender ID
    /// is the identifier chosen by the other end (appendix A.1).
    pub(super) fn new(
        sender_id: EndId,
        recipient_id: EndId,
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

/// A responder's exchanges that wait for message_3, by its connection identifier (C_R).
///
/// A group of sources holds at most half of them (see [`Shares`]), each until its deadline; a host
/// with a validated address at most a sixteenth of all. Unvalidated addresses do not count for a
/// host: an attacker could use them against it.
#[derive(Debug)]
pub struct HalfOpen {
    most: usize,
    lifetime: Duration,
    waiting: BTreeMap<EndId, HalfOpenExchange>,
    /// In order of deadlines.
    deadlines: VecDeque<(Instant, EndId)>,
    shares: Shares,
    hosts: Shares,
}

#[derive(Debug)]
struct HalfOpenExchange {
    responder: Responder,
    group: Group,
    host: Option<Group>,
}

/// Hosts that may use their whole share at once.
const HOSTS: usize = 16;

impl HalfOpen {
    /// Creates a table for `most` exchanges with this lifetime.
    #[must_use]
    pub const fn new(most: usize, lifetime: Duration) -> Self {
        Self {
            most,
            lifetime,
            waiting: BTreeMap::new(),
            deadlines: VecDeque::new(),
            shares: Shares::new(),
            hosts: Shares::new(),
        }
    }

    /// Returns `true` if there is room for another exchange of this group, and of this host if its
    /// address is validated. Check before any computation.
    pub fn admits(&mut self, now: Instant, group: Group, host: Option<Group>) -> bool {
        self.expire(now);
        let of_host = (self.most / HOSTS).max(1);
        self.shares.admits(group, 1, self.most) && host.is_none_or(|host| self.hosts.held(host) < of_host)
    }

    /// Returns `true` if an exchange has this identifier.
    #[must_use]
    pub fn has(&self, c_r: EndId) -> bool {
        self.waiting.contains_key(&c_r)
    }

    /// Returns the number of exchanges, expired ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns `true` if there are no exchanges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Stores an exchange until message_3 arrives or its lifetime ends.
    ///
    /// # Errors
    /// [`Error::Busy`] if there is no room, or if another exchange has the same identifier.
    pub fn insert(
        &mut self,
        now: Instant,
        group: Group,
        host: Option<Group>,
        responder: Responder,
    ) -> Result<(), Error> {
        let c_r = responder.c_r();
        if !self.admits(now, group, host) || self.has(c_r) {
            return Err(Error::Busy);
        }
        self.shares.take(group, 1);
        if let Some(host) = host {
            self.hosts.take(host, 1);
        }
        self.deadlines.push_back((now + self.lifetime, c_r));
        self.waiting.insert(c_r, HalfOpenExchange { responder, group, host });
        Ok(())
    }

    /// Takes out the exchange of a received message_3. On failure, the exchange is over (RFC 9528
    /// §6).
    ///
    /// # Errors
    /// [`Error::NoExchange`] if it is missing or expired.
    pub fn take(&mut self, now: Instant, c_r: EndId) -> Result<Responder, Error> {
        self.expire(now);
        let responder = self.remove(c_r).ok_or(Error::NoExchange)?;
        // The following computation takes a hundred times as long.
        self.deadlines.retain(|(_, other)| *other != c_r);
        Ok(responder)
    }

    /// Removes expired exchanges.
    pub fn expire(&mut self, now: Instant) {
        while let Some((_, c_r)) = self.deadlines.front().copied().filter(|(deadline, _)| *deadline <= now) {
            self.deadlines.pop_front();
            self.remove(c_r);
        }
    }

    fn remove(&mut self, c_r: EndId) -> Option<Responder> {
        let HalfOpenExchange { responder, group, host } = self.waiting.remove(&c_r)?;
        self.shares.give_back(group, 1);
        if let Some(host) = host {
            self.hosts.give_back(host, 1);
        }
        Some(responder)
    }
}
