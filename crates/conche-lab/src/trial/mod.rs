//! One run of a cell: simulation and record.

mod emulation;
mod error;
mod measured_links;
mod network;
mod observers;
mod plan;
mod record;
mod run;
mod series;
mod transfers;

pub use crate::workload::ArrivedAtProgram;
pub use emulation::Emulation;
pub use error::TrialError;
pub use observers::{Drops, StandingQueue};
pub(crate) use plan::enough;
pub use record::{Control, Flow, NodeRecord, Observed, Record, Selection, Transferred};
pub use run::{
    Observing, RecordOptions, SharedObserver, Substitute, Substitutes, Trace, check, run, run_observed, run_substituted,
};
pub use series::{Point, Sampling};
pub use transfers::Routes;
