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
//! Confirmable messages count, but no separate responses, and nothing to a peer that has not answered the last one.

use alloc::collections::VecDeque;
use core::time::Duration;

/// The window of a path of which nothing is known, and the least: NSTART of an adaptive CoAP
/// (draft-ietf-core-cocoa-03 §4.3) [assumption].
const LEAST: u32 = 4;
/// The window is no larger: 16 bits of message IDs of a single peer are not more.
const MOST: u32 = 1 << 16;
/// Round trips that a step looks at.
const SAMPLES: usize = 8;

/// The window of a path, and who waits for it.
#[derive(Debug)]
pub(super) struct Gate {
    window: u32,
    /// Exchanges whose first copy is under way: neither acknowledged, nor is its timer over.
    outstanding: u32,
    /// The peers that have a message to send, in the order in which they asked. One that has none any more is passed over.
    waiting: VecDeque<u32>,
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
        Self { window: LEAST, outstanding: 0, waiting: VecDeque::new(), base: 0, round: Round::default() }
    }

    /// There is room for an exchange.
    pub(super) fn is_open(&self) -> bool {
        self.outstanding < self.window
    }

    /// Nothing goes on, and nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.waiting.is_empty()
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A peer gets the next turn but those before it.
    pub(super) fn wait(&mut self, peer: u32) {
        self.round.full = true;
        self.waiting.push_back(peer);
    }

    /// Whose turn it is, if there is room.
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.is_open() { self.waiting.pop_front() } else { None }
    }

    pub(super) fn enter(&mut self) {
        self.outstanding = self.outstanding.saturating_add(1);
    }

    pub(super) fn leave(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
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
        let wanted = match self.round.view() {
            _ if lost > answered => self.window / 2,
            Some(View::OneQueue { rtt }) => self.sized_for(rtt),
            Some(View::Apart) => self.window.saturating_mul(2),
            // All of one peer, whose own controller knows it.
            None => self.window,
        };
        let before = self.window;
        if wanted < self.window || full {
            self.window = wanted.clamp(LEAST, MOST);
        }
        let stale = if self.window < before { self.outstanding } else { 0 };
        self.round = Round { last_peer: self.round.last_peer, stale, ..Round::default() };
    }

    fn sized_for(&mut self, rtt: u32) -> u32 {
        // Where the window is the least, what is seen is the path without us: another route, or others' queue.
        if self.base == 0 || rtt < self.base || self.window == LEAST {
            self.base = rtt;
        }
        let wanted = u64::from(self.window) * 2 * u64::from(self.base) / u64::from(rtt);
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
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A round in which the window is in use; each exchange's peer and round trip, or none if it is lost.
    fn round(gate: &mut Gate, outcome: impl Fn(u32) -> Option<Duration>) {
        gate.wait(0);
        for peer in 0..gate.window {
            match outcome(peer) {
                Some(round_trip) => gate.answered(peer, Some(round_trip)),
                None => gate.lost(),
            }
        }
    }

    /// Of a link with room for 20 exchanges within the 500 ms of its empty round trip.
    fn over_a_link(gate: &mut Gate) {
        let rtt = (u64::from(gate.window) * 25).max(500);
        round(gate, |_| Some(ms(rtt)));
    }

    #[test]
    fn the_window_doubles_on_an_empty_path_and_settles_at_twice_what_fits() {
        let mut gate = Gate::new();
        let windows: Vec<_> = (0..12)
            .map(|_| {
                over_a_link(&mut gate);
                gate.window
            })
            .collect();
        assert_eq!(windows[..3], [8, 16, 32]);
        assert_eq!(windows[4..], [40; 8]);
    }

    #[test]
    fn a_window_that_nobody_needs_does_not_grow() {
        let mut gate = Gate::new();
        for exchange in 0..100 {
            gate.answered(exchange, Some(ms(500)));
        }
        assert_eq!(gate.window, LEAST);
    }

    #[test]
    fn a_minority_that_delays_its_answers_slows_nobody() {
        let mut gate = Gate::new();
        (0..3).for_each(|_| over_a_link(&mut gate));
        let before = gate.window;
        round(&mut gate, |peer| Some(if peer % 4 == 0 { ms(100_000) } else { ms(500) }));
        assert!(gate.window >= before, "{} after {before}", gate.window);
        // One alone has its say once, whatever it sends in a row.
        for _ in 0..1_000 {
            gate.answered(7, Some(ms(100_000)));
        }
        assert!(gate.window >= before, "{} after {before}", gate.window);
    }

    #[test]
    fn peers_that_do_not_share_a_bottleneck_keep_the_gate_open() {
        let mut gate = Gate::new();
        (0..5).for_each(|_| over_a_link(&mut gate));
        for _ in 0..5 {
            round(&mut gate, |peer| Some(if peer % 2 == 0 { ms(5_000) } else { ms(500) }));
        }
        assert!(gate.window >= 40 << 4, "{}", gate.window);
    }

    #[test]
    fn a_few_that_are_much_nearer_do_not_shut_the_gate() {
        for nearer in [2, 5, 10, 400] {
            let mut gate = Gate::new();
            for _ in 0..40 {
                let rtt = (u64::from(gate.window) * 25).max(500);
                round(&mut gate, |peer| Some(ms(if peer % nearer == 0 { 5 } else { rtt })));
            }
            assert!(gate.window >= 20, "one in {nearer}: {}", gate.window);
        }
    }

    #[test]
    fn one_flight_halves_the_window_once() {
        let mut gate = Gate::new();
        (0..6).for_each(|_| over_a_link(&mut gate));
        // As many again leave while the first forty are found to be lost.
        (0..80).for_each(|_| gate.enter());
        gate.wait(0);
        for _ in 0..80 {
            gate.leave();
            gate.lost();
        }
        assert_eq!(gate.window, 20);
    }

    #[test]
    fn what_is_answered_without_a_round_trip_is_no_loss() {
        let mut gate = Gate::new();
        (0..6).for_each(|_| over_a_link(&mut gate));
        for _ in 0..10 {
            gate.wait(0);
            (0..38).for_each(|peer| gate.answered(peer, None));
            (0..2).for_each(|_| gate.lost());
        }
        assert_eq!(gate.window, 40);
    }

    #[test]
    fn a_path_that_loses_most_gets_the_least_window_and_one_that_loses_some_keeps_its_own() {
        let mut gate = Gate::new();
        (0..6).for_each(|_| over_a_link(&mut gate));
        round(&mut gate, |peer| (peer % 3 != 0).then_some(ms(1_000)));
        assert_eq!(gate.window, 40);
        (0..6).for_each(|_| round(&mut gate, |peer| (peer % 3 == 0).then_some(ms(1_000))));
        assert_eq!(gate.window, LEAST);
    }

    #[test]
    fn a_longer_route_is_found_out_at_the_least_window() {
        let mut gate = Gate::new();
        (0..6).for_each(|_| over_a_link(&mut gate));
        let longer = |gate: &mut Gate| {
            let rtt = (u64::from(gate.window) * 25).max(5_000);
            round(gate, |_| Some(ms(rtt)));
        };
        (0..20).for_each(|_| longer(&mut gate));
        assert!(gate.window >= 200, "as much as fits: {}", gate.window);
    }

    #[test]
    fn whoever_asked_first_is_first() {
        let mut gate = Gate::new();
        (0..LEAST).for_each(|_| gate.enter());
        [3, 1, 2].into_iter().for_each(|peer| gate.wait(peer));
        assert_eq!(gate.next(), None, "no room");
        gate.leave();
        assert_eq!(gate.next(), Some(3));
    }
}
