//! `conche relay UPSTREAM`: real datagrams under the conditions of a simulated network, with the
//! loss and delay models of [`conche_netsim::wired`], on loopback or between machines.
//!
//! ```text
//!   client <──UDP──> Relay: loss, delay ──UDP──> upstream
//! ```

mod command;
mod forwarder;
mod impairment;

pub(crate) use command::{Args, run};
pub use conche_netsim::wired::Loss;
pub use forwarder::{Counts, Passage, Relay, RelayConfig, Watch};
pub use impairment::Impairment;
