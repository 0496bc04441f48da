//! [`Request`]: one of our Q-Block requests.

use std::collections::{BTreeSet, HashSet};

use conche_proto::Instant;
use conche_proto::codec::{Block, Code, Message, MessageId, OptionNumber, Token, Type};

use super::super::Address;
use super::{Rules, asks, blocks, end_of_burst, listed};

/// Minimum wait for missing blocks after the end of a burst.
const REORDERING: std::time::Duration = std::time::Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Request {
    to: Address,
    id: MessageId,
    token: Token,
    asks: (Code, Vec<(u16, Vec<u8>)>),
    tokens: HashSet<Vec<u8>>,
    left: usize,
    answered: bool,
    refused: bool,
    /// An Empty ACK for the first message arrived, which counts if it was trusted.
    acknowledged: bool,
    /// Refused in a second acknowledgement, which counts only if the first was not trusted.
    perhaps_refused: bool,
    observes: bool,
    /// Block size and total length.
    body: Option<(Block, usize)>,
    next: u32,
    /// The burst that may start here.
    begins: Option<u32>,
    /// Each may be sent once more.
    again: BTreeSet<u32>,
    unanswered: u8,
    /// The last transmission, or part of a response.
    last: Instant,
    came: Option<Came>,
    /// Received messages that may cause a request for more.
    unsaid: usize,
    in_vain: u8,
}

#[derive(Debug, Default)]
struct Came {
    marks: Option<(Code, Option<Vec<u8>>, u32, usize)>,
    blocks: BTreeSet<u32>,
    /// Includes blocks in messages that may have been taken for duplicates.
    perhaps: BTreeSet<u32>,
    /// One block was inconsistent.
    odd: bool,
}

impl Request {
    pub(super) fn new(now: Instant, to: Address, message: &Message<'_>) -> Self {
        let block = message.block(OptionNumber::Q_BLOCK1).expect("endpoints send no reserved sizes");
        let body = block.map(|block| {
            let bytes = message.uint(OptionNumber::SIZE1).expect("Size1 is in every payload (RFC 9177 §4.6)");
            (block, bytes as usize)
        });
        assert!(message.option(OptionNumber::REQUEST_TAG).is_some(), "{message} has no Request-Tag (RFC 9177 §4.3)");
        assert_eq!(block.map_or(0, |block| block.num), 0, "{message}");
        Self {
            to,
            id: message.id(),
            token: message.token(),
            asks: asks(message),
            tokens: HashSet::new(),
            left: 0,
            answered: false,
            refused: false,
            acknowledged: false,
            perhaps_refused: false,
            observes: message.uint(OptionNumber::OBSERVE) == Some(0),
            body,
            next: 1,
            begins: None,
            again: BTreeSet::new(),
            unanswered: 0,
            last: now,
            came: body.is_none().then(Came::default),
            unsaid: 0,
            in_vain: 0,
        }
    }

    pub(super) fn may_be_refused(&self) -> bool {
        self.refused || self.perhaps_refused
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    pub(super) fn used(&self, token: &Token) -> bool {
        *token == self.token || self.tokens.contains(token.as_slice())
    }

    /// Of a numbered token of at least six bytes: the first has the number 0.
    fn prefix(&self) -> Option<&[u8]> {
        let (prefix, number) = self.token.as_slice().split_last_chunk::<2>()?;
        (prefix.len() >= 4 && *number == [0, 0]).then_some(prefix)
    }

    pub(super) fn may_use(&self, to: Address, message: &Message<'_>) -> bool {
        let token = &message.token();
        if self.observes && message.option(OptionNumber::Q_BLOCK1).is_some() {
            return to == self.to && *token == self.token;
        }
        let same = |prefix: &[u8]| {
            token.len() == self.token.len() && token.as_slice().starts_with(prefix) && *token != self.token
        };
        to == self.to && self.prefix().map_or(*token == self.token, same)
    }

    /// Before delivery; a possible duplicate may be ignored.
    pub(super) fn received(
        &mut self,
        now: Instant,
        from: Address,
        message: &Message<'_>,
        may_be_copy: bool,
        rules: &Rules,
    ) {
        // An acknowledgement of the first message is too late after others were sent.
        let acknowledges = message.id() == self.id && self.left == 0;
        if from != self.to || self.refused {
            return;
        }
        if message.ty() == Type::Acknowledgement && acknowledges && message.code().is_empty() {
            (self.answered, self.acknowledged) = (true, true);
            self.may_begin(1);
        }
        let matches = if message.ty() == Type::Acknowledgement { acknowledges } else { message.ty() != Type::Reset };
        if !matches || !message.code().is_response() || !self.used(&message.token()) {
            return;
        }
        if message.code() == Code::BAD_OPTION {
            let again = message.ty() == Type::Acknowledgement && self.acknowledged || may_be_copy;
            *(if again { &mut self.perhaps_refused } else { &mut self.refused }) = true;
            return;
        }
        self.answered = true;
        self.unsaid += 1;
        if message.ty() == Type::Acknowledgement && self.body.is_some() {
            self.may_begin(1);
        }
        match message.code() {
            Code::CONTINUE if self.body.is_some() => {
                if let Ok(Some(block)) = message.block(OptionNumber::Q_BLOCK1) {
                    self.may_begin(block.num.saturating_add(1));
                }
            }
            Code::REQUEST_ENTITY_INCOMPLETE if self.body.is_some() => self.misses(message, rules),
            _ => self.came(message, may_be_copy, rules),
        }
        if self.came.is_some() {
            self.last = now;
        }
    }

    fn may_begin(&mut self, number: u32) {
        if number == self.next {
            self.begins = Some(number);
            self.unanswered = 0;
        }
    }

    fn misses(&mut self, message: &Message<'_>, rules: &Rules) {
        let Some(mut numbers) = listed(message.payload()) else { return };
        numbers.truncate(rules.max_payloads as usize);
        if message.uint(OptionNumber::CONTENT_FORMAT) != Some(272) || !numbers.is_sorted_by(|one, other| one < other) {
            return;
        }
        if let Some(&first) = numbers.first().filter(|&&first| first == self.next) {
            return self.may_begin(first);
        }
        let next = self.next;
        self.again.extend(numbers.into_iter().filter(|&number| number < next));
        self.unanswered = 0;
    }

    /// A new payload in its burst's turn, or a missing one.
    pub(super) fn payload_left(&mut self, now: Instant, message: &Message<'_>, block: Block, rules: &Rules) {
        let (first, bytes) = self.body.expect("only what has a body sends payloads");
        self.is_alike(message);
        let blocks = u32::try_from(bytes.div_ceil(first.size.bytes())).expect("a body is small");
        let length = first.size.bytes().min(bytes - (block.offset()).min(bytes));
        assert!(block.size == first.size && block.num < blocks, "{message} is no block of the body");
        assert_eq!((block.more, message.payload().len()), (block.num + 1 < blocks, length), "{message}");
        if block.num != self.next {
            assert!(self.again.remove(&block.num), "{message} left, and nobody misses it: {self:?}");
            self.last = now;
            return;
        }
        let begins = block.num == 1 || block.num.is_multiple_of(rules.max_payloads);
        if begins && self.begins.take_if(|begins| *begins == block.num).is_none() {
            assert!(self.left > 1 || self.answered, "{message} left before the first was answered");
            assert!(now - self.last >= rules.non_timeout, "{message} left before NON_TIMEOUT: {self:?}");
            self.unanswered = self.unanswered.saturating_add(1);
            assert!(self.unanswered <= rules.most, "{} bursts in vain: {message}", self.unanswered);
        }
        self.next += 1;
        self.last = now;
    }

    fn is_alike(&mut self, message: &Message<'_>) {
        self.says_the_same(message);
        if self.prefix().is_some() && !(self.observes && message.token() == self.token) {
            assert!(self.tokens.insert(message.token().as_slice().to_vec()), "{message} has a token that left before");
        }
        self.left += 1;
    }

    fn says_the_same(&self, message: &Message<'_>) {
        assert_eq!(asks(message), self.asks, "{message} is of another request");
        assert!(!self.refused, "{message} left though the peer does not know the option");
        let pays = message.option(OptionNumber::Q_BLOCK1).is_some();
        let bytes = self.body.filter(|_| pays).and_then(|(_, bytes)| u32::try_from(bytes).ok());
        assert_eq!(message.uint(OptionNumber::SIZE1), bytes, "{message} (RFC 9177 §4.6)");
        let observe = if self.observes && pays { Some(0) } else { None };
        assert!(message.uint(OptionNumber::OBSERVE) == observe || !self.observes, "{message} (RFC 9177 §4.5)");
    }

    /// The next payload, a missing one, or a retransmission.
    pub(super) fn confirmable_left(&mut self, now: Instant, message: &Message<'_>, block: Block) {
        if message.id() == self.id {
            return;
        }
        self.says_the_same(message);
        assert!(self.answered, "{message} left before the one before was acknowledged");
        if block.num == self.next {
            self.next += 1;
        } else {
            assert!(self.again.remove(&block.num), "{message} left, and nobody misses it: {self:?}");
        }
        self.tokens.insert(message.token().as_slice().to_vec());
        (self.id, self.last, self.acknowledged) = (message.id(), now, false);
    }

    fn came(&mut self, message: &Message<'_>, may_be_copy: bool, rules: &Rules) {
        if message.option(OptionNumber::Q_BLOCK2).is_some() {
            self.came.get_or_insert_default();
        }
        let Some(came) = &mut self.came else { return };
        let etag = message.option(OptionNumber::ETAG).map(<[u8]>::to_vec);
        let (Ok(Some(block)), Some(bytes)) =
            (message.block(OptionNumber::Q_BLOCK2), message.uint(OptionNumber::SIZE2).map(|bytes| bytes as usize))
        else {
            came.odd = true;
            return;
        };
        let marks = (message.code(), etag, block.size.bytes() as u32, bytes);
        came.odd |= *came.marks.get_or_insert_with(|| marks.clone()) != marks;
        let blocks = bytes.div_ceil(block.size.bytes());
        let length = block.size.bytes().min(bytes.saturating_sub(block.offset()));
        let fits = block.more == ((block.num as usize) + 1 < blocks) && message.payload().len() == length && length > 0;
        came.odd |= !fits;
        enter(&mut came.perhaps, block.num, rules);
        if !may_be_copy {
            enter(&mut came.blocks, block.num, rules);
        }
    }

    /// A received message or a timeout justifies a request for more.
    pub(super) fn asked(&mut self, now: Instant, message: &Message<'_>, rules: &Rules) {
        self.is_alike(message);
        let came = self.came.as_ref().unwrap_or_else(|| panic!("{message} asks for what has not begun to come"));
        let asked = blocks(message, OptionNumber::Q_BLOCK2).expect("endpoints send no reserved sizes");
        let (last, single) = asked.split_last().expect("it has one at least");
        assert!(asked.is_sorted_by(|one, other| one.num < other.num && one.size == other.size), "{message}");
        assert!(single.iter().all(|block| !block.more), "{message} asks for overlapping blocks");
        if !came.odd {
            let end = if last.more { end_of_burst(last.num, rules) } else { last.num + 1 };
            let numbers = single.iter().map(|block| block.num).chain(last.num..end);
            let there = numbers.filter(|number| came.blocks.contains(number)).collect::<Vec<_>>();
            // A request for only the first block would be a different request.
            let beside_first = there == [1] && asked.len() == 2 && asked[0].num == 0 && self.body.is_some();
            assert!(there.is_empty() || beside_first, "{message} asks for {there:?}, which came: {came:?}");
            let turn = last.more && single.is_empty() && last.num > 0 && last.num.is_multiple_of(rules.max_payloads);
            assert!(!turn || (0..last.num).all(|number| came.perhaps.contains(&number)), "{message} is a 'Continue'");
        }
        if self.unsaid > 0 {
            self.unsaid -= 1;
            self.in_vain = 0;
        } else {
            let end_came = came.perhaps.last().is_some_and(|&last| last >= end_of_burst(last, rules) - 1);
            let least = if came.odd || end_came || self.in_vain == 0 { REORDERING } else { rules.non_receive_timeout };
            assert!(now - self.last >= least, "{message} is asked for too soon: {self:?}");
            self.in_vain = self.in_vain.saturating_add(1);
            assert!(self.in_vain <= rules.most, "{message} is asked for in vain: {self:?}");
        }
        self.last = now;
    }
}

/// Accepts a block of the expected burst or the next one.
fn enter(blocks: &mut BTreeSet<u32>, number: u32, rules: &Rules) {
    let next = (0..).find(|number| !blocks.contains(number)).expect("of infinitely many");
    if number < end_of_burst(next, rules).saturating_add(rules.max_payloads) {
        blocks.insert(number);
    }
}
