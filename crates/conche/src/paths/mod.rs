//! Path state: which peers share it ([`Sharing`]), and its file ([`PathStore`]).

mod sharing;
mod store;
mod text;

pub(crate) use sharing::Sharing;
pub(crate) use store::PathStore;
