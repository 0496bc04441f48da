//! [`Survey`]: which peers are the busiest, found a part of the table at a time.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{Peer, Peers};
use crate::PeerKey;
use conche_cc::Controller;

/// A search for the busiest peers, which [`Endpoint::survey`](crate::Endpoint::survey) carries on.
#[derive(Clone, Debug)]
pub struct Survey {
    most: usize,
    /// Places before this one have been looked at.
    next: usize,
    /// The busiest so far; the least of them comes first.
    busiest: BinaryHeap<(Reverse<u64>, u32)>,
}

impl Survey {
    /// A search for so many peers, those with the most exchanges in flight and messages in the queue.
    #[must_use]
    pub const fn of(most: usize) -> Self {
        Self { most, next: 0, busiest: BinaryHeap::new() }
    }

    fn meet(&mut self, load: u64, index: u32) {
        let met = (Reverse(load), index);
        if self.busiest.len() < self.most {
            self.busiest.push(met);
        } else if let Some(mut least) = self.busiest.peek_mut()
            && met < *least
        {
            *least = met;
        }
    }
}

impl<P: PeerKey, C: Controller> Peers<P, C> {
    /// Looks at so many more places. The answer is the busiest peers, once all have been looked at: those of them that are
    /// still there.
    pub(crate) fn survey(&self, survey: &mut Survey, places: usize) -> Option<Vec<u32>> {
        let end = if survey.most == 0 { 0 } else { self.slots.places() };
        let until = survey.next.saturating_add(places.max(1)).min(end);
        for place in survey.next..until {
            let Ok(index) = u32::try_from(place) else { break };
            if let Some(peer) = self.slots.get(index) {
                survey.meet(load(peer), index);
            }
        }
        survey.next = until;
        if until < end {
            return None;
        }
        let busiest = core::mem::take(&mut survey.busiest).into_sorted_vec().into_iter();
        Some(busiest.map(|(_, index)| index).filter(|&index| self.slots.get(index).is_some()).collect())
    }
}

fn load<P, C: Controller>(peer: &Peer<P, C>) -> u64 {
    u64::from(peer.work().outstanding) + u64::from(peer.work().queued)
}
