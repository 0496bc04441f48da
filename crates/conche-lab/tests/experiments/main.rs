//! Experiments through the library, as the command runs them: one program, which links the lab instead of compiling it once more.
//!
//! | module | what it tests |
//! |---|---|
//! | [`campaign`] | runs that fail, and campaigns that go on |
//! | [`workload`] | requesters and responders over one wire |
//! | [`trial`] | runs of small scenarios |
//! | [`experiment`] | experiments against closed forms, their results and claims |
//! | [`received`] | metrics of what servers received |
//! | [`comparison`] | controllers side by side |
//! | [`papers`] | the experiments of papers in small |

mod campaign;
mod comparison;
mod experiment;
mod papers;
mod received;
mod trial;
mod workload;
