//! Observe (RFC 7641): who observes what, and what we observe ourselves. Tables that know no I/O; the endpoint connects them.
//!
//! | module | what it holds |
//! |---|---|
//! | `sequence` | sequence numbers |
//! | `topics` | what can be observed, and the state that its observers are to learn |
//! | `entry` | what is kept of one observer, and of one peer that observes |
//! | `observers` | the clients that observe: by address and token, by peer, by topic |
//! | `telling` | which of them have to learn of a state, and what is known of their having it |
//! | `subscriptions` | what this endpoint observes elsewhere |

mod entry;
mod observers;
mod sequence;
mod subscriptions;
mod telling;
mod topics;

pub(crate) use crate::codec::{Order, REGISTER};
pub(crate) use entry::Progress;
pub(crate) use observers::{Notification, Observers, Place, Registration};
pub use observers::{ObserverEnd, ObserverId};
pub(crate) use subscriptions::{InSets, Opened, Subscriptions};
pub use subscriptions::{SubscriptionEnd, SubscriptionId};
pub(crate) use topics::State;

/// The value of the Observe option that deregisters.
pub(crate) const DEREGISTER: u32 = 1;
