//! Experiments through the library, in one program, so that the lab is linked once.
//!
//! | module | what it tests |
//! |---|---|
//! | [`campaign`] | runs that fail, and campaigns that continue |
//! | [`workload`] | requesters and responders over one wire |
//! | [`trial`] | runs of small scenarios |
//! | [`values`] | experiments against closed forms, their results and claims |
//! | [`received`] | metrics of requests that servers received |
//! | [`comparison`] | comparison of controllers |
//! | [`papers`] | reduced experiments of papers |

mod campaign;
mod comparison;
mod papers;
mod received;
mod trial;
mod values;
mod workload;
