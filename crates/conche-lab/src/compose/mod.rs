//! From a cell of a scenario to a simulation: its network, its hosts, and what is left of a run.
//!
//! | file | what it holds |
//! |---|---|
//! | `network` | nodes, links and radios as the simulator's topology |
//! | `measured` | radio links that agree with what was measured |
//! | `pairs`, `pace`, `plan` | which client asks which server, when, and what each host does |
//! | `changes` | what happens to the network during a run |
//! | `transfers`, `routes` | bulk transfers between motes that route by themselves, and frozen routes |
//! | `trial` | one run |
//! | `record` | what is left of it |
//! | `tally` | the observer that counts copies and losses |

mod changes;
mod measured;
mod network;
mod pace;
mod pairs;
mod plan;
mod record;
mod routes;
mod tally;
mod transfers;
mod trial;

pub(crate) use plan::enough;
pub use record::{Flow, NodeRecord, Record, Selection, Transferred};
pub use routes::Routes;
pub use trial::{Wanted, run};

#[cfg(test)]
mod tests;
