//! Message IDs toward one peer: a random start, then consecutive, none reused within
//! EXCHANGE_LIFETIME (RFC 7252 §4.4).
//!
//! Instead of a time for each of 65 536 IDs, one is kept per block of 1024 IDs, and only for peers
//! that used up a block: the time of use of its last ID. A block is reused one lifetime later. The
//! last block is reserved for [group requests](GROUP_IDS). This limits the rate to (64 512 - 1024)
//! / 247 s = 257 messages per second, 1.6 % below the exact bound.
//!
//! [`RejectableResponses`]: recently sent Non-confirmable responses, to match Resets (RFC 7252
//! §4.3). A Reset contains only the message ID. The last [`KEPT`] responses to all peers are kept
//! in a ring: a Reset arrives within a round trip or not at all.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::ops::RangeInclusive;
use core::time::Duration;

use crate::codec::{MessageId, Token};
use crate::hash::Fingerprint;
use conche_cc::Instant;

const BLOCK: u16 = 1024;

/// IDs of messages to a single peer are below this.
const END: u16 = u16::MAX - BLOCK + 1;
const BLOCKS: usize = END as usize / BLOCK as usize;

/// IDs of group requests. No unicast message uses one of them: a member of a group would take one
/// for a duplicate of the other (RFC 7252 §8.1).
pub(crate) const GROUP_IDS: RangeInclusive<u16> = END..=u16::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct NextId(u16);

impl NextId {
    pub(crate) fn starting_at(first: u16) -> Self {
        Self(first % END)
    }

    /// Returns `true` if `id` is one of the last 256 used: an acknowledgement of it may be a late
    /// duplicate.
    pub(crate) fn is_recent(self, id: MessageId) -> bool {
        let (next, end) = (u32::from(self.0), u32::from(END));
        id.0 < END && (1..=256).contains(&((next + end - u32::from(id.0)) % end))
    }
}

/// For each block, the time of use of its last ID; `None` until the first block is used up.
/// Separate from [`NextId`] to avoid padding in the peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsedIds(Option<Box<[Option<Instant>; BLOCKS]>>);

impl UsedIds {
    /// Returns when the next ID is free; `None` if it is now.
    pub(crate) fn blocked_until(&self, next: NextId, now: Instant, lifetime: Duration) -> Option<Instant> {
        if !next.0.is_multiple_of(BLOCK) {
            return None;
        }
        let sent = (*self.0.as_ref()?)[usize::from(next.0 / BLOCK)]?;
        let free = sent + lifetime;
        (free > now).then_some(free)
    }

    /// Returns when IDs beyond the current block are free; `None` if some are now.
    pub(crate) fn scarce_until(&self, next: NextId, now: Instant, lifetime: Duration) -> Option<Instant> {
        let following = (usize::from(next.0 / BLOCK) + 1) % BLOCKS;
        let free = (*self.0.as_ref()?)[following]? + lifetime;
        (free > now).then_some(free)
    }

    /// Allocates the next ID, or returns when it is free.
    #[inline]
    pub(crate) fn allocate(
        &mut self,
        next: &mut NextId,
        now: Instant,
        lifetime: Duration,
    ) -> Result<MessageId, Instant> {
        if let Some(free) = self.blocked_until(*next, now, lifetime) {
            return Err(free);
        }
        let id = next.0;
        next.0 = (id + 1) % END;
        if next.0.is_multiple_of(BLOCK) {
            self.0.get_or_insert_with(|| Box::new([None; BLOCKS]))[usize::from(id / BLOCK)] = Some(now);
        }
        Ok(MessageId(id))
    }
}

const KEPT: usize = 256;

#[derive(Clone, Debug)]
struct SentResponse {
    /// Of peer and message ID.
    fingerprint: Fingerprint,
    token: Token,
}

/// Non-confirmable responses that a peer may still reject.
#[derive(Debug, Default)]
pub(crate) struct RejectableResponses {
    sent: VecDeque<SentResponse>,
}

impl RejectableResponses {
    pub(crate) fn sent(&mut self, fingerprint: Fingerprint, token: Token) {
        if self.sent.len() >= KEPT {
            self.sent.pop_front();
        }
        self.sent.push_back(SentResponse { fingerprint, token });
    }

    /// Returns the token of a rejected response, once.
    pub(crate) fn reject(&mut self, fingerprint: Fingerprint) -> Option<Token> {
        let position = self.sent.iter().rposition(|sent| sent.fingerprint == fingerprint)?;
        self.sent.remove(position).map(|sent| sent.token)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const LIFETIME: Duration = Duration::from_secs(247);

    struct MessageIds(NextId, UsedIds);

    impl MessageIds {
        fn starting_at(first: u16) -> Self {
            Self(NextId::starting_at(first), UsedIds::default())
        }

        fn allocate(&mut self, now: Instant, lifetime: Duration) -> Result<MessageId, Instant> {
            self.1.allocate(&mut self.0, now, lifetime)
        }

        fn scarce_until(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
            self.1.scarce_until(self.0, now, lifetime)
        }

        fn is_recent(&self, id: MessageId) -> bool {
            self.0.is_recent(id)
        }
    }

    // RFC 7252 §4.4 (Q25)
    #[test]
    fn no_id_is_reused_within_the_lifetime_at_full_speed() {
        for first in [0, 1, 1023, 1024, 40_000, u16::MAX] {
            let mut ids = MessageIds::starting_at(first);
            let mut used: vec::Vec<Option<Instant>> = vec![None; 65_536];
            let mut now = Instant::ZERO;
            for _ in 0..200_000 {
                match ids.allocate(now, LIFETIME) {
                    Ok(id) => {
                        if let Some(before) = used[usize::from(id.0)].replace(now) {
                            assert!(now - before >= LIFETIME, "{id:?} again after {:?}", now - before);
                        }
                    }
                    Err(free) => {
                        assert!(free > now, "it must be worth waiting for");
                        now = free;
                    }
                }
                now += Duration::from_micros(10);
            }
            assert!(now >= Instant::ZERO + 2 * LIFETIME, "200 000 IDs take three laps and so two lifetimes");
        }
    }

    #[test]
    fn that_ids_run_out_is_known_while_there_are_some() {
        let (mut ids, mut given) = (MessageIds::starting_at(40_000), 0);
        while ids.scarce_until(Instant::ZERO, LIFETIME).is_none() {
            ids.allocate(Instant::ZERO, LIFETIME).expect("there are some");
            given += 1;
        }
        assert!(given > 60 * usize::from(BLOCK), "{given} of {END} were given");
        let last = (0..).take_while(|_| ids.allocate(Instant::ZERO, LIFETIME).is_ok()).count();
        assert_eq!(last, usize::from(BLOCK));
        assert!(ids.scarce_until(Instant::ZERO, LIFETIME).is_some(), "now there are none");
        assert_eq!(ids.scarce_until(Instant::ZERO + LIFETIME, LIFETIME), None);
    }

    // RFC 7252 §8.1 (Q86)
    #[test]
    fn no_message_to_a_peer_has_an_id_of_those_to_groups() {
        for first in [0, 40_000, END - 1, END, u16::MAX] {
            let mut ids = MessageIds::starting_at(first);
            let mut now = Instant::ZERO;
            for _ in 0..140_000 {
                let id = ids.allocate(now, LIFETIME).expect("4 ms apart");
                assert!(!GROUP_IDS.contains(&id.0), "{id:?}");
                now += Duration::from_millis(4);
            }
        }
    }

    #[test]
    fn the_last_256_ids_are_recent_across_the_end() {
        let mut ids = MessageIds::starting_at(END - 100);
        let given: vec::Vec<_> = (0..300).filter_map(|_| ids.allocate(Instant::ZERO, LIFETIME).ok()).collect();
        assert_eq!((given.len(), given[299]), (300, MessageId(199)));
        let recent: vec::Vec<_> = given.iter().map(|&id| ids.is_recent(id)).collect();
        assert!(recent[..44].iter().all(|recent| !recent) && recent[44..].iter().all(|recent| *recent));
        assert!(!ids.is_recent(MessageId(200)) && !ids.is_recent(MessageId(END)));
    }

    #[test]
    fn a_slow_sender_never_waits() {
        let mut ids = MessageIds::starting_at(65_000);
        let mut now = Instant::ZERO;
        for _ in 0..200_000 {
            ids.allocate(now, LIFETIME).expect("4 ms apart is 250 a second, under the bound");
            now += Duration::from_millis(4);
        }
    }
}

#[cfg(test)]
mod rejectable_tests {
    use super::*;
    use crate::hash::Keyed;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    fn fingerprint(peer: u32, id: u16) -> Fingerprint {
        Keyed::fingerprint(Keyed::new(&mut ChaCha8Rng::seed_from_u64(1)).hash(&peer), 0, id)
    }

    #[test]
    fn a_response_can_be_rejected_once_by_the_peer_that_got_it() {
        let mut rejectable = RejectableResponses::default();
        rejectable.sent(fingerprint(1, 7), Token::from(*b"subject1"));
        assert_eq!(rejectable.reject(fingerprint(2, 7)), None);
        assert_eq!(rejectable.reject(fingerprint(1, 7)), Some(Token::from(*b"subject1")));
        assert_eq!(rejectable.reject(fingerprint(1, 7)), None);
        assert!(rejectable.is_empty());
    }

    #[test]
    fn only_the_last_ones_are_kept() {
        let mut rejectable = RejectableResponses::default();
        for id in 0..1_000 {
            rejectable.sent(fingerprint(1, id), Token::EMPTY);
        }
        assert_eq!(rejectable.sent.len(), KEPT);
        assert_eq!(rejectable.reject(fingerprint(1, 500)), None);
        assert!(rejectable.reject(fingerprint(1, 999)).is_some());
    }
}
