//! Counters of an endpoint, since its start.

/// What an endpoint has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Datagrams handed in.
    pub datagrams_received: u64,
    /// Datagrams handed out.
    pub datagrams_sent: u64,
    /// Bytes of the datagrams handed in.
    pub bytes_received: u64,
    /// Bytes of the datagrams handed out.
    pub bytes_sent: u64,
    /// Exchanges opened: requests, pings and separate responses.
    pub exchanges: u64,
    /// Copies sent beyond the original ones.
    pub retransmissions: u64,
    /// Exchanges that were given up because all retransmissions went unanswered.
    pub timeouts: u64,
    /// Requests passed to the application.
    pub requests_received: u64,
    /// Messages received again and answered from the table, or ignored.
    pub duplicates: u64,
    /// Datagrams that are no CoAP message.
    pub malformed: u64,
    /// Responses, acknowledgements and resets that match nothing.
    pub unmatched: u64,
    /// Requests refused on arrival, with 5.03 if they were Confirmable, because something that they need was full or their
    /// source had its share of it.
    pub overloaded: u64,
    /// Datagrams to a group, which are dropped: multicast is not served yet.
    pub multicast: u64,
    /// Requests dropped because their source exceeded [`ResponseLimit`](crate::config::ResponseLimit).
    pub limited: u64,
    /// Reset messages sent.
    pub resets_sent: u64,
}
