//! [`Limits`]: the sizes of tables and queues.

use super::ConfigError;

/// Limits of all tables and queues; operations beyond them are refused with an error.
///
/// No source can exclude others from a table that peers fill. A
/// [group](crate::Endpoint::set_source_groups) of sources may hold at most as much as is free, so a
/// single greedy group gets half. Exempt are the limits of one peer or host, `paths`, and
/// idempotent requests in `deduplication_bytes`.
///
/// The application alone uses `queue_per_peer`, `queue`, `exchanges` and `subscriptions`; answers
/// to peers have their own limits. Message IDs toward a peer can also run out: see
/// [`Stats::overloaded`](crate::Stats::overloaded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Peers with congestion state or message IDs, for 255 s after their last use: destinations,
    /// and senders of requests that need a separate response. Beyond the limit, the peer idle
    /// longest, for at least 255 s, is evicted, or at any time a source that has neither answered a
    /// message nor been [validated](crate::EndpointConfig::source_validation); otherwise as for
    /// `incoming`.
    pub peers: usize,
    /// Requests and pings that wait for admission to one peer; further ones are refused. Messages
    /// that are never refused may wait in addition, as for `queue`.
    pub queue_per_peer: usize,
    /// Requests and pings that wait for admission, over all peers; further ones are refused. Never
    /// refused are the next block or burst of a request in progress and its repetition, which keep
    /// their places in `exchanges`; separate responses within `incoming`, and notifications within
    /// `observers`.
    pub queue: usize,
    /// Live requests and pings, including queued ones.
    pub exchanges: usize,
    /// Received requests without a response, and unacknowledged separate responses. An admitted
    /// request is always answered. Beyond the limit, Confirmable requests get 5.03 with Max-Age,
    /// and Non-confirmable ones are dropped.
    pub incoming: usize,
    /// Received group requests that await their response, and responses that wait for their time;
    /// further requests are ignored.
    ///
    /// Each response takes its own leisure, 5 s by default, and groups of sources take turns: a
    /// response leaves within two leisures, plus one for each other waiting group. The default of
    /// 16 limits the delay to 85 s.
    pub group_requests: usize,
    /// Delivered responses to one group request of this endpoint; others are dropped. A sender has
    /// at most as many as are left.
    pub group_responses: usize,
    /// Observers, over all topics (RFC 7641 §4.1). Beyond the limit, observers without a [proof of
    /// presence](crate::ObserverChecks) are evicted; otherwise a registration is answered like a
    /// plain GET.
    pub observers: usize,
    /// Observers of one [host](crate::Endpoint::set_source_hosts), over all ports and topics;
    /// beyond the limit as for `topics`. The default, an eighth of `observers`, suffices for a site
    /// behind one address.
    pub observers_per_host: usize,
    /// Observers of one peer; beyond the limit as for `topics`. An unmatched Reset is compared with
    /// each of them.
    pub observers_per_peer: usize,
    /// Observed [topics](crate::Endpoint::observe). Beyond the limit, a registration for another
    /// topic is answered like a plain GET. By default a group of sources opens at most 8192; a
    /// server creates that number of states within seconds.
    pub topics: usize,
    /// Bytes of states stored for observers, one per topic: the newest notification, or the size of
    /// the first response. Beyond the limit, a registration is answered like a plain GET, and a
    /// larger state is [refused](crate::NotifyError::StatesFull). A topic is charged to one group
    /// of its observers.
    pub state_bytes: usize,
    /// Subscriptions of this endpoint, also during registration.
    pub subscriptions: usize,
    /// Bytes of the deduplication table, including stored replies. A Confirmable request that
    /// awaits its response takes `message_bytes`; an entry takes 68 bytes, including a reply of up
    /// to 14 bytes. 0: no request is remembered, and non-idempotent requests are refused.
    ///
    /// An entry stays for EXCHANGE_LIFETIME, 247 s: the default of 64 MiB sustains about 4000 POSTs
    /// per second with short replies, and 1900 with replies of 60 bytes; others get 5.03. Forged
    /// POSTs from n prefixes take at most n / (n + 1) of these rates. Idempotent requests are
    /// always accepted and use at most three quarters for entries: the oldest are evicted, and
    /// their duplicates processed again.
    pub deduplication_bytes: usize,
    /// Maximum message size in bytes, at least 64 (RFC 7252 §4.6: 1152 for an unknown path MTU).
    pub message_bytes: usize,
    /// Maximum size in bytes of a body in blocks (RFC 7959), at most 2^30.
    /// [Streamed](crate::Request::streamed) bodies are exempt.
    pub body_bytes: usize,
    /// Concurrent uploads of one peer, and as many downloads and streamed bodies. For another one,
    /// an upload is evicted after 4.5 times ACK_TIMEOUT (9 s) without use, the oldest download at
    /// any time; otherwise 5.03.
    pub transfers_per_peer: usize,
    /// The same over all peers.
    ///
    /// Evicted are responses after their last block. The same group of sources, or one that holds
    /// less, also evicts bodies idle for 4.5 times ACK_TIMEOUT (9 s), or for twice ACK_TIMEOUT (4
    /// s) if only the first block of a response was requested.
    ///
    /// Otherwise an upload's first block gets 5.03 with Max-Age, as does a safe request with a
    /// large last response; with an unknown size, 5.03 replaces the response. Streamed bodies stay
    /// for EXCHANGE_LIFETIME.
    pub transfers: usize,
    /// Bytes, each, of all uploads of peers, of all downloads of peers, and of all block-wise
    /// responses to this endpoint. The first two follow the rules of `transfers`.
    pub assembly_bytes: usize,
    /// Paths with [shared](crate::Endpoint::share_paths) state; the least recently used is evicted.
    pub paths: usize,
    /// Outputs that wait to be polled; beyond the limit, no input is accepted.
    pub outputs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 131_072,
            queue_per_peer: 64,
            queue: 65_536,
            exchanges: 262_144,
            incoming: 16_384,
            group_requests: 16,
            group_responses: 1024,
            observers: 131_072,
            observers_per_host: 16_384,
            observers_per_peer: 64,
            topics: 16_384,
            state_bytes: 16 << 20,
            subscriptions: 131_072,
            deduplication_bytes: 64 << 20,
            message_bytes: 1152,
            body_bytes: 64 << 10,
            transfers_per_peer: 4,
            transfers: 4096,
            assembly_bytes: 16 << 20,
            paths: 16_384,
            outputs: 4096,
        }
    }
}

/// Room for every error response, with an 8-byte token and a diagnostic payload.
const LEAST_MESSAGE: usize = 64;

const MOST_MESSAGE: usize = 65_535;

/// The size of 2^20 blocks of 1024 bytes (RFC 7959 §2.2).
const MOST_BODY: usize = 1 << 30;

const MOST_PLACES: usize = u32::MAX as usize - 1;

impl Limits {
    /// The smallest limits that an endpoint accepts: it answers one request after the other.
    pub const MIN: Self = Self {
        peers: 1,
        queue_per_peer: 1,
        queue: 1,
        exchanges: 1,
        incoming: 1,
        group_requests: 0,
        group_responses: 0,
        observers: 0,
        observers_per_host: 0,
        observers_per_peer: 0,
        topics: 0,
        state_bytes: 0,
        subscriptions: 0,
        deduplication_bytes: 0,
        message_bytes: LEAST_MESSAGE,
        body_bytes: 0,
        transfers_per_peer: 0,
        transfers: 0,
        assembly_bytes: 0,
        paths: 1,
        outputs: 1,
    };

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let limits = [
            ("peers", self.peers, 1, MOST_PLACES),
            ("queue_per_peer", self.queue_per_peer, 1, MOST_PLACES),
            ("queue", self.queue, 1, MOST_PLACES),
            ("exchanges", self.exchanges, 1, MOST_PLACES / 2),
            ("incoming", self.incoming, 1, MOST_PLACES / 2),
            ("group_requests", self.group_requests, 0, MOST_PLACES),
            ("group_responses", self.group_responses, 0, MOST_PLACES),
            ("observers", self.observers, 0, MOST_PLACES),
            ("observers_per_host", self.observers_per_host, 0, MOST_PLACES),
            ("observers_per_peer", self.observers_per_peer, 0, MOST_PLACES),
            ("topics", self.topics, 0, MOST_PLACES),
            ("state_bytes", self.state_bytes, 0, u32::MAX as usize),
            ("subscriptions", self.subscriptions, 0, MOST_PLACES),
            ("deduplication_bytes", self.deduplication_bytes, 0, u32::MAX as usize),
            ("message_bytes", self.message_bytes, LEAST_MESSAGE, MOST_MESSAGE),
            ("body_bytes", self.body_bytes, 0, MOST_BODY),
            ("transfers_per_peer", self.transfers_per_peer, 0, MOST_PLACES),
            ("transfers", self.transfers, 0, MOST_PLACES),
            ("assembly_bytes", self.assembly_bytes, 0, u32::MAX as usize),
            ("paths", self.paths, 1, MOST_PLACES),
            ("outputs", self.outputs, 1, MOST_PLACES),
        ];
        if let Some((limit, given, least, most)) =
            limits.into_iter().find(|&(_, given, least, most)| !(least..=most).contains(&given))
        {
            return Err(ConfigError::Limit { limit, given, least, most });
        }
        // Fewer than a few replies would evict one another.
        let least = 4 * (self.message_bytes + 128);
        if (1..least).contains(&self.deduplication_bytes) {
            let (limit, most) = ("deduplication_bytes, which is not 0,", u32::MAX as usize);
            return Err(ConfigError::Limit { limit, given: self.deduplication_bytes, least, most });
        }
        Ok(())
    }

    /// Divides valid limits among `count` endpoints that serve one address, except for shares too small
    /// to work with.
    ///
    /// Not divided: limits of one peer or request, since one endpoint serves each peer; paths, which
    /// each endpoint measures; group requests, which arrive at one socket; and outputs.
    #[must_use]
    pub fn divided(&self, count: usize) -> Self {
        // No `..`: a new limit does not compile until it is handled here.
        let Self {
            peers,
            queue_per_peer,
            queue,
            exchanges,
            incoming,
            group_requests,
            group_responses,
            observers,
            observers_per_host,
            observers_per_peer,
            topics,
            state_bytes,
            subscriptions,
            deduplication_bytes,
            message_bytes,
            body_bytes,
            transfers_per_peer,
            transfers,
            assembly_bytes,
            paths,
            outputs,
        } = *self;
        let part = |whole: usize| whole.div_ceil(count.max(1));
        let replies = deduplication_bytes.min(message_bytes.saturating_add(128).saturating_mul(4));
        let bodies = assembly_bytes.min(body_bytes.saturating_mul(4));
        let requests = incoming.min((1 + message_bytes.div_ceil(128)).saturating_mul(8));
        Self {
            peers: part(peers),
            queue_per_peer,
            queue: part(queue),
            exchanges: part(exchanges),
            incoming: part(incoming).max(requests),
            group_requests,
            group_responses,
            observers: part(observers),
            observers_per_host: part(observers_per_host),
            observers_per_peer,
            topics: part(topics),
            state_bytes: part(state_bytes).max(bodies.min(state_bytes)),
            subscriptions: part(subscriptions),
            deduplication_bytes: part(deduplication_bytes).max(replies),
            message_bytes,
            body_bytes,
            transfers_per_peer,
            transfers: part(transfers),
            assembly_bytes: part(assembly_bytes).max(bodies),
            paths,
            outputs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EndpointConfig;

    #[test]
    fn limits_that_are_shared_out_add_up_and_are_legal_for_any_number() {
        let whole = Limits::default();
        for count in 1..=300 {
            let each = whole.divided(count);
            assert!(each.peers * count < whole.peers + count);
            assert!(count > 200 || each.incoming * count < whole.incoming + count);
            assert!(each.deduplication_bytes * count < whole.deduplication_bytes + count);
            let config = EndpointConfig { limits: each, ..EndpointConfig::default() };
            assert!(config.validate(true).is_ok(), "{count}");
        }
        assert_eq!(whole.divided(1), whole);
        let most = Limits { message_bytes: usize::MAX, deduplication_bytes: usize::MAX, ..whole };
        assert_eq!(most.divided(2).deduplication_bytes, usize::MAX, "invalid limits do not overflow");
    }

    #[test]
    fn any_number_of_workers_leaves_each_room_for_requests_in_parts_with_the_longest_token() {
        let whole = Limits::default();
        let places = 2 * (1 + whole.message_bytes.div_ceil(128));
        assert!(whole.divided(1024).incoming >= 2 * places, "a group of sources takes half");
        let few = Limits { incoming: 3, ..whole };
        assert_eq!(few.divided(4).incoming, 3, "no more than there are");
    }
}
