//! [`Sender`]: selects the next block, burst by burst (RFC 9177 §7.2).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::BurstRules;
use crate::codec::BlockSize;
use crate::config::QBlockFeature;
use conche_cc::Instant;
use conche_cc::train::{Answered, Train};

/// Maximum number of requests for missing blocks per burst. Random loss does not reach it, even at
/// a rate of one half.
const MOST_ROUNDS: u8 = 32;

#[derive(Debug)]
pub(crate) struct Sender {
    _feature: QBlockFeature,
    pub(crate) size: BlockSize,
    bytes: usize,
    max_payloads: u32,
    /// Not assigned to a burst.
    next: u32,
    /// In ascending order.
    due: VecDeque<u32>,
    left: u32,
    /// The first block never sent.
    fresh: u32,
    in_train: u32,
    /// Requests for missing blocks of this burst.
    rounds: u8,
    /// Part of the current train was sent.
    under_way: bool,
    /// Consecutive bursts without an answer.
    unanswered: u8,
    train: Train,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextBurst {
    Burst,
    /// The answer is not new.
    Nothing,
    TooMuch,
}

impl Sender {
    pub(crate) fn new(rules: &BurstRules, bytes: usize, size: BlockSize, first: u32) -> Self {
        Self {
            _feature: rules.feature,
            size,
            bytes,
            max_payloads: rules.max_payloads.max(1).into(),
            next: first,
            due: VecDeque::new(),
            left: first,
            fresh: first,
            in_train: 0,
            rounds: 0,
            under_way: false,
            unanswered: 0,
            train: Train::new(None),
        }
    }

    /// Uses the RTT of a previous exchange.
    pub(crate) fn after(self, round_trip: Option<Duration>) -> Self {
        Self { train: Train::new(round_trip), ..self }
    }

    fn blocks(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(self.size.bytes())).unwrap_or(u32::MAX)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.next >= self.blocks()
    }

    pub(crate) fn has_left(&self) -> bool {
        self.due.is_empty()
    }

    pub(crate) fn due(&self) -> usize {
        self.due.len()
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        let number = self.due.pop_front()?;
        self.left = number;
        self.fresh = self.fresh.max(number.saturating_add(1));
        self.in_train = self.in_train.saturating_add(1);
        Some(number)
    }

    pub(crate) fn repeats(&self) -> bool {
        self.due.front().is_some_and(|&number| number < self.fresh)
    }

    pub(crate) fn is_new(&self) -> bool {
        self.fresh == 0
    }

    /// Returns `false` if the first block is the only one.
    pub(crate) fn begin_behind_first(&mut self, round_trip: Option<Duration>) -> bool {
        self.due.clear();
        (self.next, self.fresh, self.train) = (1, 1, Train::new(round_trip));
        self.begin_burst()
    }

    /// Returns `true` if another body may replace the rest in the current train, within two bursts.
    pub(crate) fn may_restart(&self) -> bool {
        !self.due.is_empty() && self.in_train < self.max_payloads
    }

    pub(crate) fn restart(&mut self, with: &Self) {
        (self.size, self.bytes, self.next, self.fresh) = (with.size, with.bytes, with.next, with.fresh);
        self.rounds = 0;
        self.due.clone_from(&with.due);
    }

    pub(crate) fn begin_burst(&mut self) -> bool {
        let end = (self.next / self.max_payloads + 1).saturating_mul(self.max_payloads).min(self.blocks());
        self.due.extend(self.next..end);
        (self.rounds, self.under_way) = (0, false);
        let begun = self.next < end;
        self.next = end.max(self.next);
        begun
    }

    /// Starts the next burst; its request confirms all blocks before `number`.
    pub(crate) fn go_on(&mut self, now: Instant, number: u32) -> NextBurst {
        if number != self.next || !self.due.is_empty() {
            return NextBurst::Nothing;
        }
        self.unanswered = 0;
        self.train.answered(&Answered { now, lost: 0, prompt: true });
        if self.begin_burst() { NextBurst::Burst } else { NextBurst::Nothing }
    }

    /// Repeats Confirmable blocks: the outstanding one is not missing yet.
    pub(crate) fn send_acknowledged_again(&mut self, now: Instant, numbers: &[u32]) -> NextBurst {
        let on_its_way = |number: u32| number == self.left && number < self.fresh;
        let numbers: Vec<u32> = numbers.iter().copied().filter(|&number| !on_its_way(number)).collect();
        self.send_again(now, &numbers)
    }

    /// Repeats missing blocks; the numbers ascend.
    pub(crate) fn send_again(&mut self, now: Instant, numbers: &[u32]) -> NextBurst {
        // This confirms all blocks before the next burst.
        if numbers.first().is_some_and(|&first| first == self.next) {
            return self.go_on(now, self.next);
        }
        let mut known: VecDeque<u32> = numbers.iter().copied().filter(|&number| number < self.next).collect();
        let most = self.max_payloads as usize;
        known.truncate(most);
        if known.is_empty() {
            return NextBurst::Nothing;
        }
        if self.rounds >= MOST_ROUNDS {
            return NextBurst::TooMuch;
        }
        self.rounds += 1;
        self.unanswered = 0;
        if self.due.is_empty() {
            let lost = u32::try_from(known.len()).unwrap_or(u32::MAX);
            self.train.answered(&Answered { now, lost, prompt: !numbers.contains(&self.left) });
            self.under_way = false;
        }
        // No block is sent twice (RFC 9177 §4.4).
        let due = core::mem::take(&mut self.due);
        known.retain(|number| due.binary_search(number).is_err());
        known.extend(due);
        known.make_contiguous().sort_unstable();
        self.due = known;
        NextBurst::Burst
    }

    /// Starts the next burst, unless `most` had no answer.
    pub(crate) fn unanswered(&mut self, most: u8) -> NextBurst {
        if self.unanswered >= most {
            return NextBurst::TooMuch;
        }
        self.unanswered += 1;
        if self.begin_burst() { NextBurst::Burst } else { NextBurst::Nothing }
    }

    pub(crate) fn begins_train(&self) -> bool {
        !self.under_way
    }

    pub(crate) fn begin_train(&mut self, base: Duration, bytes: u32) {
        (self.under_way, self.in_train) = (true, 1);
        self.train.begin(base, bytes);
    }

    pub(crate) fn span(&self) -> Duration {
        self.train.span().into()
    }

    /// Returns when the next message may be sent.
    pub(crate) fn left(&mut self, now: Instant, bytes: u32) -> Instant {
        self.train.sent(now, bytes)
    }
}

#[cfg(feature = "q-block")]
#[cfg(test)]
mod tests {
    use super::super::receiver::ReceiveTimeouts;
    use super::*;
    use alloc::vec;

    const NOW: Instant = Instant::ZERO;

    fn rules(max_payloads: u16) -> BurstRules {
        let timeouts = ReceiveTimeouts { non: Duration::ZERO, confirmable: Duration::ZERO };
        BurstRules { feature: QBlockFeature, max_payloads, timeouts, non_max_retransmit: 4, confirmable: false }
    }

    fn leaving(sender: &mut Sender) -> Vec<u32> {
        core::iter::from_fn(|| sender.pop()).collect()
    }

    // RFC 9177 §7.2 (Q174)
    #[test]
    fn sets_end_where_the_number_is_a_multiple_of_max_payloads() {
        let mut sender = Sender::new(&rules(10), 25 * 16 - 3, BlockSize::B16, 1);
        assert!(sender.begin_burst());
        assert_eq!(leaving(&mut sender), (1..10).collect::<Vec<_>>());
        assert_eq!(sender.go_on(NOW, 20), NextBurst::Nothing, "of a burst that was not sent");
        assert_eq!(sender.go_on(NOW, 10), NextBurst::Burst);
        assert_eq!(leaving(&mut sender).len(), 10);
        assert_eq!(sender.go_on(NOW, 20), NextBurst::Burst);
        assert_eq!(leaving(&mut sender), vec![20, 21, 22, 23, 24]);
        assert!(sender.is_at_end());
    }

    // RFC 9177 §4.4 (Q169)
    #[test]
    fn missing_blocks_are_sent_first_and_no_block_twice_in_a_burst() {
        let mut sender = Sender::new(&rules(10), 40 * 16, BlockSize::B16, 0);
        sender.begin_burst();
        leaving(&mut sender);
        assert_eq!(sender.send_again(NOW, &[2, 5, 39]), NextBurst::Burst);
        assert_eq!(leaving(&mut sender), vec![2, 5], "39 has not been sent");
        sender.unanswered(4);
        assert_eq!((sender.pop(), sender.pop()), (Some(10), Some(11)));
        assert_eq!(sender.send_again(NOW, &[5, 11, 12]), NextBurst::Burst);
        assert_eq!(leaving(&mut sender), vec![5, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn repeated_requests_for_all_blocks_get_bounded_retransmissions() {
        let mut sender = Sender::new(&rules(10), 40 * 16, BlockSize::B16, 0);
        sender.begin_burst();
        let all: Vec<u32> = (0..10).collect();
        let mut sent = leaving(&mut sender).len();
        while sender.send_again(NOW, &all) == NextBurst::Burst {
            sent += leaving(&mut sender).len();
        }
        assert_eq!(sent, 10 + 10 * usize::from(MOST_ROUNDS));
    }

    #[test]
    fn a_list_of_the_next_set_is_a_continue() {
        let mut sender = Sender::new(&rules(10), 40 * 16, BlockSize::B16, 0);
        sender.begin_burst();
        leaving(&mut sender);
        assert_eq!(sender.send_again(NOW, &(10..20).collect::<Vec<_>>()), NextBurst::Burst);
        assert_eq!(leaving(&mut sender), (10..20).collect::<Vec<_>>());
    }

    #[test]
    fn only_a_sent_confirmable_block_counts_as_outstanding() {
        let mut sender = Sender::new(&rules(10), 40 * 16, BlockSize::B16, 1);
        let all: Vec<u32> = (1..10).collect();
        assert_eq!(sender.send_acknowledged_again(NOW, &all), NextBurst::Burst, "the first block is there");
        assert_eq!(sender.pop(), Some(1));
        assert_eq!(sender.send_acknowledged_again(NOW, &[1]), NextBurst::Nothing);
        assert_eq!(leaving(&mut sender), (2..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_silent_peer_receives_at_most_five_bursts() {
        let mut sender = Sender::new(&rules(10), 1000 * 16, BlockSize::B16, 0);
        sender.begin_burst();
        let mut bursts = 1;
        while sender.unanswered(4) == NextBurst::Burst {
            bursts += 1;
        }
        assert_eq!(bursts, 5);
    }

    #[test]
    fn unanswered_bursts_are_counted_up_to_the_maximum_setting() {
        let mut sender = Sender::new(&rules(1), 1000 * 16, BlockSize::B16, 0);
        assert_eq!((0..1_000).filter(|_| sender.unanswered(u8::MAX) == NextBurst::Burst).count(), 255);
    }
}
