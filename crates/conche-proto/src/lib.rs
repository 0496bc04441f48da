//! A sans-I/O CoAP endpoint (RFC 7252, RFC 7641): bytes in, bytes and events out.
//!
//! The [`Endpoint`] is a machine without I/O. It owns no socket, reads no clock and no random source; a driver hands it
//! what arrived and what time it is, and takes out what to send and what happened. tokio, a simulator or an interrupt
//! handler can be that driver, and all of them run the same protocol.
//!
//! ```text
//! in:   datagram ──> codec ──> message layer (deduplication) ──> incoming | exchange ──> event ──> application
//! out:  application ──> exchange (admission) ──> peer (queue, IDs, controller) ──> outbox ──> codec ──> transmit
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`codec`] | bytes to [`Message`](codec::Message) and back, borrowed, without allocation |
//! | [`config`] | the transmission parameters of RFC 7252 §4.8, the envelope, a bound for everything that can grow |
//! | `echo` | whether a request is fresh, and its sender where it says (RFC 9175) |
//! | `hash` | keyed hashes, and fingerprints that stand for what they were made of |
//! | `store` | containers for what a peer can fill: arena, list, index, timers |
//! | `oscore` | messages protected from end to end (RFC 8613), with the feature `oscore` |
//! | [`shares`] | how much of something bounded each group of sources holds |
//! | `limit` | so much a second for each group of sources |
//! | `edhoc` | two ends agree on the credentials of OSCORE (RFC 9528), with the feature `edhoc`, on targets with atomic pointers |
//! | `security` | whether a request, and what answers it, is protected, and what the one is bound to the other by |
//! | `blockwise` | block-wise transfer: bodies cut into blocks and put together again |
//! | `message` | the message layer: message IDs, deduplication, what a Reset can be about |
//! | `incoming` | requests of peers that wait for their response |
//! | `peer` | what is known of each destination: congestion state, NSTART slots, queue, PROBING_RATE, trust |
//! | `exchange` | requests, pings, separate responses and notifications from submission to end |
//! | `observe` | observers of what is served here, and what is observed elsewhere (RFC 7641) |
//! | [`endpoint`] | [`Endpoint`]: connects all these; `handle` in, `poll` out |
//!
//! A module uses only what stands above it, and ARCHITECTURE.md follows a datagram from file to file.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod blockwise;
pub mod codec;
pub mod config;
mod echo;
#[cfg(feature = "edhoc")]
pub mod edhoc;
pub mod endpoint;
mod exchange;
mod hash;
mod incoming;
mod limit;
mod message;
mod observe;
#[cfg(feature = "oscore")]
pub mod oscore;
mod peer;
mod security;
pub mod shares;
mod store;

pub use conche_cc as cc;
pub use conche_cc::Instant;

pub use config::{
    ConfigError, EndpointConfig, Envelope, Limits, Multicast, ObserverChecks, ParameterError, QBlock, ResponseLimit,
    SharedConfig, SourceValidation, TransmissionParameters,
};
pub use echo::{Freshness, Stale};
pub use endpoint::{
    Datagram, Ecn, Endpoint, Event, Input, NotWanted, NotifyError, Occupancy, Output, RequestError, RespondError,
    Stats, StreamEnd, SupersedeError, Transmit, Undrained, Unfinished,
};
pub use exchange::{Course, ExchangeId, Failure, Flight, Reliability, Request, Response, Rest};
pub use incoming::RequestId;
pub use limit::Limiter;
pub use observe::{ObserverEnd, ObserverId, SubscriptionEnd, SubscriptionId};
pub use peer::{ControllerId, PathKey, PeerSnapshot, Survey};

/// What names a peer: a socket address, a simulated node's number, a DTLS session.
pub trait PeerKey: Copy + Eq + core::hash::Hash + core::fmt::Debug {}

impl<T: Copy + Eq + core::hash::Hash + core::fmt::Debug> PeerKey for T {}
