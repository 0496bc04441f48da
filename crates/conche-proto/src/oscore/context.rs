//! [`Context`]: the keys of one pair of ends, what was sent with them, and what came (RFC 8613 §3.1).

use super::sequence::Sequence;
use super::{Credentials, CredentialsError, ReplayWindow};

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
}

/// The sender's and the recipient's side of what two ends share. Its keys are wiped when it is dropped.
#[derive(Debug)]
pub struct Context {
    pub(super) sequence: Sequence,
    /// `None` until it is known which requests are old.
    pub(super) window: Option<ReplayWindow>,
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
            Start::First => (0, Some(ReplayWindow::EMPTY)),
            Start::Restarted { next } => (next, None),
            Start::Resumed { next, window } => (next, Some(window)),
        };
        Ok(Self { sequence: Sequence::new(next), window })
    }

    /// The first number that nothing was protected with yet.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.sequence.next()
    }

    /// Which requests came; `None` as long as that is not known after a restart.
    #[must_use]
    pub const fn window(&self) -> Option<ReplayWindow> {
        self.window
    }
}
