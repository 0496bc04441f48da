//! How an endpoint is configured: the RFC's parameters, the safety envelope, and a bound for everything that can grow.

use alloc::vec::Vec;
use core::time::Duration;

use super::ResponseLimit;
use crate::codec::OptionNumber;
use crate::config::TransmissionParameters;

/// All settings of an [`Endpoint`](super::Endpoint).
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// RFC 7252 §4.8.
    pub transmission: TransmissionParameters,
    /// What holds around every controller.
    pub envelope: Envelope,
    /// Bounds of memory.
    pub limits: Limits,
    /// How long a message may wait for admission before it fails with
    /// [`Failure::QueueExpired`](super::Failure::QueueExpired).
    pub queue_lifetime: Duration,
    /// How long to wait for a separate response after the request was acknowledged. `None`, the default: EXCHANGE_LIFETIME
    /// of these parameters (247 s).
    pub response_timeout: Option<Duration>,
    /// How long a response may take and still be piggybacked; then an Empty ACK goes out (RFC 7252 §5.2.2). It must stay
    /// well below the peers' ACK_TIMEOUT.
    pub separate_after: Duration,
    /// Bytes of the random tokens of requests, 0 to 8. Below 4 is unsafe on the Internet (RFC 7252 §5.3.1); 0 serves
    /// simulations of papers that sent none, and works only with one request at a time to each peer.
    pub token_length: u8,
    /// Bytes counted for each datagram beyond its UDP payload, by byte-counting controllers and PROBING_RATE.
    pub datagram_overhead: u32,
    /// Critical options that the application understands beyond those of RFC 7252.
    pub known_options: Vec<OptionNumber>,
    /// How many requests of one source are answered (RFC 7252 §4.7). Default: all.
    pub response_limit: Option<ResponseLimit>,
    /// Congestion state of a peer is kept at least this long after its last use (255 s: draft-ietf-core-cocoa-03 §4).
    pub idle_lifetime: Duration,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            response_timeout: None,
            transmission: TransmissionParameters::default(),
            envelope: Envelope::default(),
            limits: Limits::default(),
            queue_lifetime: Duration::from_secs(60),
            separate_after: Duration::from_millis(500),
            token_length: 8,
            datagram_overhead: 28,
            known_options: Vec::new(),
            response_limit: None,
            idle_lifetime: Duration::from_secs(255),
        }
    }
}

/// The safety envelope: what a controller, even a broken one, cannot break.
///
/// Two more walls are not settings: retransmissions stay inside MAX_TRANSMIT_SPAN, and an unresponsive peer gets
/// Non-confirmable messages at PROBING_RATE only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// No first timeout is shorter, whatever a fast or forged acknowledgement suggests. Default 100 ms.
    pub timeout_floor: Duration,
    /// No timeout is longer. Default 60 s.
    pub timeout_cap: Duration,
    /// Within an exchange no timeout is shorter than the one before it. FASOR's own series breaks this on purpose; with
    /// `true` (the default) it is held all the same.
    pub monotonic_backoff: bool,
}

impl Default for Envelope {
    fn default() -> Self {
        Self {
            timeout_floor: Duration::from_millis(100),
            timeout_cap: Duration::from_secs(60),
            monotonic_backoff: true,
        }
    }
}

impl Envelope {
    /// No floor and no order: what a controller answers is what happens, up to the cap. For scenarios of papers, which
    /// measured the algorithms without an envelope.
    #[must_use]
    pub fn open(timeout_cap: Duration) -> Self {
        Self { timeout_floor: Duration::ZERO, timeout_cap, monotonic_backoff: false }
    }

    /// The timeout to arm where the controller wants `wanted`; `previous` is the one armed before in this exchange.
    #[must_use]
    pub fn hold(&self, wanted: Duration, previous: Option<Duration>) -> Duration {
        let least = match previous {
            None => self.timeout_floor,
            Some(previous) if self.monotonic_backoff => previous,
            Some(_) => Duration::ZERO,
        };
        // A retransmission in the same instant would be a burst; a millisecond is the finest timer of any controller.
        wanted.max(least).max(Duration::from_millis(1)).min(self.timeout_cap)
    }
}

/// A bound for every table and queue that can grow; what exceeds one is refused with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Peers with congestion state or message IDs.
    pub peers: usize,
    /// Messages that wait for admission to one peer.
    pub queue_per_peer: usize,
    /// Messages that wait for admission, over all peers.
    pub queue: usize,
    /// Exchanges that this endpoint has opened and that are not over, queued ones included.
    pub exchanges: usize,
    /// Bytes of the deduplication table, cached replies included. Each Confirmable request that waits for its response
    /// takes `message_bytes` of them; an entry without a reply takes some 120 (with socket addresses for peers).
    pub deduplication_bytes: usize,
    /// The largest message that is sent or accepted (RFC 7252 §4.6: 1152 for an unknown path MTU).
    pub message_bytes: usize,
    /// Outputs that wait to be polled.
    pub outputs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 131_072,
            queue_per_peer: 64,
            queue: 4096,
            exchanges: 262_144,
            deduplication_bytes: 64 << 20,
            message_bytes: 1152,
            outputs: 4096,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_holds_floor_cap_and_order() {
        let envelope = Envelope::default();
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        assert_eq!(envelope.hold(ms(1), None), ms(100));
        assert_eq!(envelope.hold(s(3), Some(s(5))), s(5));
        assert_eq!(envelope.hold(s(300), Some(s(5))), s(60));
        assert_eq!(Envelope::open(s(60)).hold(s(3), Some(s(5))), s(3));
    }
}
