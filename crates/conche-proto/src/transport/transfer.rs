//! Exchanges of more than one message (RFC 7959, RFC 9177).
//!
//! To the controller, a MAX_PAYLOADS burst (RFC 9177 §7.2) is one message, with one slot. It is
//! acknowledged when the receiver reports all of it; the RTT is measured from the last payload. If
//! payloads are missing, the burst expires, and its retransmission consists of these. In the peer's
//! queue each payload takes a turn: after a burst of ten, its sender yields nine turns.
//! [`Train`](conche_cc::train::Train) spaces the payloads.

use alloc::boxed::Box;
use core::time::Duration;

use super::exchange::{Exchange, ExchangeId, ExchangeIndex, ExchangeStats, Failure, State};
use super::exchange_table::Exchanges;
use super::peer_table::Peers;
use super::retransmission::{LONGEST_ON_PATH, NextAction};
use crate::PeerKey;
use crate::blockwise::{Key, RepresentationVersion, Transfer};
use crate::codec::{Body, Message, Overhead, Token};
use crate::q_block::{BurstTransfer, NextBurst, Sender};
use conche_cc::control::{AbandonReason, AckKind, Expired, Sent};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

#[derive(Debug)]
pub(crate) struct ActiveTransfer {
    pub(crate) work: TransferState,
    /// First transmission, and statistics of the answered messages.
    before: Option<(Instant, ExchangeStats)>,
    /// Messages sent in bursts since the last single message.
    in_bursts: Option<u32>,
    /// Turns to yield for payloads sent earlier.
    owed: u32,
    /// The exchange is yielding a turn, until the next message has left.
    passed: bool,
    bytes: usize,
    /// Token of the current message, if it differs from the exchange's.
    pub(crate) token: Option<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderTurn {
    Leaves,
    /// The next sender leaves instead, in return for a payload sent earlier.
    Passes,
    /// A yielded turn ended: the transfer moves to the end of the queue.
    Over,
}

#[derive(Debug)]
pub(crate) enum TransferState {
    /// A block-wise request and response (RFC 7959).
    Blocks(Transfer),
    /// A Q-Block request and response (RFC 9177).
    Bursts(Box<BurstTransfer>),
    /// A stored response, sent in bursts.
    Response(Sender, BurstResponse),
}

#[derive(Clone, Debug)]
pub(crate) struct BurstResponse {
    pub(crate) key: Key,
    /// The response may have been replaced in the meantime.
    pub(crate) version: RepresentationVersion,
    pub(crate) confirmable: bool,
    /// Observe sequence number of a notification, for all payloads but retransmitted ones (RFC 9177
    /// §4.5).
    pub(crate) sequence: Option<u32>,
    /// The token of the last request for missing payloads.
    pub(crate) requested: Option<Token>,
    /// A newer state exists: no further burst is sent.
    pub(crate) outdated: bool,
    /// The whole body was requested: the next burst does not wait for an acknowledgement.
    pub(crate) all: bool,
}

impl ActiveTransfer {
    pub(crate) const fn new(work: TransferState) -> Self {
        Self { work, before: None, in_bursts: None, owed: 0, passed: false, bytes: 0, token: None }
    }

    /// Without shared memory.
    fn held(&self) -> usize {
        match &self.work {
            TransferState::Blocks(transfer) => transfer.bytes(),
            TransferState::Bursts(transfer) => transfer.bytes(),
            TransferState::Response(..) => 0,
        }
    }

    /// Returns how much its memory exceeds the counted bytes.
    pub(crate) fn growth(&self) -> usize {
        self.held().saturating_sub(self.bytes)
    }

    pub(crate) fn key(&self) -> Option<Key> {
        match &self.work {
            TransferState::Response(_, kept) => Some(kept.key),
            TransferState::Blocks(_) | TransferState::Bursts(_) => None,
        }
    }

    pub(crate) fn is_confirmable(&self) -> bool {
        matches!(&self.work, TransferState::Response(_, kept) if kept.confirmable)
    }

    pub(crate) fn is_new(&self) -> bool {
        self.sender().is_some_and(Sender::is_new)
    }

    pub(super) fn sender(&self) -> Option<&Sender> {
        match &self.work {
            TransferState::Blocks(_) => None,
            TransferState::Bursts(transfer) => transfer.sender.as_ref(),
            TransferState::Response(sender, _) => Some(sender),
        }
    }

    pub(super) fn sender_mut(&mut self) -> Option<&mut Sender> {
        match &mut self.work {
            TransferState::Blocks(_) => None,
            TransferState::Bursts(transfer) => transfer.sender.as_mut(),
            TransferState::Response(sender, _) => Some(sender),
        }
    }

    /// Returns the size of the due payloads of a burst, with `others` more bytes each.
    pub(crate) fn burst_bytes(&self, others: u32) -> Option<u32> {
        let sender = self.sender()?;
        let each = u32::try_from(sender.size.bytes()).unwrap_or(u32::MAX).saturating_add(others);
        Some(each.saturating_mul(u32::try_from(sender.due()).unwrap_or(u32::MAX)))
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.before.is_some()
    }

    /// Records the first answer if more messages follow; returns `true` the first time.
    pub(super) fn begin<C: Controller>(&mut self, exchange: &Exchange<C>) -> bool {
        let begins = self.before.is_none();
        self.fold(exchange);
        let now = exchange.first_sent().unwrap_or(exchange.submitted);
        self.before.get_or_insert_with(|| (now, exchange.course_of_message(now)));
        self.in_bursts.get_or_insert(0);
        begins
    }

    /// Counts the last single message before messages are counted in bursts.
    pub(super) fn fold<C: Controller>(&mut self, exchange: &Exchange<C>) {
        if let (Some((first, _)), None) = (self.before, self.in_bursts) {
            let now = exchange.first_sent().unwrap_or(exchange.submitted);
            self.before = Some((first, self.course(now, exchange.course_of_message(now))));
        }
    }

    pub(super) fn count_in_bursts(&mut self) {
        let in_bursts = self.in_bursts.get_or_insert(0);
        *in_bursts = in_bursts.saturating_add(1);
    }

    pub(super) fn take_turn_later(&mut self) {
        self.owed = self.owed.saturating_add(1);
    }

    pub(super) fn owes(&self) -> bool {
        self.owed > 1
    }

    /// Decides how to use a turn; `alone` if no other sender waits.
    pub(super) fn take_turn(&mut self, alone: bool) -> SenderTurn {
        let passed = core::mem::take(&mut self.passed);
        if alone || !passed && !self.owes() {
            self.owed = 0;
            return SenderTurn::Leaves;
        }
        if !passed {
            self.owed -= 1;
            self.passed = true;
        }
        if passed { SenderTurn::Over } else { SenderTurn::Passes }
    }

    /// Returns the statistics of all messages, given those of the last one.
    pub(crate) fn course(&self, now: Instant, last: ExchangeStats) -> ExchangeStats {
        let Some((first_sent, before)) = self.before else { return last };
        // In a burst every transmission counts as a message.
        let (messages, transmissions) = self.in_bursts.map_or((last.messages, last.transmissions), |left| (left, left));
        let messages = before.messages.saturating_add(messages);
        let transmissions = before.transmissions.saturating_add(transmissions);
        ExchangeStats { messages, transmissions, elapsed: now - first_sent, timeout: last.timeout, ..before }
    }
}

impl<C: Controller> Exchange<C> {
    /// Returns `true` for a separate response to an earlier message of this request with the same
    /// token ([`Transfer::is_late`]). Protected responses are bound to one message.
    pub(crate) fn is_late(&self, response: &Message<'_>) -> bool {
        let transfer = self.transfer.as_ref().filter(|_| self.security.is_plain());
        transfer.is_some_and(|transfer| match &transfer.work {
            TransferState::Blocks(transfer) => transfer.is_late(response),
            TransferState::Bursts(_) | TransferState::Response(..) => false,
        })
    }

    pub(super) fn expired(&self) -> Failure {
        let begun = self.transfer.as_ref().is_some_and(|transfer| transfer.has_begun());
        if begun { Failure::TimedOut } else { Failure::QueueExpired }
    }

    pub(crate) fn sends_bursts(&self) -> bool {
        !self.confirmable && self.transfer.as_ref().is_some_and(|transfer| transfer.sender().is_some())
    }

    pub(crate) fn leaves(&self, version: RepresentationVersion) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            TransferState::Response(_, kept) => kept.version == version,
            TransferState::Blocks(_) | TransferState::Bursts(_) => false,
        })
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.sender().is_some())
    }

    /// Returns `true` if a message answers a payload with its own token.
    pub(crate) fn has_token_of_burst(&self, message: &Message<'_>) -> bool {
        let token = self.transfer.as_ref().and_then(|transfer| transfer.token.as_ref());
        token.is_some_and(|token| token.as_slice() == message.token_bytes())
    }

    /// Returns `true` if its response arrives in bursts, now or later.
    pub(crate) fn receives_bursts(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            TransferState::Bursts(transfer) => transfer.due().is_some(),
            _ => false,
        })
    }

    pub(crate) fn is_in_bursts(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| matches!(transfer.work, TransferState::Bursts(_)))
    }

    pub(crate) fn has_begun_in_bursts(&self) -> bool {
        self.is_in_bursts() && self.transfer.as_ref().is_some_and(|transfer| transfer.has_begun())
    }

    /// Returns `true` after a single message, if the response may be a burst.
    pub(crate) fn asks_for_first_block(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
            TransferState::Bursts(transfer) => transfer.sender.is_none() && transfer.due().is_none(),
            TransferState::Blocks(_) | TransferState::Response(..) => false,
        })
    }

    /// Returns `true` if the controller gets its acknowledgement.
    pub(super) fn is_answered(&self) -> bool {
        self.confirmable || self.sends_bursts()
    }

    /// Returns `true` for all but Non-confirmable responses of one message.
    pub(crate) fn is_controlled(&self) -> bool {
        !self.is_over_when_left() || self.sends_bursts()
    }
}

/// The next message of an exchange of several.
pub(crate) struct NextMessage {
    pub(crate) transfer: Box<ActiveTransfer>,
    pub(crate) body: Body,
    pub(crate) token: Option<Token>,
}

pub(crate) struct SentPayload {
    pub(crate) first: bool,
    pub(crate) bytes: u32,
}

impl<C: Controller> Exchanges<C> {
    /// Continues a request with its next message, from the end of the peer's queue, so that senders
    /// take turns. Without a new token the token is kept: servers match the blocks of a body by it.
    pub(crate) fn go_on<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        NextMessage { transfer, body, token }: NextMessage,
    ) {
        self.settle(now, peers, index, transfer);
        if let Some(token) = token {
            self.take_token(index, token);
        }
        self.send_next(now, peers, index, body);
    }

    pub(crate) fn send_with_new_token<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        token: Token,
    ) {
        self.release(peers, index);
        self.take_token(index, token);
        let body = self.slots[index].content.body.clone();
        self.send_next(now, peers, index, body);
    }

    fn send_next<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: ExchangeIndex, body: Body) {
        let bytes = self.message_bytes(index, &body);
        let max_queueing_time = self.config.times().response_timeout;
        let exchange = &mut self.slots[index];
        (exchange.content.body, exchange.bytes) = (body, bytes);
        exchange.state = State::Queued;
        exchange.state_until = now + max_queueing_time;
        exchange.submitted = now;
        exchange.confirmable &= !exchange.may_confirm;
        let wake = exchange.wake();
        self.timers.set(index, wake);
        self.enqueue(peers, index, true);
    }

    /// Pauses a request, without slot or queue place, until its next message is known.
    pub(crate) fn pause<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        transfer: Box<ActiveTransfer>,
    ) {
        self.settle(now, peers, index, transfer);
        let exchange = &mut self.slots[index];
        exchange.state = State::Paused;
        exchange.state_until = Instant::FAR_FUTURE;
        match exchange.wake() {
            Instant::FAR_FUTURE => self.timers.cancel(index),
            wake => self.timers.set(index, wake),
        }
    }

    /// Ends a message of a request that has more.
    fn settle<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        mut transfer: Box<ActiveTransfer>,
    ) {
        let exchange = &self.slots[index];
        let first_sent = transfer.before.map_or(exchange.first_sent().unwrap_or(now), |(first, _)| first);
        self.transfers += usize::from(transfer.before.is_none());
        let course = transfer.course(now, exchange.course_of_message(now));
        transfer.in_bursts = None;
        transfer.before = Some((first_sent, course));
        self.count_transfer(&mut transfer);
        self.slots[index].transfer = Some(transfer);
        self.release(peers, index);
    }

    fn release<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: ExchangeIndex) {
        let exchange = &mut self.slots[index];
        exchange.free_slot(peers);
        self.unidentify(index);
        let exchange = &mut self.slots[index];
        exchange.doubtful_ack = false;
        exchange.sent.clear();
        (exchange.timeout, exchange.acknowledged, exchange.flight) = (None, None, C::Flight::default());
        exchange.acknowledged_copy = None;
    }

    pub(super) fn count_transfer(&mut self, transfer: &mut ActiveTransfer) {
        let bytes = transfer.held();
        self.transfer_bytes = self.transfer_bytes - transfer.bytes + bytes;
        transfer.bytes = bytes;
    }

    pub(crate) fn burst_mut(&mut self, index: ExchangeIndex) -> Option<&mut BurstTransfer> {
        match &mut self.slots[index].transfer.as_mut()?.work {
            TransferState::Bursts(bursts) => Some(bursts),
            TransferState::Blocks(_) | TransferState::Response(..) => None,
        }
    }

    /// Returns the Block1 and Block2 transfer of a live exchange.
    pub(crate) fn blocks_mut(&mut self, id: ExchangeId) -> Option<&mut Transfer> {
        self.live(id)?;
        match &mut self.slots[id.index].transfer.as_mut()?.work {
            TransferState::Blocks(transfer) => Some(transfer),
            TransferState::Bursts(_) | TransferState::Response(..) => None,
        }
    }

    /// Takes the transfer out of its exchange.
    pub(crate) fn take_transfer(&mut self, index: ExchangeIndex) -> Option<Box<ActiveTransfer>> {
        self.slots[index].transfer.take()
    }

    /// Puts a transfer back. A completed one still contributes to the statistics.
    pub(crate) fn put_back(&mut self, index: ExchangeIndex, transfer: Box<ActiveTransfer>) {
        self.slots[index].transfer = Some(transfer);
    }

    pub(crate) const fn transfers(&self) -> usize {
        self.transfers
    }

    pub(crate) const fn transfer_bytes(&self) -> usize {
        self.transfer_bytes
    }

    pub(super) fn free_transfer(&mut self, index: ExchangeIndex) {
        if let Some(transfer) = self.slots[index].transfer.take() {
            self.transfer_bytes -= transfer.bytes;
            self.transfers -= usize::from(transfer.before.is_some());
        }
    }

    pub(crate) fn continue_burst<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: ExchangeIndex) {
        let Some(transfer) = self.take_transfer(index) else { return };
        let body = self.slots[index].content.body.clone();
        self.slots[index].confirmable = false;
        self.slots[index].may_confirm = false;
        self.go_on(now, peers, index, NextMessage { transfer, body, token: None });
        self.count_burst(index);
    }

    /// Removes a burst from the queue because its response arrived.
    pub(crate) fn leave_queue<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: ExchangeIndex) {
        self.dequeue(peers, index);
        self.slots[index].ask_again = Instant::FAR_FUTURE;
        self.await_response(now, index);
    }

    /// Replaces a transfer of which nothing was sent.
    pub(crate) fn replace_burst(&mut self, index: ExchangeIndex, transfer: Option<Box<ActiveTransfer>>) {
        self.free_transfer(index);
        self.slots[index].transfer = transfer;
        if self.slots[index].state == State::Queued {
            self.count_burst(index);
        }
    }

    /// Counts the bytes of a queued burst.
    fn count_burst(&mut self, index: ExchangeIndex) {
        let exchange = &self.slots[index];
        let overhead = u32::try_from(Overhead::of(&exchange.token).and(OPTIONS)).unwrap_or(u32::MAX);
        let others = overhead.saturating_add(self.config.datagram_overhead);
        let bytes = exchange.transfer.as_ref().and_then(|transfer| transfer.burst_bytes(others));
        let exchange = &mut self.slots[index];
        exchange.bytes = bytes.unwrap_or(exchange.bytes);
    }

    pub(crate) fn payload_left<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
        SentPayload { first, bytes }: SentPayload,
        random: &mut impl RngCore,
    ) -> AfterPayload {
        let exchange = &mut self.slots[index];
        let (peer, controller) = peers.controlled(exchange.peer);
        let bytes = bytes.saturating_add(self.config.datagram_overhead);
        if first {
            exchange.sent.push(now);
            let attempt = exchange.attempt();
            let load = peer.load_without(exchange.bytes);
            let (bytes, random) = (exchange.bytes, random.next_u32());
            let event = Sent { now, attempt, confirmable: true, bytes, random, load };
            let wanted = controller.sent(&mut peer.control, &mut exchange.flight, &event);
            exchange.timeout = Some(self.config.envelope.hold(wanted, exchange.timeout));
        }
        peer.sent_non(now, bytes);
        if exchange.path.is_some() && !exchange.asks_again() {
            exchange.ask_again = now + LONGEST_ON_PATH;
        }
        let base = if first { Some(controller.base(&mut peer.control, now)) } else { None };
        if let Some(last) = exchange.sent.last_mut() {
            *last = now;
        }
        if let Some(transfer) = &mut exchange.transfer {
            transfer.count_in_bursts();
            transfer.take_turn_later();
        }
        let answered_at_end =
            exchange.transfer.as_ref().is_some_and(|transfer| matches!(transfer.work, TransferState::Bursts(_)));
        // After the last payload of a state, wait as after other notifications (RFC 7641 §4.5.1).
        let waits_at_end = answered_at_end || exchange.notifies();
        let Some(sender) = exchange.transfer.as_mut().and_then(|transfer| transfer.sender_mut()) else {
            return AfterPayload::Over;
        };
        if let Some(base) = base {
            sender.begin_train(base, bytes);
        }
        let next = sender.left(now, bytes);
        if !sender.has_left() {
            exchange.state = State::Departing;
            exchange.state_until = next;
        } else if sender.is_at_end() && !waits_at_end {
            return AfterPayload::Over;
        } else {
            let [shortest, longest] = self.config.times().non_timeout;
            let spread = u32::try_from((longest - shortest).as_micros()).unwrap_or(u32::MAX);
            let non_timeout = shortest + Duration::from_micros(u64::from(random.next_u32() % spread.max(1)));
            // Payloads in a queue on the path arrive later. By then a receiver that must request
            // each burst has repeated a lost request.
            let non_timeout = non_timeout + sender.span() / 2;
            let is_asked = exchange.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
                TransferState::Response(_, kept) => !kept.all && !kept.confirmable,
                TransferState::Blocks(_) | TransferState::Bursts(_) => false,
            });
            let max_queueing_time =
                if is_asked { self.config.times().non_receive_timeout.saturating_mul(2) } else { Duration::ZERO };
            exchange.state = State::AwaitingAck;
            exchange.state_until = now + exchange.timeout.unwrap_or_default().max(non_timeout) + max_queueing_time;
        }
        let wake = exchange.wake();
        self.timers.set(index, wake);
        AfterPayload::Waits
    }

    pub(crate) fn depart_later(&mut self, index: ExchangeIndex, at: Instant) {
        self.slots[index].state_until = at;
        self.arm(index);
    }

    pub(crate) fn burst_answered<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: ExchangeIndex) {
        self.acknowledge(now, peers, index, AckKind::Piggybacked);
    }

    /// Handles a report of missing payloads.
    pub(crate) fn burst_incomplete<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> NextAction {
        match self.slots[index].state {
            // They leave with the rest.
            State::Queued => {
                self.count_burst(index);
                NextAction::Wait
            }
            State::Departing | State::Paused => NextAction::Wait,
            State::AwaitingAck | State::AwaitingResponse => self.resend_burst(now, peers, index),
        }
    }

    fn resend_burst<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: ExchangeIndex) -> NextAction {
        let exchange = &mut self.slots[index];
        if exchange.holds_slot {
            let attempt = exchange.attempt();
            let (peer, controller) = peers.controlled(exchange.peer);
            let event = Expired { now, attempt, load: peer.load_without(exchange.bytes) };
            let at = controller.expired(&mut peer.control, &mut exchange.flight, &event);
            exchange.state = State::Departing;
            exchange.state_until = if at <= now { Instant::FAR_FUTURE } else { at };
            let wake = exchange.wake();
            self.timers.set(index, wake);
            return if at <= now { NextAction::Depart } else { NextAction::Wait };
        }
        self.continue_burst(now, peers, index);
        NextAction::Admit
    }

    /// Handles the timer of a burst: the next payload is due, or the answer is overdue.
    pub(super) fn burst_due<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: ExchangeIndex,
    ) -> NextAction {
        if self.slots[index].state == State::Departing {
            return NextAction::Depart;
        }
        let most = self.config.transmission.max_retransmit;
        let notifies = self.slots[index].notifies();
        let follows = match self.slots[index].transfer.as_mut().map(|transfer| &mut transfer.work) {
            Some(TransferState::Bursts(transfer)) => transfer.sender.as_mut().map(|sender| sender.unanswered(most)),
            Some(TransferState::Response(_, kept)) if kept.outdated => Some(NextBurst::Nothing),
            Some(TransferState::Response(sender, kept)) if kept.all => Some(sender.unanswered(most)),
            _ => None,
        };
        match follows {
            Some(NextBurst::Burst) => self.resend_burst(now, peers, index),
            // A notification's time has passed. A Confirmable message will check the client.
            Some(follows) if notifies => {
                let why = if follows == NextBurst::TooMuch { AbandonReason::GaveUp } else { AbandonReason::Cancelled };
                self.abandon(now, peers, index, why);
                NextAction::Over
            }
            Some(NextBurst::Nothing) => {
                // The whole body was sent; the response is missing.
                let exchange = &mut self.slots[index];
                exchange.free_slot(peers);
                self.await_response(now, index);
                NextAction::Admit
            }
            Some(NextBurst::TooMuch) | None => {
                self.abandon(now, peers, index, AbandonReason::GaveUp);
                NextAction::Fail(Failure::TimedOut)
            }
        }
    }

    /// Receives a response in bursts without a request, as if it had been requested.
    pub(crate) fn listen(&mut self, now: Instant, index: ExchangeIndex) {
        let exchange = &mut self.slots[index];
        exchange.sent.push(now);
        exchange.state = State::AwaitingResponse;
    }

    /// Records a request for missing blocks, which ends the exchange's own message.
    pub(crate) fn said(&mut self, index: ExchangeIndex) {
        let exchange = &mut self.slots[index];
        exchange.confirmable = false;
        let Some(mut transfer) = exchange.transfer.take() else { return };
        transfer.fold(exchange);
        transfer.count_in_bursts();
        exchange.transfer = Some(transfer);
    }

    /// Waits for more of a response that arrives in bursts.
    pub(crate) fn await_burst<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: ExchangeIndex, due: Instant) {
        let Some(mut transfer) = self.take_transfer(index) else { return };
        self.transfers += usize::from(transfer.begin(&self.slots[index]));
        self.count_transfer(&mut transfer);
        let exchange = &mut self.slots[index];
        exchange.transfer = Some(transfer);
        exchange.free_slot(peers);
        exchange.state = State::AwaitingResponse;
        exchange.state_until = due;
        let wake = exchange.wake();
        self.timers.set(index, wake);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterPayload {
    /// The burst continues, or waits for its answer.
    Waits,
    /// It was the last payload, and no answer is expected.
    Over,
}

/// Approximate bytes of options and payload marker in a payload's message.
const OPTIONS: usize = 24;
