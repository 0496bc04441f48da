//! Tests of the codec's public interface.

mod allocations;
mod corpus;
mod fuzz_replay;
mod mutations;
mod properties;
mod reference;
