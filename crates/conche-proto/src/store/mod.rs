//! Containers that peers can fill: bounded by their owners, without pauses when they grow, and
//! resistant to chosen keys.
//!
//! Values live in an [`Arena`] and are identified by the number of their place. One value can be in
//! several orders without allocation: a [`List`] links values in FIFO order, with a marker type
//! such as `Idle` selecting the links; an [`Index`] finds them by a hash; [`Timers`] wake them.
//!
//! Parts that most endpoints never use are created [on demand](OnDemand).

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
