//! A sans-I/O CoAP endpoint (RFC 7252): bytes in, bytes and events out.
//!
//! The [`Endpoint`] is a machine without I/O. It owns no socket, reads no clock and no random source; a driver hands it
//! what arrived and what time it is, and takes out what to send and what happened. tokio, a simulator or an interrupt
//! handler can be that driver, and all of them run the same protocol.
//!
//! ```text
//! in:   datagram ──> codec ──> message layer (ACK, RST, deduplication) ──> exchange ──> event ──> application
//! out:  application ──> exchange ──> message layer ──> peer (queue, controller, shaper) ──> codec ──> transmit
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`codec`] | bytes to [`Message`](codec::Message) and back, borrowed, without allocation |
//! | `message` | the message layer: message IDs, deduplication |
//! | `exchange` | requests, pings and separate responses from submission to end |
//! | `peer` | what is known of each destination: congestion state, NSTART slots, queue, PROBING_RATE |
//! | [`endpoint`] | [`Endpoint`]: `handle` in, `poll` out, timers |
//! | [`config`] | the transmission parameters of RFC 7252 §4.8 |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod codec;
pub mod config;
pub mod endpoint;
mod exchange;
mod hash;
mod incoming;
mod message;
mod peer;
mod shares;
mod store;

pub use conche_cc as cc;
pub use conche_cc::Instant;

pub use config::{
    ConfigError, EndpointConfig, Envelope, Limits, ParameterError, ResponseLimit, TransmissionParameters,
};
pub use endpoint::{
    Datagram, Ecn, Endpoint, Event, Input, Output, RequestError, RespondError, Stats, SupersedeError, Transmit,
    Undrained,
};
pub use exchange::{Course, ExchangeId, Failure, Reliability, Request, Response};
pub use incoming::RequestId;
pub use peer::{ControllerId, PeerSnapshot};

/// What names a peer: a socket address, a simulated node's number, a DTLS session.
pub trait PeerKey: Copy + Eq + core::hash::Hash + core::fmt::Debug {}

impl<T: Copy + Eq + core::hash::Hash + core::fmt::Debug> PeerKey for T {}
