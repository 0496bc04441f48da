//! The codec through its public interface: properties, the corpus of malformed datagrams, allocations, the seeds of fuzzing.

mod allocations;
mod corpus;
mod fuzz_replay;
mod mutations;
mod properties;
mod reference;
