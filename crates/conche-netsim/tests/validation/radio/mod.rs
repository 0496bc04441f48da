//! IEEE 802.15.4 against closed forms and other simulators. Each test starts with its topology and
//! ends in numeric bounds.
//!
//! | module | subject |
//! |---|---|
//! | [`timing`] | time of one station for a frame |
//! | [`star`] | throughput of saturated stars, against ns-3 |
//! | [`reception`] | bit error and packet reception ratios |
//! | [`hidden`] | collisions of hidden stations |
//! | [`media`] | overlapping frames, links and fading in each medium |
//! | [`motes`] | transfers between motes that discover their routes |
//! | [`stacks`] | queues, retries and backoffs of Contiki and TinyOS |
//! | [`contikimac`] | duty-cycled receivers and their senders |
//! | [`frames`] | frames of hosts that route packets themselves |
//! | [`fragments`] | fragmented datagrams; control traffic |
//! | [`exchange`] | CoAP over radio and wires; equal seeds, equal runs; conservation |
//! | [`routing`] | link quality, RPL trees, and packets on them |
//! | [`refused`] | invalid networks; packets that do not fit |
//!
//! The tests are deterministic: a bound in standard errors gives the probability of a failure when
//! the seed was chosen.

mod contikimac;
mod exchange;
mod fragments;
mod frames;
mod hidden;
mod media;
mod motes;
mod net;
mod reception;
mod refused;
mod routing;
mod stacks;
mod star;
mod timing;
