//! What leaves in sets (RFC 9177): the payloads of either role, and a server's responses that are asked for set by set.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::outbox::{Source, encode};
use super::receive::Arrival;
use super::transfer::{BEYOND, Recipient, Whole};
use super::{Ecn, Endpoint, RespondError, Transmit};
use crate::PeerKey;
use crate::blockwise::sets::{Follows, Sender};
use crate::blockwise::{Asked, Key, Representation};
use crate::codec::{Block, Body, Code, Message, OptionNumber, Token, Type};
use crate::exchange::{ExchangeId, Kept, Left, Opening, Purpose, Reliability, Response, Transferring, Work};
use crate::incoming::Waiting;
use crate::shares::Group;
use conche_cc::control::Why;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// The next payload of a set leaves.
    pub(super) fn depart_payload(&mut self, now: Instant, id: ExchangeId, buf: &mut [u8]) -> Option<Transmit<P>> {
        let exchange = self.exchanges.live(id)?;
        let (peer, base, local) = (exchange.peer, exchange.token.clone(), exchange.local);
        let fresh = exchange.sent.is_empty();
        let fresh_id = exchange.id;
        let code = exchange.content.code;
        let message_id = match fresh {
            true => fresh_id,
            false => match self.peers.get_mut(peer).ids.allocate(now, self.config.times().exchange_lifetime) {
                Ok(id) => id,
                Err(free) => {
                    self.exchanges.depart_later(id.index, free);
                    return None;
                }
            },
        };
        let mut transfer = self.exchanges.take_transfer(id.index)?;
        let payload = self.next_payload(now, &mut transfer, base, code);
        self.exchanges.end_transfer(id.index, transfer);
        let Some(Payload { code, token, body, first }) = payload else {
            // What it was cut of is not kept any more: the client asks again, and so does the application.
            self.exchanges.abandon(now, &mut self.peers, id.index, Why::Cancelled);
            self.close(now, id.index);
            return None;
        };
        if !fresh {
            self.exchanges.identify_as(id.index, message_id);
        }
        let to = self.peers.get(peer).key;
        let len = encode(buf, Type::NonConfirmable, code, message_id, &token, &body);
        let bytes = u32::try_from(len).unwrap_or(u32::MAX);
        let left = self.exchanges.payload_left(now, &mut self.peers, id.index, (first, bytes), &mut self.random);
        let attempt = self.exchanges.get(id.index).attempt();
        let transmit = Transmit { to, local, ecn: Ecn::NotCapable, len, exchange: Some(id), attempt };
        if left == Left::Over {
            self.exchanges.abandon(now, &mut self.peers, id.index, Why::Cancelled);
            self.close(now, id.index);
            return Some(transmit);
        }
        self.stats.retransmissions += u64::from(attempt > 0);
        Some(transmit)
    }

    /// What leaves next of a set.
    fn next_payload(&mut self, now: Instant, transfer: &mut Transferring, base: Token, code: Code) -> Option<Payload> {
        match &mut transfer.work {
            Work::Blocks(_) => None,
            Work::Sets(transfer) => {
                let sender = transfer.sender.as_mut()?;
                let first = sender.begins_train();
                let number = sender.pop()?;
                let (body, token) = (transfer.block(number)?, transfer.next_token(&base));
                Some(Payload { code, token, body, first })
            }
            Work::Kept(sender, kept) => {
                let first = sender.begins_train();
                let number = sender.pop()?;
                let others = 4 + base.encoded_len();
                let whole = self.representations.get(now, kept.key)?;
                let body = whole.block_of_set(number, sender.size, others, self.config.limits.message_bytes)?;
                Some(Payload { code: whole.code, token: base, body, first })
            }
        }
    }

    /// A request with Q-Block1 or Q-Block2. `None` if it has been answered; else it is for the application, all at once.
    pub(super) fn receive_of_set(
        &mut self,
        now: Instant,
        arrival: &Arrival<P>,
        message: &Message<'_>,
        asked: &Asked,
    ) -> Option<Whole> {
        if let Some(block) = asked.q_block1() {
            return self.receive_upload(now, arrival, message, asked, block);
        }
        let first = asked.q_block2()?;
        if first.num == 0 && message.values(OptionNumber::Q_BLOCK2).count() < 2 {
            return Some(Whole::AsItIs);
        }
        let key = self.key(arrival.hash, arrival.source, asked);
        let key = self.kept_key(key, message);
        let max_payloads = u32::from(self.sets.as_ref()?.rules().max_payloads);
        let others = 4 + message.encoded_token_len();
        // Since it was last asked for, a round trip has passed at least.
        let round_trip = self.representations.idle(now, key).map(|time| time.max(self.config.envelope.timeout_floor));
        let Some(kept) = self.representations.get(now, key) else {
            return self.not_kept(now, arrival, message);
        };
        let bytes = kept.payload().len();
        let size = kept.size_in_sets(first.size, others, self.config.limits.message_bytes);
        let blocks = bytes.div_ceil(first.size.bytes());
        let numbers = size.filter(|&size| size == first.size).and_then(|_| requested(message, max_payloads, blocks));
        let Some((numbers, to_the_end)) = numbers else {
            self.refuse(now, arrival, message, (Code::BAD_REQUEST, BEYOND));
            return None;
        };
        if message.ty() == Type::Confirmable {
            self.acknowledge_block(now, arrival, message);
        } else {
            self.remember_block(now, arrival);
        }
        let to = (arrival.source, arrival.group);
        self.leave_in_sets(now, to, (message.token(), round_trip), (key, bytes, first), (&numbers, to_the_end));
        None
    }

    /// All of a response was asked for: the blocks behind the first follow that (RFC 9177 §4.4).
    pub(super) fn leave_behind_first(&mut self, now: Instant, waiting: &Waiting<P>, asked: Block) {
        let Some(max_payloads) = self.sets.as_ref().map(|sets| sets.rules().max_payloads) else { return };
        let Recipient { key, group, .. } = self.recipient(waiting, waiting.token.encoded_len());
        let others = 4 + waiting.token.encoded_len();
        let (wanted, limit) = (asked.size.min(self.config.block_size), self.config.limits.message_bytes);
        let Some(kept) = self.representations.get(now, key) else { return };
        let (bytes, size) = (kept.payload().len(), kept.size_in_sets(wanted, others, limit));
        let Some(size) = size else { return };
        let blocks = u32::try_from(bytes.div_ceil(size.bytes())).unwrap_or(u32::MAX);
        let numbers: Vec<u32> = (1..blocks.min(max_payloads.into())).collect();
        let to = (Source { from: waiting.from, local: waiting.local }, group);
        self.leave_in_sets(
            now,
            to,
            (waiting.token.clone(), None),
            (key, bytes, Block { size, ..asked }),
            (&numbers, true),
        );
    }

    /// Blocks of a kept response leave, with this token, to who was heard again after this time.
    fn leave_in_sets(
        &mut self,
        now: Instant,
        to: (Source<P>, Group),
        (token, round_trip): (Token, Option<Duration>),
        (key, bytes, block): (Key, usize, Block),
        (numbers, to_the_end): (&[u32], bool),
    ) {
        let under_way = self.sets.as_ref().and_then(|sets| sets.leaving(key));
        if let Some(id) = under_way.filter(|&id| self.exchanges.live(id).is_some()) {
            return self.go_on_leaving(now, id, token, (numbers, to_the_end));
        }
        let Some(max_payloads) = self.sets.as_ref().map(|sets| sets.rules().max_payloads) else { return };
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return };
        let sender = if to_the_end && numbers.len() as u64 == u64::from(last - first) + 1 {
            let mut sender = Sender::new(bytes, block.size, max_payloads, first).after(round_trip);
            sender.begin_set();
            sender
        } else {
            let mut sender = Sender::new(bytes, block.size, max_payloads, last + 1).after(round_trip);
            sender.send_again(now, numbers);
            sender
        };
        let all = block.num == 0 && block.more;
        self.open_leaving(now, to, token, (sender, Kept { key, all }));
    }

    fn open_leaving(
        &mut self,
        now: Instant,
        (source, group): (Source<P>, Group),
        token: Token,
        (sender, kept): (Sender, Kept),
    ) {
        if !self.incoming.admits(group, token.places()) {
            self.stats.overloaded += 1;
            return;
        }
        let Ok(peer) = self.open_peer(now, source.from, group) else { return };
        let mut opening = Opening {
            purpose: Purpose::Response(group),
            code: Code::CONTENT,
            body: Body::EMPTY,
            token: token.clone(),
            local: source.local,
            reliability: Reliability::NeverConfirmable,
            deadline: Instant::FAR_FUTURE,
            transfer: Some(Box::new(Transferring::new(Work::Kept(sender, kept)))),
            whole: false,
            streamed: false,
        };
        self.incoming.take_share(group, &token);
        let Some(exchange) = self.open(now, peer, &mut opening) else { return self.incoming.give_back(group, &token) };
        let Some(sets) = &mut self.sets else { return };
        let exchanges = &self.exchanges;
        sets.leaves(kept.key, exchange, |id| exchanges.live(id).is_some());
    }

    /// A client that gets a response in sets says how it goes on.
    fn go_on_leaving(&mut self, now: Instant, id: ExchangeId, token: Token, (numbers, to_the_end): (&[u32], bool)) {
        let index = id.index;
        let Some(mut transfer) = self.exchanges.take_transfer(index) else { return };
        let Work::Kept(sender, _) = &mut transfer.work else { return self.exchanges.end_transfer(index, transfer) };
        let next = if to_the_end { numbers.first().copied() } else { None };
        let continued = next.map_or(Follows::Nothing, |next| sender.go_on(now, next));
        let missing = match continued {
            Follows::Nothing => sender.send_again(now, numbers),
            _ => Follows::Nothing,
        };
        self.exchanges.end_transfer(index, transfer);
        let exchange = self.exchanges.get_mut(index);
        if let Purpose::Response(group) = exchange.purpose {
            self.incoming.take_share(group, &token);
            self.incoming.give_back(group, &exchange.token);
        }
        exchange.token = token;
        if continued == Follows::Set {
            self.exchanges.set_answered(now, &mut self.peers, index);
            self.exchanges.go_on_with_set(now, &mut self.peers, index);
            return self.admit_waiting(now, self.exchanges.get(index).peer);
        }
        match missing {
            Follows::Set => {
                let next = self.exchanges.set_missing(now, &mut self.peers, index);
                self.follow_set(now, index, next);
            }
            // Who asks too much gets nothing more until it has been quiet for as long as an answer may take.
            Follows::Nothing | Follows::TooMuch => {}
        }
    }

    /// The first block of a response whose client knows Q-Block2, or the block that it asks for; the rest is kept.
    pub(super) fn cut_response_for_sets(
        &mut self,
        now: Instant,
        to: &Recipient,
        response: Response,
    ) -> Result<Response, RespondError> {
        let code = response.code;
        let block = to.asked.q_block2().filter(|_| code.is_success() && code != Code::VALID);
        let mut whole = Representation::new(code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &self.config.limits);
        let (Some(block), others) = (block, 4 + to.beside) else { return Ok(response) };
        if bytes > limits.body_bytes {
            return Err(RespondError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        let hash = self.hash;
        whole.tag(|payload| hash.hash(&payload).to_be_bytes());
        let Some(size) = whole.size_in_sets(block.size.min(self.config.block_size), others, limits.message_bytes)
        else {
            return Ok(response);
        };
        if bytes <= size.bytes() && block.num == 0 {
            // All there is.
            self.representations.forget(to.key);
            return Ok(response);
        }
        match whole.block_of_set(block.num, size, others, limits.message_bytes) {
            Some(body) => {
                self.representations.keep(now, to.key, to.group, whole);
                Ok(Response { body, ..response })
            }
            None => {
                let body = Body::builder().payload(BEYOND).build().unwrap_or_default();
                Ok(Response { code: Code::BAD_REQUEST, body, ..response })
            }
        }
    }
}

/// A message of a set.
struct Payload {
    code: Code,
    token: Token,
    body: Body,
    /// It is the first of a train.
    first: bool,
}

/// The blocks that a request's Q-Block2 options ask for, of a body of so many, and whether the last of these options asks for all
/// to the end of a set. `None` if they do not ascend or there is no such block (RFC 9177 §4.4).
fn requested(message: &Message<'_>, max_payloads: u32, blocks: usize) -> Option<(Vec<u32>, bool)> {
    let blocks = u32::try_from(blocks).ok()?;
    let (mut numbers, mut to_the_end) = (Vec::new(), false);
    let (mut size, mut before) = (None, None);
    for value in message.values(OptionNumber::Q_BLOCK2) {
        let block = Block::decode(value).ok()?;
        let ascends = before.is_none_or(|before| block.num > before);
        if !ascends || block.num >= blocks || *size.get_or_insert(block.size) != block.size {
            return None;
        }
        before = Some(block.num);
        // Overlaps ask for a block once.
        let from = numbers.last().map_or(block.num, |&last: &u32| block.num.max(last + 1));
        let end = if block.more {
            (block.num / max_payloads + 1).saturating_mul(max_payloads).min(blocks)
        } else {
            block.num + 1
        };
        to_the_end = block.more;
        numbers.extend((from..end).take((max_payloads as usize).saturating_sub(numbers.len())));
    }
    (!numbers.is_empty()).then_some((numbers, to_the_end))
}
