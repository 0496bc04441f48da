//! [`Gate`]: how many exchanges may go on at the same time over one path, whoever they are with.
//!
//! One client that polls four hundred devices behind one thin link fills its queue with four hundred first messages, and each
//! device's controller learns of that only when its own timer has run out. So peers of one path have one window together
//! (RFC 3124's macroflow), which is sized as FAST TCP sizes its own (Wei, Jin, Low, Hegde, IEEE/ACM Transactions on Networking
//! 14(6), 2006): once a round trip it becomes
//!
//! ```text
//!   window · 2·base / rtt        at most doubled, at most halved
//! ```
//!
//! so it doubles on an empty path, and settles where the queue is as long as the empty path's round trip: twice what
//! fits on the way. It is a queue that nobody's timer takes for a loss, and enough that the link never idles.
//!
//! `rtt` is the first quartile of the last eight round trips, no two in a row of the same peer. So what *all but a few* see counts as the
//! path's queue, and one peer that delays its answers slows nobody. Where that quartile is less than half of the median, the
//! peers do not see one queue: half of them are behind another bottleneck, or some are much nearer. Then the window doubles, until each
//! peer is left to its own controller or one queue makes their round trips alike (RFC 8382 asks the same of the delays of flows).
//!
//! All messages that hold an NSTART slot count, but no responses, and nothing to a peer that did
//! not answer its last message. A Non-confirmable message counts until its response arrives, or
//! until the timeout that its controller gave it.
//!
//! While only one peer of the path has exchanges under way, its own NSTART is the limit. Peers that
//! have never answered wait in a queue of their own, and the queues take turns: a client that
//! registers many unreachable observers takes at most every other turn from the others.

use alloc::collections::VecDeque;
use core::time::Duration;

/// The window of a path of which nothing is known, and the least: NSTART of an adaptive CoAP
/// (draft-ietf-core-cocoa-03 §4.3) [assumption].
const LEAST: u32 = 4;
/// The window is no larger: 16 bits of message IDs of a single peer are not more.
const MOST: u32 = 1 << 16;
/// The least base, in microseconds. Shorter round trips are the hosts' own time, as in a local
/// network, and show no queue (compare `Temper::least_spread`).
const LEAST_BASE: u32 = 10_000;
/// Round trips that a step looks at.
const SAMPLES: usize = 8;

/// The window of a path, and who waits for it.
#[derive(Debug)]
pub(super) struct Gate {
    window: u32,
    /// Exchanges whose first copy is under way: neither acknowledged, nor is its timer over.
    outstanding: u32,
    /// The peer of all those exchanges, if they are of only one.
    only: Option<u32>,
    /// Peers with a message to send, in the order of asking: first the queue of peers that have
    /// answered before, then the queue of the others. A peer without a message any more is passed
    /// over.
    waiting: [VecDeque<u32>; 2],
    /// The queue that has the next turn.
    next: usize,
    /// The least round trip, in microseconds, as rounds see it; 0: none yet.
    base: u32,
    round: Round,
}

/// What has happened since the window was set.
#[derive(Debug, Default)]
struct Round {
    answered: u32,
    lost: u32,
    /// Somebody had to wait: the window was in use.
    full: bool,
    rtts: [u32; SAMPLES],
    sampled: usize,
    last_peer: Option<u32>,
    /// Exchanges of a larger window, whose ends say nothing of this one.
    stale: u32,
}

impl Gate {
    pub(super) fn new() -> Self {
        let waiting = [VecDeque::new(), VecDeque::new()];
        Self { window: LEAST, outstanding: 0, only: None, waiting, next: 0, base: 0, round: Round::default() }
    }

    /// There is room for an exchange with this peer.
    pub(super) fn is_open_for(&self, peer: u32) -> bool {
        self.is_open() || self.only == Some(peer)
    }

    /// There is room for an exchange.
    pub(super) fn is_open(&self) -> bool {
        self.outstanding < self.window
    }

    /// Nothing goes on, and nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0 && !self.is_awaited()
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|queue| !queue.is_empty())
    }

    /// A peer waits behind those that asked before. `proven`: it has answered before.
    pub(super) fn wait(&mut self, peer: u32, proven: bool) {
        self.round.full = true;
        self.waiting[usize::from(!proven)].push_back(peer);
    }

    /// The peer that has the next turn, if there is room.
    pub(super) fn next(&mut self) -> Option<u32> {
        if !self.is_open() {
            return None;
        }
        let queue = if self.waiting[self.next].is_empty() { 1 - self.next } else { self.next };
        self.next = 1 - queue;
        self.waiting[queue].pop_front()
    }

    pub(super) fn enter(&mut self, peer: u32) {
        self.only = if self.outstanding == 0 || self.only == Some(peer) { Some(peer) } else { None };
        self.outstanding = self.outstanding.saturating_add(1);
    }

    pub(super) fn leave(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.only = self.only.filter(|_| self.outstanding > 0);
    }

    /// The first copy of a message to this peer was answered, after a round trip if that is known.
    pub(super) fn answered(&mut self, peer: u32, round_trip: Option<Duration>) {
        if self.is_stale() {
            return;
        }
        let round = &mut self.round;
        round.answered += 1;
        if let Some(round_trip) = round_trip
            && round.last_peer.replace(peer) != Some(peer)
        {
            round.rtts[round.sampled % SAMPLES] = u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX).max(1);
            round.sampled += 1;
        }
        self.step_if_due();
    }

    /// The timer of a first copy is over.
    pub(super) fn lost(&mut self) {
        if self.is_stale() {
            return;
        }
        self.round.lost += 1;
        self.step_if_due();
    }

    fn is_stale(&mut self) -> bool {
        let stale = &mut self.round.stale;
        let is_stale = *stale > 0;
        *stale = stale.saturating_sub(1);
        is_stale
    }

    /// A round is over when as many exchanges are as fit into the window.
    fn step_if_due(&mut self) {
        self.round.full |= self.is_awaited();
        let Round { answered, lost, full, .. } = self.round;
        if answered.saturating_add(lost) < self.window {
            return;
        }
        let view = self.round.view();
        let wanted = match view {
            _ if lost > answered => self.window / 2,
            Some(View::OneQueue { rtt }) => self.sized_for(rtt),
            Some(View::Apart) => self.window.saturating_mul(2),
            None => self.window,
        };
        let before = self.window;
        if wanted < self.window || full {
            self.window = wanted.clamp(LEAST, MOST);
        }
        let stale = if self.window < before { self.outstanding } else { 0 };
        // A few peers that answer in bursts give too few samples in one round: the next round keeps
        // them.
        let (rtts, sampled) = if view.is_none() { (self.round.rtts, self.round.sampled) } else { Default::default() };
        self.round = Round { last_peer: self.round.last_peer, stale, rtts, sampled, ..Round::default() };
    }

    fn sized_for(&mut self, rtt: u32) -> u32 {
        // Where the window is the least, what is seen is the path without us: another route, or others' queue.
        if self.base == 0 || rtt < self.base || self.window == LEAST {
            self.base = rtt;
        }
        let base = self.base.max(LEAST_BASE);
        let wanted = u64::from(self.window) * 2 * u64::from(base) / u64::from(rtt);
        u32::try_from(wanted).unwrap_or(MOST).clamp(self.window / 2, self.window.saturating_mul(2))
    }
}

/// What the round trips of several peers say of their path.
enum View {
    /// As long as this, where it is the shortest for all but a few.
    OneQueue { rtt: u32 },
    /// They have no queue in common.
    Apart,
}

impl Round {
    /// What the last round trips say, if there are enough of them.
    fn view(&self) -> Option<View> {
        let mut rtts = self.rtts;
        let rtts = &mut rtts[..self.sampled.min(SAMPLES)];
        rtts.sort_unstable();
        let last = rtts.len().checked_sub(1).filter(|_| rtts.len() >= LEAST as usize)?;
        let (rtt, median) = (rtts[last / 4], rtts[last / 2]);
        Some(if rtt.saturating_mul(2) < median { View::Apart } else { View::OneQueue { rtt } })
    }
}

#[cfg(test)]
mod tests;
