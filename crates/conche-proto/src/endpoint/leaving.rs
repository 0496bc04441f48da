//! Sending bodies with Q-Block (RFC 9177): the payloads of both roles, and a server's responses to
//! requests with Q-Block2.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use super::bodies::{BEYOND, Recipient, Whole};
use super::receive::Arrival;
use super::{Ecn, Endpoint, RespondError, Transmit};
use crate::PeerKey;
use crate::blockwise::sets::{Follows, Sender, SetRules};
use crate::blockwise::{Asked, Key, Mark, Representation};
use crate::codec::{Block, Body, Code, Message, OBSERVE_BYTES, OptionNumber, Overhead, Token, Type};
use crate::exchange::{ExchangeId, Kept, Left, Opening, Purpose, Reliability, Response, Transferring, Work};
use crate::incoming::Waiting;
use crate::shares::Group;
use crate::transport::{Source, encode};
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Sends the next payload of a set.
    pub(super) fn depart_payload(&mut self, now: Instant, id: ExchangeId, buf: &mut [u8]) -> Option<Transmit<P>> {
        let exchange = self.transport.exchanges.live(id)?;
        let (peer, base, local) = (exchange.peer, exchange.token.clone(), exchange.local);
        let fresh = exchange.sent.is_empty();
        let fresh_id = exchange.id;
        let code = exchange.content.code;
        let message_id = match fresh {
            true => fresh_id,
            false => match self.transport.message_id(now, peer) {
                Ok(id) => id,
                Err(free) => {
                    self.transport.exchanges.depart_later(id.index, free);
                    return None;
                }
            },
        };
        let mut transfer = self.transport.exchanges.take_transfer(id.index)?;
        let payload = self.next_payload(now, &mut transfer, base, code);
        self.transport.exchanges.put_back(id.index, transfer);
        let Some(Payload { code, token, body, first, begins }) = payload else {
            // The body is no longer kept. The client requests the rest again, and the application
            // is asked again.
            self.transport.exchanges.abandon(now, &mut self.transport.peers, id.index, AbandonReason::Cancelled);
            self.leaving_over(now, id.index);
            return None;
        };
        if !fresh {
            self.transport.exchanges.identify_as(id.index, message_id);
        }
        if let Purpose::Notification(observer) = self.transport.exchanges.get(id.index).purpose {
            self.observers.payload_left(now, observer, message_id, begins);
        }
        let to = self.transport.peers.get(peer).key;
        let Some(len) = encode(buf, Type::NonConfirmable, code, message_id, &token, &body) else {
            self.fail_oversized(now, id.index);
            return None;
        };
        let bytes = u32::try_from(len).unwrap_or(u32::MAX);
        let left = self.transport.exchanges.payload_left(
            now,
            &mut self.transport.peers,
            id.index,
            (first, bytes),
            &mut self.transport.random,
        );
        let attempt = self.transport.exchanges.get(id.index).attempt();
        let transmit = Transmit { to, local, ecn: Ecn::NotCapable, len, exchange: Some(id), attempt };
        if left == Left::Over {
            self.transport.exchanges.abandon(now, &mut self.transport.peers, id.index, AbandonReason::Cancelled);
            self.leaving_over(now, id.index);
            return Some(transmit);
        }
        self.transport.stats.retransmissions += u64::from(attempt > 0);
        Some(transmit)
    }

    /// Returns the next payload of a set.
    fn next_payload(&mut self, now: Instant, transfer: &mut Transferring, base: Token, code: Code) -> Option<Payload> {
        match &mut transfer.work {
            Work::Blocks(_) => None,
            Work::Sets(transfer) => {
                let sender = transfer.sender.as_mut()?;
                let first = sender.begins_train();
                let number = sender.pop()?;
                let (body, token) = (transfer.block(number)?, transfer.payload_token(&base));
                Some(Payload { code, token, body, first, begins: false })
            }
            Work::Kept(sender, kept) => {
                let (first, begins) = (sender.begins_train(), sender.is_new());
                let again = sender.repeats();
                let number = sender.pop()?;
                // Retransmitted blocks of a notification are a response to the request for them,
                // not a notification (RFC 9177 §4.5).
                let token = kept.asked.clone().filter(|_| again).unwrap_or(base);
                let sequence = kept.sequence.filter(|_| !again);
                let others = Overhead::of(&token).with(kept.sequence.map_or(0, |_| OBSERVE_BYTES));
                let whole = self.representations.get(now, kept.key).filter(|whole| whole.mark() == kept.mark)?;
                let body =
                    whole.block_of_set(number, sender.size, others, self.transport.config.limits.message_bytes)?;
                let body = match sequence {
                    Some(sequence) => body.with_uint(OptionNumber::OBSERVE, sequence),
                    None => body,
                };
                Some(Payload { code: whole.code, token, body, first, begins })
            }
        }
    }

    /// Ends the transmission of a response in sets.
    fn leaving_over(&mut self, now: Instant, index: u32) {
        match self.transport.exchanges.get(index).purpose {
            Purpose::Notification(_) => self.notification_over(now, index),
            _ => self.close(now, index),
        }
    }

    /// Receives a request with Q-Block1 or Q-Block2. Returns `None` if it has been answered,
    /// otherwise how it is passed to the application.
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
        let max_payloads = u32::from(self.set_rules()?.max_payloads);
        let others = Overhead::of_response_to(message);
        // At least a round trip has passed since the last request for the response.
        let round_trip =
            self.representations.idle(now, key).map(|time| time.max(self.transport.config.envelope.timeout_floor));
        let Some(kept) = self.representations.get(now, key) else {
            return self.not_kept(now, arrival, message);
        };
        let (bytes, mark) = (kept.payload().len(), kept.mark());
        let size = kept.size_in_sets(first.size, others, self.transport.config.limits.message_bytes);
        let blocks = bytes.div_ceil(first.size.bytes());
        let numbers = size.filter(|&size| size == first.size).and_then(|_| requested(message, max_payloads, blocks));
        let Some((numbers, to_the_end)) = numbers else {
            self.refuse(now, arrival, message, (Code::BAD_REQUEST, BEYOND));
            return None;
        };
        if message.ty() == Type::Confirmable {
            self.transport.acknowledge_empty(now, arrival.source, arrival.what, message.id());
        } else {
            self.transport.remember_silence(now, arrival.what);
        }
        let to = (arrival.source, arrival.group);
        let what = What { key, mark, bytes, block: first, sequence: None };
        self.leave_in_sets(now, to, (message.token(), round_trip), &what, (&numbers, to_the_end));
        None
    }

    /// Sends the blocks after the first one, which has been sent, of a response that was requested
    /// completely (RFC 9177 §4.4). The first response to an `observer` is a notification with this
    /// sequence number.
    pub(super) fn leave_behind_first(
        &mut self,
        now: Instant,
        waiting: &Waiting<P>,
        block: Block,
        observer: Option<(u32, u32)>,
    ) {
        let Some(SetRules { max_payloads, .. }) = self.set_rules() else { return };
        let Recipient { key, group, .. } = self.recipient(waiting, Overhead::of(&waiting.token));
        let Some(kept) = self.representations.get(now, key) else { return };
        let (bytes, mark) = (kept.payload().len(), kept.mark());
        let what = What { key, mark, bytes, block, sequence: observer.map(|(_, sequence)| sequence) };
        let source = Source { from: waiting.from, local: waiting.local };
        if let Some((observer, _)) = observer {
            return self.push_behind_first(now, observer, &what);
        }
        let blocks = u32::try_from(bytes.div_ceil(block.size.bytes())).unwrap_or(u32::MAX);
        let numbers: Vec<u32> = (1..blocks.min(max_payloads.into())).collect();
        self.leave_in_sets(now, (source, group), (waiting.token.clone(), None), &what, (&numbers, true));
    }

    /// Sends blocks of a kept response with this token to a client that was heard again after this
    /// time.
    fn leave_in_sets(
        &mut self,
        now: Instant,
        to: (Source<P>, Group),
        (token, round_trip): (Token, Option<Duration>),
        what: &What,
        (numbers, to_the_end): (&[u32], bool),
    ) {
        let under_way = self.sets.as_ref().and_then(|sets| sets.leaving(what.key));
        let under_way = under_way.filter(|&id| self.transport.exchanges.live(id).is_some());
        if let Some(id) = under_way {
            let exchange = self.transport.exchanges.get(id.index);
            if exchange.leaves(what.mark) {
                return self.go_on_leaving(now, id, token, (numbers, to_the_end));
            }
            if matches!(exchange.purpose, Purpose::Response(_)) {
                // Another body has replaced it.
                self.transport.exchanges.abandon(now, &mut self.transport.peers, id.index, AbandonReason::Cancelled);
                self.close(now, id.index);
            }
        }
        let Some(SetRules { max_payloads, .. }) = self.set_rules() else { return };
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return };
        let sender = if to_the_end && numbers.len() as u64 == u64::from(last - first) + 1 {
            let mut sender = Sender::new(what.bytes, what.block.size, max_payloads, first).after(round_trip);
            sender.begin_set();
            sender
        } else {
            let mut sender = Sender::new(what.bytes, what.block.size, max_payloads, last + 1).after(round_trip);
            sender.send_again(now, numbers);
            sender
        };
        self.open_leaving(now, to, token, (sender, self.kept(what, None)));
    }

    /// Returns how a response is sent in sets, with this reliability if the application specifies
    /// one.
    pub(super) fn kept(&self, what: &What, reliability: Option<Reliability>) -> Kept {
        let &What { key, mark, block, sequence, .. } = what;
        let confirmable = self.set_rules().is_some_and(|rules| rules.confirmable)
            && reliability != Some(Reliability::NeverConfirmable);
        let all = block.num == 0 && block.more;
        Kept { key, mark, confirmable, sequence, asked: None, outdated: false, all }
    }

    fn open_leaving(
        &mut self,
        now: Instant,
        (source, group): (Source<P>, Group),
        token: Token,
        (sender, kept): (Sender, Kept),
    ) {
        if !self.incoming.admits(group, token.places(), self.transport.config.limits.incoming) {
            self.transport.stats.overloaded += 1;
            return;
        }
        let Ok(peer) = self.open_peer(now, source.from, group) else { return };
        let purpose = Purpose::Response(group);
        let Some(mut opening) = self.leaving(now, purpose, (token.clone(), source.local), (sender, kept)) else {
            return;
        };
        let key = opening.transfer.as_ref().and_then(|transfer| transfer.key());
        self.incoming.take_share(group, &token);
        let Some(exchange) = self.transport.open(now, peer, &mut opening) else {
            return self.incoming.give_back(group, &token);
        };
        if let Some(key) = key {
            self.remember_leaving(key, exchange);
        }
    }

    /// Records the exchange that sends a response, for further requests about that response.
    pub(super) fn remember_leaving(&mut self, key: Key, exchange: ExchangeId) {
        let Some(sets) = &mut self.sets else { return };
        let exchanges = &self.transport.exchanges;
        sets.leaves(key, exchange, |id| exchanges.live(id).is_some());
    }

    /// Prepares the exchange of a response in sets. Returns `None` if the response is no longer
    /// kept.
    pub(super) fn leaving(
        &mut self,
        now: Instant,
        purpose: Purpose,
        (token, local): (Token, Option<IpAddr>),
        (sender, kept): (Sender, Kept),
    ) -> Option<Opening> {
        let confirmable = kept.confirmable;
        let mut transfer = Transferring::new(Work::Kept(sender, kept));
        let (mut code, mut body) = (Code::CONTENT, Body::EMPTY);
        if confirmable {
            let payload = self.next_payload(now, &mut transfer, token.clone(), code)?;
            (code, body, transfer.token) = (payload.code, payload.body, Some(payload.token));
        }
        let reliability = if confirmable { Reliability::Confirmable } else { Reliability::NeverConfirmable };
        Some(Opening {
            purpose,
            code,
            body,
            token,
            local,
            reliability,
            transfer: Some(Box::new(transfer)),
            ..Opening::EMPTY
        })
    }

    /// Continues a response in sets after one of its messages was acknowledged: with the next
    /// payload if each is acknowledged, otherwise with the blocks after the first. Returns `false`
    /// if nothing follows.
    pub(super) fn go_on_with_kept(&mut self, now: Instant, index: u32) -> bool {
        let exchange = self.transport.exchanges.get(index);
        let (peer, purpose, base, code) =
            (exchange.peer, exchange.purpose, exchange.token.clone(), exchange.content.code);
        let round_trip =
            exchange.course(now).acknowledged_after.map(|time| time.max(self.transport.config.envelope.timeout_floor));
        if exchange.successor.is_some() {
            return false;
        }
        let Some(mut transfer) = self.transport.exchanges.take_transfer(index) else { return false };
        let Work::Kept(sender, kept) = &mut transfer.work else {
            self.transport.exchanges.put_back(index, transfer);
            return false;
        };
        let in_sets = !kept.confirmable;
        let goes_on = !kept.outdated
            && match in_sets {
                true => sender.begin_behind_first(round_trip),
                false => !sender.has_left() || kept.all && sender.begin_set(),
            };
        let payload = if goes_on && !in_sets { self.next_payload(now, &mut transfer, base, code) } else { None };
        if !goes_on || !in_sets && payload.is_none() {
            self.transport.exchanges.put_back(index, transfer);
            return false;
        }
        if let Purpose::Notification(observer) = purpose {
            self.observers.acknowledged(now, observer, false);
        }
        match payload {
            Some(Payload { token, body, .. }) => {
                transfer.token = Some(token);
                self.transport.exchanges.go_on(now, &mut self.transport.peers, index, (transfer, body), None);
            }
            None => {
                self.transport.exchanges.put_back(index, transfer);
                self.transport.exchanges.go_on_with_set(now, &mut self.transport.peers, index);
            }
        }
        self.transport.admit_waiting(now, peer);
        true
    }

    /// Handles a client's request to continue a response in sets or to send blocks of it again.
    fn go_on_leaving(&mut self, now: Instant, id: ExchangeId, token: Token, (numbers, to_the_end): (&[u32], bool)) {
        let index = id.index;
        let exchange = self.transport.exchanges.get(index);
        let own = exchange.token.places();
        if exchange.confirmable && !exchange.transfer.as_ref().is_some_and(|transfer| transfer.is_confirmable()) {
            // The blocks after a first block that is to be acknowledged follow its acknowledgement.
            return;
        }
        let Some(mut transfer) = self.transport.exchanges.take_transfer(index) else { return };
        let Work::Kept(sender, kept) = &mut transfer.work else {
            return self.transport.exchanges.put_back(index, transfer);
        };
        let (observed, confirmable, outdated) = (kept.sequence.is_some(), kept.confirmable, kept.outdated);
        let next = if to_the_end { numbers.first().copied() } else { None };
        let continued = next.map_or(Follows::Nothing, |next| sender.go_on(now, next));
        let missing = match continued {
            Follows::Nothing if confirmable => sender.send_acknowledged_again(now, numbers),
            Follows::Nothing => sender.send_again(now, numbers),
            _ => Follows::Nothing,
        };
        // A notification keeps the token of the observation; the token of a retransmission must not
        // be longer, since no more is accounted for.
        if observed && missing == Follows::Set && token.places() <= own {
            kept.asked = Some(token.clone());
        }
        self.transport.exchanges.put_back(index, transfer);
        if confirmable {
            // The blocks follow the message that is outstanding.
            return;
        }
        let exchange = self.transport.exchanges.get_mut(index);
        if !observed {
            if let Purpose::Response(group) = exchange.purpose {
                self.incoming.take_share(group, &token);
                self.incoming.give_back(group, &exchange.token);
            }
            exchange.token = token;
        }
        if continued == Follows::Set {
            self.transport.exchanges.set_answered(now, &mut self.transport.peers, index);
            if outdated {
                return self.leaving_over(now, index);
            }
            self.transport.exchanges.go_on_with_set(now, &mut self.transport.peers, index);
            return self.transport.admit_waiting(now, self.transport.exchanges.get(index).peer);
        }
        match missing {
            Follows::Set => {
                let next = self.transport.exchanges.set_missing(now, &mut self.transport.peers, index);
                self.transport.follow_set(now, index, next);
            }
            // A client that requests too much gets nothing more until it has been quiet for the
            // maximum time that a response may take.
            Follows::Nothing | Follows::TooMuch => {}
        }
    }

    /// Cuts a response to its first block for a client that supports Q-Block2, or to the block that
    /// it requests. The rest is kept.
    pub(super) fn cut_response_for_sets(
        &mut self,
        now: Instant,
        to: &Recipient,
        response: Response,
    ) -> Result<Response, RespondError> {
        let code = response.code;
        let block = to.asked.response_in_sets();
        if to.asked.q_block2().is_none() && self.goes_whole(to.beside, &response.body) {
            // No smaller blocks were requested.
            self.representations.forget(to.key);
            return Ok(response);
        }
        let mut whole = Representation::new(code, &response.body);
        let (bytes, limits) = (whole.payload().len(), &self.transport.config.limits);
        let (Some(block), others) = (block, to.beside) else { return Ok(response) };
        if bytes > limits.body_bytes {
            return Err(RespondError::BodyTooLarge { bytes, limit: limits.body_bytes });
        }
        let hash = self.transport.hash;
        whole.tag(|payload| hash.hash(&payload).to_be_bytes());
        let Some(size) =
            whole.size_in_sets(block.size.min(self.transport.config.block_size), others, limits.message_bytes)
        else {
            return Ok(response);
        };
        if bytes <= size.bytes() && block.num == 0 {
            // The block is the complete body.
            self.representations.forget(to.key);
            return Ok(response);
        }
        match whole.block_of_set(block.num, size, others, limits.message_bytes) {
            Some(body) => match self.keep(now, to, whole) {
                Ok(()) => Ok(Response { body, ..response }),
                Err(refusal) => Ok(refusal),
            },
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
    /// Whether it is the first of a train.
    first: bool,
    /// Whether it is the first of a body.
    begins: bool,
}

/// A kept response that is sent in sets.
pub(super) struct What {
    pub(super) key: Key,
    pub(super) mark: Mark,
    pub(super) bytes: usize,
    /// The requested block, with the block size.
    pub(super) block: Block,
    /// The sequence number, if the response is a notification.
    pub(super) sequence: Option<u32>,
}

/// Returns the blocks that the Q-Block2 options of a request ask for, of a body with this number of
/// blocks, and whether the last of the options asks for all blocks to the end of a set. `None` if
/// the options are not in ascending order or there is no such block (RFC 9177 §4.4).
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
        // Overlapping options request a block once.
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
