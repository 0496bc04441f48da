//! [`Receiver`]: tracks received and missing blocks of a body, and when to report them (RFC 9177
//! §4.3, §4.4, §7.2).
//!
//! Consecutive blocks from the first on are joined. Early blocks are stored from at most two
//! bursts: a large block number uses no more memory than was sent.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::codec::{Block, BlockSize, Code, Content, Header, JoinedBody, OwnedMessage, Token, Type};
use conche_cc::Instant;

/// Wait for reordered payloads after the end of a burst.
const REORDERING: Duration = Duration::from_millis(10);

/// Longer gaps are pauses of the sender.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// Memory of an early block without its payload.
const EARLY_BYTES: usize = 64;

/// The division of a body into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyLayout {
    pub(crate) size: BlockSize,
    /// Exact body size, from Size1 or Size2 (RFC 9177 §4.6).
    pub(crate) bytes: usize,
    pub(crate) max_payloads: u32,
}

impl BodyLayout {
    pub(crate) fn blocks(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(self.size.bytes())).unwrap_or(u32::MAX)
    }

    pub(crate) fn fits(&self, block: Block, length: usize) -> bool {
        let last = block.num + 1 == self.blocks();
        let expected = if last { self.bytes - block.offset().min(self.bytes) } else { self.size.bytes() };
        block.size == self.size && block.num < self.blocks() && block.more != last && length == expected
    }

    pub(crate) fn end_of_burst(&self, number: u32) -> u32 {
        (number / self.max_payloads + 1).saturating_mul(self.max_payloads).min(self.blocks())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveTimeouts {
    /// For Non-confirmable blocks: NON_RECEIVE_TIMEOUT.
    pub(crate) non: Duration,
    /// MAX_TRANSMIT_SPAN, during which Confirmable blocks are retransmitted (RFC 9177 §4.4).
    pub(crate) confirmable: Duration,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    shape: BodyLayout,
    timeouts: ReceiveTimeouts,
    /// A block after the first was Confirmable.
    confirmable: bool,
    non: bool,
    joined: JoinedBody,
    /// Not joined yet.
    next: u32,
    early: BTreeMap<u32, Box<[u8]>>,
    early_bytes: usize,
    /// Burst at which missing blocks were requested.
    reported_in_burst: u32,
    /// Requests for missing blocks without a result.
    requested: u8,
    last: Instant,
    /// Average gap between messages.
    gap: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockStatus {
    /// The block was missing.
    New,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nothing,
    /// All blocks before this start of a burst.
    Continue(u32),
    /// Some blocks are [missing](Receiver::missing).
    Missing,
    /// The body is [complete](Receiver::finish).
    Complete,
}

impl Receiver {
    /// `content` carries a block of the body.
    pub(crate) fn new(now: Instant, content: &Content<'_>, shape: BodyLayout, timeouts: ReceiveTimeouts) -> Self {
        Self {
            shape,
            timeouts,
            confirmable: false,
            non: false,
            joined: JoinedBody::new(content, |number| !number.describes_blocks()),
            next: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            reported_in_burst: 0,
            requested: 0,
            last: now,
            gap: Duration::ZERO,
        }
    }

    pub(crate) fn shape(&self) -> &BodyLayout {
        &self.shape
    }

    pub(crate) fn code(&self) -> Code {
        self.joined.code()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.joined.capacity() + self.early_bytes
    }

    /// Returns an upper bound with another block.
    pub(crate) fn bytes_with(&self, length: usize) -> usize {
        let joined = self.joined.capacity_with(self.early_bytes + length, self.shape.bytes);
        joined + self.early_bytes + length + EARLY_BYTES
    }

    /// Returns `true` if all blocks are Confirmable, not just the first: the sender detects losses
    /// (RFC 9177 §4.1).
    pub(crate) fn is_confirmable(&self) -> bool {
        self.confirmable && !self.non
    }

    /// The block must [fit](BodyLayout::fits).
    pub(crate) fn take(&mut self, now: Instant, number: u32, payload: &[u8], ty: Type) -> BlockStatus {
        self.confirmable |= number > 0 && ty == Type::Confirmable;
        self.non |= ty == Type::NonConfirmable;
        let gap = now - self.last;
        if gap <= LONGEST_GAP {
            self.gap = if self.gap.is_zero() { gap } else { (self.gap * 7 + gap) / 8 };
        }
        self.last = now;
        let beyond = self.shape.end_of_burst(self.next).saturating_add(self.shape.max_payloads);
        if number < self.next || number >= beyond || self.early.contains_key(&number) {
            return BlockStatus::Ignored;
        }
        if number > self.next {
            self.early.insert(number, payload.into());
            self.early_bytes += payload.len() + EARLY_BYTES;
            return BlockStatus::New;
        }
        self.requested = 0;
        self.joined.push(payload, self.shape.bytes);
        self.next += 1;
        while let Some(payload) = self.early.remove(&self.next) {
            self.early_bytes -= payload.len() + EARLY_BYTES;
            self.joined.push(&payload, self.shape.bytes);
            self.next += 1;
        }
        BlockStatus::New
    }

    /// Returns the report after a block; a duplicate gets the same (RFC 9177 §4.3).
    pub(crate) fn reply(&mut self, number: u32, taken: BlockStatus) -> Reply {
        let max = self.shape.max_payloads;
        if self.next >= self.shape.blocks() {
            return Reply::Complete;
        }
        if self.next.is_multiple_of(max) && (taken == BlockStatus::New && number < self.next || number + 1 == self.next)
        {
            return Reply::Continue(self.next);
        }
        // The next burst has started: earlier missing blocks are lost.
        let set = number / max;
        if !self.is_confirmable() && set > self.next / max && set > self.reported_in_burst {
            self.reported_in_burst = set;
            return Reply::Missing;
        }
        Reply::Nothing
    }

    /// Returns missing blocks within the bursts received so far.
    pub(crate) fn missing(&self, most: usize) -> Vec<u32> {
        let behind = self.early.last_key_value().map_or(self.next, |(last, _)| *last);
        let end = self.shape.end_of_burst(behind.max(self.next));
        (self.next..end).filter(|number| !self.early.contains_key(number)).take(most).collect()
    }

    pub(crate) fn due(&self) -> Instant {
        // Only reordering can still bring earlier blocks.
        let end = self.shape.end_of_burst(self.next);
        if self.requested == 0 && !self.is_confirmable() && self.early.contains_key(&(end - 1)) {
            return self.last + (self.gap * 2).max(REORDERING).min(self.timeouts.non);
        }
        // With only later blocks, the first was lost with its acknowledgement, which is not
        // retransmitted.
        let repeated = self.is_confirmable() && self.next > 0;
        let timeouts = self.timeouts.non.saturating_mul(1 << self.requested.saturating_sub(1).min(16));
        // No message is retransmitted for longer than MAX_TRANSMIT_SPAN.
        self.last + if repeated { timeouts.max(self.timeouts.confirmable) } else { timeouts }
    }

    /// Returns `false` after `most` requests without a result.
    pub(crate) fn ask(&mut self, now: Instant, most: u8) -> bool {
        let more = self.requested < most;
        self.requested = self.requested.saturating_add(1);
        self.last = now;
        more
    }

    pub(crate) fn finish(self, header: Header, token: &Token) -> Option<OwnedMessage> {
        self.joined.finish(header, token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{BlockSize, Body};
    use alloc::vec;

    const SHAPE: BodyLayout = BodyLayout { size: BlockSize::B16, bytes: 25 * 16 - 3, max_payloads: 10 };

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn receiver() -> Receiver {
        let body = Body::builder().payload(&[1][..]).build().expect("legal");
        let content = body.content(Code::PUT).expect("well-formed");
        let timeouts = ReceiveTimeouts { non: Duration::from_secs(4), confirmable: Duration::from_secs(45) };
        Receiver::new(at(0), &content, SHAPE, timeouts)
    }

    fn come(receiver: &mut Receiver, ms: u64, number: u32) -> Reply {
        come_as(receiver, ms, number, Type::NonConfirmable)
    }

    fn come_as(receiver: &mut Receiver, ms: u64, number: u32, ty: Type) -> Reply {
        let taken = receiver.take(at(ms), number, &[7; 16][..if number == 24 { 13 } else { 16 }], ty);
        receiver.reply(number, taken)
    }

    // RFC 9177 §4.3 (Q164)
    #[test]
    fn a_whole_set_gets_one_continue_and_the_whole_body_ends_it() {
        let mut receiver = receiver();
        let replies: Vec<Reply> = (0..25).map(|n| come(&mut receiver, n.into(), n)).collect();
        for (number, reply) in replies.into_iter().enumerate() {
            let expected = match number {
                9 => Reply::Continue(10),
                19 => Reply::Continue(20),
                24 => Reply::Complete,
                _ => Reply::Nothing,
            };
            assert_eq!(reply, expected, "block {number}");
        }
        assert_eq!(come(&mut receiver, 30, 3), Reply::Complete);
    }

    // RFC 9177 §4.3 (Q165)
    #[test]
    fn a_copy_changes_nothing_and_is_answered_as_its_original_was() {
        let mut receiver = receiver();
        for number in 0..10 {
            come(&mut receiver, 0, number);
        }
        assert_eq!((come(&mut receiver, 0, 4), come(&mut receiver, 0, 9)), (Reply::Nothing, Reply::Continue(10)));
        assert_eq!(receiver.joined.payload().len(), 160);
    }

    // RFC 9177 §7.2 (Q175)
    #[test]
    fn a_block_of_the_next_burst_triggers_one_missing_blocks_request() {
        let mut receiver = receiver();
        for number in [0, 1, 3, 4, 6, 7, 8] {
            assert_eq!(come(&mut receiver, 0, number), Reply::Nothing);
        }
        assert_eq!(come(&mut receiver, 0, 10), Reply::Missing);
        assert_eq!(receiver.missing(100)[..3], [2, 5, 9]);
        assert_eq!(come(&mut receiver, 0, 11), Reply::Nothing);
    }

    #[test]
    fn missing_blocks_are_requested_after_the_burst_or_at_a_timeout() {
        let mut receiver = receiver();
        for (ms, number) in [(0, 0), (20, 1), (40, 3)] {
            come(&mut receiver, ms, number);
        }
        assert_eq!(receiver.due(), at(4_040), "NON_RECEIVE_TIMEOUT");
        come(&mut receiver, 60, 9);
        assert_eq!(receiver.due(), at(100), "two more would have come");
        assert_eq!(receiver.missing(100), vec![2, 4, 5, 6, 7, 8]);
        for (requested, due) in [(100, 4_100), (4_100, 12_100), (12_100, 28_100), (28_100, 60_100)] {
            assert!(receiver.ask(at(requested), 4));
            assert_eq!(receiver.due(), at(due), "twice as long each time");
        }
        assert!(!receiver.ask(at(60_100), 4));
    }

    // RFC 9177 §5 (Q179)
    #[test]
    fn of_confirmable_blocks_nothing_is_asked_for_before_their_sender_has_given_up() {
        let mut receiver = receiver();
        come_as(&mut receiver, 0, 0, Type::Confirmable);
        assert_eq!(receiver.due(), at(4_000), "the first one may be Confirmable in any case");
        for number in [1, 9, 10, 11] {
            assert_eq!(come_as(&mut receiver, 20, number, Type::Confirmable), Reply::Nothing);
        }
        assert_eq!(receiver.due(), at(45_020), "MAX_TRANSMIT_SPAN");
        let mut without_first = self::receiver();
        come_as(&mut without_first, 20, 1, Type::Confirmable);
        assert_eq!(without_first.due(), at(4_020), "the first one was in an acknowledgement that is lost");
        assert_eq!(come_as(&mut receiver, 30, 0, Type::Confirmable), Reply::Nothing);
        assert_eq!(receiver.due(), at(45_030), "a copy of the first one changes nothing");
        assert_eq!(come(&mut receiver, 40, 12), Reply::Missing, "a Non-confirmable one says that the others are lost");
        come_as(&mut receiver, 60, 13, Type::Confirmable);
        assert!(receiver.due() < at(4_060), "nobody repeats what was lost of both kinds");
    }

    #[test]
    fn missing_confirmable_blocks_are_requested_at_constant_intervals() {
        let mut receiver = receiver();
        for number in [0, 2] {
            come_as(&mut receiver, 0, number, Type::Confirmable);
        }
        for (requested, due) in [(45_000, 90_000), (90_000, 135_000), (135_000, 180_000), (180_000, 225_000)] {
            assert!(receiver.ask(at(requested), 4));
            assert_eq!(receiver.due(), at(due));
        }
        assert!(!receiver.ask(at(225_000), 4));
        receiver.timeouts.non = Duration::from_secs(10);
        assert_eq!(receiver.due(), at(385_000), "what takes longer still is waited for");
    }

    #[test]
    fn unanswered_missing_blocks_requests_end_after_255_at_a_stopped_clock() {
        let mut receiver = receiver();
        come(&mut receiver, 0, 0);
        assert_eq!((0..1_000).filter(|_| receiver.ask(Instant::FAR_FUTURE, u8::MAX)).count(), 255);
    }

    #[test]
    fn numbers_far_ahead_take_no_memory() {
        let shape = BodyLayout { bytes: 1 << 24, ..SHAPE };
        let mut receiver = Receiver { shape, ..receiver() };
        let before = receiver.bytes();
        for number in [20, 1000, 0xf_ffff] {
            assert_eq!(receiver.take(at(0), number, &[0; 16], Type::NonConfirmable), BlockStatus::Ignored);
        }
        assert_eq!(receiver.bytes(), before);
    }

    #[test]
    fn only_payloads_of_the_right_length_are_blocks_of_the_body() {
        let block = |num, more| Block { num, more, size: BlockSize::B16 };
        assert!(SHAPE.fits(block(0, true), 16) && SHAPE.fits(block(24, false), 13));
        let wrong = [
            (block(0, true), 15),
            (block(0, false), 16),
            (block(24, false), 16),
            (block(25, false), 13),
            (block(24, true), 13),
        ];
        assert!(wrong.into_iter().all(|(block, length)| !SHAPE.fits(block, length)));
        assert!(!SHAPE.fits(Block { num: 0xf_ffff, more: false, size: BlockSize::B1024 }, 16));
    }
}
