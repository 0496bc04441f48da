//! Experiments in one program, to link the lab once.

mod campaign;
mod comparison;
mod controllers;
mod networks;
mod papers;
mod received;
mod trial;
mod values;
mod workload;
