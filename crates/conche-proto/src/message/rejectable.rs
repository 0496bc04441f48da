//! [`Rejectable`]: recently sent Non-confirmable responses, to match Resets (RFC 7252 §4.3).
//!
//! A peer rejects such a response with a Reset that contains only the message ID. The last [`KEPT`]
//! responses to all peers are kept in a ring: a Reset arrives within a round trip or not at all,
//! and an unmatched one is ignored as if it had been lost.

use alloc::collections::VecDeque;

use crate::codec::Token;
use crate::hash::Fingerprint;

/// Number of responses kept.
const KEPT: usize = 256;

#[derive(Clone, Debug)]
struct Left {
    /// Fingerprint of peer and message ID.
    what: Fingerprint,
    token: Token,
}

/// Non-confirmable responses that a peer may still reject.
#[derive(Debug, Default)]
pub(crate) struct Rejectable {
    left: VecDeque<Left>,
}

impl Rejectable {
    /// Records a sent response.
    pub(crate) fn left(&mut self, what: Fingerprint, token: Token) {
        if self.left.len() >= KEPT {
            self.left.pop_front();
        }
        self.left.push_back(Left { what, token });
    }

    /// Returns the token of the response that a peer rejected, once per response.
    pub(crate) fn reject(&mut self, what: Fingerprint) -> Option<Token> {
        let position = self.left.iter().rposition(|left| left.what == what)?;
        self.left.remove(position).map(|left| left.token)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Keyed;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    fn what(peer: u32, id: u16) -> Fingerprint {
        Keyed::fingerprint(Keyed::new(&mut ChaCha8Rng::seed_from_u64(1)).hash(&peer), 0, id)
    }

    #[test]
    fn a_response_can_be_rejected_once_by_the_peer_that_got_it() {
        let mut rejectable = Rejectable::default();
        rejectable.left(what(1, 7), Token::from(*b"subject1"));
        assert_eq!(rejectable.reject(what(2, 7)), None);
        assert_eq!(rejectable.reject(what(1, 7)), Some(Token::from(*b"subject1")));
        assert_eq!(rejectable.reject(what(1, 7)), None);
        assert!(rejectable.is_empty());
    }

    #[test]
    fn only_the_last_ones_are_kept() {
        let mut rejectable = Rejectable::default();
        for id in 0..1_000 {
            rejectable.left(what(1, id), Token::EMPTY);
        }
        assert_eq!(rejectable.left.len(), KEPT);
        assert_eq!(rejectable.reject(what(1, 500)), None);
        assert!(rejectable.reject(what(1, 999)).is_some());
    }
}
