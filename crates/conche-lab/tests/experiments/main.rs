//! Experiments in one program, to link the lab once.

mod campaign;
mod comparison;
mod papers;
mod received;
mod trial;
mod values;
mod workload;
