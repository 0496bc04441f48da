//! The containers of everything that a peer can fill: bounded by their owners, without a pause when they grow, and open
//! to no choice of keys.
//!
//! Things live in an [`Arena`] and are named by the number of their place, so that one thing can be in several orders at once
//! and needs no allocation for any: a [`List`] links them first in, first out, and is told by a marker type, such as `Idle`,
//! which of the links in a thing is its own; an [`Index`] finds them by a hash; [`Timers`] wake them.
//!
//! What most endpoints never fill is made [on demand](OnDemand).

mod arena;
mod index;
mod list;
mod on_demand;
mod timers;
mod wheel;

pub(crate) use arena::{Arena, NIL, Number};
pub(crate) use index::Index;
pub(crate) use list::{Chain, Linked, Links, List};
pub(crate) use on_demand::{OnDemand, Seldom};
pub(crate) use timers::Timers;
