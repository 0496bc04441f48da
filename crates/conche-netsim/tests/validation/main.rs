//! Validates the simulator against closed forms, other simulators and Wireshark.
//!
//! Each test starts with its topology and ends in numeric bounds. All tests are one program,
//! because each program compiles the simulator for its hosts.
//!
//! | module | subject |
//! |---|---|
//! | [`queueing`] | waiting times of M/D/1 and M/G/1; capacity of a drop-tail queue |
//! | [`managed`] | queues under RED, CoDel and PIE; recorded links |
//! | [`changes`] | links that change, go down and come up; nodes cut off and rebooted |
//! | [`bottleneck`] | completion times and conservation of transmissions in ANRW'18's topology |
//! | [`loss`] | loss over hops; Gilbert-Elliott; duplication |
//! | [`exchange`] | durations and transmissions of RFC 7252's default under independent loss |
//! | [`jitter`] | delay and reordering |
//! | [`conservation`] | conservation of packets; equal seeds, equal runs; independent streams |
//! | [`transfer`] | block-wise bodies against stop-and-wait, Q-Block bodies against the capacity |
//! | [`causes`] | attribution of packets to transmissions of requests |
//! | [`node`], [`underlay`] | operations of applications; layers below the endpoint |
//! | [`memory`] | memory of a simulated client |
//! | [`radio`] | IEEE 802.15.4 |
//! | [`tshark`] | captures as Wireshark dissects them |
//!
//! The tests are deterministic: a bound in standard errors gives the probability of a failure when
//! the seed was chosen.

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
