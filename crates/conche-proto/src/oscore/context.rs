//! [`Context`]: the keys shared by two ends, and the sequence numbers sent and received (RFC 8613
//! §3.1).

use alloc::boxed::Box;
use core::hash::{Hash, Hasher};

use super::challenges::Challenges;
use super::cose::{CommonIv, Key, Nonce};
use super::derive::{Material, Output};
use super::renewal::Renewal;
use super::sequence::Sequence;
use super::window::Arrivals;
use super::{Aead, Credentials, CredentialsError, EndId, PartialIv, ReplayWindow};

/// Earlier use of the same credentials by this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The credentials were never used by this end, neither to protect nor to unprotect, on any
    /// machine. If this is wrong, nonces repeat and all protection is lost.
    First,
    /// The credentials were used; this is the last stored
    /// [`Reserve::up_to`](super::Reserve::up_to). The received requests are unknown: as a server,
    /// this end accepts no request until one proves its freshness (RFC 8613 appendix B.1.2).
    Restarted {
        /// The first number that was certainly not used.
        next: u64,
    },
    /// The credentials were used; the state was stored at an orderly shutdown and since removed
    /// from the store.
    Resumed {
        /// The first unused number: [`Context::next_number`].
        next: u64,
        /// The received requests: [`Context::window`].
        window: ReplayWindow,
    },
    /// Earlier use is unknown, and nothing will be stored: new keys are derived with random numbers
    /// of both ends, which costs the first request an additional round trip (RFC 8613 appendix
    /// B.2). The other end must do the same. The random numbers replace the ID context of the
    /// credentials.
    Anew,
}

/// A security context: Common, Sender and Recipient Context. Its keys are wiped on drop.
///
/// It takes 232 bytes with 64-bit addresses, plus the ID context: it stores the keys themselves,
/// not the ciphers' expanded keys. A context that is [renewed](Start::Anew) also stores its
/// credentials.
#[derive(Debug)]
pub struct Context {
    pub(super) sender_id: EndId,
    pub(super) recipient_id: EndId,
    pub(super) id_context: Option<Box<[u8]>>,
    pub(super) aead: Aead,
    pub(super) sender_key: Key,
    pub(super) recipient_key: Key,
    pub(super) common_iv: CommonIv,
    pub(super) sequence: Sequence,
    /// `None` until replayed requests can be detected.
    pub(super) arrivals: Option<Arrivals>,
    /// Size of the replay window.
    pub(super) window_size: u16,
    /// Challenges sent while `arrivals` is `None`.
    pub(super) challenges: Option<Box<Challenges>>,
    /// State of key renewal, if enabled.
    pub(super) renewal: Option<Box<Renewal>>,
    /// Number of key renewals.
    pub(super) epoch: u32,
}

impl Context {
    /// Derives the keys (RFC 8613 §3.2.1).
    ///
    /// # Errors
    ///
    /// As for [`Credentials::check`].
    pub fn derive(credentials: &Credentials, start: Start) -> Result<Self, CredentialsError> {
        credentials.check()?;
        let (next, window) = match start {
            Start::First | Start::Anew => (0, Some(ReplayWindow::EMPTY)),
            Start::Restarted { next } => (next, None),
            Start::Resumed { next, window } => (next, Some(window)),
        };
        let material = Material::extract(credentials);
        Ok(Self {
            sender_id: credentials.sender_id,
            recipient_id: credentials.recipient_id,
            id_context: credentials.id_context.clone(),
            aead: credentials.aead,
            sender_key: material.derive(Output::Key(credentials.sender_id)),
            recipient_key: material.derive(Output::Key(credentials.recipient_id)),
            common_iv: material.derive(Output::CommonIv),
            // Renewed keys do not outlive the process.
            sequence: if start == Start::Anew { Sequence::volatile(next) } else { Sequence::new(next) },
            arrivals: window.map(|window| Arrivals::new(window, credentials.replay_window)),
            window_size: credentials.replay_window,
            challenges: None,
            renewal: (start == Start::Anew).then(|| Box::new(Renewal::new(credentials))),
            epoch: 0,
        })
    }

    /// Derives the keys from credentials that both ends have just negotiated (RFC 9528) and will
    /// forget at the end of the process or before. Sequence numbers need not be stored. If the
    /// credentials are stored anywhere, nonces repeat after a restart and all protection is lost.
    ///
    /// # Errors
    ///
    /// As for [`Credentials::check`].
    pub fn agreed(credentials: &Credentials) -> Result<Self, CredentialsError> {
        Ok(Self { sequence: Sequence::volatile(0), ..Self::derive(credentials, Start::First)? })
    }

    /// Returns the ID of this end.
    #[must_use]
    pub const fn sender_id(&self) -> EndId {
        self.sender_id
    }

    /// Returns the ID of the other end.
    #[must_use]
    pub const fn recipient_id(&self) -> EndId {
        self.recipient_id
    }

    /// Returns the ID context, which distinguishes contexts with the same IDs.
    #[must_use]
    pub fn id_context(&self) -> Option<&[u8]> {
        self.id_context.as_deref()
    }

    /// Returns the encryption algorithm.
    #[must_use]
    pub const fn aead(&self) -> Aead {
        self.aead
    }

    /// Returns the first unused sequence number.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.sequence.next()
    }

    /// Returns the newest received requests; `None` while they are unknown after a restart.
    #[must_use]
    pub fn window(&self) -> Option<ReplayWindow> {
        self.arrivals.as_ref().map(Arrivals::window)
    }

    /// Hashes the sender's key material: equal for contexts that would use the same nonces with the
    /// same key, and must not be in use at the same time anywhere. Hash state and result must not
    /// be published, and the hash function must be keyed with a secret.
    pub fn hash_sender<H: Hasher>(&self, state: &mut H) {
        self.sender_key.0.hash(state);
        self.common_iv.0.hash(state);
    }

    /// Returns `true` if this end would use the same key and nonces in both contexts.
    pub(super) fn sends_as(&self, other: &Self) -> bool {
        self.sender_key.is(&other.sender_key) & self.common_iv.is(&other.common_iv)
    }

    /// Returns the nonce for a number chosen by this end or the other.
    pub(super) fn nonce(&self, counted_by: EndId, number: PartialIv) -> Nonce {
        Nonce::new(&self.common_iv, counted_by, number)
    }
}
