//! Q-Block (RFC 9177): sends the blocks of a body in bursts of MAX_PAYLOADS messages, with one
//! answer per burst (MAX_PAYLOADS_SET).
//!
//! ```text
//!  client, Q-Block1:  body ─> Sender ─burst─> … ─2.31─> Sender ─last burst─> … ─> response
//!  server, Q-Block1:  … ─block─> Receiver ─2.31, or 4.08 with missing blocks─> … ─> request
//!  server, Q-Block2:  stored response ─> Sender ─burst─> …, and each requested block
//!  client, Q-Block2:  … ─block─> Receiver ─requests next burst or missing blocks─> … ─> response
//! ```
//!
//! [`Sender`] and [`Receiver`] serve both roles; they handle numbers and times, not messages.
//!
//! A client's first message is Confirmable, because only then does a peer without Q-Block respond
//! with 4.02 (§4.1). It carries the first block of the request, or requests the first block of the
//! response. Further messages are Non-confirmable unless configured otherwise.
//!
//! A peer may refuse a message with 4.02 or 4.00. If it refuses requests for single blocks, or
//! sends single blocks without Size2, the client requests the whole response (NUM 0 and M set). If
//! the peer refuses that too, the client repeats the request with Block1 and Block2. The same
//! applies to an upload that the peer refuses, or that succeeds before all blocks were sent: the
//! peer took the first block for the whole body.
//!
//! Notifications arrive unrequested in bursts, so observed resources are always requested as a
//! whole. The sequence number is in every payload (§4.5): a newer state replaces parts of an older
//! one.

#![cfg_attr(
    not(feature = "q-block"),
    allow(unreachable_code, unused_variables, reason = "without the feature no transfer exists")
)]

mod receiver;
mod sender;

pub(crate) use receiver::{BodyLayout, Receiver, Reply};
pub(crate) use sender::{NextBurst, Sender};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use conche_cc::Instant;
use receiver::{BlockStatus, ReceiveTimeouts};
use smallvec::SmallVec;

use crate::blockwise::{BodyIdentity, FETCHED_AGAIN, Rules, TransferError, cut, largest_fitting};
use crate::codec::{
    BLOCK_BYTES, Block, BlockSize, Body, Code, ContentFormat, Header, MARKER_BYTES, Message, OptionNumber, Order,
    OwnedMessage, REGISTER, SIZE_BYTES, Token, UintBytes, decode_missing_blocks, decode_uint, encode_uint,
};
use crate::config::{QBlockFeature, SharedConfig};

/// Distinguishes bodies of equal requests (RFC 9175 §3).
pub(crate) type RequestTag = [u8; 4];

/// Q-Block parameters of a registration for notifications.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstRegistration {
    pub(crate) feature: QBlockFeature,
    pub(crate) tag: RequestTag,
    pub(crate) uploaded: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstRules {
    pub(crate) feature: QBlockFeature,
    pub(crate) max_payloads: u16,
    pub(crate) timeouts: ReceiveTimeouts,
    pub(crate) non_max_retransmit: u8,
    pub(crate) confirmable: bool,
}

impl BurstRules {
    pub(crate) fn of(config: &SharedConfig) -> Option<Self> {
        let (q_block, feature) = config.q_block()?;
        Some(Self {
            feature,
            max_payloads: q_block.max_payloads,
            timeouts: ReceiveTimeouts {
                non: q_block.non_receive_timeout,
                confirmable: config.times().max_transmit_span,
            },
            non_max_retransmit: config.transmission.max_retransmit,
            confirmable: q_block.confirmable,
        })
    }
}

#[derive(Debug)]
pub(crate) enum BurstStep {
    SendBurst,
    Send(Body),
    Wait,
    Done(OwnedMessage),
    Received,
    /// Repeat the request with Block1 and Block2.
    Fallback,
    /// Request the whole response with this: the peer sends no single blocks.
    Whole(Box<(BurstTransfer, Body)>),
    /// Continue with Block2.
    Blocks,
    Failed(TransferError),
}

#[derive(Debug)]
pub(crate) struct BurstTransfer {
    feature: QBlockFeature,
    pub(crate) code: Code,
    /// The request as submitted by the application.
    pub(crate) whole: Body,
    /// The options of the request, with a Request-Tag.
    head: Body,
    payload: Bytes,
    pub(crate) sender: Option<Sender>,
    receiver: Option<(Receiver, BodyIdentity)>,
    /// Q-Block sent the body, which is not repeated.
    uploaded: bool,
    /// The request registers an observer, or this is a notification.
    observes: bool,
    pushed: bool,
    /// Newest sequence number of the payloads.
    newest: Option<Order>,
    /// Only the first message was sent.
    alone: bool,
    /// Marks of the body before a change.
    outdated: Option<BodyIdentity>,
    fetched_again: u8,
    /// Its lower 16 bits end the token of the message.
    token: u32,
    pub(crate) has_tokens: bool,
}

impl BurstTransfer {
    /// Starts an upload; `None` if no block fits.
    pub(crate) fn upload(
        code: Code,
        whole: &Body,
        tag: RequestTag,
        rules: &Rules,
        bursts: &BurstRules,
    ) -> Option<(Self, Body)> {
        let head = whole.rewritten(|number| !number.describes_blocks(), &[], b"").with_request_tag(&tag);
        let payload = whole.payload();
        let others = rules.overhead.with(head.len() + BLOCK_BYTES + SIZE_BYTES + MARKER_BYTES);
        let size = largest_fitting(rules.block_size, others, rules.message_bytes)?;
        let sender = Sender::new(bursts, payload.len(), size, 1);
        let transfer = Self::new(bursts.feature, code, whole, head, Some(sender));
        let transfer = Self { uploaded: true, pushed: true, ..transfer };
        let first = transfer.block(0)?;
        Some((transfer, first))
    }

    /// Starts a download with this first message, which requests the first block, or whole states
    /// to observe.
    pub(crate) fn download(
        feature: QBlockFeature,
        code: Code,
        whole: &Body,
        tag: RequestTag,
        size: BlockSize,
    ) -> (Self, Body) {
        let head = whole.rewritten(|number| !number.describes_blocks(), &[], b"").with_request_tag(&tag);
        let transfer = Self::new(feature, code, whole, head, None);
        let transfer = Self { pushed: transfer.observes, ..transfer };
        let first = Block { num: 0, more: transfer.pushed, size };
        let body = transfer.asking(&[first]);
        (transfer, body)
    }

    pub(crate) fn state(code: Code, whole: &Body, registration: &BurstRegistration) -> Self {
        let BurstRegistration { feature, tag, uploaded } = *registration;
        let (transfer, _) = Self::download(feature, code, whole, tag, BlockSize::default());
        Self { uploaded, alone: false, ..transfer }
    }

    fn new(feature: QBlockFeature, code: Code, whole: &Body, head: Body, sender: Option<Sender>) -> Self {
        let (whole, payload) = (whole.clone(), whole.payload());
        let observes = whole.option(OptionNumber::OBSERVE).and_then(decode_uint) == Some(REGISTER);
        Self {
            feature,
            code,
            whole,
            head,
            payload,
            sender,
            receiver: None,
            uploaded: false,
            observes,
            pushed: false,
            newest: None,
            alone: true,
            outdated: None,
            fetched_again: 0,
            token: 0,
            has_tokens: false,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.receiver.as_ref().map_or(0, |(receiver, _)| receiver.bytes())
    }

    pub(crate) fn is_upload(&self) -> bool {
        self.uploaded
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Returns `true` for the final response to an upload.
    pub(crate) fn is_answered_by(&self, response: &Message<'_>) -> bool {
        self.sender.is_some() && !reports_blocks(response)
    }

    /// Returns the token of the next payload, the same for all payloads of a registration.
    pub(crate) fn payload_token(&mut self, base: &Token) -> Token {
        self.alone = false;
        if self.observes { base.clone() } else { self.next_token(base) }
    }

    pub(crate) fn next_token(&mut self, base: &Token) -> Token {
        self.alone = false;
        if !self.has_tokens {
            return base.clone();
        }
        self.token = self.token.saturating_add(1);
        let [low, high, ..] = self.token.to_le_bytes();
        base.clone().numbered(u16::from_le_bytes([low, high]))
    }

    pub(crate) fn has_used(&self, base: &Token, token: &Token) -> bool {
        let (Some(number), true) = (token.number(), self.has_tokens) else { return false };
        base.clone().numbered(number) == *token && u32::from(number) <= self.token
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.receiver.as_ref().map(|(receiver, _)| receiver.due())
    }

    pub(crate) fn block(&self, number: u32) -> Option<Body> {
        let size = self.sender.as_ref()?.size;
        let (range, block) = cut(self.payload.len(), number as usize * size.bytes(), size)?;
        let bytes = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        let added: [(OptionNumber, UintBytes); 2] =
            [(OptionNumber::Q_BLOCK1, block.encode()), (OptionNumber::SIZE1, encode_uint(bytes))];
        Some(self.head.rewritten(|_| true, &added, self.payload.get(range)?))
    }

    /// Records that the peer has the first block; returns `true` if a burst follows.
    pub(crate) fn acknowledged(&mut self, round_trip: Option<Duration>) -> bool {
        self.sender = self.sender.take().map(|sender| sender.after(round_trip));
        self.sender.as_mut().is_some_and(|sender| sender.has_left() && sender.begin_burst())
    }

    pub(crate) fn next_payload(&mut self) -> Option<Body> {
        let sender = self.sender.as_mut()?;
        if sender.has_left() {
            sender.begin_burst();
        }
        let number = sender.pop()?;
        self.block(number)
    }

    /// Handles a response; `first` if to the first message.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        response: &Message<'_>,
        first: bool,
        rules: &Rules,
        bursts: &BurstRules,
    ) -> BurstStep {
        let code = response.code();
        if is_refusal(code) && self.may_restart(first) {
            return self.ask_otherwise(rules);
        }
        if self.uploaded && reports_blocks(response) {
            return match self.receive_report(now, response, bursts) {
                NextBurst::Burst => BurstStep::SendBurst,
                NextBurst::Nothing => BurstStep::Wait,
                NextBurst::TooMuch => BurstStep::Failed(TransferError::Unacceptable),
            };
        }
        if code.is_success() && self.sender.as_ref().is_some_and(|sender| !sender.is_at_end()) {
            // The peer ignored a critical option: it cannot have the whole body (RFC 9177 §4.3).
            return if self.code.is_idempotent() {
                BurstStep::Fallback
            } else {
                BurstStep::Failed(TransferError::Unacceptable)
            };
        }
        // The body has arrived, or the peer refuses it.
        self.sender = None;
        if self.observes && !self.alone && self.receiver.is_some() && !code.is_success() {
            // The missing payloads were of an older state. An error would arrive as a notification.
            return BurstStep::Wait;
        }
        match response.block(OptionNumber::Q_BLOCK2) {
            Ok(Some(block)) if block.more || block.num > 0 || self.receiver.is_some() => {
                self.receive(now, response, block, rules, bursts)
            }
            // A late duplicate of the first block.
            Ok(None) if self.receiver.is_none() => BurstStep::Blocks,
            Ok(_) => BurstStep::Received,
            Err(_) => BurstStep::Failed(TransferError::Unacceptable),
        }
    }

    /// Returns `true` unless an upload's response has started. A refusal after a registration
    /// concerns an older state.
    fn may_restart(&self, first: bool) -> bool {
        (first || !self.observes) && (self.receiver.is_none() || !self.uploaded)
    }

    /// Selects the next method after a refusal.
    fn ask_otherwise(&self, rules: &Rules) -> BurstStep {
        if self.uploaded || self.pushed || self.alone {
            return BurstStep::Fallback;
        }
        self.ask_for_whole(rules)
    }

    fn ask_for_whole(&self, rules: &Rules) -> BurstStep {
        let whole = Self { pushed: true, ..Self::new(self.feature, self.code, &self.whole, self.head.clone(), None) };
        let first = whole.asking(&[Block { num: 0, more: true, size: rules.block_size }]);
        BurstStep::Whole(Box::new((whole, first)))
    }

    /// Handles a report about a burst, which may arrive late.
    fn receive_report(&mut self, now: Instant, response: &Message<'_>, bursts: &BurstRules) -> NextBurst {
        let Some(sender) = &mut self.sender else { return NextBurst::Nothing };
        if response.code() == Code::CONTINUE {
            let block = response.block(OptionNumber::Q_BLOCK1).ok().flatten();
            return block.map_or(NextBurst::Nothing, |block| sender.go_on(now, block.num.saturating_add(1)));
        }
        let numbers = decode_missing_blocks(response.payload(), bursts.max_payloads.into());
        numbers.map_or(NextBurst::Nothing, |numbers| match bursts.confirmable {
            true => sender.send_acknowledged_again(now, &numbers),
            false => sender.send_again(now, &numbers),
        })
    }

    fn receive(
        &mut self,
        now: Instant,
        response: &Message<'_>,
        block: Block,
        rules: &Rules,
        bursts: &BurstRules,
    ) -> BurstStep {
        let identity = BodyIdentity::of(response);
        let Some(bytes) = response.uint(OptionNumber::SIZE2).map(|size| size as usize) else {
            // Only blocks of a whole body require Size2 and ETag (RFC 9177 §4.6).
            return match (self.uploaded || self.observes, self.pushed) {
                (true, _) => BurstStep::Failed(TransferError::Unacceptable),
                (false, true) => BurstStep::Fallback,
                (false, false) => self.ask_for_whole(rules),
            };
        };
        if bytes > rules.body_bytes {
            return BurstStep::Failed(TransferError::TooLarge);
        }
        let sequence = response.uint(OptionNumber::OBSERVE).filter(|_| self.observes);
        let order = sequence.map(|sequence| Order { sequence, received: now });
        let newer = order.filter(|order| self.newest.is_none_or(|newest| newest.is_before(order)));
        if self.outdated == Some(identity) && newer.is_none() {
            return BurstStep::Wait;
        }
        let max_payloads = u32::from(bursts.max_payloads);
        // A changed body is requested again, unless this could have another effect (RFC 9177 §4.4).
        // A newer sequence number belongs to the next state; an older one is late.
        let changed =
            self.receiver.as_ref().filter(|(receiver, of)| *of != identity || receiver.code() != response.code());
        let restart = changed.is_some() && sequence.is_none();
        if let Some((_, of)) = changed {
            if sequence.is_some() && newer.is_none() {
                return BurstStep::Wait;
            }
            (self.outdated, self.fetched_again) = (Some(*of), self.fetched_again.saturating_add(u8::from(restart)));
            if restart && (self.fetched_again > FETCHED_AGAIN || !self.code.is_safe()) {
                return BurstStep::Failed(TransferError::Changed);
            }
            self.receiver = None;
        }
        self.newest = newer.or(self.newest);
        let (receiver, _) = match &mut self.receiver {
            Some(known) => known,
            none => {
                let shape = BodyLayout { size: block.size, bytes, max_payloads };
                let receiver = Receiver::new(now, &response.content(), shape, bursts.timeouts);
                none.insert((receiver, identity))
            }
        };
        if bytes != receiver.shape().bytes || !receiver.shape().fits(block, response.payload().len()) {
            return BurstStep::Failed(TransferError::Unacceptable);
        }
        let taken = receiver.take(now, block.num, response.payload(), response.ty());
        match receiver.reply(block.num, taken) {
            Reply::Complete => {
                let header = Header { ty: response.ty(), code: response.code(), id: response.id() };
                let whole = self.receiver.take().and_then(|(receiver, _)| receiver.finish(header, &response.token()));
                let whole = whole.and_then(|whole| self.numbered(whole));
                whole.map_or(BurstStep::Failed(TransferError::Unacceptable), BurstStep::Done)
            }
            _ if restart
                || !self.pushed && block.num == 0 && taken == BlockStatus::New && bytes > block.size.bytes() =>
            {
                self.ask(rules)
            }
            Reply::Nothing => BurstStep::Wait,
            // Acknowledgements trigger the sender's next block.
            Reply::Continue(_) if self.pushed && receiver.is_confirmable() => BurstStep::Wait,
            Reply::Continue(_) | Reply::Missing => self.ask(rules),
        }
    }

    /// Sets the newest sequence number: retransmitted payloads have none (RFC 9177 §4.5).
    fn numbered(&self, whole: OwnedMessage) -> Option<OwnedMessage> {
        let Some(Order { sequence, .. }) = self.newest else { return Some(whole) };
        if whole.uint(OptionNumber::OBSERVE) == Some(sequence) {
            return Some(whole);
        }
        let content = whole.content();
        let options = content.options().filter(|option| option.number != OptionNumber::OBSERVE);
        let body = Body::builder().options(options).uint(OptionNumber::OBSERVE, sequence);
        let body = body.payload(content.payload().to_vec()).build().ok()?;
        let Header { ty, code, id } = whole.header();
        OwnedMessage::encode(ty, code, id, &whole.token(), &body)
    }

    /// Returns the next request for missing blocks; `None` after too many.
    pub(crate) fn overdue(&mut self, now: Instant, rules: &Rules, bursts: &BurstRules) -> Option<Body> {
        let (receiver, _) = self.receiver.as_mut()?;
        if !receiver.ask(now, bursts.non_max_retransmit) {
            return None;
        }
        match self.ask(rules) {
            BurstStep::Send(body) => Some(body),
            _ => None,
        }
    }

    /// Requests missing blocks: an option each, and one with the M bit for a missing tail of the
    /// burst. If all are missing, this is the 'Continue' (RFC 9177 §4.4).
    fn ask(&self, rules: &Rules) -> BurstStep {
        let Some((receiver, _)) = &self.receiver else { return BurstStep::Wait };
        let shape = receiver.shape();
        let missing = receiver.missing(shape.max_payloads as usize);
        let Some(&last) = missing.last() else { return BurstStep::Wait };
        let to_the_end = last + 1 == shape.end_of_burst(last);
        // The blocks after the last received one.
        let tail =
            missing.iter().rev().zip((0..=last).rev()).take_while(|(number, expected)| **number == *expected).count();
        let single = if to_the_end && tail > 1 { missing.len() - tail } else { missing.len() };
        let head = self.head.len() + self.sent_again().len();
        // The first option may take a byte more; a payload has a marker.
        let room =
            rules.overhead.with(head + 1 + MARKER_BYTES).room(rules.message_bytes).unwrap_or_default() / ASKED_BYTES;
        let one = |(n, &num): (usize, &u32)| Block { num, more: n == single, size: shape.size };
        let mut blocks: Vec<Block> = missing.iter().take((single + 1).min(room)).enumerate().map(one).collect();
        if let ([Block { num: 0, more, size }], true) = (&blocks[..], self.uploaded) {
            // Block 0 alone would be a different request.
            let (more, size) = (*more, *size);
            blocks = alloc::vec![Block { num: 0, more: false, size }, Block { num: 1, more, size }];
        }
        if blocks.is_empty() {
            BurstStep::Failed(TransferError::TooLarge)
        } else {
            BurstStep::Send(self.asking(&blocks))
        }
    }

    fn asking(&self, blocks: &[Block]) -> Body {
        let added: SmallVec<[(OptionNumber, UintBytes); 4]> =
            blocks.iter().map(|block| (OptionNumber::Q_BLOCK2, block.encode())).collect();
        // ETag could cause a 2.03 without payload (RFC 9177 §4.4); Observe is not allowed (§4.5).
        let first = self.receiver.is_none();
        let kept = |number| first || !matches!(number, OptionNumber::ETAG | OptionNumber::OBSERVE);
        self.head.rewritten(kept, &added, self.sent_again())
    }

    /// Returns the repeated body: that of a FETCH, unless sent by Q-Block.
    fn sent_again(&self) -> &[u8] {
        if self.code == Code::FETCH && !self.uploaded { &self.payload } else { &[] }
    }
}

const fn is_refusal(code: Code) -> bool {
    matches!(code, Code::BAD_OPTION | Code::BAD_REQUEST)
}

/// Returns `true` for reports about request blocks: 2.31, or 4.08 with missing ones.
pub(crate) fn reports_blocks(response: &Message<'_>) -> bool {
    response.code() == Code::CONTINUE || lists_missing_blocks(response)
}

/// Returns `true` for a 4.08 with a list (RFC 9177 §5).
pub(crate) fn lists_missing_blocks(message: &Message<'_>) -> bool {
    message.code() == Code::REQUEST_ENTITY_INCOMPLETE
        && message.uint(OptionNumber::CONTENT_FORMAT) == Some(ContentFormat::MISSING_BLOCKS.0.into())
}

const ASKED_BYTES: usize = 1 + 3;

#[cfg(feature = "q-block")]
#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use super::*;
    use crate::codec::{Encoder, MessageId, Overhead, Type};

    const RULES: Rules = Rules {
        block_size: BlockSize::B16,
        message_bytes: 1152,
        overhead: Overhead::of_token_length(8),
        body_bytes: 4096,
    };
    const BURSTS: BurstRules = BurstRules {
        feature: QBlockFeature,
        max_payloads: 10,
        timeouts: ReceiveTimeouts { non: Duration::from_secs(4), confirmable: Duration::from_secs(45) },
        non_max_retransmit: 4,
        confirmable: false,
    };

    /// Delivers a block of a 64-byte body; returns the blocks requested next, or the outcome.
    fn after(transfer: &mut BurstTransfer, num: u32, etag: u8) -> String {
        let block = Block { num, more: num < 3, size: BlockSize::B16 };
        let body = Body::builder()
            .option(OptionNumber::ETAG, &[etag])
            .uint(OptionNumber::SIZE2, 64)
            .option(OptionNumber::Q_BLOCK2, block.encode().as_slice())
            .payload(alloc::vec![etag; 16])
            .build()
            .expect("legal options");
        let mut datagram = [0; 128];
        let encoder = Encoder::new(&mut datagram, Type::NonConfirmable, Code::CONTENT, MessageId(1), &Token::EMPTY);
        let length = encoder.and_then(|mut encoder| encoder.body(&body).map(|encoder| encoder.finish())).expect("room");
        let message = Message::decode(&datagram[..length]).expect("well-formed");
        match transfer.answer(Instant::ZERO, &message, false, &RULES, &BURSTS) {
            BurstStep::Send(requested) => {
                let blocks = requested.options().filter(|option| option.number == OptionNumber::Q_BLOCK2);
                blocks.map(|option| Block::decode(option.value).expect("legal").to_string() + " ").collect()
            }
            BurstStep::Done(whole) => String::from_utf8_lossy(whole.payload()).into(),
            BurstStep::Wait => "wait".into(),
            step => alloc::format!("{step:?}"),
        }
    }

    // RFC 9177 §4.4 (Q167)
    #[test]
    fn a_response_that_changes_is_fetched_anew_and_late_blocks_of_the_old_one_are_ignored() {
        let get = Body::builder().path("/f").build().expect("legal");
        let (mut transfer, _) = BurstTransfer::download(QBlockFeature, Code::GET, &get, [0; 4], BlockSize::B16);
        assert_eq!(after(&mut transfer, 0, b'a'), "1/1/16 ");
        assert_eq!(after(&mut transfer, 1, b'a'), "wait");
        assert_eq!(after(&mut transfer, 2, b'b'), "0/0/16 1/0/16 3/0/16 ");
        assert_eq!(after(&mut transfer, 3, b'a'), "wait");
        assert_eq!([1, 3].map(|num| after(&mut transfer, num, b'b')), ["wait", "wait"]);
        assert_eq!(after(&mut transfer, 0, b'b'), "b".repeat(64));
    }
}
