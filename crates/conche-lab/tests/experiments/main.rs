//! Experiments through the library, in one program, so that the lab is linked once.

mod campaign;
mod comparison;
mod papers;
mod received;
mod trial;
mod values;
mod workload;
