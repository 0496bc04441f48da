//! Observe (RFC 7641): tables of observers and subscriptions, without I/O.

mod observers;
mod subscriptions;

pub(crate) use crate::codec::{Order, REGISTER};
pub(crate) use observers::{
    Notification, ObserverKey, Observers, ObserversConfig, Progress, Registration, ResourceState,
};
pub use observers::{ObserverEnd, ObserverId};
pub(crate) use subscriptions::{Opened, Subscriptions};
pub use subscriptions::{SubscriptionEnd, SubscriptionId};

/// Observe value that deregisters an observer.
pub(crate) const DEREGISTER: u32 = 1;
