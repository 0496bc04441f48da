//! Requests of more than one message (RFC 7959): each message is admitted like any other.

use alloc::boxed::Box;

use super::{Course, Exchange, ExchangeId, Exchanges, Failure, State};
use crate::PeerKey;
use crate::blockwise::sets::{Sender, SetTransfer};
use crate::blockwise::{Key, Mark, Transfer};
use crate::codec::{Body, Message, Token};
use crate::peer::Peers;
use conche_cc::{Controller, Instant};

#[derive(Debug)]
pub(crate) struct Transferring {
    pub(crate) work: Work,
    /// Time of the first transmission, and statistics of the answered messages; `None` before the
    /// first answer.
    before: Option<(Instant, Course)>,
    /// Messages sent in bursts, or to request missing payloads, since the last single message;
    /// `None` if the last message was a single one.
    in_sets: Option<u32>,
    /// Turns to yield for payloads sent earlier.
    owed: u32,
    /// The exchange is yielding a turn, which ends when the next message has left.
    passed: bool,
    /// Counted memory in bytes.
    bytes: usize,
    /// Token of the current message, if it differs from the exchange's.
    pub(crate) token: Option<Token>,
}

/// The use of a transfer's turn in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its next message leaves.
    Leaves,
    /// The next sender leaves instead, in return for a payload sent earlier. A sender that was just
    /// answered queues behind, as if the payload left now.
    Passes,
    /// A yielded turn ended: the transfer moves to the end of the queue.
    Over,
}

/// The kinds of transfers.
#[derive(Debug)]
pub(crate) enum Work {
    /// A block-wise request and response (RFC 7959).
    Blocks(Transfer),
    /// A Q-Block request and response (RFC 9177).
    Sets(Box<SetTransfer>),
    /// A stored response, sent in bursts.
    Kept(Sender, Kept),
}

/// A stored response that is sent in bursts.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Where the response is stored.
    pub(crate) key: Key,
    /// Identifies the response, which may have been replaced in the meantime.
    pub(crate) mark: Mark,
    /// Sent as Confirmable messages.
    pub(crate) confirmable: bool,
    /// Observe sequence number of a notification: included in each payload except retransmitted
    /// ones (RFC 9177 §4.5).
    pub(crate) sequence: Option<u32>,
    /// For a notification: the token of the last request for missing payloads.
    pub(crate) asked: Option<Token>,
    /// A newer state exists: no further burst of this one is sent.
    pub(crate) outdated: bool,
    /// The whole body was requested, so that the next burst follows even without an acknowledgement
    /// of the last.
    pub(crate) all: bool,
}

impl Transferring {
    /// Creates a transfer without answered messages.
    pub(crate) const fn new(work: Work) -> Self {
        Self { work, before: None, in_sets: None, owed: 0, passed: false, bytes: 0, token: None }
    }

    /// Returns its memory in bytes, without shared memory.
    fn held(&self) -> usize {
        match &self.work {
            Work::Blocks(transfer) => transfer.bytes(),
            Work::Sets(transfer) => transfer.bytes(),
            Work::Kept(..) => 0,
        }
    }

    /// Returns how much its memory exceeds the counted bytes.
    pub(crate) fn growth(&self) -> usize {
        self.held().saturating_sub(self.bytes)
    }

    pub(crate) fn key(&self) -> Option<Key> {
        match &self.work {
            Work::Kept(_, kept) => Some(kept.key),
            Work::Blocks(_) | Work::Sets(_) => None,
        }
    }

    /// Returns `true` if it is sent as Confirmable messages, acknowledged one by one.
    pub(crate) fn is_confirmable(&self) -> bool {
        matches!(&self.work, Work::Kept(_, kept) if kept.confirmable)
    }

    pub(crate) fn is_new(&self) -> bool {
        self.sender().is_some_and(Sender::is_new)
    }

    pub(super) fn sender(&self) -> Option<&Sender> {
        match &self.work {
            Work::Blocks(_) => None,
            Work::Sets(transfer) => transfer.sender.as_ref(),
            Work::Kept(sender, _) => Some(sender),
        }
    }

    pub(super) fn sender_mut(&mut self) -> Option<&mut Sender> {
        match &mut self.work {
            Work::Blocks(_) => None,
            Work::Sets(transfer) => transfer.sender.as_mut(),
            Work::Kept(sender, _) => Some(sender),
        }
    }

    /// Returns the size of the due payloads of a burst, with `others` more bytes each.
    pub(crate) fn set_bytes(&self, others: u32) -> Option<u32> {
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
        self.in_sets.get_or_insert(0);
        begins
    }

    /// Adds the last single message to the statistics before messages are counted in bursts.
    pub(super) fn fold<C: Controller>(&mut self, exchange: &Exchange<C>) {
        if let (Some((first, _)), None) = (self.before, self.in_sets) {
            let now = exchange.first_sent().unwrap_or(exchange.submitted);
            self.before = Some((first, self.course(now, exchange.course_of_message(now))));
        }
    }

    /// Counts a message of a burst, or a request for missing payloads.
    pub(super) fn count_in_sets(&mut self) {
        let in_sets = self.in_sets.get_or_insert(0);
        *in_sets = in_sets.saturating_add(1);
    }

    /// Adds a turn to yield: each payload takes a turn, all but the first after they were sent.
    pub(super) fn take_turn_later(&mut self) {
        self.owed = self.owed.saturating_add(1);
    }

    /// Returns `true` if turns must still be yielded.
    pub(super) fn owes(&self) -> bool {
        self.owed > 1
    }

    /// Decides how to use a turn at the head of the queue; `alone` if no other sender waits.
    pub(super) fn take_turn(&mut self, alone: bool) -> Turn {
        let passed = core::mem::take(&mut self.passed);
        if alone || !passed && !self.owes() {
            self.owed = 0;
            return Turn::Leaves;
        }
        if !passed {
            self.owed -= 1;
            self.passed = true;
        }
        if passed { Turn::Over } else { Turn::Passes }
    }

    /// Returns the statistics of all messages, given those of the last one.
    pub(crate) fn course(&self, now: Instant, last: Course) -> Course {
        let Some((first_sent, before)) = self.before else { return last };
        // In a burst every transmission counts as a message.
        let (messages, transmissions) = self.in_sets.map_or((last.messages, last.transmissions), |left| (left, left));
        let messages = before.messages.saturating_add(messages);
        let transmissions = before.transmissions.saturating_add(transmissions);
        Course { messages, transmissions, elapsed: now - first_sent, timeout: last.timeout, ..before }
    }
}

impl<C: Controller> Exchange<C> {
    /// Returns `true` if a separate response answers an earlier message of this request with the
    /// same token ([`Transfer::is_late`]). Protected responses are bound to one message and need no
    /// such check.
    pub(crate) fn is_late(&self, response: &Message<'_>) -> bool {
        let transfer = self.transfer.as_ref().filter(|_| self.security.is_plain());
        transfer.is_some_and(|transfer| match &transfer.work {
            Work::Blocks(transfer) => transfer.is_late(response),
            Work::Sets(_) | Work::Kept(..) => false,
        })
    }

    /// Returns the failure of an exchange that waited too long: it had no effect at the peer unless
    /// an earlier message was sent.
    pub(super) fn expired(&self) -> Failure {
        let begun = self.transfer.as_ref().is_some_and(|transfer| transfer.has_begun());
        if begun { Failure::TimedOut } else { Failure::QueueExpired }
    }
}

impl<C: Controller> Exchanges<C> {
    /// Continues a request with its next message after an answer. It joins the end of the peer's
    /// queue, so that senders take turns, and needs no room there, since it keeps its place among
    /// the exchanges. A new token replaces the previous one; without it the token is kept, because
    /// servers match the blocks of a body by it.
    pub(crate) fn go_on<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: u32,
        (transfer, body): (Box<Transferring>, Body),
        token: Option<Token>,
    ) {
        self.settle(now, peers, index, transfer);
        if let Some(token) = token {
            self.take_token(index, token);
        }
        self.send_next(now, peers, index, body);
    }

    /// Sends a message again with another token, because the peer does not support the previous
    /// one.
    pub(crate) fn send_anew<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32, token: Token) {
        self.release(peers, index);
        self.take_token(index, token);
        let body = self.slots[index].content.body.clone();
        self.send_next(now, peers, index, body);
    }

    /// Queues the next message of a request.
    fn send_next<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32, body: Body) {
        let bytes = self.message_bytes(index, &body);
        let patience = self.config.times().response_timeout;
        let exchange = &mut self.slots[index];
        (exchange.content.body, exchange.bytes) = (body, bytes);
        exchange.state = State::Queued;
        exchange.state_until = now + patience;
        exchange.submitted = now;
        exchange.confirmable &= !exchange.may_confirm;
        let wake = exchange.wake();
        self.timers.set(index, wake);
        self.enqueue(peers, index, true);
    }

    /// Pauses a request after an answer, until the next message is known. It holds no slot or queue
    /// place, up to its deadline.
    pub(crate) fn pause<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: u32,
        transfer: Box<Transferring>,
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

    /// Ends a message of a request that has more, and adds it to the statistics.
    fn settle<P: PeerKey>(
        &mut self,
        now: Instant,
        peers: &mut Peers<P, C>,
        index: u32,
        mut transfer: Box<Transferring>,
    ) {
        let exchange = &self.slots[index];
        let first_sent = transfer.before.map_or(exchange.first_sent().unwrap_or(now), |(first, _)| first);
        self.transfers += usize::from(transfer.before.is_none());
        let course = transfer.course(now, exchange.course_of_message(now));
        transfer.in_sets = None;
        transfer.before = Some((first_sent, course));
        self.count_transfer(&mut transfer);
        self.slots[index].transfer = Some(transfer);
        self.release(peers, index);
    }

    /// Frees the resources of a completed message.
    fn release<P: PeerKey>(&mut self, peers: &mut Peers<P, C>, index: u32) {
        let exchange = &mut self.slots[index];
        exchange.free_slot(peers);
        self.unidentify(index);
        let exchange = &mut self.slots[index];
        exchange.doubtful_ack = false;
        exchange.sent.clear();
        (exchange.timeout, exchange.acknowledged, exchange.flight) = (None, None, C::Flight::default());
        exchange.told_copy = None;
    }

    /// Updates the counted memory of a transfer.
    pub(super) fn count_transfer(&mut self, transfer: &mut Transferring) {
        let bytes = transfer.held();
        self.transfer_bytes = self.transfer_bytes - transfer.bytes + bytes;
        transfer.bytes = bytes;
    }

    pub(crate) fn sets_mut(&mut self, index: u32) -> Option<&mut SetTransfer> {
        match &mut self.slots[index].transfer.as_mut()?.work {
            Work::Sets(sets) => Some(sets),
            Work::Blocks(_) | Work::Kept(..) => None,
        }
    }

    /// Returns the Block1 and Block2 transfer of a live exchange.
    pub(crate) fn blocks_mut(&mut self, id: ExchangeId) -> Option<&mut Transfer> {
        self.live(id)?;
        match &mut self.slots[id.index].transfer.as_mut()?.work {
            Work::Blocks(transfer) => Some(transfer),
            Work::Sets(_) | Work::Kept(..) => None,
        }
    }

    /// Takes the transfer out of its exchange, to [continue](Self::go_on) or to be [put
    /// back](Self::put_back).
    pub(crate) fn take_transfer(&mut self, index: u32) -> Option<Box<Transferring>> {
        self.slots[index].transfer.take()
    }

    /// Puts a transfer back. A completed one still contributes to the statistics.
    pub(crate) fn put_back(&mut self, index: u32, transfer: Box<Transferring>) {
        self.slots[index].transfer = Some(transfer);
    }

    /// Returns the number of requests past their first message.
    pub(crate) const fn transfers(&self) -> usize {
        self.transfers
    }

    pub(crate) const fn transfer_bytes(&self) -> usize {
        self.transfer_bytes
    }

    pub(super) fn free_transfer(&mut self, index: u32) {
        if let Some(transfer) = self.slots[index].transfer.take() {
            self.transfer_bytes -= transfer.bytes;
            self.transfers -= usize::from(transfer.before.is_some());
        }
    }
}
