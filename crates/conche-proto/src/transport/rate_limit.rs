//! [`Limiter`]: a rate limit per source (RFC 7252 §4.7) in constant memory; and the groups and
//! hosts of sources.
//!
//! A bucket is stored as a virtual scheduling time (generic cell rate algorithm): the time until
//! which the source's requests would take at the average rate. It is needed only while this time is
//! in the future, so the table holds recent sources only, in sets of [`WAYS`] places. If a set is
//! full, its emptiest bucket is replaced. Sources below their rate are never refused because of
//! others. Two sources share a bucket if their [`Group`]s are equal: one pair in 2^20.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use super::Transport;
use super::datagram::Source;
use crate::PeerKey;
use crate::codec::{Header, Message, MessageId, Token, Type};
use crate::config::ResponseLimit;
use crate::hash::{Fingerprint, Keyed};
use crate::shares::{Group, ROW};
use conche_cc::{Controller, Instant};

/// Places per set. The first cell of a [`Group`] selects the set.
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    source: Group,
    /// Virtual scheduling time.
    until: Instant,
}

/// The buckets of recent sources: 4096 buckets in 64 KiB, or 64 in a small limiter.
#[derive(Debug)]
pub struct Limiter {
    /// Interval between two requests at the average rate.
    interval: Duration,
    /// Maximum lead of a bucket over the current time at which a request is still admitted.
    tolerance: Duration,
    sets: Box<[[Bucket; WAYS]]>,
}

const FEW: usize = 16;

impl Limiter {
    /// Creates a limiter without sources.
    #[must_use]
    pub fn new(limit: ResponseLimit) -> Self {
        Self::with_sets(limit, ROW as usize)
    }

    /// Creates a limiter for 64 sources (1 KiB), for limits that only attackers exceed.
    pub(crate) fn small(limit: ResponseLimit) -> Self {
        Self::with_sets(limit, FEW)
    }

    fn with_sets(limit: ResponseLimit, sets: usize) -> Self {
        let interval = Duration::from_secs(1) / limit.per_second.max(1);
        let empty = Bucket { source: Group::NOBODY, until: Instant::ZERO };
        Self {
            interval,
            tolerance: interval.saturating_mul(limit.burst.max(1) - 1),
            sets: vec![[empty; WAYS]; sets].into_boxed_slice(),
        }
    }

    fn set_of(&mut self, source: Group) -> Option<&mut [Bucket; WAYS]> {
        let set = source.cells()[0] % self.sets.len();
        self.sets.get_mut(set)
    }

    /// Counts a request of a source and returns `true`, unless the request exceeds the limit.
    pub fn admits(&mut self, now: Instant, source: Group) -> bool {
        let (interval, tolerance) = (self.interval, self.tolerance);
        let Some(set) = self.set_of(source) else { return true };
        // A source keeps its place even with an empty bucket, so that it cannot have two.
        let known = set.iter().position(|bucket| bucket.source == source);
        let emptiest = || set.iter().enumerate().min_by_key(|(_, bucket)| bucket.until).map(|(way, _)| way);
        let Some(way) = known.or_else(emptiest) else { return true };
        let until = if known.is_some() { set[way].until.max(now) } else { now };
        let admitted = until <= now + tolerance;
        if admitted {
            set[way] = Bucket { source, until: until + interval };
        }
        admitted
    }

    /// Removes one counted request of a source.
    pub fn give_back(&mut self, source: Group) {
        let interval = self.interval;
        let set = self.set_of(source);
        if let Some(bucket) = set.and_then(|set| set.iter_mut().find(|bucket| bucket.source == source)) {
            bucket.until = bucket.until - interval;
        }
    }
}

/// Returns the same number for sources that belong together.
type SourceGroups<P> = Box<dyn Fn(&P) -> u64 + Send + Sync>;

pub(crate) struct Sources<P> {
    /// One number shares one part of a limited table.
    pub(crate) groups: Option<SourceGroups<P>>,
    /// One number is one host.
    pub(crate) hosts: Option<SourceGroups<P>>,
}

impl<P> Default for Sources<P> {
    fn default() -> Self {
        Self { groups: None, hosts: None }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Limiters {
    /// For requests, if configured.
    pub(crate) requests: Option<Limiter>,
    /// For Resets that reject responses.
    pub(crate) resets: Option<Limiter>,
}

impl Limiters {
    pub(super) fn of_requests(limit: ResponseLimit) -> Self {
        Self { requests: Some(Limiter::new(limit)), resets: None }
    }
}

impl<P: PeerKey, C: Controller> Transport<P, C> {
    /// Hashes sender, local address, message ID, type and token. Thus forged messages that use up
    /// the message IDs of a client do not turn its own messages into duplicates.
    pub(crate) fn fingerprint(&self, source: Source<P>, hash: u64, message: &Message<'_>) -> Fingerprint {
        self.fingerprint_of(source, hash, message.ty(), message.id(), message.token_bytes())
    }

    /// Returns the fingerprint of an undecoded datagram, if it looks like a request with a token of
    /// at most 8 bytes.
    pub(crate) fn fingerprint_of_request(&self, source: Source<P>, datagram: &[u8]) -> Option<Fingerprint> {
        let header = Header::of(datagram).filter(|header| header.code.is_request())?;
        let length = usize::from(datagram.first()? & 0x0f);
        let token = datagram.get(4..4 + length).filter(|token| token.len() <= Token::MAX_LENGTH)?;
        Some(self.fingerprint_of(source, self.peers.hash(&source.from), header.ty, header.id, token))
    }

    pub(crate) fn fingerprint_of(
        &self,
        source: Source<P>,
        hash: u64,
        ty: Type,
        id: MessageId,
        token: &[u8],
    ) -> Fingerprint {
        let ty = u8::from(ty == Type::Confirmable);
        let local = source.local.map_or(0, |local| self.hash.hash(&local));
        Keyed::fingerprint(hash, local ^ self.hash.digest(ty, token), id.0)
    }

    pub(crate) fn host_of(&self, from: &P) -> Group {
        let hosts = self.sources.as_ref().and_then(|sources| sources.hosts.as_ref());
        Group::of(hosts.map_or_else(|| self.peers.hash(from), |hosts| self.hash.hash(&hosts(from))))
    }

    pub(crate) fn group_of(&self, from: &P, hash: u64) -> Group {
        let groups = self.sources.as_ref().and_then(|sources| sources.groups.as_ref());
        Group::of(groups.map_or(hash, |groups| self.hash.hash(&groups(from))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Keyed;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    fn limiter() -> Limiter {
        Limiter::new(ResponseLimit { per_second: 10, burst: 5 })
    }

    fn source(number: u32) -> Group {
        Group::of(Keyed::new(&mut ChaCha8Rng::seed_from_u64(1)).hash(&number))
    }

    fn admitted(limiter: &mut Limiter, source: u32, now: Instant, requests: usize) -> usize {
        (0..requests).filter(|_| limiter.admits(now, self::source(source))).count()
    }

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut limiter = limiter();
        let start = Instant::from_millis(5_000);
        assert_eq!(admitted(&mut limiter, 1, start, 100), 5);
        let later = (1..=1_000).map(|ms| admitted(&mut limiter, 1, start + Duration::from_millis(ms), 1));
        assert_eq!(later.sum::<usize>(), 10);
        assert_eq!(admitted(&mut limiter, 1, start + Duration::from_secs(60), 100), 5);
    }

    #[test]
    fn returned_tokens_of_the_rate_limiter_are_usable_once() {
        let mut limiter = limiter();
        let start = Instant::from_millis(5_000);
        assert_eq!(admitted(&mut limiter, 1, start, 100), 5);
        (0..2).for_each(|_| limiter.give_back(source(1)));
        assert_eq!(admitted(&mut limiter, 1, start, 100), 2);
        (0..100).for_each(|_| limiter.give_back(source(1)));
        assert_eq!(admitted(&mut limiter, 1, start, 100), 5);
        for ms in 1_000..1_100 {
            let now = start + Duration::from_millis(ms);
            assert_eq!(admitted(&mut limiter, 2, now, 3), 3, "in millisecond {ms}");
            (0..3).for_each(|_| limiter.give_back(source(2)));
        }
    }

    #[test]
    fn sources_that_exceed_their_limit_hold_back_no_others() {
        let mut limiter = limiter();
        let exceeding = (0..100).map(|source| admitted(&mut limiter, source, Instant::ZERO, 1_000));
        assert!(exceeding.min() >= Some(5), "each has its burst");
        let served = (1_000..2_000).filter(|&source| limiter.admits(Instant::ZERO, self::source(source))).count();
        assert_eq!(served, 1_000);
    }

    #[test]
    fn no_source_that_keeps_to_a_tenth_of_its_limit_is_refused_however_many_there_are() {
        const SOURCES: u32 = 20_000;
        let mut limiter = limiter();
        for round in 0..5 {
            for source in 0..SOURCES {
                let now = Instant::from_millis(5_000) + Duration::from_secs(1) * (round * SOURCES + source) / SOURCES;
                assert!(limiter.admits(now, self::source(source)), "source {source} in second {round}");
            }
        }
    }

    #[test]
    fn a_source_that_exceeds_its_limit_is_held_to_it_among_twenty_thousand_others() {
        const SOURCES: u32 = 20_000;
        let (mut limiter, mut served) = (limiter(), 0);
        for n in 0..5 * SOURCES {
            let now = Instant::from_millis(5_000) + Duration::from_secs(1) * n / SOURCES;
            limiter.admits(now, source(1 + n % SOURCES));
            served += admitted(&mut limiter, 0, now, 1);
        }
        assert!(served <= 100, "{served} in 5 s at 10 a second");
    }
}
