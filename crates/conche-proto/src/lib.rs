//! A sans-I/O CoAP endpoint (RFC 7252, RFC 7641): bytes in, bytes and events out.
//!
//! The [`Endpoint`] owns no socket and reads no clock or random source. A driver passes it the
//! received datagrams and the time, and takes out datagrams to send and events. The driver can be
//! tokio, a simulator or an interrupt handler; all run the same protocol code.
//!
//! ```text
//! in:   datagram ─> codec ─> deduplication ─> incoming | exchange ─> event ─> application
//! out:  application ─> exchange ─> peer (queue, IDs, controller) ─> outbox ─> codec ─> transmit
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`codec`] | bytes to [`Message`](codec::Message) and back, borrowed, without allocation |
//! | [`config`] | transmission parameters (RFC 7252 §4.8), envelope, limits |
//! | `echo` | freshness of requests and reachability of their sender (RFC 9175) |
//! | `hash` | keyed hashes and fingerprints |
//! | `store` | containers that peers can fill: arena, list, index, timers |
//! | `oscore` | end-to-end protection (RFC 8613), with the feature `oscore` |
//! | [`shares`] | fair shares of a bounded resource for groups of sources |
//! | `limit` | rate limits for groups of sources |
//! | `edhoc` | EDHOC (RFC 9528), with the feature `edhoc`, on targets with atomic pointers |
//! | `security` | protection of a request and the binding of its responses |
//! | `blockwise` | block-wise transfer: splits and reassembles bodies |
//! | `message` | the message layer: message IDs, deduplication, matching of Resets |
//! | `incoming` | received requests that await a response |
//! | `peer` | peer state: congestion control, NSTART slots, queue, PROBING_RATE, trust |
//! | `exchange` | requests, pings, separate responses and notifications from submission to end |
//! | `observe` | observers of this server, and subscriptions of this client (RFC 7641) |
//! | `stats` | counters |
//! | `error` | why an operation is refused |
//! | `transport` | the message layer, whatever the messages mean |
//! | `event` | inputs, outputs and events |
//! | `layers` | what both roles use: transport, protection of messages, events |
//! | `server` | received requests, and what remains of them |
//! | `client` | requests of this endpoint, and observations |
//! | [`endpoint`] | [`Endpoint`]: dispatches to these; `handle` in, `poll` out |
//!
//! A module uses only modules above it in the table. ARCHITECTURE.md follows a datagram from file
//! to file.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod blockwise;
mod client;
pub mod codec;
pub mod config;
mod echo;
#[cfg(feature = "edhoc")]
pub mod edhoc;
pub mod endpoint;
mod error;
mod event;
mod exchange;
mod hash;
mod incoming;
mod layers;
mod limit;
mod message;
mod observe;
#[cfg(feature = "oscore")]
pub mod oscore;
mod peer;
mod security;
mod server;
pub mod shares;
mod stats;
mod store;
mod transport;

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

/// A peer's identity: a socket address, a simulated node's number, a DTLS session.
pub trait PeerKey: Copy + Eq + core::hash::Hash + core::fmt::Debug {}

impl<T: Copy + Eq + core::hash::Hash + core::fmt::Debug> PeerKey for T {}
