//! [`Leisure`]: responses to requests that came to a group, until their random times (RFC 7252 §8.2).
//!
//! ```text
//!   a response │<------ leisure ------>│<------ leisure ------>│
//!              │        x              │                   x   │
//!              │   the first leaves    │     the next one leaves
//! ```
//!
//! No period begins before the one before is over. So however many requests come, a group of G members answers at the
//! rate that the leisure was chosen for, and the times are in order: the queue is one.

use alloc::collections::VecDeque;
use core::time::Duration;

use rand_core::RngCore;

use crate::codec::{Body, Code};
use crate::incoming::Waiting;
use crate::shares::{Group, Shares};
use crate::store::Seldom;
use conche_cc::Instant;

/// A response that waits for its time.
#[derive(Debug)]
pub(super) struct Leisurely<P> {
    at: Instant,
    pub(super) waiting: Waiting<P>,
    pub(super) code: Code,
    pub(super) body: Body,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Leisure<P> {
    queue: VecDeque<Leisurely<P>>,
    /// When the last period ends.
    over: Instant,
    /// Of requests to groups from their arrival on, by source, so that what is taken in can be answered.
    shares: Shares,
}

impl<P> Seldom for Leisure<P> {
    type Recipe = ();

    fn empty<'a>() -> &'a Self
    where
        Self: 'a,
    {
        const { &Self::NONE }
    }

    fn make((): &()) -> Self {
        Self::NONE
    }
}

impl<P> Leisure<P> {
    const NONE: Self = Self { queue: VecDeque::new(), over: Instant::ZERO, shares: Shares::new() };

    /// There is room for the response to a request of this group of sources, of `capacity` in all.
    pub(super) fn admits(&self, sources: Group, capacity: usize) -> bool {
        self.shares.admits(sources, 1, capacity)
    }

    /// A request is taken in.
    pub(super) fn take(&mut self, sources: Group) {
        self.shares.take(sources, 1);
    }

    /// A request is over.
    pub(super) fn give_back(&mut self, sources: Group) {
        self.shares.give_back(sources, 1);
    }

    /// A request is answered: at a random point of the next period, whose length is `leisure`.
    pub(super) fn push(
        &mut self,
        now: Instant,
        leisure: Duration,
        random: &mut impl RngCore,
        (waiting, code, body): (Waiting<P>, Code, Body),
    ) {
        let start = self.over.max(now);
        self.over = start + leisure;
        let nanos = u64::try_from(leisure.as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is uniform over [0, nanos).
        let point = u64::try_from((u128::from(random.next_u64()) * u128::from(nanos)) >> 64).unwrap_or(nanos);
        self.queue.push_back(Leisurely { at: start + Duration::from_nanos(point), waiting, code, body });
    }

    /// When the first of them leaves.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queue.front().map(|first| first.at)
    }

    /// The response whose time has come. Its share must be given back.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Leisurely<P>> {
        self.next_due().filter(|&at| at <= now)?;
        self.queue.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}
