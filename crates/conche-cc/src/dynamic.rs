//! [`DynController`]: an algorithm of another crate, chosen at run time.
//!
//! An endpoint that takes an [`AnyController`](crate::AnyController), such as the crate `conche`'s,
//! accepts other algorithms in this wrapper:
//!
//! ```
//! use conche_cc::control::{Acknowledged, Sent};
//! use conche_cc::dynamic::DynController;
//! use conche_cc::units::Micros;
//! use conche_cc::{AnyController, Controller, Instant, RtoRule};
//! use core::time::Duration;
//!
//! /// Adds half the RTO for each loss since the last acknowledgement.
//! #[derive(Debug)]
//! struct Patient {
//!     rto: Micros,
//! }
//!
//! impl RtoRule for Patient {
//!     type Peer = u32; // losses since the last acknowledgement
//!     type Exchange = ();
//!     const MEASURES_RTT: bool = false;
//!
//!     fn new_peer(&self, _now: Instant) -> u32 {
//!         0
//!     }
//!     fn rto(&self, losses: &u32) -> Micros {
//!         self.rto.plus(self.rto.shifted(1).times((*losses).min(40)))
//!     }
//!     fn first_timeout(&self, losses: &mut u32, _: &mut (), _: &Sent) -> Micros {
//!         self.rto(losses)
//!     }
//!     fn next_timeout(&self, losses: &mut u32, _: &mut (), _: Micros, _: &Sent) -> Micros {
//!         *losses = losses.saturating_add(1);
//!         self.rto(losses)
//!     }
//!     fn on_ack(&self, losses: &mut u32, _: Option<Micros>, _: &Acknowledged<'_>) {
//!         *losses = 0;
//!     }
//! }
//!
//! let rto = Micros::from_millis(2_000);
//! let own = AnyController::from(DynController::new(Patient { rto }));
//! let mut peer = own.peer(Instant::ZERO);
//! assert_eq!(own.base(&mut peer, Instant::ZERO), Duration::from_secs(2));
//! ```
//!
//! Such algorithms cost a pointer per call, and an allocation per peer and per exchange with state.
//! They need the feature `alloc` and atomic pointers, which `thumbv6m` lacks.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt::{self, Debug};
use core::time::Duration;

use crate::control::{Abandoned, Acknowledged, Admission, Controller, Expired, Load, Sent, Snapshot, Submission};
use crate::parameters::{Description, Parameters, Value};
use crate::path_history::PathHistory;
use crate::time::Instant;

/// A [`Controller`] of any type; clones share one configuration.
#[derive(Clone)]
pub struct DynController(Arc<dyn Erased>, Option<&'static Table>);

struct Table {
    parameter: fn(&dyn Any, usize) -> Option<(&'static Description, Value)>,
    assigned: fn(&dyn Any, usize, Value) -> Option<Reconfigured>,
}

type Reconfigured = Arc<dyn Erased>;

impl DynController {
    /// Wraps a controller.
    #[must_use]
    pub fn new<C>(controller: C) -> Self
    where
        C: Controller + Debug + Send + Sync + 'static,
        C::Peer: Send + Sync + 'static,
        C::Flight: Send + Sync + 'static,
    {
        Self(Arc::new(controller), None)
    }

    /// Wraps a controller whose parameters can be set by name.
    #[must_use]
    pub fn with_parameters<C>(controller: C) -> Self
    where
        C: Controller + Parameters + Clone + Debug + Send + Sync + 'static,
        C::Peer: Send + Sync + 'static,
        C::Flight: Send + Sync + 'static,
    {
        let table = const {
            &Table {
                parameter: |any, index| any.downcast_ref::<C>()?.parameter(index),
                assigned: |any, index, value| {
                    let mut changed = any.downcast_ref::<C>()?.clone();
                    changed.assign(index, value).then(|| Arc::new(changed) as Arc<dyn Erased>)
                },
            }
        };
        Self(Arc::new(controller), Some(table))
    }
}

impl Parameters for DynController {
    fn parameter(&self, index: usize) -> Option<(&'static Description, Value)> {
        (self.1?.parameter)(&*self.0, index)
    }

    fn assign(&mut self, index: usize, value: Value) -> bool {
        let assigned = self.1.and_then(|table| (table.assigned)(&*self.0, index, value));
        assigned.map(|changed| self.0 = changed).is_some()
    }
}

impl Debug for DynController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Only clones are equal.
impl PartialEq for DynController {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for DynController {}

/// A destination's state under a [`DynController`].
#[derive(Clone, Debug)]
pub struct DynPeer(Box<dyn State>);

impl DynPeer {
    fn of<P: State>(&mut self, new: impl FnOnce() -> P) -> &mut P {
        if !as_any(&*self.0).is::<P>() {
            self.0 = Box::new(new());
        }
        as_any_mut(&mut *self.0).downcast_mut().expect("just made to match")
    }
}

/// An exchange's state under a [`DynController`]; empty before the first transmission.
#[derive(Clone, Debug, Default)]
pub struct DynFlight(Option<Box<dyn State>>);

impl DynFlight {
    fn of<F: State + Default>(&mut self) -> &mut F {
        if self.get::<F>().is_none() {
            self.0 = None;
        }
        let state = self.0.get_or_insert_with(|| Box::<F>::default());
        as_any_mut(&mut **state).downcast_mut().expect("just made to match")
    }

    fn get<F: State>(&self) -> Option<&F> {
        self.0.as_deref().and_then(|state| as_any(state).downcast_ref())
    }
}

trait State: Any + Debug + Send + Sync {
    fn duplicate(&self) -> Box<dyn State>;
}

impl<T: Any + Clone + Debug + Send + Sync> State for T {
    fn duplicate(&self) -> Box<dyn State> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn State> {
    fn clone(&self) -> Self {
        (**self).duplicate()
    }
}

fn as_any(state: &dyn State) -> &dyn Any {
    state
}

fn as_any_mut(state: &mut dyn State) -> &mut dyn Any {
    state
}

/// [`Controller`] without associated types.
trait Erased: Any + Debug + Send + Sync {
    fn dyn_measures_rtt(&self) -> bool;
    fn dyn_peer(&self, now: Instant) -> DynPeer;
    fn dyn_seed(&self, now: Instant, history: &PathHistory) -> DynPeer;
    fn dyn_admit(&self, peer: &mut DynPeer, now: Instant, message: &Submission, load: &Load) -> Admission;
    fn dyn_sent(&self, peer: &mut DynPeer, flight: &mut DynFlight, event: &Sent) -> Duration;
    fn dyn_expired(&self, peer: &mut DynPeer, flight: &mut DynFlight, event: &Expired) -> Instant;
    fn dyn_acknowledged(&self, peer: &mut DynPeer, flight: &DynFlight, event: &Acknowledged<'_>);
    fn dyn_abandoned(&self, peer: &mut DynPeer, flight: &DynFlight, event: &Abandoned<'_>);
    fn dyn_drained(&self, peer: &mut DynPeer, now: Instant, load: &Load);
    fn dyn_base(&self, peer: &mut DynPeer, now: Instant) -> Duration;
    fn dyn_snapshot(&self, peer: &DynPeer) -> Snapshot;
}

impl<C> Erased for C
where
    C: Controller + Debug + Send + Sync + 'static,
    C::Peer: Send + Sync + 'static,
    C::Flight: Send + Sync + 'static,
{
    fn dyn_measures_rtt(&self) -> bool {
        self.measures_rtt()
    }

    fn dyn_peer(&self, now: Instant) -> DynPeer {
        DynPeer(Box::new(self.peer(now)))
    }

    fn dyn_seed(&self, now: Instant, history: &PathHistory) -> DynPeer {
        DynPeer(Box::new(self.seed(now, history)))
    }

    fn dyn_admit(&self, peer: &mut DynPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        self.admit(peer.of(|| self.peer(now)), now, message, load)
    }

    fn dyn_sent(&self, peer: &mut DynPeer, flight: &mut DynFlight, event: &Sent) -> Duration {
        self.sent(peer.of(|| self.peer(event.now)), flight.of(), event)
    }

    fn dyn_expired(&self, peer: &mut DynPeer, flight: &mut DynFlight, event: &Expired) -> Instant {
        self.expired(peer.of(|| self.peer(event.now)), flight.of(), event)
    }

    fn dyn_acknowledged(&self, peer: &mut DynPeer, flight: &DynFlight, event: &Acknowledged<'_>) {
        let new = C::Flight::default();
        self.acknowledged(peer.of(|| self.peer(event.now)), flight.get().unwrap_or(&new), event);
    }

    fn dyn_abandoned(&self, peer: &mut DynPeer, flight: &DynFlight, event: &Abandoned<'_>) {
        let new = C::Flight::default();
        self.abandoned(peer.of(|| self.peer(event.now)), flight.get().unwrap_or(&new), event);
    }

    fn dyn_drained(&self, peer: &mut DynPeer, now: Instant, load: &Load) {
        self.drained(peer.of(|| self.peer(now)), now, load);
    }

    fn dyn_base(&self, peer: &mut DynPeer, now: Instant) -> Duration {
        self.base(peer.of(|| self.peer(now)), now)
    }

    fn dyn_snapshot(&self, peer: &DynPeer) -> Snapshot {
        as_any(&*peer.0).downcast_ref().map_or_else(Snapshot::default, |peer| self.snapshot(peer))
    }
}

impl Controller for DynController {
    type Peer = DynPeer;
    type Flight = DynFlight;

    fn measures_rtt(&self) -> bool {
        self.0.dyn_measures_rtt()
    }

    fn peer(&self, now: Instant) -> DynPeer {
        self.0.dyn_peer(now)
    }

    fn seed(&self, now: Instant, history: &PathHistory) -> DynPeer {
        self.0.dyn_seed(now, history)
    }

    fn admit(&self, peer: &mut DynPeer, now: Instant, message: &Submission, load: &Load) -> Admission {
        self.0.dyn_admit(peer, now, message, load)
    }

    fn sent(&self, peer: &mut DynPeer, flight: &mut DynFlight, event: &Sent) -> Duration {
        self.0.dyn_sent(peer, flight, event)
    }

    fn expired(&self, peer: &mut DynPeer, flight: &mut DynFlight, event: &Expired) -> Instant {
        self.0.dyn_expired(peer, flight, event)
    }

    fn acknowledged(&self, peer: &mut DynPeer, flight: &DynFlight, event: &Acknowledged<'_>) {
        self.0.dyn_acknowledged(peer, flight, event);
    }

    fn abandoned(&self, peer: &mut DynPeer, flight: &DynFlight, event: &Abandoned<'_>) {
        self.0.dyn_abandoned(peer, flight, event);
    }

    fn drained(&self, peer: &mut DynPeer, now: Instant, load: &Load) {
        self.0.dyn_drained(peer, now, load);
    }

    fn base(&self, peer: &mut DynPeer, now: Instant) -> Duration {
        self.0.dyn_base(peer, now)
    }

    fn snapshot(&self, peer: &DynPeer) -> Snapshot {
        self.0.dyn_snapshot(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnyController;
    use crate::bdp::Bdp;
    use crate::cocoa::Cocoa;
    use crate::linux::Linux;
    use crate::testing::TestDriver;

    fn is_send_and_sync<T: Send + Sync>() {}

    #[test]
    fn wrapped_state_can_change_threads() {
        is_send_and_sync::<(DynController, DynPeer, DynFlight)>();
        is_send_and_sync::<(AnyController, <AnyController as Controller>::Peer, <AnyController as Controller>::Flight)>(
        );
    }

    #[test]
    fn clones_of_a_peer_go_their_own_ways() {
        let cocoa = DynController::new(Cocoa::default());
        let mut drive = TestDriver::new(&cocoa);
        drive.clean(300);
        let mut before = drive.peer.clone();
        drive.clean(300);
        let (now, rttvar) = (drive.now, |peer: &DynPeer| cocoa.snapshot(peer).rttvar);
        assert_ne!(rttvar(&before), rttvar(&drive.peer));
        assert_eq!(cocoa.base(&mut before, now), Duration::from_millis(1_450));
    }

    #[test]
    fn each_exchange_has_a_state_of_its_own() {
        let cocoa = DynController::new(Cocoa::default());
        let mut drive = TestDriver::new(&cocoa);
        assert_eq!([drive.start(0.0), drive.time_out()], [2_000, 4_000]);
        let first = drive.flight.clone();
        assert_eq!(drive.start(0.0), 2_000, "a new exchange does not inherit the backoff");
        drive.flight = first;
        assert_eq!(drive.time_out(), 6_000, "which the first has kept");
    }

    #[test]
    fn the_state_of_another_wrapped_controller_is_replaced() {
        let (linux, cocoa) = (DynController::new(Linux::default()), DynController::new(Cocoa::default()));
        let mut old = TestDriver::new(&linux);
        old.clean(300);
        let mut new = TestDriver::new(&cocoa);
        (new.peer, new.flight) = (old.peer.clone(), old.flight.clone());
        assert_eq!(cocoa.snapshot(&new.peer), Snapshot::default());
        assert_eq!(new.ack_after(300), 2_000, "an exchange that CoCoA did not begin");
        assert_eq!([new.base(), new.clean(300)], [2_000, 1_450]);
    }

    #[test]
    fn clones_are_equal_and_others_are_not() {
        let one = DynController::new(Bdp::default());
        assert_eq!(one, one.clone());
        assert_ne!(one, DynController::new(Bdp::default()));
    }
}
