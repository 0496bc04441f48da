//! Q-Block (RFC 9177) in the client.
//!
//! The first state of a notification arrives as the response to its registration. Each later one
//! has its own exchange, from its first payload until the state is complete, superseded, or cannot
//! be completed. In the last case nothing is reported, and the subscription becomes stale in time
//! (§4.5).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use super::Client;
use super::transfer::failure_of;
use crate::PeerKey;
use crate::blockwise::{Transfer, TransferError};
use crate::codec::{Body, Code, Message, OptionNumber, Overhead, OwnedMessage, Token};
use crate::config::SharedConfig;
use crate::event::Event;
use crate::layers::Layers;
use crate::observe::Order;
use crate::q_block::{BurstRegistration, BurstRules, BurstStep, BurstTransfer, RequestTag, lists_missing_blocks};
use crate::security::Security;
use crate::transport::{
    ActiveTransfer, AfterPayload, Answer, ExchangeId, ExchangeIndex, Failure, NextMessage, Opening, Payload, PeerIndex,
    Purpose, Reliability, Source, State, SubscriptionIndex, TransferState, Transmit,
};
use conche_cc::control::{AbandonReason, AckKind};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

const REFUSING: usize = 64;

/// An address can get another owner.
const REFUSING_FOR: Duration = Duration::from_secs(1_800);

#[derive(Debug)]
pub(crate) struct QBlock {
    rules: BurstRules,
    /// Hashes of peers that refused Q-Block, and when to forget each.
    refusing: VecDeque<(u64, Instant)>,
}

impl QBlock {
    pub(crate) fn of(config: &SharedConfig) -> Option<Self> {
        Some(Self { rules: BurstRules::of(config)?, refusing: VecDeque::new() })
    }

    fn refuses(&self, now: Instant, peer: u64) -> bool {
        self.refusing.iter().any(|&(refusing, until)| refusing == peer && now < until)
    }

    fn refused(&mut self, now: Instant, peer: u64) {
        self.refusing.retain(|&(refusing, _)| refusing != peer);
        if self.refusing.len() >= REFUSING {
            self.refusing.pop_front();
        }
        self.refusing.push_back((peer, now + REFUSING_FOR));
    }
}

fn uploads(opening: &Opening) -> bool {
    opening.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
        TransferState::Bursts(bursts) => bursts.is_upload(),
        TransferState::Blocks(_) | TransferState::Response(..) => false,
    })
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    fn burst_rules(&self) -> Option<BurstRules> {
        self.q_block().map(|q_block| q_block.rules)
    }

    pub(crate) fn transmit_payload(
        &mut self,
        layers: &mut Layers<P, C>,
        id: ExchangeId,
        buf: &mut [u8],
    ) -> Option<Transmit<P>> {
        let message_id = layers.transport.payload_id(layers.now, id)?;
        let exchange = layers.transport.exchanges.get(id.index);
        let (base, code) = (exchange.token.clone(), exchange.content.code);
        let payload =
            layers.transport.exchanges.burst_mut(id.index).and_then(|bursts| next_payload(bursts, &base, code));
        let Some(payload) = payload else {
            layers.transport.abandon(layers.now, id.index, AbandonReason::Cancelled);
            self.close(layers, id.index);
            return None;
        };
        let Some((transmit, left)) = layers.transport.write_payload(layers.now, id, message_id, &payload, buf) else {
            self.fail(layers, id.index, Failure::MessageTooLarge);
            return None;
        };
        if left == AfterPayload::Over {
            self.close(layers, id.index);
        }
        Some(transmit)
    }

    /// Sends a request, or receives its response, in bursts. Returns `false` if the request is not
    /// suitable. `named`: the application chose its token.
    pub(super) fn use_q_block(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        opening: &mut Opening,
        named: bool,
    ) -> bool {
        if !self.has_q_block() || !opening.whole || opening.body.option(OptionNumber::OBSERVE).is_some() {
            return false;
        }
        // The Request-Tag distinguishes the bodies of equal simultaneous requests (RFC 9175 §3).
        let tag = layers.transport.random.next_u32().to_be_bytes();
        self.use_q_block_tagged(layers, peer, opening, tag, named)
    }

    /// As [`use_q_block`](Self::use_q_block), for observations too.
    fn use_q_block_tagged(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        opening: &mut Opening,
        tag: RequestTag,
        named: bool,
    ) -> bool {
        let Some(q_block) = self.q_block().filter(|_| opening.security.is_plain()) else { return false };
        let (rules, burst_rules) = (self.transfer_rules(layers, &opening.token, &opening.security), q_block.rules);
        let hash = layers.transport.peers.hash(&layers.transport.peers.get(peer).key);
        let by_hand = |number| {
            use OptionNumber as N;
            matches!(number, N::BLOCK1 | N::BLOCK2 | N::Q_BLOCK1 | N::Q_BLOCK2)
        };
        let confirmable = opening.reliability == Reliability::Confirmable;
        if !confirmable
            || q_block.refuses(layers.now, hash)
            || opening.body.options().any(|option| by_hand(option.number))
        {
            return false;
        }
        let payload = opening.body.payload().len();
        let too_large = opening.bytes() > rules.message_bytes;
        let (mut transfer, first) = if payload > 0 && (too_large || payload > rules.block_size.bytes()) {
            if payload > rules.body_bytes {
                return false;
            }
            match BurstTransfer::upload(opening.code, &opening.body, tag, &rules, &burst_rules) {
                Some(cut) => cut,
                None => return false,
            }
        } else if opening.code.is_safe() {
            BurstTransfer::download(burst_rules.feature, opening.code, &opening.body, tag, rules.block_size)
        } else {
            return false;
        };
        if !Overhead::of(&opening.token).fits(&first, rules.message_bytes) {
            return false;
        }
        let base = opening.token.clone().numbered(0);
        if !named && base.clone().numbered(1) != base && !self.uses_token(layers, peer, &base) {
            opening.token = base;
            transfer.has_tokens = true;
        }
        opening.body = first;
        opening.transfer = Some(Box::new(ActiveTransfer::new(TransferState::Bursts(Box::new(transfer)))));
        true
    }

    /// Returns the request with this token, which may be the numbered token of a message in a
    /// burst.
    pub(super) fn exchange_with_token(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        token: &Token,
    ) -> Option<ExchangeIndex> {
        let found = layers.transport.exchanges.with_token(peer, token);
        if found.is_some() || !self.has_q_block() {
            return found;
        }
        let base = token.clone().numbered(0);
        let numbered = layers.transport.exchanges.with_token(peer, &base).filter(|_| base != *token)?;
        match layers.transport.exchanges.get(numbered).transfer.as_ref().map(|transfer| &transfer.work) {
            Some(TransferState::Bursts(transfer)) if transfer.has_used(&base, token) => Some(numbered),
            _ => None,
        }
    }

    /// Continues after an Empty ACK of the first block.
    pub(super) fn first_block_acknowledged(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let round_trip = layers.transport.exchanges.get(index).course(layers.now).acknowledged_after;
        let round_trip = round_trip.map(|time| time.max(layers.transport.config.envelope.timeout_floor));
        let Some(bursts) = layers.transport.exchanges.burst_mut(index) else { return };
        if !bursts.is_alone() || bursts.acknowledged(round_trip) {
            self.send_more(layers, index);
        }
    }

    /// Sends the next set of a request body, or its next payload if each is acknowledged.
    fn send_more(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let confirmable = self.burst_rules().is_some_and(|rules| rules.confirmable);
        let peer = layers.transport.exchanges.get(index).peer;
        if !confirmable {
            layers.transport.exchanges.continue_burst(layers.now, &mut layers.transport.peers, index);
            return layers.transport.admit_waiting(layers.now, peer);
        }
        let base = layers.transport.exchanges.get(index).token.clone();
        let Some(bursts) = layers.transport.exchanges.burst_mut(index) else { return };
        // With no next payload everything was sent, and only the response is outstanding.
        let Some(body) = bursts.next_payload() else { return };
        let token = bursts.payload_token(&base);
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(index) else { return };
        transfer.token = Some(token);
        layers.transport.exchanges.go_on(
            layers.now,
            &mut layers.transport.peers,
            index,
            NextMessage { transfer, body, token: None },
        );
        layers.transport.admit_waiting(layers.now, peer);
    }

    pub(super) fn deliver_to_burst(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        kind: AckKind,
        message: &Message<'_>,
    ) {
        let rules = self.transfer_rules(layers, &layers.transport.exchanges.get(index).token, &Security::PLAIN);
        let Some(burst_rules) = self.burst_rules() else { return };
        let exchange = layers.transport.exchanges.get(index);
        let (confirmable, peer) = (exchange.confirmable, exchange.peer);
        let waits = exchange.state == State::Queued;
        let Some(bursts) = layers.transport.exchanges.burst_mut(index) else { return };
        let (first, answered) = ((confirmable || waits) && bursts.is_alone(), bursts.is_answered_by(message));
        let kind = if confirmable { kind } else { AckKind::Piggybacked };
        if waits && !answered {
            // No outstanding message is acknowledged by this, and the waiting one keeps its turn.
            return match bursts.answer(layers.now, message, first, &rules, &burst_rules) {
                BurstStep::Failed(trouble) => self.fail(layers, index, failure_of(trouble)),
                BurstStep::SendBurst if !confirmable => {
                    let next =
                        layers.transport.exchanges.burst_incomplete(layers.now, &mut layers.transport.peers, index);
                    layers.transport.follow(layers.now, index, &next);
                }
                _ => {}
            };
        }
        if answered {
            // Acknowledge it before the state changes to one in which nothing is sent.
            if waits {
                layers.transport.exchanges.leave_queue(layers.now, &mut layers.transport.peers, index);
            }
            layers.transport.acknowledge(layers.now, index, kind);
        }
        let Some(bursts) = layers.transport.exchanges.burst_mut(index) else { return };
        let step = bursts.answer(layers.now, message, first, &rules, &burst_rules);
        let transfer = layers.transport.exchanges.get(index).transfer.as_deref();
        let fits = transfer.is_none_or(|transfer| self.fits_all_transfers(layers, transfer));
        let missing = lists_missing_blocks(message);
        let in_ack = confirmable && kind == AckKind::Piggybacked;
        let acknowledges = match step {
            // It concerns other blocks than those sent last.
            BurstStep::Wait => in_ack || first && !layers.transport.exchanges.get(index).is_sending(),
            _ => first || in_ack || !missing,
        };
        if acknowledges {
            layers.transport.acknowledge(layers.now, index, kind);
        }
        let step = if fits { step } else { BurstStep::Failed(TransferError::TooLarge) };
        match step {
            // The acknowledgement of the first message, with any content.
            BurstStep::Wait if first && in_ack && layers.transport.exchanges.get(index).is_sending() => {
                layers.transport.exchanges.await_response(layers.now, index);
                self.first_block_acknowledged(layers, index);
            }
            // The outstanding message is acknowledged individually; the next one follows.
            BurstStep::SendBurst | BurstStep::Wait
                if confirmable && !first && layers.transport.exchanges.get(index).is_sending() =>
            {
                if acknowledges {
                    layers.transport.exchanges.await_response(layers.now, index);
                }
                if layers.transport.exchanges.get(index).state == State::AwaitingResponse {
                    self.send_more(layers, index);
                }
            }
            BurstStep::SendBurst if missing && !first => {
                let next = layers.transport.exchanges.burst_incomplete(layers.now, &mut layers.transport.peers, index);
                layers.transport.follow(layers.now, index, &next);
            }
            BurstStep::SendBurst => self.send_more(layers, index),
            BurstStep::Send(body) => {
                self.say(layers, index, &body);
                self.await_more(layers, index);
                layers.transport.admit_waiting(layers.now, peer);
            }
            BurstStep::Wait => {
                self.await_more(layers, index);
                layers.transport.admit_waiting(layers.now, peer);
            }
            BurstStep::Done(whole) => self.delivered(layers, index, kind, whole),
            BurstStep::Fallback => {
                let hash = layers.transport.peers.hash(&layers.transport.peers.get(peer).key);
                if let Some(q_block) = self.q_block_mut() {
                    q_block.refused(layers.now, hash);
                }
                self.fall_back(layers, index);
            }
            BurstStep::Whole(whole) => {
                let (bursts, first) = *whole;
                self.ask_for_whole(layers, index, bursts, first);
            }
            BurstStep::Received | BurstStep::Blocks if self.is_observed(layers, index) => {
                self.delivered(layers, index, kind, OwnedMessage::from(*message));
            }
            BurstStep::Received | BurstStep::Blocks => {
                self.go_by_blocks(layers, index);
                let Some(message) = self.follow(layers, index, message) else { return };
                self.delivered(layers, index, kind, message);
            }
            BurstStep::Failed(trouble) => self.fail(layers, index, failure_of(trouble)),
        }
    }

    pub(super) fn delivered(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        kind: AckKind,
        message: OwnedMessage,
    ) {
        if let Some(subscription) = self.registers(layers, index) {
            return self.deliver_registration(layers, index, subscription, kind, message);
        }
        if let Purpose::State(subscription) = layers.transport.exchanges.get(index).purpose {
            return self.deliver_state(layers, index, subscription, message);
        }
        let (exchange, from, course) = layers.transport.exchanges.summary(layers.now, &layers.transport.peers, index);
        layers.announce(Event::Response { exchange, from, message, course });
        self.close(layers, index);
    }

    /// Observations deliver their messages as they are.
    fn is_observed(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) -> bool {
        matches!(layers.transport.exchanges.get(index).purpose, Purpose::State(_))
            || self.registers(layers, index).is_some()
    }

    fn await_more(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        if let Some(due) = layers.transport.exchanges.burst_mut(index).and_then(|bursts| bursts.due()) {
            layers.transport.exchanges.await_burst(&mut layers.transport.peers, index, due);
        }
    }

    /// Sends a message that answers a received one, hence bypasses the controller.
    fn say(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex, body: &Body) {
        let exchange = layers.transport.exchanges.get(index);
        let (peer, code, local) = (exchange.peer, exchange.content.code, exchange.local);
        let base = exchange.token.clone();
        let Some(bursts) = layers.transport.exchanges.burst_mut(index) else { return };
        let token = bursts.next_token(&base);
        let to = Source { from: layers.transport.peers.get(peer).key, local };
        if layers.transport.send_answer(layers.now, &Answer { to, peer, token: &token, code, body }).is_some() {
            layers.transport.exchanges.said(index);
        }
    }

    pub(crate) fn ask_for_missing_blocks(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let rules = self.transfer_rules(layers, &layers.transport.exchanges.get(index).token, &Security::PLAIN);
        let Some(burst_rules) = self.burst_rules() else { return };
        let Some(bursts) = layers.transport.exchanges.burst_mut(index) else { return };
        match bursts.overdue(layers.now, &rules, &burst_rules) {
            Some(body) => {
                self.say(layers, index, &body);
                self.await_more(layers, index);
            }
            None => self.fail(layers, index, Failure::TimedOut),
        }
    }

    /// Starts a request again with Block1 and Block2; for an observation, whole and with the same
    /// token.
    fn fall_back(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let observed = self.is_observed(layers, index);
        let exchange = layers.transport.exchanges.get(index);
        let (peer, own) = (exchange.peer, exchange.token.clone());
        let rules = self.transfer_rules(layers, &own, &Security::PLAIN);
        let token =
            if observed { None } else { self.choose_token(layers, peer, false).ok().map(|chosen| chosen.token) };
        let overhead = Overhead::of(token.as_ref().unwrap_or(&own));
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(index) else { return };
        let TransferState::Bursts(bursts) = &transfer.work else {
            return layers.transport.exchanges.put_back(index, transfer);
        };
        let whole = bursts.whole.clone();
        let mut blocks = Transfer::new(bursts.code, &whole);
        let fits = overhead.fits(&whole, rules.message_bytes);
        let first = match observed {
            true => fits.then_some(whole),
            false if fits && whole.payload().len() <= rules.block_size.bytes() => Some(whole),
            false => blocks.begin(&rules),
        };
        transfer.work = TransferState::Blocks(blocks);
        let Some(first) = first else {
            layers.transport.exchanges.put_back(index, transfer);
            return self.fail(layers, index, Failure::MessageTooLarge);
        };
        // Only Confirmable requests begin in bursts.
        layers.transport.exchanges.get_mut(index).confirmable = true;
        layers.transport.exchanges.go_on(
            layers.now,
            &mut layers.transport.peers,
            index,
            NextMessage { transfer, body: first, token },
        );
        layers.transport.admit_waiting(layers.now, peer);
    }

    /// Requests the whole response by Q-Block2.
    fn ask_for_whole(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        mut bursts: BurstTransfer,
        first: Body,
    ) {
        let peer = layers.transport.exchanges.get(index).peer;
        let token = self.choose_token(layers, peer, false).ok().map(|chosen| chosen.token);
        let base = token.as_ref().map(|token| token.clone().numbered(0));
        let base = base.filter(|base| base.clone().numbered(1) != *base && !self.uses_token(layers, peer, base));
        bursts.has_tokens = base.is_some();
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(index) else { return };
        transfer.work = TransferState::Bursts(Box::new(bursts));
        layers.transport.exchanges.get_mut(index).confirmable = true;
        layers.transport.exchanges.go_on(
            layers.now,
            &mut layers.transport.peers,
            index,
            NextMessage { transfer, body: first, token: base.or(token) },
        );
        layers.transport.admit_waiting(layers.now, peer);
    }

    /// Switches to Block2 for the response. Requests for further blocks are Confirmable.
    fn go_by_blocks(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(index) else { return };
        if let TransferState::Bursts(bursts) = &transfer.work {
            transfer.work = TransferState::Blocks(Transfer::new(bursts.code, &bursts.whole));
        }
        layers.transport.exchanges.put_back(index, transfer);
        layers.transport.exchanges.get_mut(index).confirmable = true;
    }

    /// Makes a registration accept Q-Block notifications, and use Q-Block for its own body if
    /// necessary. `named`: the application chose the token.
    pub(super) fn offer_q_block(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        opening: &mut Opening,
        named: bool,
    ) -> Option<BurstRegistration> {
        let feature = self.q_block()?.rules.feature;
        let tag = layers.transport.random.next_u32().to_be_bytes();
        let offered = self.use_q_block_tagged(layers, peer, opening, tag, named);
        offered.then(|| BurstRegistration { feature, tag, uploaded: uploads(opening) })
    }

    pub(super) fn offer_q_block_again(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        opening: &mut Opening,
        in_bursts: Option<BurstRegistration>,
    ) {
        if let Some(BurstRegistration { tag, .. }) = in_bursts {
            self.use_q_block_tagged(layers, peer, opening, tag, true);
        }
    }

    /// Returns `false` if a notification is no payload of a Q-Block state.
    pub(super) fn receive_state_payload(
        &mut self,
        layers: &mut Layers<P, C>,
        subscription: SubscriptionIndex,
        message: &Message<'_>,
    ) -> bool {
        let block = message.block(OptionNumber::Q_BLOCK2).ok().flatten();
        if !message.code().is_success() || block.is_none_or(|block| block.num == 0 && !block.more) {
            return false;
        }
        let found = self.subscriptions.get(subscription);
        let Some(in_bursts) = found.in_bursts else { return false };
        let order = message.uint(OptionNumber::OBSERVE).map(|sequence| Order { sequence, received: layers.now });
        let is_news = order.is_some_and(|order| found.newest.is_none_or(|newest| newest.is_before(&order)));
        let coming = found.coming.filter(|&id| layers.transport.exchanges.live(id).is_some());
        let index = match coming {
            Some(exchange) if is_news || order.is_none() => Some(exchange.index),
            None if is_news => self.begin_state(layers, subscription, in_bursts),
            _ => None,
        };
        if let Some(index) = index {
            self.deliver_to_burst(layers, index, AckKind::Separate, message);
        }
        true
    }

    /// Starts to receive a newer state. Without room, its payload is treated as lost.
    fn begin_state(
        &mut self,
        layers: &mut Layers<P, C>,
        subscription: SubscriptionIndex,
        registration: BurstRegistration,
    ) -> Option<ExchangeIndex> {
        let found = self.subscriptions.get(subscription);
        let (peer, request) = (found.peer, found.request.clone());
        if layers.transport.exchanges.requests() >= layers.transport.config.limits.exchanges {
            layers.transport.stats.overloaded += 1;
            return None;
        }
        let token = self.choose_token(layers, peer, false).ok()?.token;
        let base = token.clone().numbered(0);
        let numbered = base.clone().numbered(1) != base && !self.uses_token(layers, peer, &base);
        let mut transfer = BurstTransfer::state(request.code, &request.body, &registration);
        transfer.has_tokens = numbered;
        let mut opening = Opening {
            purpose: Purpose::State(subscription),
            code: request.code,
            body: request.body,
            token: if numbered { base } else { token },
            reliability: Reliability::NeverConfirmable,
            transfer: Some(Box::new(ActiveTransfer::new(TransferState::Bursts(Box::new(transfer))))),
            ..Opening::EMPTY
        };
        let exchange = layers.transport.exchanges.open(layers.now, &mut layers.transport.peers, peer, &mut opening)?;
        layers.transport.exchanges.listen(layers.now, exchange.index);
        self.subscriptions.get_mut(subscription).coming = Some(exchange);
        Some(exchange.index)
    }

    fn deliver_state(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        subscription: SubscriptionIndex,
        message: OwnedMessage,
    ) {
        self.state_failed(layers, index, subscription);
        let is_state = message.code().is_success() && message.option(OptionNumber::OBSERVE).is_some();
        if is_state {
            self.report(layers, subscription, message);
        }
    }

    pub(super) fn state_failed(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        subscription: SubscriptionIndex,
    ) {
        self.subscriptions.get_mut(subscription).coming = None;
        self.close(layers, index);
    }

    pub(super) fn discard_state(&mut self, layers: &mut Layers<P, C>, subscription: SubscriptionIndex) {
        let coming = self.subscriptions.get_mut(subscription).coming.take();
        if let Some(exchange) = coming.filter(|&exchange| layers.transport.exchanges.live(exchange).is_some()) {
            self.close(layers, exchange.index);
        }
    }
}

fn next_payload(bursts: &mut BurstTransfer, base: &Token, code: Code) -> Option<Payload> {
    let sender = bursts.sender.as_mut()?;
    let first = sender.begins_train();
    let number = sender.pop()?;
    let (body, token) = (bursts.block(number)?, bursts.payload_token(base));
    Some(Payload { code, token, body, first, begins: false })
}
