//! Congestion control for CoAP (RFC 7252): every algorithm of the literature, and one of our own, behind one trait.
//!
//! Each algorithm is a pure state machine. It reads no clock and no random source, allocates nothing and computes in
//! integers only, so the same code runs in a server with 100 000 peers, on a Cortex-M0 and in a simulator.
//!
//! | module | what it holds |
//! |---|---|
//! | [`control`] | the [`Controller`] trait: what a controller is told, and what it answers |
//! | [`any`] | [`AnyController`]: an algorithm chosen at run time, by name |
//! | `dynamic` | `DynController`: an algorithm from outside this crate, chosen at run time (feature `alloc`) |
//! | [`default`], [`cocoa`], [`basic`], [`linux`], [`peak_hopper`], [`full_backoff`], [`fasor`], [`bdp`], [`wiopt`], [`temper`] | the algorithms |
//! | [`features`] | what distinguishes them, as a table |
//! | [`sample`], [`estimator`], [`backoff`], [`non`] | what several of them share: RTT samples and their smoothing, timers, Non-confirmable messages |
//! | [`train`] | the pace of messages that are acknowledged together |
//! | [`time`], [`units`] | [`Instant`], the point in time of every interface of conche; compact spans, stamps, factors |
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
pub mod estimator;
pub mod fasor;
pub mod features;
pub mod full_backoff;
pub mod group;
pub mod linux;
pub mod non;
pub mod path;
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
