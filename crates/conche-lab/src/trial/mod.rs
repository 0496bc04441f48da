//! One run of a cell: simulation and record.
//!
//! | file | contents |
//! |---|---|
//! | `network` | nodes, links and radios as the simulator's topology |
//! | `measured` | radio links that agree with measurements |
//! | `pairs`, `pace`, `plan` | pairs of client and server, their pace, the role of each host |
//! | `observation_plan`, `notifications` | observers, servers that notify, outcome of notifications |
//! | `rates` | variation of link rates between replications |
//! | `changes` | changes to the network during a run |
//! | `transfers`, `routes` | bulk transfers between motes with own routing, frozen routes |
//! | `bulk` | bulk transfers over wires, beside CoAP |
//! | `run` | the run |
//! | `error` | why a cell cannot run |
//! | `record` | the record of a run |
//! | `transmission_counts`, `queues` | counts of transmissions and losses, standing queues |

mod bulk;
mod changes;
mod error;
mod measured;
mod network;
mod notifications;
mod observation_plan;
mod pace;
mod pairs;
mod plan;
mod queues;
mod rates;
mod record;
mod routes;
mod run;
mod transfers;
mod transmission_counts;

pub use error::TrialError;
pub(crate) use plan::enough;
pub use queues::StandingQueue;
pub use record::{Control, Flow, NodeRecord, Observed, Record, Selection, Transferred};
pub use routes::Routes;
pub use run::{Wanted, run};
