//! [`Leisure`]: responses to requests that came to a group, until their random times (RFC 7252 §8.2).
//!
//! ```text
//!   a response │<------ leisure ------>│<------ leisure ------>│
//!              │        x              │                   x   │
//!              │   the first leaves    │     the next one leaves
//! ```
//!
//! Periods do not overlap. So however many requests come, a group of G members answers at the rate
//! that the leisure was chosen for.
//!
//! Which response has the next period is decided when the one before is over. Groups of sources
//! take turns (self-clocked fair queueing, Golestani, INFOCOM 1994), so a response waits for one
//! response of each other group, and not for all that one host has asked for.

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
    /// Its place in the order of service: the least is next.
    turn: u64,
    leisure: Duration,
    /// When it leaves, from the beginning of its period on.
    offset: Duration,
    pub(super) waiting: Waiting<P>,
    pub(super) code: Code,
    pub(super) body: Body,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Leisure<P> {
    /// The response of the current period, and when it leaves.
    current: Option<(Instant, Leisurely<P>)>,
    /// Responses without a period yet, in order of arrival.
    queue: VecDeque<Leisurely<P>>,
    /// When the last period ends.
    over: Instant,
    /// The turn and the group of the response that had a period last.
    turn: u64,
    last: Group,
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
    const NONE: Self = Self {
        current: None,
        queue: VecDeque::new(),
        over: Instant::ZERO,
        turn: 0,
        last: Group::NOBODY,
        shares: Shares::new(),
    };

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

    /// Takes the answer to a request, to leave at a random point of a period of this length.
    pub(super) fn push(
        &mut self,
        now: Instant,
        leisure: Duration,
        random: &mut impl RngCore,
        (waiting, code, body): (Waiting<P>, Code, Body),
    ) {
        let nanos = u64::try_from(leisure.as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is uniform over [0, nanos).
        let point = u64::try_from((u128::from(random.next_u64()) * u128::from(nanos)) >> 64).unwrap_or(nanos);
        let same_group = self.queue.iter().filter(|queued| queued.waiting.group == waiting.group);
        let before = same_group.map(|queued| queued.turn).fold(self.turn, u64::max);
        let (turn, offset) = (before.saturating_add(1), Duration::from_nanos(point));
        self.queue.push_back(Leisurely { turn, leisure, offset, waiting, code, body });
        if self.current.is_none() && self.over <= now {
            self.begin_period(now);
        }
    }

    /// When the first of them leaves, or the next period begins.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let begins = || (!self.queue.is_empty()).then_some(self.over);
        self.current.as_ref().map(|(at, _)| *at).or_else(begins)
    }

    /// The response whose time has come. Its share must be given back.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Leisurely<P>> {
        if self.current.is_none() && self.over <= now {
            self.begin_period(self.over);
        }
        self.current.take_if(|(at, _)| *at <= now).map(|(_, response)| response)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some())
    }

    /// Gives the period that begins now to the next response, preferably of another group than the
    /// one before.
    fn begin_period(&mut self, start: Instant) {
        let order = |(_, queued): &(usize, &Leisurely<P>)| (queued.turn, queued.waiting.group == self.last);
        let next = self.queue.iter().enumerate().min_by_key(order).map(|(place, _)| place);
        let Some(next) = next.and_then(|place| self.queue.remove(place)) else { return };
        (self.turn, self.last) = (next.turn, next.waiting.group);
        self.over = start + next.leisure;
        self.current = Some((start + next.offset, next));
    }
}
