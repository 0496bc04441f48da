//! Cancellable timers of hosts, and their wake-up times.

use std::hint::black_box;

use smallvec::SmallVec;

use crate::{Instant, NodeId};

/// A handle of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(align(8))]
pub struct TimerId {
    slot: u32,
    generation: u32,
}

/// A cancelled timer's event remains until [`Timers::should_purge`]: at most half of the events,
/// plus a constant, are dead.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    dead_events: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    armed: Option<(NodeId, T)>,
}

const DEAD_EVENTS: usize = 64;

impl<T> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), dead_events: 0 }
    }

    pub(crate) fn set(&mut self, node: NodeId, timer: T) -> TimerId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, armed: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 timers fit into memory")
        });
        let place = &mut self.slots[slot as usize];
        place.armed = Some((node, timer));
        TimerId { slot, generation: place.generation }
    }

    pub(crate) fn fire(&mut self, id: TimerId) -> Option<(NodeId, T)> {
        let fired = self.disarm(id);
        if fired.is_none() {
            self.dead_events -= 1;
        }
        fired
    }

    pub(crate) fn cancel(&mut self, node: NodeId, id: TimerId) -> bool {
        let its_own =
            self.is_armed(id) && self.slots[id.slot as usize].armed.as_ref().is_some_and(|(of, _)| *of == node);
        if its_own {
            self.disarm(id);
            self.dead_events += 1;
        }
        its_own
    }

    pub(crate) fn cancel_all(&mut self, node: NodeId) {
        for slot in 0..self.slots.len() {
            let id = TimerId { slot: u32::try_from(slot).unwrap_or(u32::MAX), generation: self.slots[slot].generation };
            self.cancel(node, id);
        }
    }

    pub(crate) fn owner(&self, id: TimerId) -> Option<NodeId> {
        let slot = self.slots.get(id.slot as usize).filter(|slot| slot.generation == id.generation)?;
        slot.armed.as_ref().map(|(node, _)| *node)
    }

    pub(crate) fn is_armed(&self, id: TimerId) -> bool {
        self.owner(id).is_some()
    }

    pub(crate) fn should_purge(&self, pending_events: usize) -> bool {
        self.dead_events > DEAD_EVENTS && self.dead_events * 2 > pending_events
    }

    pub(crate) fn purged(&mut self) {
        self.dead_events = 0;
    }

    fn disarm(&mut self, id: TimerId) -> Option<(NodeId, T)> {
        let slot = self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)?;
        let armed = slot.armed.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        Some(armed)
    }
}

/// The wake-up time of a host, in one cache line.
///
/// Protocols postpone wake-ups with almost every packet: an early event is renewed when it fires.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct WakeUp {
    /// [`Instant::FAR_FUTURE`] means never.
    wanted: Instant,
    /// Latest first.
    scheduled: SmallVec<[Instant; 4]>,
}

const _: () = assert!(size_of::<WakeUp>() == 64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeUpOutcome {
    Now,
    Again(Instant),
    Asleep,
}

impl WakeUp {
    pub(crate) fn new() -> Self {
        Self { wanted: Instant::FAR_FUTURE, scheduled: SmallVec::new() }
    }

    /// Returns the time of a needed event.
    #[must_use]
    pub(crate) fn set(&mut self, at: Option<Instant>) -> Option<Instant> {
        self.wanted = at.unwrap_or(Instant::FAR_FUTURE);
        self.event_for(self.wanted)
    }

    pub(crate) fn fired(&mut self, now: Instant) -> WakeUpOutcome {
        self.scheduled.pop();
        if self.wanted <= now {
            self.wanted = Instant::FAR_FUTURE;
            return WakeUpOutcome::Now;
        }
        self.event_for(self.wanted).map_or(WakeUpOutcome::Asleep, WakeUpOutcome::Again)
    }

    pub(crate) fn wakes(&self, at: Instant) -> bool {
        self.wanted <= at
    }

    pub(crate) fn prefetch(&self) {
        black_box(self.wanted);
    }

    fn event_for(&mut self, at: Instant) -> Option<Instant> {
        let needed = at < self.scheduled.last().copied().unwrap_or(Instant::FAR_FUTURE);
        needed.then(|| {
            self.scheduled.push(at);
            at
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    #[test]
    fn a_cancelled_timer_does_not_fire_and_its_slot_is_used_again() {
        let mut timers = Timers::new();
        let first = timers.set(NODE, 'a');
        assert!(timers.cancel(NODE, first));
        let second = timers.set(NODE, 'b');
        assert_eq!(timers.fire(first), None);
        assert_eq!(timers.fire(second), Some((NODE, 'b')));
        assert_eq!((first.slot, timers.slots.len()), (second.slot, 1));
        assert!(!timers.cancel(NODE, second), "it has fired");
    }

    #[test]
    fn a_host_cannot_cancel_the_timer_of_another() {
        let mut timers = Timers::new();
        let timer = timers.set(NODE, ());
        assert!(!timers.cancel(NodeId(2), timer));
        assert!(timers.is_armed(timer));
    }

    #[test]
    fn all_timers_of_a_host_can_be_cancelled_and_no_other() {
        let mut timers = Timers::new();
        let [first, other, second] = [NODE, NodeId(2), NODE].map(|node| timers.set(node, ()));
        timers.cancel_all(NODE);
        assert_eq!([first, other, second].map(|id| timers.is_armed(id)), [false, true, false]);
        assert_eq!((timers.fire(first), timers.fire(other), timers.fire(second)), (None, Some((NodeId(2), ())), None));
        assert_eq!(timers.dead_events, 0);
        (0..3).for_each(|_| {
            timers.set(NODE, ());
        });
        assert_eq!(timers.slots.len(), 3, "their slots are used again");
    }

    #[test]
    fn a_purge_is_due_when_most_events_are_dead() {
        let mut timers = Timers::new();
        for _ in 0..DEAD_EVENTS {
            let id = timers.set(NODE, ());
            timers.cancel(NODE, id);
        }
        assert!(!timers.should_purge(DEAD_EVENTS));
        let id = timers.set(NODE, ());
        timers.cancel(NODE, id);
        assert!(timers.should_purge(DEAD_EVENTS + 1));
        assert!(!timers.should_purge(2 * DEAD_EVENTS + 2));
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_later_wake_up_takes_no_event_until_the_earlier_one_fires() {
        let mut wake = WakeUp::new();
        assert_eq!(wake.set(Some(at(20))), Some(at(20)));
        assert_eq!(wake.set(Some(at(90))), None);
        assert_eq!(wake.fired(at(20)), WakeUpOutcome::Again(at(90)));
        assert_eq!(wake.fired(at(90)), WakeUpOutcome::Now);
    }

    #[test]
    fn an_event_wakes_if_it_fires_now_and_only_then() {
        let mut wake = WakeUp::new();
        for (wanted, fires) in
            [(Some(at(20)), at(20)), (Some(at(90)), at(90)), (Some(at(200)), at(150)), (None, at(200))]
        {
            let _ = wake.set(wanted);
            assert_eq!(wake.wakes(fires), wake.clone().fired(fires) == WakeUpOutcome::Now);
        }
    }

    #[test]
    fn an_earlier_wake_up_leaves_the_later_event_for_later() {
        let mut wake = WakeUp::new();
        assert_eq!(wake.set(Some(at(255))), Some(at(255)));
        assert_eq!(wake.set(Some(at(2))), Some(at(2)));
        assert_eq!(wake.fired(at(2)), WakeUpOutcome::Now);
        assert_eq!(wake.set(Some(at(257))), None, "the event at 255 ms will do");
        assert_eq!(wake.set(Some(at(4))), Some(at(4)));
        assert_eq!(wake.fired(at(4)), WakeUpOutcome::Now);
        assert_eq!(wake.set(Some(at(259))), None);
        assert_eq!(wake.fired(at(255)), WakeUpOutcome::Again(at(259)));
    }

    #[test]
    fn a_wake_up_that_is_no_longer_wanted_is_ignored() {
        let mut wake = WakeUp::new();
        assert_eq!(wake.set(Some(at(20))), Some(at(20)));
        assert_eq!(wake.set(None), None);
        assert_eq!(wake.fired(at(20)), WakeUpOutcome::Asleep);
        assert_eq!(wake.set(Some(at(30))), Some(at(30)));
    }
}
