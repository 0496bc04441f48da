//! A request that takes more than one message (RFC 7959): an exchange that yields one after the other, each of which has
//! to be admitted like any other.

use alloc::boxed::Box;

use super::{Course, Exchange, Exchanges, Failure, State};
use crate::PeerKey;
use crate::blockwise::sets::{Sender, SetTransfer};
use crate::blockwise::{Key, Mark, Transfer};
use crate::codec::{Body, Message, Token};
use crate::peer::Peers;
use conche_cc::{Controller, Instant};

/// A transfer under way.
#[derive(Debug)]
pub(crate) struct Transferring {
    pub(crate) work: Work,
    /// When its first message left, and how those went that have been answered; `None` before the first answer.
    before: Option<(Instant, Course)>,
    /// Messages that left in sets, or asked for what is missing of them, since the last that is counted as any other;
    /// `None` if that is the last that left.
    in_sets: Option<u32>,
    /// Payloads that left in turns that were not taken.
    owed: u32,
    /// One of those passes: it is over when the next message has left.
    passed: bool,
    /// What is counted of its bytes.
    bytes: usize,
    /// Its message has this token in place of the exchange's.
    pub(crate) token: Option<Token>,
}

/// What a transfer does with its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its next message leaves.
    Leaves,
    /// It is that of a payload that has left: the next one has it. Who has just been answered gets its place behind that, as if
    /// the payload left now.
    Passes,
    /// Such a turn is over: it stands last again.
    Over,
}

/// What takes more than one message.
#[derive(Debug)]
pub(crate) enum Work {
    /// A request and its response, block by block (RFC 7959).
    Blocks(Transfer),
    /// A request and its response, in sets (RFC 9177).
    Sets(Box<SetTransfer>),
    /// A response that is kept, in sets.
    Kept(Sender, Kept),
}

/// A response that leaves in sets.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Where it is kept.
    pub(crate) key: Key,
    /// Which one it is, as another one may be kept there by now.
    pub(crate) mark: Mark,
    /// It leaves as Confirmable messages.
    pub(crate) confirmable: bool,
    /// The number of a state of what is observed: it stands in each payload but those that were missing (RFC 9177 §4.5).
    pub(crate) sequence: Option<u32>,
    /// Of such a state: the token by which what is missing was asked for last.
    pub(crate) asked: Option<Token>,
    /// A newer state is there: no further set of this one leaves.
    pub(crate) outdated: bool,
    /// All of it was asked for, so that the next set follows even if nobody says that the last one came.
    pub(crate) all: bool,
}

impl Transferring {
    /// Nothing has been answered yet.
    pub(crate) const fn new(work: Work) -> Self {
        Self { work, before: None, in_sets: None, owed: 0, passed: false, bytes: 0, token: None }
    }

    /// What it holds in memory beside what it shares with others.
    fn held(&self) -> usize {
        match &self.work {
            Work::Blocks(transfer) => transfer.bytes(),
            Work::Sets(transfer) => transfer.bytes(),
            Work::Kept(..) => 0,
        }
    }

    /// How much more it holds by now than what is counted.
    pub(crate) fn growth(&self) -> usize {
        self.held().saturating_sub(self.bytes)
    }

    /// Where the response is kept that leaves, if one does.
    pub(crate) fn key(&self) -> Option<Key> {
        match &self.work {
            Work::Kept(_, kept) => Some(kept.key),
            Work::Blocks(_) | Work::Sets(_) => None,
        }
    }

    /// It leaves as Confirmable messages, each acknowledged by itself.
    pub(crate) fn is_confirmable(&self) -> bool {
        matches!(&self.work, Work::Kept(_, kept) if kept.confirmable)
    }

    /// Nothing of it has left.
    pub(crate) fn is_new(&self) -> bool {
        self.sender().is_some_and(Sender::is_new)
    }

    /// Who sends sets, if this does.
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

    /// The bytes of the payloads that are to leave of a set, with so many others for each.
    pub(crate) fn set_bytes(&self, others: u32) -> Option<u32> {
        let sender = self.sender()?;
        let each = u32::try_from(sender.size.bytes()).unwrap_or(u32::MAX).saturating_add(others);
        Some(each.saturating_mul(u32::try_from(sender.due()).unwrap_or(u32::MAX)))
    }

    /// A message of it has been answered.
    pub(super) const fn has_begun(&self) -> bool {
        self.before.is_some()
    }

    /// Its first message was answered, and more follows; `true` the first time.
    pub(super) fn begin<C: Controller>(&mut self, exchange: &Exchange<C>) -> bool {
        let begins = self.before.is_none();
        self.fold(exchange);
        let now = exchange.first_sent().unwrap_or(exchange.submitted);
        self.before.get_or_insert_with(|| (now, exchange.course_of_message(now)));
        self.in_sets.get_or_insert(0);
        begins
    }

    /// The last of several messages is over, and others follow that are counted in sets.
    pub(super) fn fold<C: Controller>(&mut self, exchange: &Exchange<C>) {
        if let (Some((first, _)), None) = (self.before, self.in_sets) {
            let now = exchange.first_sent().unwrap_or(exchange.submitted);
            self.before = Some((first, self.course(now, exchange.course_of_message(now))));
        }
    }

    /// A message left in a set, or asked for what is missing of one.
    pub(super) fn count_in_sets(&mut self) {
        let in_sets = self.in_sets.get_or_insert(0);
        *in_sets = in_sets.saturating_add(1);
    }

    /// A payload of a set left: each has a turn, which all but the first take after they left.
    pub(super) fn take_turn_later(&mut self) {
        self.owed = self.owed.saturating_add(1);
    }

    /// Turns of payloads that have left already are still to pass.
    pub(super) fn owes(&self) -> bool {
        self.owed > 1
    }

    /// It stands first of those who wait, and perhaps alone.
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

    /// How all messages went, the last of which so.
    pub(crate) fn course(&self, now: Instant, last: Course) -> Course {
        let Some((first_sent, before)) = self.before else { return last };
        // Of a set each message is one.
        let (messages, transmissions) = self.in_sets.map_or((last.messages, last.transmissions), |left| (left, left));
        let messages = before.messages.saturating_add(messages);
        let transmissions = before.transmissions.saturating_add(transmissions);
        Course { messages, transmissions, elapsed: now - first_sent, timeout: last.timeout, ..before }
    }
}

impl<C: Controller> Exchange<C> {
    /// Returns `true` if a separate response answers an earlier message of this request, which had
    /// the same token ([`Transfer::is_late`]). Responses that are protected are bound to one
    /// message, and need no such check.
    pub(crate) fn is_late(&self, response: &Message<'_>) -> bool {
        let transfer = self.transfer.as_ref().filter(|_| self.security.is_plain());
        transfer.is_some_and(|transfer| match &transfer.work {
            Work::Blocks(transfer) => transfer.is_late(response),
            Work::Sets(_) | Work::Kept(..) => false,
        })
    }

    /// It waited too long for its turn: without any effect at the peer, unless a part of it has had its turn.
    pub(super) fn expired(&self) -> Failure {
        let begun = self.transfer.as_ref().is_some_and(|transfer| transfer.has_begun());
        if begun { Failure::TimedOut } else { Failure::QueueExpired }
    }
}

impl<C: Controller> Exchanges<C> {
    /// The answer to one message of a request arrived, and this is the next. It waits at the end of
    /// the peer's queue, so that senders take turns, and needs no room there, since it holds its
    /// place among the exchanges. It has this token, or keeps the one of the message before:
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

    /// A message has to go once more, with this token, since the peer does not understand the one that it had.
    pub(crate) fn send_anew<P: PeerKey>(&mut self, now: Instant, peers: &mut Peers<P, C>, index: u32, token: Token) {
        self.release(peers, index);
        self.take_token(index, token);
        let body = self.slots[index].content.body.clone();
        self.send_next(now, peers, index, body);
    }

    /// The next message of a request waits for its turn.
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

    /// The answer to one message of a request arrived, and the next is not known yet: it holds no slot and nothing of a
    /// queue, for as long as its deadline is ahead.
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

    /// A message of a request is over, and more follow: what it held is free, and what became of it is kept.
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

    /// Frees what a message of a request held that is over.
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

    /// Counts the bytes that a transfer holds by now.
    pub(super) fn count_transfer(&mut self, transfer: &mut Transferring) {
        let bytes = transfer.held();
        self.transfer_bytes = self.transfer_bytes - transfer.bytes + bytes;
        transfer.bytes = bytes;
    }

    /// The request that goes in sets, if an exchange is one.
    pub(crate) fn sets_mut(&mut self, index: u32) -> Option<&mut SetTransfer> {
        match &mut self.slots[index].transfer.as_mut()?.work {
            Work::Sets(sets) => Some(sets),
            Work::Blocks(_) | Work::Kept(..) => None,
        }
    }

    /// Takes a transfer out of its exchange, to [go on](Self::go_on) or to be [put back](Self::put_back).
    pub(crate) fn take_transfer(&mut self, index: u32) -> Option<Box<Transferring>> {
        self.slots[index].transfer.take()
    }

    /// Puts a transfer back. One that is over says how the exchange went all the same.
    pub(crate) fn put_back(&mut self, index: u32, transfer: Box<Transferring>) {
        self.slots[index].transfer = Some(transfer);
    }

    /// How many requests have gone on after their first message.
    pub(crate) const fn transfers(&self) -> usize {
        self.transfers
    }

    /// Bytes that all transfers hold.
    pub(crate) const fn transfer_bytes(&self) -> usize {
        self.transfer_bytes
    }

    /// An exchange is over, and what it held is free.
    pub(super) fn free_transfer(&mut self, index: u32) {
        if let Some(transfer) = self.slots[index].transfer.take() {
            self.transfer_bytes -= transfer.bytes;
            self.transfers -= usize::from(transfer.before.is_some());
        }
    }
}
