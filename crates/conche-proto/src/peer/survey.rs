//! [`Survey`]: an incremental search for the busiest peers.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{Peer, Peers};
use crate::PeerKey;
use conche_cc::Controller;

/// A search for the busiest peers, advanced by [`Endpoint::survey`](crate::Endpoint::survey).
#[derive(Clone, Debug)]
pub struct Survey {
    most: usize,
    /// The next place to visit.
    next: usize,
    /// The busiest peers so far; the least busy of them first.
    busiest: BinaryHeap<(Reverse<u64>, u32)>,
}

impl Survey {
    /// Creates a search for the `most` peers with the most exchanges in flight and queued messages.
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
    /// Visits `places` more places. After the last place, returns the busiest peers that still
    /// exist.
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
