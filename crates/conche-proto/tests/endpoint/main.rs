//! The endpoint through its public interface, in virtual time: the corpus of malformed datagrams, RFC 7252 and RFC 7641
//! requirement by requirement, block-wise transfer, threats, broken controllers, lossy links, scripts of arbitrary
//! operations, what it asks of the heap, and the security contexts of OSCORE. One program, since each compiles the endpoint
//! for itself.
#![allow(clippy::cast_possible_truncation, reason = "test data is small")]

mod allocations;
mod blockwise;
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
mod repeats;
#[path = "../common/replay.rs"]
mod replay;
mod rfc7252;
mod rfc8974;
mod scripts;
mod support;
mod survey;
mod threats;
