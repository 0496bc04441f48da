//! Validates the simulator against closed forms, other simulators and Wireshark.
//!
//! Each test starts with its topology and ends in numeric bounds. The tests are deterministic: a
//! bound in standard errors gives the probability of a failure when the seed was chosen. All are
//! one program, because each program compiles the simulator for its hosts.

mod bottleneck;
mod causes;
mod changes;
mod conservation;
mod exchange;
mod jitter;
mod loss;
mod managed;
mod memory;
mod nat;
mod node;
mod outside;
mod plain;
mod queueing;
mod radio;
mod rates;
mod roles;
#[path = "../../examples/transfer/scenario.rs"]
mod scenario;
mod sleeping;
mod transfer;
mod tshark;
mod underlay;
