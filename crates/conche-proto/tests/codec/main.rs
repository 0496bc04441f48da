//! The codec through its public interface: properties, the corpus of malformed datagrams, allocations.

mod allocations;
mod corpus;
mod mutations;
mod properties;
mod reference;
