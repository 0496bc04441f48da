//! Tests of the codec's public interface: properties, malformed datagrams, allocations, fuzzing
//! seeds.

mod allocations;
mod corpus;
mod fuzz_replay;
mod mutations;
mod properties;
mod reference;
