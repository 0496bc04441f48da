//! [`IdleOrder`]: sessions or handshakes by share, and within each share in order of silence.
//!
//! The largest share gives up a place; of equal ones, the one with the idlest session. No share
//! loses a session to a larger one: competing shares become equal (max-min fairness).

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use conche_proto::Instant;

/// A keyed hash; `None` for sessions begun locally.
pub(super) type Share = Option<u64>;
/// The recorded time of a peer's last record, and its place.
type Standing = (Instant, u32);

#[derive(Debug, Default)]
pub(super) struct IdleOrder {
    /// Each session's recorded order, updated on demand.
    placed: HashMap<u32, (Share, Instant)>,
    shares: BTreeMap<Share, BTreeSet<Standing>>,
    /// Shares by size, the largest last.
    order: BTreeSet<(usize, Reverse<Standing>, Share)>,
}

impl IdleOrder {
    pub(super) fn insert(&mut self, share: Share, at: Instant, place: u32) {
        self.remove(place);
        self.placed.insert(place, (share, at));
        self.change(share, |sessions| sessions.insert((at, place)));
    }

    pub(super) fn remove(&mut self, place: u32) {
        if let Some((share, at)) = self.placed.remove(&place) {
            self.change(share, |sessions| sessions.remove(&(at, place)));
        }
    }

    fn change(&mut self, share: Share, change: impl FnOnce(&mut BTreeSet<Standing>) -> bool) {
        let sessions = self.shares.entry(share).or_default();
        if let Some(first) = sessions.first() {
            self.order.remove(&(sessions.len(), Reverse(*first), share));
        }
        change(sessions);
        match sessions.first() {
            Some(first) => drop(self.order.insert((sessions.len(), Reverse(*first), share))),
            None => drop(self.shares.remove(&share)),
        }
    }

    pub(super) fn size(&self, share: Share) -> usize {
        self.shares.get(&share).map_or(0, BTreeSet::len)
    }

    pub(super) fn size_with(&self, place: u32) -> usize {
        self.placed.get(&place).map_or(0, |(share, _)| self.size(*share))
    }

    pub(super) fn share_of(&self, place: u32) -> Option<Share> {
        self.placed.get(&place).map(|(share, _)| *share)
    }

    /// Returns the newcomer's share if none is larger.
    fn fullest(&self, newcomer: Share) -> Share {
        match self.order.last() {
            Some((most, _, share)) if *most > self.size(newcomer) => *share,
            _ => newcomer,
        }
    }

    /// `last_received` returns the time of a peer's last record.
    pub(super) fn idlest_of(&mut self, share: Share, last_received: impl Fn(u32) -> Option<Instant>) -> Option<u32> {
        self.first(|_| share, last_received)
    }

    pub(super) fn idlest_for(
        &mut self,
        newcomer: Share,
        last_received: impl Fn(u32) -> Option<Instant>,
    ) -> Option<u32> {
        self.first(|idle_order| idle_order.fullest(newcomer), last_received)
    }

    pub(super) fn idlest_of_fullest(&mut self, last_received: impl Fn(u32) -> Option<Instant>) -> Option<u32> {
        self.first(|idle_order| idle_order.order.last().and_then(|(_, _, share)| *share), last_received)
    }

    fn first(&mut self, of: impl Fn(&Self) -> Share, last_received: impl Fn(u32) -> Option<Instant>) -> Option<u32> {
        loop {
            let share = of(self);
            let (at, place) = *self.shares.get(&share)?.first()?;
            match last_received(place).filter(|last_received| *last_received > at) {
                Some(last_received) => self.insert(share, last_received, place),
                None => return Some(place),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.shares.is_empty() && self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_want_all_end_up_equal_and_a_modest_one_loses_nothing() {
        let mut idle_order = IdleOrder::default();
        let mut open = 0;
        let mut join = |share: u64, place: u32| {
            if open == 30 {
                let idlest = idle_order.idlest_for(Some(share), |_| None).unwrap();
                idle_order.remove(idlest);
            } else {
                open += 1;
            }
            idle_order.insert(Some(share), Instant::from_millis(u64::from(place)), place);
            [1, 2, 3].map(|share| idle_order.size(Some(share)))
        };
        (0..4).map(|place| join(1, place)).for_each(drop);
        assert_eq!((4..100).map(|place| join(2, place)).last(), Some([4, 26, 0]));
        assert_eq!((100..200).map(|place| join(3, place)).last(), Some([4, 13, 13]));
        assert_eq!((200..300).map(|place| join(2 + u64::from(place % 2), place)).last(), Some([4, 13, 13]));
        (0..300).for_each(|place| idle_order.remove(place));
        assert!(idle_order.is_empty());
    }

    #[test]
    fn of_shares_that_hold_the_same_the_idlest_makes_room() {
        let mut idle_order = IdleOrder::default();
        let at = Instant::from_millis;
        for (share, place) in [(7, 0), (9, 1), (8, 2)] {
            idle_order.insert(Some(share), at(u64::from(place)), place);
        }
        let last_received = |place| (place == 0).then(|| at(10));
        assert_eq!(idle_order.idlest_for(Some(1), last_received), Some(1));
    }

    #[test]
    fn who_was_heard_of_since_is_not_the_idlest() {
        let mut idle_order = IdleOrder::default();
        let at = Instant::from_millis;
        (0..3).for_each(|place| idle_order.insert(None, at(u64::from(place)), place));
        let last_received = |place| (place == 0).then(|| at(10));
        assert_eq!(idle_order.idlest_of(None, last_received), Some(1));
        idle_order.remove(1);
        idle_order.remove(2);
        assert_eq!(idle_order.idlest_of(None, last_received), Some(0));
    }
}
