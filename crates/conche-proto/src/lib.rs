//! A sans-I/O CoAP endpoint (RFC 7252, RFC 7641): bytes in, bytes and events out.
//!
//! The [`Endpoint`] owns no socket and reads no clock or random source. A driver, such as tokio, a
//! simulator or an interrupt handler, passes it datagrams and the time, and takes out datagrams and
//! events.
//!
//! ```text
//! in:   datagram ─> codec ─> deduplication ─> pending request | exchange ─> event ─> application
//! out:  application ─> exchange ─> peer (queue, IDs, controller) ─> outbox ─> codec ─> transmit
//! ```
//!
//! ARCHITECTURE.md follows a request from function to function; docs/modules.md lists the modules.
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
mod hash;
mod layers;
mod observe;
#[cfg(feature = "oscore")]
pub mod oscore;
mod q_block;
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
    BodyClosed, Datagram, Ecn, Endpoint, Event, IncompleteBody, Input, NotifyError, Occupancy, Output, OutputsPending,
    RequestError, RespondError, Stats, StreamEnd, SupersedeError, Transmit,
};
pub use observe::{ObserverEnd, ObserverId, SubscriptionEnd, SubscriptionId};
pub use transport::{
    BusiestPeersSearch, ControllerId, ExchangeId, ExchangeStats, Failure, Flight, Limiter, PathKey, PeerSnapshot,
    Reliability, RemainingBody, Request, RequestId, Response,
};

/// A peer's identity: a socket address, a simulated node's number, a DTLS session.
pub trait PeerKey: Copy + Eq + core::hash::Hash + core::fmt::Debug {}

impl<T: Copy + Eq + core::hash::Hash + core::fmt::Debug> PeerKey for T {}
