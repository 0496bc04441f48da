//! [`Context`]: the keys of one pair of ends, what was sent with them, and what came (RFC 8613 §3.1).

use alloc::boxed::Box;
use core::hash::{Hash, Hasher};

use super::challenges::Challenges;
use super::cose::{CommonIv, Key, Nonce};
use super::derive::{Material, Output};
use super::renewal::Renewal;
use super::sequence::Sequence;
use super::window::Arrivals;
use super::{Aead, Credentials, CredentialsError, EndId, PartialIv, ReplayWindow};

/// What this end knows of earlier use of the same credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// They were never used before by this end, neither to protect nor to unprotect, on any machine. If that is wrong,
    /// nonces repeat and all protection is lost.
    First,
    /// They were, and the last stored [`Reserve::up_to`](super::Reserve::up_to) is this. Which requests had come is not
    /// known: as a server, this end takes none before one shows that it is fresh (RFC 8613 appendix B.1.2).
    Restarted {
        /// The first number that was certainly not used yet.
        next: u64,
    },
    /// They were, and all was stored at an orderly end, and removed from the store since.
    Resumed {
        /// The first number that was not used yet: [`Context::next_number`].
        next: u64,
        /// Which requests had come: [`Context::window`].
        window: ReplayWindow,
    },
    /// Nobody knows, and nothing is to be stored: keys are derived anew with random numbers of both ends, which takes the first request a
    /// round trip more (RFC 8613 appendix B.2). The other end has to do so as well. The ID context of the credentials is not used: random
    /// numbers take its place.
    Anew,
}

/// The sender's and the recipient's side of what two ends share. Its keys are wiped when it is dropped.
///
/// It takes 232 bytes of memory with 64-bit addresses, and its ID context: it has the keys
/// themselves, and not what ciphers make of them. One that is derived [anew](Start::Anew) has its
/// credentials as well.
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
    /// `None` until it is known which requests are old.
    pub(super) arrivals: Option<Arrivals>,
    /// Numbers in the replay window.
    pub(super) window_size: u16,
    /// Those that requests have got since `arrivals` are not known.
    pub(super) challenges: Option<Box<Challenges>>,
    /// How it is derived anew, if it is.
    pub(super) renewal: Option<Box<Renewal>>,
    /// How often it was.
    pub(super) epoch: u32,
}

impl Context {
    /// Derives the keys (RFC 8613 §3.2.1).
    ///
    /// # Errors
    ///
    /// As [`Credentials::check`].
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
            // Keys that are agreed on anew do not outlive this run.
            sequence: if start == Start::Anew { Sequence::volatile(next) } else { Sequence::new(next) },
            arrivals: window.map(|window| Arrivals::new(window, credentials.replay_window)),
            window_size: credentials.replay_window,
            challenges: None,
            renewal: (start == Start::Anew).then(|| Box::new(Renewal::new(credentials))),
            epoch: 0,
        })
    }

    /// The same of credentials that both ends have just agreed on (RFC 9528), and forget when the program ends or before. No number of them
    /// has to be stored: if they are kept anywhere, nonces repeat after a restart and all protection is lost.
    ///
    /// # Errors
    ///
    /// As [`Credentials::check`].
    pub fn agreed(credentials: &Credentials) -> Result<Self, CredentialsError> {
        Ok(Self { sequence: Sequence::volatile(0), ..Self::derive(credentials, Start::First)? })
    }

    /// Names this end.
    #[must_use]
    pub const fn sender_id(&self) -> EndId {
        self.sender_id
    }

    /// Names the other end.
    #[must_use]
    pub const fn recipient_id(&self) -> EndId {
        self.recipient_id
    }

    /// Tells contexts with the same IDs apart.
    #[must_use]
    pub fn id_context(&self) -> Option<&[u8]> {
        self.id_context.as_deref()
    }

    /// How messages are encrypted.
    #[must_use]
    pub const fn aead(&self) -> Aead {
        self.aead
    }

    /// The first number that nothing was protected with yet.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.sequence.next()
    }

    /// Which of the newest requests came; `None` as long as that is not known after a restart.
    #[must_use]
    pub fn window(&self) -> Option<ReplayWindow> {
        self.arrivals.as_ref().map(Arrivals::window)
    }

    /// Tells a hash function with what this end protects: the same for contexts that would use the same nonces with the same key,
    /// which must not be in use together, wherever they are. Its state and its result are not to be shown, nor is its key to be known.
    pub fn hash_sender<H: Hasher>(&self, state: &mut H) {
        self.sender_key.0.hash(state);
        self.common_iv.0.hash(state);
    }

    /// This end protects with the same key and nonces in both.
    pub(super) fn sends_as(&self, other: &Self) -> bool {
        self.sender_key.is(&other.sender_key) & self.common_iv.is(&other.common_iv)
    }

    /// The nonce of what this end, or the other one, gave a number to.
    pub(super) fn nonce(&self, counted_by: EndId, number: PartialIv) -> Nonce {
        Nonce::new(&self.common_iv, counted_by, number)
    }
}
