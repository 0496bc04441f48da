//! Integration tests of the library: one binary, since linking tokio takes seconds. Tests that need
//! their own process are separate.

#![allow(missing_docs, reason = "a test")]

#[cfg(all(feature = "dtls", feature = "edhoc"))]
mod attacks_on_coap;
#[cfg(target_os = "linux")]
mod busy_poll;
mod capture;
mod client_cache;
mod client_close;
mod client_payload;
mod client_sockets;
mod client_waiting;
mod driver_allocations;
mod driver_serving;
#[cfg(feature = "edhoc")]
mod edhoc;
#[cfg(feature = "edhoc")]
mod edhoc_aiocoap;
#[cfg(all(feature = "dtls", feature = "edhoc"))]
mod edhoc_held;
mod event_log;
#[cfg(all(feature = "dtls", feature = "oscore", unix))]
mod fuzz_replay;
mod large_bodies;
mod loopback;
#[cfg(feature = "dtls")]
mod lwm2m_leshan;
mod metrics;
mod multicast;
mod observe;
#[cfg(feature = "oscore")]
mod oscore;
#[path = "../common/own_address.rs"]
mod own_address;
mod paths;
#[cfg(all(feature = "dtls", feature = "edhoc"))]
mod peer_identity;
#[cfg(feature = "dtls")]
mod psk_lookup;
#[cfg(feature = "dtls")]
mod rebinding;
#[cfg(feature = "dtls")]
mod secured;
#[cfg(feature = "dtls")]
mod secured_rfc7252;
mod server_api;
#[cfg(feature = "dtls")]
mod session_events;
mod small_options;
mod streams;
#[cfg(feature = "dtls")]
mod test_peers;
#[cfg(target_os = "linux")]
mod workers;
