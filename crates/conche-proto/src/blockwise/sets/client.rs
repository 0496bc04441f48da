//! [`SetTransfer`]: a client's request whose body, or whose response's body, goes in sets (RFC 9177 §4.3, §4.4).
//!
//! The first message is what the application asked for, a Confirmable one as a rule: only to such a one does a peer that
//! does not know the options answer 4.02 (§4.1), and then all goes by Block1 and Block2. It carries the request's first
//! block, or asks for the response's first. All others are Non-confirmable.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;

use super::receiver::{Receiver, Reply, Shape, Taken};
use super::sender::{Follows, Sender};
use crate::blockwise::cut::{cut, is_ours, largest_fitting};
use crate::blockwise::download::Marks;
use crate::blockwise::transfer::{FETCHED_AGAIN, Rules, Trouble};
use crate::codec::{
    Block, BlockSize, Body, Code, ContentFormat, Header, Message, OptionNumber, OwnedMessage, Token, UintBytes,
    decode_missing_blocks, encode_uint,
};
use conche_cc::Instant;

/// The parameters of RFC 9177 §7.2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetRules {
    pub(crate) max_payloads: u16,
    pub(crate) non_receive_timeout: Duration,
    pub(crate) non_max_retransmit: u8,
}

/// What a response means for a transfer.
#[derive(Debug)]
pub(crate) enum SetStep {
    /// The set that is due leaves.
    Set,
    /// Send this at once, as an answer to what came.
    Say(Body),
    /// Nothing follows now.
    Wait,
    /// This is the whole response.
    Done(OwnedMessage),
    /// The response itself is the answer to the request.
    AsItIs,
    /// The peer knows Block1 and Block2 only: send the request in that way.
    Fallback,
    /// It goes on by Block2.
    Blocks,
    /// It cannot go on.
    Failed(Trouble),
}

/// A client's request that goes in sets.
#[derive(Debug)]
pub(crate) struct SetTransfer {
    pub(crate) code: Code,
    /// The request as the application gave it.
    pub(crate) whole: Body,
    /// Its options, with a Request-Tag.
    head: Body,
    payload: Bytes,
    pub(crate) sender: Option<Sender>,
    receiver: Option<(Receiver, Marks)>,
    /// Of the body before, where it changed on the way.
    outdated: Option<Marks>,
    fetched_again: u8,
    /// Messages have tokens of their own, which differ in the last two bytes: this is the number of the last. It is so many
    /// that numbers begin anew only after a body of 2^16 messages.
    token: u32,
    pub(crate) has_tokens: bool,
}

impl SetTransfer {
    /// Of a request whose body goes in sets; its first message. `None` if no block fits.
    pub(crate) fn upload(
        code: Code,
        whole: &Body,
        tag: [u8; 4],
        rules: &Rules,
        sets: &SetRules,
    ) -> Option<(Self, Body)> {
        let head = whole.rewritten(|number| !is_ours(number), &[], b"").with_request_tag(&tag);
        let payload = whole.payload();
        // Q-Block1, Size1 and the payload marker.
        let others = 4 + Token::MAX_LENGTH + head.len() + 5 + 6 + 1;
        let size = largest_fitting(rules.block_size, others, rules.message_bytes)?;
        let sender = Sender::new(payload.len(), size, sets.max_payloads, 1);
        let transfer = Self::new(code, whole, head, payload, Some(sender));
        let first = transfer.block(0)?;
        Some((transfer, first))
    }

    /// Of a request that asks for the first block of a response; its first message.
    pub(crate) fn download(code: Code, whole: &Body, tag: [u8; 4], size: BlockSize) -> (Self, Body) {
        let head = whole.rewritten(|number| !is_ours(number), &[], b"").with_request_tag(&tag);
        let first = Block { num: 0, more: false, size };
        let transfer = Self::new(code, whole, head, whole.payload(), None);
        let body = transfer.asking(&[first]);
        (transfer, body)
    }

    fn new(code: Code, whole: &Body, head: Body, payload: Bytes, sender: Option<Sender>) -> Self {
        let whole = whole.clone();
        Self {
            code,
            whole,
            head,
            payload,
            sender,
            receiver: None,
            outdated: None,
            fetched_again: 0,
            token: 0,
            has_tokens: false,
        }
    }

    /// The bytes that it takes in memory beside what it shares with others.
    pub(crate) fn bytes(&self) -> usize {
        self.receiver.as_ref().map_or(0, |(receiver, _)| receiver.bytes())
    }

    /// The token of the next message.
    pub(crate) fn next_token(&mut self, base: &Token) -> Token {
        if !self.has_tokens {
            return base.clone();
        }
        self.token = self.token.saturating_add(1);
        let [low, high, ..] = self.token.to_le_bytes();
        base.clone().numbered(u16::from_le_bytes([low, high]))
    }

    /// A message with this token has left, which differs from `base` in its number.
    pub(crate) fn has_used(&self, base: &Token, token: &Token) -> bool {
        let (Some(number), true) = (token.number(), self.has_tokens) else { return false };
        base.clone().numbered(number) == *token && u32::from(number) <= self.token
    }

    /// When to ask for what is missing, if the response is on its way.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.receiver.as_ref().map(|(receiver, _)| receiver.due())
    }

    /// The message with this block of the request's body.
    pub(crate) fn block(&self, number: u32) -> Option<Body> {
        let size = self.sender.as_ref()?.size;
        let (range, block) = cut(self.payload.len(), number as usize * size.bytes(), size)?;
        let bytes = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        let added: [(OptionNumber, UintBytes); 2] =
            [(OptionNumber::Q_BLOCK1, block.encode()), (OptionNumber::SIZE1, encode_uint(bytes))];
        Some(self.head.rewritten(|_| true, &added, self.payload.get(range)?))
    }

    /// The first message was acknowledged after this time, and the response to it is still to come: the peer has the first
    /// block.
    pub(crate) fn acknowledged(&mut self, round_trip: Option<Duration>) -> bool {
        self.sender = self.sender.take().map(|sender| sender.after(round_trip));
        self.sender.as_mut().is_some_and(|sender| sender.has_left() && sender.begin_set())
    }

    /// A response came. `first`: to the first message.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        response: &Message<'_>,
        first: bool,
        rules: &Rules,
        sets: &SetRules,
    ) -> SetStep {
        let code = response.code();
        if code == Code::BAD_OPTION && first {
            return SetStep::Fallback;
        }
        if let Some(sender) = &mut self.sender {
            let listed = response.uint(OptionNumber::CONTENT_FORMAT) == Some(ContentFormat::MISSING_BLOCKS.0.into());
            let follows = match code {
                Code::CONTINUE => match response.block(OptionNumber::Q_BLOCK1) {
                    Ok(Some(block)) => sender.go_on(now, block.num.saturating_add(1)),
                    _ => Follows::Nothing,
                },
                Code::REQUEST_ENTITY_INCOMPLETE if listed => {
                    let numbers = decode_missing_blocks(response.payload(), sets.max_payloads.into());
                    numbers.map_or(Follows::Nothing, |numbers| sender.send_again(now, &numbers))
                }
                _ => return SetStep::Blocks,
            };
            return match follows {
                Follows::Set => SetStep::Set,
                Follows::Nothing => SetStep::Wait,
                Follows::TooMuch => SetStep::Failed(Trouble::Unacceptable),
            };
        }
        match response.block(OptionNumber::Q_BLOCK2) {
            Ok(Some(block)) if block.more || self.receiver.is_some() => self.receive(now, response, block, rules, sets),
            // A copy of the first block may come late.
            Ok(None) if self.receiver.is_none() => SetStep::Blocks,
            Ok(_) => SetStep::AsItIs,
            Err(_) => SetStep::Failed(Trouble::Unacceptable),
        }
    }

    /// A block of the response came.
    fn receive(
        &mut self,
        now: Instant,
        response: &Message<'_>,
        block: Block,
        rules: &Rules,
        sets: &SetRules,
    ) -> SetStep {
        let marks = Marks::of(response);
        let Some(bytes) = response.uint(OptionNumber::SIZE2).map(|size| size as usize) else {
            return SetStep::Failed(Trouble::Unacceptable);
        };
        if bytes > rules.body_bytes {
            return SetStep::Failed(Trouble::TooLarge);
        }
        if self.outdated == Some(marks) {
            return SetStep::Wait;
        }
        let max_payloads = u32::from(sets.max_payloads);
        // The body changed: it is fetched anew, unless asking again could have another effect (RFC 9177 §4.4).
        let changed =
            self.receiver.as_ref().filter(|(receiver, of)| *of != marks || receiver.code() != response.code());
        let anew = changed.is_some();
        if let Some((_, of)) = changed {
            (self.outdated, self.fetched_again) = (Some(*of), self.fetched_again + 1);
            if self.fetched_again > FETCHED_AGAIN || !self.code.is_safe() {
                return SetStep::Failed(Trouble::Changed);
            }
            self.receiver = None;
        }
        let (receiver, _) = match &mut self.receiver {
            Some(known) => known,
            none => {
                let shape = Shape { size: block.size, bytes, max_payloads };
                let receiver = Receiver::new(now, &response.content(), shape, sets.non_receive_timeout);
                none.insert((receiver, marks))
            }
        };
        if bytes != receiver.shape().bytes || !receiver.shape().fits(block, response.payload().len()) {
            return SetStep::Failed(Trouble::Unacceptable);
        }
        let taken = receiver.take(now, block.num, response.payload());
        match receiver.reply(block.num, taken) {
            Reply::Complete => {
                let header = Header { ty: response.ty(), code: response.code(), id: response.id() };
                let whole = self.receiver.take().and_then(|(receiver, _)| receiver.finish(header, &response.token()));
                whole.map_or(SetStep::Failed(Trouble::Unacceptable), SetStep::Done)
            }
            // The first block came alone, and what remains of its set is asked for with it.
            _ if anew || block.num == 0 && taken == Taken::New && bytes > block.size.bytes() => self.ask(rules),
            Reply::Nothing => SetStep::Wait,
            Reply::Continue(_) | Reply::Missing => self.ask(rules),
        }
    }

    /// Nothing came for long: what to ask for. `None` if that was in vain too often.
    pub(crate) fn overdue(&mut self, now: Instant, rules: &Rules, sets: &SetRules) -> Option<Body> {
        let (receiver, _) = self.receiver.as_mut()?;
        if !receiver.ask(now, sets.non_max_retransmit) {
            return None;
        }
        match self.ask(rules) {
            SetStep::Say(body) => Some(body),
            _ => None,
        }
    }

    /// Asks for what is missing: block by block, and with the M bit from where all is missing to the end of the set. If that
    /// is from the set's beginning, it is the 'Continue' (RFC 9177 §4.4).
    fn ask(&self, rules: &Rules) -> SetStep {
        let Some((receiver, _)) = &self.receiver else { return SetStep::Wait };
        let shape = receiver.shape();
        let missing = receiver.missing(shape.max_payloads as usize);
        let Some(&last) = missing.last() else { return SetStep::Wait };
        let to_the_end = last + 1 == shape.end_of_set(last);
        // The first of those behind which nothing has come.
        let tail =
            missing.iter().rev().zip((0..=last).rev()).take_while(|(number, expected)| **number == *expected).count();
        let single = if to_the_end && tail > 1 { missing.len() - tail } else { missing.len() };
        let head = self.head.len() + self.sent_again().len();
        let room = rules.message_bytes.saturating_sub(4 + Token::MAX_LENGTH + head + 2) / ASKED_BYTES;
        let one = |(n, &num): (usize, &u32)| Block { num, more: n == single, size: shape.size };
        let blocks: Vec<Block> = missing.iter().take((single + 1).min(room)).enumerate().map(one).collect();
        if blocks.is_empty() { SetStep::Failed(Trouble::TooLarge) } else { SetStep::Say(self.asking(&blocks)) }
    }

    fn asking(&self, blocks: &[Block]) -> Body {
        let added: SmallVec<[(OptionNumber, UintBytes); 4]> =
            blocks.iter().map(|block| (OptionNumber::Q_BLOCK2, block.encode())).collect();
        // ETag would be answered with 2.03 and no payload (RFC 9177 §4.4).
        let first = self.receiver.is_none();
        self.head.rewritten(|number| first || number != OptionNumber::ETAG, &added, self.sent_again())
    }

    /// FETCH is what it is with its body.
    fn sent_again(&self) -> &[u8] {
        if self.code == Code::FETCH { &self.payload } else { &[] }
    }
}

/// What a block that is asked for takes: the option's head, and three bytes of value.
const ASKED_BYTES: usize = 1 + 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Encoder, MessageId, Type};
    use alloc::string::{String, ToString};

    const RULES: Rules = Rules { block_size: BlockSize::B16, message_bytes: 1152, body_bytes: 4096 };
    const SETS: SetRules =
        SetRules { max_payloads: 10, non_receive_timeout: Duration::from_secs(4), non_max_retransmit: 4 };

    /// What block `num` of a body of 64 bytes with this ETag has follow: what is asked for, or how it ends.
    fn after(transfer: &mut SetTransfer, num: u32, etag: u8) -> String {
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
        match transfer.answer(Instant::ZERO, &message, false, &RULES, &SETS) {
            SetStep::Say(asked) => {
                let blocks = asked.options().filter(|option| option.number == OptionNumber::Q_BLOCK2);
                blocks.map(|option| Block::decode(option.value).expect("legal").to_string() + " ").collect()
            }
            SetStep::Done(whole) => String::from_utf8_lossy(whole.payload()).into(),
            SetStep::Wait => "wait".into(),
            step => alloc::format!("{step:?}"),
        }
    }

    // RFC 9177 §4.4 (Q167)
    #[test]
    fn a_response_that_changes_is_fetched_anew_and_late_blocks_of_the_old_one_are_ignored() {
        let get = Body::builder().path("/f").build().expect("legal");
        let (mut transfer, _) = SetTransfer::download(Code::GET, &get, [0; 4], BlockSize::B16);
        assert_eq!(after(&mut transfer, 0, b'a'), "1/1/16 ");
        assert_eq!(after(&mut transfer, 1, b'a'), "wait");
        assert_eq!(after(&mut transfer, 2, b'b'), "0/0/16 1/0/16 3/0/16 ");
        assert_eq!(after(&mut transfer, 3, b'a'), "wait");
        assert_eq!([1, 3].map(|num| after(&mut transfer, num, b'b')), ["wait", "wait"]);
        assert_eq!(after(&mut transfer, 0, b'b'), "b".repeat(64));
    }
}
