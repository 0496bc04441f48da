//! Tests of the endpoint's public interface in virtual time. A single program, since each would
//! compile the endpoint again.
#![allow(clippy::cast_possible_truncation, reason = "test data is small")]

mod allocations;
mod blockwise;
mod busiest_peers;
#[cfg(feature = "oscore")]
mod contexts;
mod corpus;
mod envelope;
mod footprint;
mod handshakes;
mod hostile;
mod interop;
mod lossy;
mod model;
mod multicast;
mod no_response;
mod observe;
#[cfg(feature = "oscore")]
mod oscore;
mod paths;
mod q_block;
mod quiescence;
#[path = "../common/replay.rs"]
mod replay;
mod rfc7252;
mod rfc8974;
mod scripts;
mod support;
mod threats;
