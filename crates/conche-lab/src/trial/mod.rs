//! One run of a cell: from the scenario to a simulation of its network and hosts, and what is left of it.
//!
//! | file | what it holds |
//! |---|---|
//! | `network` | nodes, links and radios as the simulator's topology |
//! | `measured` | radio links that agree with what was measured |
//! | `pairs`, `pace`, `plan` | which client asks which server, when, and what each host does |
//! | `observing`, `notifications` | who observes whom, and what became of notifications |
//! | `rates` | how the rates of links differ from replication to replication |
//! | `changes` | what happens to the network during a run |
//! | `transfers`, `routes` | bulk transfers between motes that route by themselves, and frozen routes |
//! | `bulk` | bulk transfers over wires, beside CoAP |
//! | `run` | the run |
//! | `record` | what is left of it |
//! | `packets`, `queues` | the observers that count copies and losses, and tell how long queues stand |

mod bulk;
mod changes;
mod measured;
mod network;
mod notifications;
mod observing;
mod pace;
mod packets;
mod pairs;
mod plan;
mod queues;
mod rates;
mod record;
mod routes;
mod run;
mod transfers;

pub(crate) use plan::enough;
pub use queues::Standing;
pub use record::{Control, Flow, NodeRecord, Observed, Record, Selection, Transferred};
pub use routes::Routes;
pub use run::{Wanted, run};
