//! Counters of an endpoint.

/// Counters of an endpoint since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Bytes of the received datagrams.
    pub bytes_received: u64,
    /// Bytes of the sent datagrams.
    pub bytes_sent: u64,
    /// Exchanges opened: requests, pings and separate responses.
    pub exchanges: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Exchanges given up after all retransmissions.
    pub timeouts: u64,
    /// Requests passed to the application.
    pub requests_received: u64,
    /// Duplicates received, answered or ignored.
    pub duplicates: u64,
    /// Datagrams that are not CoAP messages.
    pub malformed: u64,
    /// Responses, acknowledgements and resets that match nothing.
    pub unmatched: u64,
    /// Requests refused on arrival, with 5.03 if Confirmable, because a resource or the source's
    /// share of it was used up. Includes Non-confirmable requests of a peer that uses up its
    /// message IDs.
    pub overloaded: u64,
    /// Group datagrams dropped: no group is served, or not a Non-confirmable request.
    pub multicast: u64,
    /// Group requests dropped beyond [`Limits::group_requests`](crate::Limits::group_requests) or
    /// their source's share.
    pub no_leisure: u64,
    /// Responses to own group requests dropped beyond
    /// [`Limits::group_responses`](crate::Limits::group_responses) or their sender's share.
    pub group_overflow: u64,
    /// Requests dropped by the [`ResponseLimit`](crate::config::ResponseLimit).
    pub limited: u64,
    /// Requests answered with 4.01 and an Echo value for
    /// [validation](crate::EndpointConfig::source_validation).
    pub challenged: u64,
    /// Pings sent for the same reason.
    pub validation_pings: u64,
    /// Non-confirmable responses never sent: all message IDs stayed in use, or
    /// [`Limits::queue_per_peer`](crate::Limits::queue_per_peer) was reached.
    pub responses_expired: u64,
    /// Reset messages sent.
    pub resets_sent: u64,
    /// Responses dropped without a Reset: their sender had used its 16 Resets, plus one per second.
    pub resets_limited: u64,
    /// Messages dropped because they exceeded
    /// [`Limits::message_bytes`](crate::Limits::message_bytes): a bug of this crate. The exchange
    /// fails with [`Failure::MessageTooLarge`](crate::Failure::MessageTooLarge).
    pub oversized: u64,
    /// Panics that the driver caught in code that serves one peer.
    pub panics: u64,
}

/// Adds up the counters of several endpoints.
impl core::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        let Self {
            datagrams_received,
            datagrams_sent,
            bytes_received,
            bytes_sent,
            exchanges,
            retransmissions,
            timeouts,
            requests_received,
            duplicates,
            malformed,
            unmatched,
            overloaded,
            multicast,
            no_leisure,
            group_overflow,
            limited,
            challenged,
            validation_pings,
            responses_expired,
            resets_sent,
            resets_limited,
            oversized,
            panics,
        } = other;
        self.datagrams_received += datagrams_received;
        self.datagrams_sent += datagrams_sent;
        self.bytes_received += bytes_received;
        self.bytes_sent += bytes_sent;
        self.exchanges += exchanges;
        self.retransmissions += retransmissions;
        self.timeouts += timeouts;
        self.requests_received += requests_received;
        self.duplicates += duplicates;
        self.malformed += malformed;
        self.unmatched += unmatched;
        self.overloaded += overloaded;
        self.multicast += multicast;
        self.no_leisure += no_leisure;
        self.group_overflow += group_overflow;
        self.limited += limited;
        self.challenged += challenged;
        self.validation_pings += validation_pings;
        self.responses_expired += responses_expired;
        self.resets_sent += resets_sent;
        self.resets_limited += resets_limited;
        self.oversized += oversized;
        self.panics += panics;
    }
}

/// The use of the resources that [`Limits`](crate::Limits) bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Peers with state.
    pub peers: usize,
    /// Live exchanges.
    pub exchanges: usize,
    /// Exchanges that wait for admission; see [`Limits::queue`](crate::Limits::queue).
    pub queued: usize,
    /// Exchanges that count on a [shared](crate::Endpoint::share_paths) path.
    pub over_paths: usize,
    /// Received requests that await a response.
    pub incoming: usize,
    /// Requests and responses held until their source has [proved its
    /// address](crate::SourceValidation).
    pub awaiting_validation: usize,
    /// Separate responses; with `incoming` within [`Limits::incoming`](crate::Limits).
    pub responses: usize,
    /// Waiting responses to group requests; with `incoming` within
    /// [`Limits::incoming`](crate::Limits).
    pub at_leisure: usize,
    /// Observers.
    pub observers: usize,
    /// Subscriptions of this endpoint.
    pub subscriptions: usize,
    /// Armed timers.
    pub timers: usize,
    /// Own requests of more than one message.
    pub transfers: usize,
    /// Request bodies being reassembled from blocks.
    pub assemblies: usize,
    /// Response bodies stored for requests for their blocks.
    pub representations: usize,
    /// Received requests with a streamed body in either direction.
    pub streams: usize,
    /// Bytes of `assemblies`, `representations`, and responses being reassembled.
    pub body_bytes: usize,
    /// Messages remembered for deduplication.
    pub deduplication_entries: usize,
    /// Bytes of the deduplication table.
    pub deduplication_bytes: usize,
    /// Outputs that wait to be polled.
    pub outputs: usize,
}
