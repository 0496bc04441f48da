//! Real datagrams under the conditions of a simulated network: the loss and delay models of
//! [`conche_netsim::wired`] on loopback or between machines.
//!
//! ```text
//!   client <──UDP──> Relay: loss, delay ──UDP──> upstream
//! ```

mod impairment;
mod relay;

pub use conche_netsim::wired::Loss;
pub use impairment::Impairment;
pub use relay::{Counts, Passage, Relay, RelayConfig, Watch};
