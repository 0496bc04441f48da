//! The simulator against closed forms, other simulators and Wireshark: each test opens with its topology and ends in numeric
//! bounds. One program, since each compiles the simulator for its hosts.
//!
//! | module | what is compared |
//! |---|---|
//! | [`queueing`] | waiting times of M/D/1 and M/G/1; what a drop-tail queue holds |
//! | [`managed`] | queues under RED, CoDel and PIE; recorded links |
//! | [`changes`] | links that change, go down and come up; nodes that are cut off and rebooted |
//! | [`bottleneck`] | completion times and conservation of copies of ANRW'18's topology |
//! | [`loss`] | loss over hops; Gilbert-Elliott; duplication |
//! | [`exchange`] | durations and transmissions of RFC 7252's default under independent loss |
//! | [`jitter`] | delay and reordering |
//! | [`conservation`] | what is sent is delivered, dropped or in flight; equal seeds, equal runs; independent streams |
//! | [`transfer`] | bodies block by block against stop-and-wait, and in sets against the capacity |
//! | [`causes`] | which copy of which request a packet belongs to |
//! | [`node`], [`underlay`] | what an application may ask of its node, and what may lie below it |
//! | [`memory`] | how much a simulated client takes |
//! | [`radio`] | IEEE 802.15.4 |
//! | [`tshark`] | captures, with what Wireshark reads in them |
//!
//! The tests are deterministic: a bound in standard errors says how probable a failure was when the seed was chosen.

mod bottleneck;
mod causes;
mod changes;
mod conservation;
mod exchange;
mod jitter;
mod loss;
mod managed;
mod memory;
mod node;
mod plain;
mod queueing;
mod radio;
mod roles;
#[path = "../../examples/transfer/scenario.rs"]
mod scenario;
mod transfer;
mod tshark;
mod underlay;
