//! Observe (RFC 7641): tables of observers and subscriptions, without I/O.
//!
//! | module | contents |
//! |---|---|
//! | `sequence` | sequence numbers |
//! | `topics` | observed resources and their states |
//! | `entry` | the state of one observer, and of one observing peer |
//! | `observers` | observers by address and token, by peer, by topic |
//! | `notify` | selects the observers to notify |
//! | `subscriptions` | what this endpoint observes elsewhere |

mod entry;
mod notify;
mod observers;
mod sequence;
mod subscriptions;
mod topics;

pub(crate) use crate::codec::{Order, REGISTER};
pub(crate) use entry::Progress;
pub(crate) use observers::{Notification, Observers, Place, Registration};
pub use observers::{ObserverEnd, ObserverId};
pub(crate) use subscriptions::{InSets, Opened, Subscriptions};
pub use subscriptions::{SubscriptionEnd, SubscriptionId};
pub(crate) use topics::State;

/// The value of the Observe option that deregisters an observer.
pub(crate) const DEREGISTER: u32 = 1;
