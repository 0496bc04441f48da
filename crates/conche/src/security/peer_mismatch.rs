//! [`PeerMismatch`]: another peer than a request expects.

use std::fmt;
use std::sync::Arc;

use super::Identity;

/// The peer at a destination is not the one that a request expects. The request was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMismatch {
    expected: Option<Arc<Identity>>,
    authenticated: Option<Identity>,
}

impl PeerMismatch {
    pub(crate) fn new(expected: Option<Arc<Identity>>, authenticated: Option<Identity>) -> Self {
        Self { expected, authenticated }
    }

    /// Returns the identity that the request expects, from
    /// [`expect_peer`](crate::client::RequestBuilder::expect_peer). `None` if the request names
    /// none and the peer opened the session: only a request with `expect_peer` may use such a
    /// session.
    #[must_use]
    pub fn expected(&self) -> Option<&Identity> {
        self.expected.as_deref()
    }

    /// Returns the identity that the session or keys authenticate. `None` without keys, and for an
    /// unauthenticated client.
    #[must_use]
    pub fn authenticated(&self) -> Option<&Identity> {
        self.authenticated.as_ref()
    }
}

impl fmt::Display for PeerMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.expected, &self.authenticated) {
            (Some(expected), Some(found)) => {
                write!(f, "the request expects {}, but its keys there authenticate {}", expected.long(), found.long())
            }
            (Some(expected), None) => {
                write!(f, "the request expects {}, but nothing authenticates the peer there", expected.long())
            }
            (None, Some(found)) => write!(
                f,
                "the peer has opened the session and authenticated as {}: a request to it names that identity with expect_peer",
                found.long()
            ),
            (None, None) => {
                f.write_str("the peer has opened the session without an identity, so that no request may use it")
            }
        }
    }
}
