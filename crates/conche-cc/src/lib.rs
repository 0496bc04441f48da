//! Congestion control for CoAP (RFC 7252): every published algorithm and conche's own, behind one
//! trait.
//!
//! Algorithms are pure integer state machines without clock, random source or allocation: the same
//! code for a server with 100 000 peers, a Cortex-M0 and a simulator. They implement
//! [`Controller`], or [`RtoRule`] for one retransmission timer. [`AnyController`] is chosen at run
//! time; [`features`] compares all.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod any;
pub mod backoff;
pub mod basic;
pub mod bdp;
pub mod cocoa;
pub mod control;
pub mod default;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub mod dynamic;
pub mod eifel;
pub mod estimator;
mod event;
pub mod fasor;
pub mod features;
pub mod fibonacci;
pub mod full_backoff;
pub mod linux;
pub mod mrp;
pub mod non;
pub mod parameters;
pub mod path;
pub mod path_history;
pub mod peak_hopper;
pub mod rule;
pub mod sample;
pub mod temper;
#[cfg(test)]
mod testing;
pub mod time;
pub mod train;
pub mod units;
pub mod wiopt;

pub use any::AnyController;
pub use control::Controller;
pub use rule::RtoRule;
pub use time::Instant;
