//! What peers of one path share ([`Sharing`]), and how it outlives the program ([`PathStore`]).

mod sharing;
mod store;
mod text;

pub(crate) use sharing::Sharing;
pub(crate) use store::PathStore;
