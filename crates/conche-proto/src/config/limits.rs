//! [`Limits`]: a bound for everything that can grow.

use super::ConfigError;

/// A bound for every table and queue that can grow; what exceeds one is refused with an error.
///
/// No source can keep the others out of a table that peers fill. Sources count in
/// [groups](crate::Endpoint::set_source_groups), and a group may hold no more than is free for all
/// others: one that takes all it can get has half.
///
/// | limit | filled by | when a share or the whole is used up |
/// |---|---|---|
/// | `peers` | peers with shares, and requests of ours | the peer that has been idle longest, for 255 s at least, makes room, or one that has not proven its address; else as for `incoming` |
/// | `queue_per_peer`, `queue`, `exchanges`, `subscriptions` | the application | an error; what answers peers is bounded by their own limits |
/// | `incoming` | peers, shares | 5.03 and Max-Age; a Non-confirmable request is dropped |
/// | `group_requests` | peers, shares | the request is ignored; groups take turns with their responses |
/// | `group_responses` | members of a group, a share for each of them | the response is dropped |
/// | `observers` | peers, shares | an observer that has not [proven its presence](crate::ObserverChecks) makes room; else the request is answered without an observation |
/// | `observers_per_host`, `observers_per_peer`, `topics`, `state_bytes` | peers, shares | the request is answered without an observation |
/// | `deduplication_bytes` | peers, shares for requests that are not idempotent | 5.03; of idempotent ones the oldest is forgotten, and a copy is handled again |
/// | `transfers`, `assembly_bytes` | peers, shares | finished and stale bodies make room, of the own group or larger ones; else 5.03 |
/// | `transfers_per_peer` | one peer | its stale bodies and its oldest download make room; else 5.03 |
/// | `paths` | peers | the path that was used least lately is forgotten |
/// | `outputs` | the application, by not polling | nothing is taken in |
///
/// Message IDs toward one peer are no limit of these, but can be used up too: see
/// [`Stats::overloaded`](crate::Stats::overloaded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Peers with congestion state or message IDs: those that we send to, and those whose requests
    /// need a response of its own, for 255 s after their last use. No group of sources makes more
    /// of them than are free for others. A source that has neither answered a message of this
    /// endpoint nor been [validated](crate::EndpointConfig::source_validation) makes room for
    /// others at any time.
    pub peers: usize,
    /// Messages that wait for admission to one peer: if there are as many, a further request or ping to it is refused. What is never
    /// refused may wait beside them, as it may beside those of `queue`.
    pub queue_per_peer: usize,
    /// Requests and pings that wait for admission, over all peers: if there are as many, a further one is refused. One that has begun is
    /// not refused when its next message has to wait: the next block or set of its body or response, or the same request once more, by
    /// Block1 and Block2 or with a token that its peer understands. It keeps its place among `exchanges`, so these bound how many
    /// wait in all. Separate responses wait within `incoming`, and notifications within `observers`.
    pub queue: usize,
    /// Requests and pings that are not over, queued ones included.
    pub exchanges: usize,
    /// Requests of peers that wait for a response, and separate responses that are not acknowledged yet: what is
    /// admitted once is answered. When it is full, what arrives is answered with 5.03 and Max-Age. No group of sources
    /// holds more of it than is free for others, so that a flood from one prefix leaves half of it.
    pub incoming: usize,
    /// Requests to groups that wait for their response, and responses to them that wait for their
    /// time. Requests beyond are ignored. No group of sources holds more of it than is free for
    /// others.
    ///
    /// Each response takes a leisure of its own, 5 s by default, and groups of sources take turns:
    /// a response leaves within two leisures, and one more for each other group that has responses
    /// waiting. So the default of 16 bounds the delay to 85 s.
    pub group_requests: usize,
    /// Responses to one group request of ours that are delivered. No sender has more of them than
    /// are left for others, so one that answers without end has half.
    pub group_responses: usize,
    /// Observers, over all topics (RFC 7641 §4.1). Beyond, observers make room that have not proven
    /// their presence ([`ObserverChecks`](crate::ObserverChecks)), or a registration is answered
    /// like a plain GET. No group of sources holds more of them than are free for others.
    pub observers: usize,
    /// Observers of one host, on all of its ports and over all topics
    /// ([`set_source_hosts`](crate::Endpoint::set_source_hosts)). The default is an eighth of
    /// `observers`: enough for a site behind one address, and too few for one host to fill the
    /// table.
    pub observers_per_host: usize,
    /// Observers of one peer, over all topics. A Reset that matches nothing else is compared with each of them.
    pub observers_per_peer: usize,
    /// Topics that are observed ([`observe`](crate::Endpoint::observe)). The application makes a
    /// state for each of them after a change. Beyond, a registration for another topic is answered
    /// like a plain GET. No group of sources opens more of them than are free for others: one
    /// prefix opens at most half, 8192 by default, and a server makes as many states within
    /// seconds.
    pub topics: usize,
    /// Bytes of the states that are kept for observers, one for each topic: the newest
    /// notification, or the size of the first response. A registration beyond is answered like a
    /// plain GET, and a larger state than there is room for is
    /// [refused](crate::NotifyError::StatesFull). No group of sources has more bytes kept for
    /// topics than are free for others. A topic counts for one of the groups that observe it.
    pub state_bytes: usize,
    /// Subscriptions of our own, registrations on their way included.
    pub subscriptions: usize,
    /// Bytes of the deduplication table, cached replies included. Each Confirmable request that waits for its response
    /// takes `message_bytes` of them; an entry takes 68, a reply of up to 14 bytes included. 0: no
    /// request is remembered, and what is not idempotent is refused.
    ///
    /// An entry stays for EXCHANGE_LIFETIME, 247 s. So the default of 64 MiB sustains some 4000 POSTs a second with short
    /// replies, 1900 with replies of 60 bytes; beyond, they are refused with 5.03. No group of sources holds
    /// more of it than is free for others: a flood of spoofed POSTs from one prefix takes half of these rates at most,
    /// one from n prefixes n / (n + 1). Idempotent requests are always taken: the oldest of them make room, and no
    /// more than three quarters become entries for their sake, so that replies have the rest.
    pub deduplication_bytes: usize,
    /// The largest message that is sent or accepted (RFC 7252 §4.6: 1152 for an unknown path MTU), at least 64.
    pub message_bytes: usize,
    /// The largest body that is sent, received or put together from blocks (RFC 7959), at most 2^30. What fits into one message
    /// is not concerned, nor are bodies that go [block by block](crate::Request::streamed) between endpoint and application.
    pub body_bytes: usize,
    /// Uploads of one peer at the same time, and the same number of downloads, and of bodies that
    /// go block by block between endpoint and application. An upload that the peer has left for 4.5
    /// times ACK_TIMEOUT (9 s) makes room for another one, and its oldest download does at any
    /// time.
    pub transfers_per_peer: usize,
    /// The same over all peers. No group of sources holds more than is free for others.
    ///
    /// A transfer in use makes no room for others, so each admitted one can finish. A response
    /// makes room when its last block has left. So does a body that its client has left for 4.5
    /// times ACK_TIMEOUT (9 s), or for twice ACK_TIMEOUT (4 s) if only the first block of a
    /// response was asked for; but only for its own group of sources, or for one that holds less.
    /// Beyond that, a first block of an upload is answered with 5.03 and Max-Age, and so is a safe
    /// request if the last response to it was large, before the application sees it. If the size
    /// was unknown, the response is replaced instead. Bodies that go block by block between
    /// endpoint and application make no room before EXCHANGE_LIFETIME is over.
    pub transfers: usize,
    /// Bytes of all uploads of peers, of all downloads of peers, and of all responses to us in
    /// blocks: each of the three has this bound. Uploads and downloads follow the rules of
    /// `transfers`.
    pub assembly_bytes: usize,
    /// Paths whose peers [share](crate::Endpoint::share_paths) what they find out. The one that has not been heard of for longest makes
    /// room.
    pub paths: usize,
    /// Outputs that wait to be polled.
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

/// So that every error the endpoint itself answers with fits, with a token of 8 bytes and a diagnostic payload.
const LEAST_MESSAGE: usize = 64;

/// The largest UDP payload that a length field can name.
const MOST_MESSAGE: usize = 65_535;

/// What 2^20 blocks of 1024 bytes can hold (RFC 7959 §2.2).
const MOST_BODY: usize = 1 << 30;

/// Places are numbered with 32 bits.
const MOST_PLACES: usize = u32::MAX as usize - 1;

impl Limits {
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
        // Replies of a few Confirmable requests must fit, or each would make all others be forgotten.
        let least = 4 * (self.message_bytes + 128);
        if (1..least).contains(&self.deduplication_bytes) {
            let (limit, most) = ("deduplication_bytes, which is not 0,", u32::MAX as usize);
            return Err(ConfigError::Limit { limit, given: self.deduplication_bytes, least, most });
        }
        Ok(())
    }
}
