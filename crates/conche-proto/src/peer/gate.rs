//! [`Gate`]: limits the concurrent exchanges over one path, across all peers.
//!
//! A client that polls four hundred devices behind one thin link fills the link's queue with four
//! hundred initial messages, and each device's controller notices only when its own timer expires.
//! The peers of a path therefore share one window (the macroflow of RFC 3124). It is sized like
//! FAST TCP's (Wei, Jin, Low, Hegde, IEEE/ACM Transactions on Networking 14(6), 2006); once per
//! round trip it becomes
//!
//! ```text
//!   window · 2·base / rtt        at most doubled, at most halved
//! ```
//!
//! It doubles on an empty path and settles when the queueing delay equals the base RTT: at twice
//! the bandwidth-delay product. Such a queue causes no timeouts, and the link never idles.
//!
//! `rtt` is the first quartile of the last eight round trips, no two consecutive ones of the same
//! peer. The path's queue is thus the delay that *all but a few* peers observe, and a single peer
//! that delays its answers slows no other. If the quartile is less than half of the median, the
//! peers do not share one queue: half of them are behind another bottleneck, or some are much
//! closer. Then the window doubles, until each peer is limited by its own controller or a common
//! queue makes the round trips similar. (RFC 8382 also detects shared bottlenecks by delays.)
//!
//! All messages with an NSTART slot count, except responses and messages to a peer that did not
//! answer its last one. A Non-confirmable message counts until its response or its controller's
//! timeout.
//!
//! While only one peer of the path has exchanges in progress, only its NSTART applies. Peers that
//! have never answered wait in a separate queue, and both queues take turns: a client that
//! registers many unreachable observers takes at most every other turn.

use alloc::collections::VecDeque;
use core::time::Duration;

/// The minimum window, also used for a path without state: NSTART of an adaptive CoAP
/// (draft-ietf-core-cocoa-03 §4.3) \[assumption\].
const LEAST: u32 = 4;
/// The maximum window: the number of message IDs of a single peer.
const MOST: u32 = 1 << 16;
/// The minimum base RTT, in microseconds. Shorter round trips, as in a local network, consist of
/// the hosts' own delays and indicate no queue (compare `Temper::least_spread`).
const LEAST_BASE: u32 = 10_000;
/// Number of round trips evaluated per step.
const SAMPLES: usize = 8;

/// The window of a path, and the peers that wait for it.
#[derive(Debug)]
pub(super) struct Gate {
    window: u32,
    /// Exchanges with a first transmission that is neither acknowledged nor timed out.
    outstanding: u32,
    /// The peer of all these exchanges, if there is only one.
    only: Option<u32>,
    /// Peers with a message to send, in order of arrival: first the queue of peers that have
    /// answered before, then the queue of the others. Peers without a message are skipped.
    waiting: [VecDeque<u32>; 2],
    /// The queue with the next turn.
    next: usize,
    /// The minimum RTT over rounds, in microseconds; 0 before the first.
    base: u32,
    round: Round,
}

/// Events since the window was last changed.
#[derive(Debug, Default)]
struct Round {
    answered: u32,
    lost: u32,
    /// A peer had to wait: the window was fully used.
    full: bool,
    rtts: [u32; SAMPLES],
    sampled: usize,
    last_peer: Option<u32>,
    /// Number of exchanges admitted under a larger window, to be ignored for this one.
    stale: u32,
}

impl Gate {
    pub(super) fn new() -> Self {
        let waiting = [VecDeque::new(), VecDeque::new()];
        Self { window: LEAST, outstanding: 0, only: None, waiting, next: 0, base: 0, round: Round::default() }
    }

    pub(super) fn is_open_for(&self, peer: u32) -> bool {
        self.is_open() || self.only == Some(peer)
    }

    pub(super) fn is_open(&self) -> bool {
        self.outstanding < self.window
    }

    /// Returns `true` if no exchange is in progress and no peer waits.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0 && !self.is_awaited()
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.iter().any(|queue| !queue.is_empty())
    }

    /// Queues a peer; `proven` if it has answered before.
    pub(super) fn wait(&mut self, peer: u32, proven: bool) {
        self.round.full = true;
        self.waiting[usize::from(!proven)].push_back(peer);
    }

    /// Returns the peer with the next turn, if there is room.
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

    /// Records that a peer answered a first transmission, with the RTT if known.
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

    /// Records the timeout of a first transmission.
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

    /// Ends a round when as many exchanges have ended as the window allows.
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
        // Few peers that answer in bursts give too few samples in one round: keep them for the
        // next.
        let (rtts, sampled) = if view.is_none() { (self.round.rtts, self.round.sampled) } else { Default::default() };
        self.round = Round { last_peer: self.round.last_peer, stale, rtts, sampled, ..Round::default() };
    }

    fn sized_for(&mut self, rtt: u32) -> u32 {
        // At the minimum window, the observed RTT is the path without our queue: another route, or
        // other traffic.
        if self.base == 0 || rtt < self.base || self.window == LEAST {
            self.base = rtt;
        }
        let base = self.base.max(LEAST_BASE);
        let wanted = u64::from(self.window) * 2 * u64::from(base) / u64::from(rtt);
        u32::try_from(wanted).unwrap_or(MOST).clamp(self.window / 2, self.window.saturating_mul(2))
    }
}

/// The state of a path according to the round trips of several peers.
enum View {
    /// A common queue with this first-quartile RTT.
    OneQueue { rtt: u32 },
    /// No common queue.
    Apart,
}

impl Round {
    /// Evaluates the last round trips, if there are enough.
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
