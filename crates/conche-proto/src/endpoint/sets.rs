//! Q-Block (RFC 9177) in the client: requests whose request or response bodies take many messages
//! with a single response.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use rand_core::RngCore;

use super::transfer::failure_of;
use super::uploads::Uploads;
use super::{Endpoint, Event};
use crate::PeerKey;
use crate::blockwise::sets::{Patience, RequestTag, SetRules, SetStep, SetTransfer, lists_missing_blocks};
use crate::blockwise::{Key, Transfer, Trouble};
use crate::codec::{Body, Message, MessageId, OptionNumber, Overhead, OwnedMessage, Token};
use crate::config::SharedConfig;
use crate::exchange::{ExchangeId, Failure, Opening, Purpose, Reliability, State, Transferring, Work};
use crate::security::Security;
use crate::transport::Source;
use conche_cc::control::AckKind;
use conche_cc::{Controller, Instant};

/// The maximum number of remembered peers without Q-Block.
const REFUSING: usize = 64;

/// How long a peer is assumed not to support Q-Block. It is tried again afterwards, since an
/// address can get another owner.
const REFUSING_FOR: Duration = Duration::from_secs(1_800);

/// With fewer entries the table of responses is not cleaned up.
const LEAST_TIDIED: usize = 64;

/// The state of an endpoint with Q-Block in addition to its exchanges.
#[derive(Debug)]
pub(super) struct Sets<P> {
    rules: SetRules,
    /// The hashes of peers that refused Q-Block, and when to forget each; the most recent last.
    refusing: VecDeque<(u64, Instant)>,
    pub(super) uploads: Uploads<P>,
    /// Responses that are being sent in sets, for requests that continue them.
    leaving: BTreeMap<[u64; 2], ExchangeId>,
    /// The size of `leaving` at which entries of ended exchanges are removed.
    tidied_at: usize,
}

impl<P: PeerKey> Sets<P> {
    /// Returns the state for a configuration, if that enables Q-Block.
    pub(super) fn of(config: &SharedConfig) -> Option<Self> {
        let q_block = config.q_block?;
        let rules = SetRules {
            max_payloads: q_block.max_payloads,
            patience: Patience { non: q_block.non_receive_timeout, confirmable: config.times().max_transmit_span },
            non_max_retransmit: config.transmission.max_retransmit,
            confirmable: q_block.confirmable,
        };
        let uploads = Uploads::new(super::bodies::bounds(config));
        Some(Self { rules, refusing: VecDeque::new(), uploads, leaving: BTreeMap::new(), tidied_at: LEAST_TIDIED })
    }

    pub(super) const fn rules(&self) -> SetRules {
        self.rules
    }

    pub(super) fn len(&self) -> usize {
        self.uploads.contexts().len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.uploads.contexts().bytes()
    }

    pub(super) fn purge(&mut self, now: Instant) -> Option<Instant> {
        self.uploads.purge(now)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.uploads.next_due()
    }

    /// Returns the exchange that sends, or has sent, the response with this key.
    pub(super) fn leaving(&self, key: Key) -> Option<ExchangeId> {
        self.leaving.get(&[key.from, key.what]).copied()
    }

    /// Records the exchange that sends a response. Occasionally removes the entries that are not
    /// `live`.
    pub(super) fn leaves(&mut self, key: Key, exchange: ExchangeId, live: impl Fn(ExchangeId) -> bool) {
        if self.leaving.len() >= self.tidied_at {
            self.leaving.retain(|_, id| live(*id));
            self.tidied_at = LEAST_TIDIED.max(2 * self.leaving.len());
        }
        self.leaving.insert([key.from, key.what], exchange);
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

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Returns the Q-Block rules, if the configuration enables Q-Block.
    pub(super) fn set_rules(&self) -> Option<SetRules> {
        self.sets.as_ref().map(|sets| sets.rules)
    }

    /// Sends a request, or lets its response be sent, in sets. Returns `false`, with nothing
    /// changed, if the request is not suitable. `named`: the application chose its token.
    pub(super) fn cut_into_sets(&mut self, now: Instant, peer: u32, opening: &mut Opening, named: bool) -> bool {
        if self.sets.is_none() || !opening.whole || opening.body.option(OptionNumber::OBSERVE).is_some() {
            return false;
        }
        // The Request-Tag distinguishes the bodies of equal simultaneous requests (RFC 9175 §3).
        let tag = self.transport.random.next_u32().to_be_bytes();
        self.cut_into_tagged_sets(now, peer, opening, (tag, named))
    }

    /// Like [`cut_into_sets`](Self::cut_into_sets), with this Request-Tag, and for observations
    /// too.
    pub(super) fn cut_into_tagged_sets(
        &mut self,
        now: Instant,
        peer: u32,
        opening: &mut Opening,
        (tag, named): (RequestTag, bool),
    ) -> bool {
        let Some(sets) = self.sets.as_ref().filter(|_| opening.security.is_plain()) else { return false };
        let (rules, set_rules) = (self.transfer_rules(&opening.token, &opening.security), sets.rules);
        let hash = self.transport.peers.hash(&self.transport.peers.get(peer).key);
        let by_hand = |number| {
            use OptionNumber as N;
            matches!(number, N::BLOCK1 | N::BLOCK2 | N::Q_BLOCK1 | N::Q_BLOCK2)
        };
        let confirmable = opening.reliability == Reliability::Confirmable;
        if !confirmable || sets.refuses(now, hash) || opening.body.options().any(|option| by_hand(option.number)) {
            return false;
        }
        let payload = opening.body.payload().len();
        let too_large = opening.bytes() > rules.message_bytes;
        let (mut transfer, first) = if payload > 0 && (too_large || payload > rules.block_size.bytes()) {
            if payload > rules.body_bytes {
                return false;
            }
            match SetTransfer::upload(opening.code, &opening.body, tag, &rules, &set_rules) {
                Some(cut) => cut,
                None => return false,
            }
        } else if opening.code.is_safe() {
            SetTransfer::download(opening.code, &opening.body, tag, rules.block_size)
        } else {
            return false;
        };
        if !Overhead::of(&opening.token).fits(&first, rules.message_bytes) {
            return false;
        }
        let base = opening.token.clone().numbered(0);
        if !named && base.clone().numbered(1) != base && !self.uses_token(peer, &base) {
            opening.token = base;
            transfer.has_tokens = true;
        }
        opening.body = first;
        opening.transfer = Some(Box::new(Transferring::new(Work::Sets(Box::new(transfer)))));
        true
    }

    /// Returns the request with this token, which is its own or the numbered token of a message in
    /// a set.
    pub(super) fn exchange_with_token(&mut self, peer: u32, token: &Token) -> Option<u32> {
        let found = self.transport.exchanges.with_token(peer, token);
        if found.is_some() || self.sets.is_none() {
            return found;
        }
        let base = token.clone().numbered(0);
        let numbered = self.transport.exchanges.with_token(peer, &base).filter(|_| base != *token)?;
        match self.transport.exchanges.get(numbered).transfer.as_ref().map(|transfer| &transfer.work) {
            Some(Work::Sets(transfer)) if transfer.has_used(&base, token) => Some(numbered),
            _ => None,
        }
    }

    /// Continues a request in sets whose first message was acknowledged with an Empty ACK: the
    /// server has the first block.
    pub(super) fn first_block_acknowledged(&mut self, now: Instant, index: u32) {
        let round_trip = self.transport.exchanges.get(index).course(now).acknowledged_after;
        let round_trip = round_trip.map(|time| time.max(self.transport.config.envelope.timeout_floor));
        let Some(sets) = self.transport.exchanges.sets_mut(index) else { return };
        if !sets.is_alone() || sets.acknowledged(round_trip) {
            self.send_more(now, index);
        }
    }

    /// Sends the next set of a request body or, if each payload is acknowledged individually, the
    /// next payload.
    fn send_more(&mut self, now: Instant, index: u32) {
        let confirmable = self.set_rules().is_some_and(|rules| rules.confirmable);
        let peer = self.transport.exchanges.get(index).peer;
        if !confirmable {
            self.transport.exchanges.go_on_with_set(now, &mut self.transport.peers, index);
            return self.transport.admit_waiting(now, peer);
        }
        let base = self.transport.exchanges.get(index).token.clone();
        let Some(sets) = self.transport.exchanges.sets_mut(index) else { return };
        // With no next payload everything was sent, and only the response is outstanding.
        let Some(body) = sets.next_payload() else { return };
        let token = sets.payload_token(&base);
        let Some(mut transfer) = self.transport.exchanges.take_transfer(index) else { return };
        transfer.token = Some(token);
        self.transport.exchanges.go_on(now, &mut self.transport.peers, index, (transfer, body), None);
        self.transport.admit_waiting(now, peer);
    }

    /// Receives a response to a request in sets.
    pub(super) fn deliver_to_sets(&mut self, now: Instant, index: u32, kind: AckKind, message: &Message<'_>) {
        let rules = self.transfer_rules(&self.transport.exchanges.get(index).token, &Security::PLAIN);
        let Some(set_rules) = self.set_rules() else { return };
        let exchange = self.transport.exchanges.get(index);
        let (confirmable, peer) = (exchange.confirmable, exchange.peer);
        let waits = exchange.state == State::Queued;
        let Some(sets) = self.transport.exchanges.sets_mut(index) else { return };
        let (first, answered) = ((confirmable || waits) && sets.is_alone(), sets.is_answered_by(message));
        let kind = if confirmable { kind } else { AckKind::Piggybacked };
        if waits && !answered {
            // No outstanding message can be acknowledged by this, and the waiting one keeps its
            // turn.
            return match sets.answer(now, message, first, &rules, &set_rules) {
                SetStep::Failed(trouble) => self.fail(now, index, failure_of(trouble)),
                SetStep::Set if !confirmable => {
                    let next = self.transport.exchanges.set_missing(now, &mut self.transport.peers, index);
                    self.transport.follow_set(now, index, next);
                }
                _ => {}
            };
        }
        if answered {
            // It is acknowledged before the state changes to one in which nothing is sent.
            if waits {
                self.transport.exchanges.leave_queue(now, &mut self.transport.peers, index);
            }
            self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, kind);
        }
        let Some(sets) = self.transport.exchanges.sets_mut(index) else { return };
        let step = sets.answer(now, message, first, &rules, &set_rules);
        let transfer = self.transport.exchanges.get(index).transfer.as_deref();
        let fits = transfer.is_none_or(|transfer| self.fits_all_transfers(transfer));
        let missing = lists_missing_blocks(message);
        let in_ack = confirmable && kind == AckKind::Piggybacked;
        let acknowledges = match step {
            // It concerns other blocks than those sent last.
            SetStep::Wait => in_ack || first && !self.transport.exchanges.get(index).is_sending(),
            _ => first || in_ack || !missing,
        };
        if acknowledges {
            self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, kind);
        }
        let step = if fits { step } else { SetStep::Failed(Trouble::TooLarge) };
        match step {
            // The acknowledgement of the first message, with any content.
            SetStep::Wait if first && in_ack && self.transport.exchanges.get(index).is_sending() => {
                self.transport.exchanges.await_response(now, index);
                self.first_block_acknowledged(now, index);
            }
            // The outstanding message is acknowledged individually; the next one follows.
            SetStep::Set | SetStep::Wait
                if confirmable && !first && self.transport.exchanges.get(index).is_sending() =>
            {
                if acknowledges {
                    self.transport.exchanges.await_response(now, index);
                }
                if self.transport.exchanges.get(index).state == State::AwaitingResponse {
                    self.send_more(now, index);
                }
            }
            SetStep::Set if missing && !first => {
                let next = self.transport.exchanges.set_missing(now, &mut self.transport.peers, index);
                self.transport.follow_set(now, index, next);
            }
            SetStep::Set => self.send_more(now, index),
            SetStep::Say(body) => {
                self.say(now, index, &body);
                self.await_more(index);
                self.transport.admit_waiting(now, peer);
            }
            SetStep::Wait => {
                self.await_more(index);
                self.transport.admit_waiting(now, peer);
            }
            SetStep::Done(whole) => self.delivered(now, index, kind, whole),
            SetStep::Fallback => {
                let hash = self.transport.peers.hash(&self.transport.peers.get(peer).key);
                if let Some(sets) = &mut self.sets {
                    sets.refused(now, hash);
                }
                self.fall_back(now, index);
            }
            SetStep::Whole(whole) => self.ask_for_whole(now, index, *whole),
            SetStep::AsItIs | SetStep::Blocks if self.is_observed(index) => {
                self.delivered(now, index, kind, OwnedMessage::from(*message));
            }
            SetStep::AsItIs | SetStep::Blocks => {
                self.go_by_blocks(index);
                let Some(message) = self.follow(now, index, message) else { return };
                self.delivered(now, index, kind, message);
            }
            SetStep::Failed(trouble) => self.fail(now, index, failure_of(trouble)),
        }
    }

    /// Delivers the complete response to a request in sets.
    fn delivered(&mut self, now: Instant, index: u32, kind: AckKind, message: OwnedMessage) {
        if let Some(subscription) = self.registers(index) {
            return self.deliver_registration(now, index, subscription, kind, message);
        }
        if let Purpose::State(subscription) = self.transport.exchanges.get(index).purpose {
            return self.deliver_state(now, index, subscription, message);
        }
        let (exchange, from, course) = self.transport.exchanges.told(now, &self.transport.peers, index);
        self.announce(Event::Response { exchange, from, message, course });
        self.close(now, index);
    }

    /// Returns whether the exchange belongs to an observation, whose messages are delivered as they
    /// are: notifications, or a first block to continue from.
    fn is_observed(&mut self, index: u32) -> bool {
        matches!(self.transport.exchanges.get(index).purpose, Purpose::State(_)) || self.registers(index).is_some()
    }

    /// Waits for the next block of a response in sets, if the exchange is receiving one.
    fn await_more(&mut self, index: u32) {
        if let Some(due) = self.transport.exchanges.sets_mut(index).and_then(|sets| sets.due()) {
            self.transport.exchanges.await_set(&mut self.transport.peers, index, due);
        }
    }

    /// Sends a message of an exchange that answers a received one, as an ACK does, and so bypasses
    /// the congestion controller.
    fn say(&mut self, now: Instant, index: u32, body: &Body) {
        let exchange = self.transport.exchanges.get(index);
        let (peer, code, local) = (exchange.peer, exchange.content.code, exchange.local);
        let base = exchange.token.clone();
        let Some(sets) = self.transport.exchanges.sets_mut(index) else { return };
        let token = sets.next_token(&base);
        let to = Source { from: self.transport.peers.get(peer).key, local };
        if self.transport.send_answer(now, (to, peer), &token, (code, body)).is_some() {
            self.transport.exchanges.said(index);
        }
    }

    /// Requests the missing blocks of a response that were not received in time.
    pub(super) fn ask_for_missing_blocks(&mut self, now: Instant, index: u32) {
        let rules = self.transfer_rules(&self.transport.exchanges.get(index).token, &Security::PLAIN);
        let Some(set_rules) = self.set_rules() else { return };
        let Some(sets) = self.transport.exchanges.sets_mut(index) else { return };
        match sets.overdue(now, &rules, &set_rules) {
            Some(body) => {
                self.say(now, index, &body);
                self.await_more(index);
            }
            None => self.fail(now, index, Failure::TimedOut),
        }
    }

    /// Starts a request again with Block1 and Block2, since the peer does not support Q-Block. For
    /// an observation the request is sent whole and with the same token.
    fn fall_back(&mut self, now: Instant, index: u32) {
        let observed = self.is_observed(index);
        let exchange = self.transport.exchanges.get(index);
        let (peer, own) = (exchange.peer, exchange.token.clone());
        let rules = self.transfer_rules(&own, &Security::PLAIN);
        let token = if observed { None } else { self.choose_token(now, peer, false).ok().map(|chosen| chosen.token) };
        let overhead = Overhead::of(token.as_ref().unwrap_or(&own));
        let Some(mut transfer) = self.transport.exchanges.take_transfer(index) else { return };
        let Work::Sets(sets) = &transfer.work else { return self.transport.exchanges.put_back(index, transfer) };
        let whole = sets.whole.clone();
        let mut blocks = Transfer::new(sets.code, &whole);
        let fits = overhead.fits(&whole, rules.message_bytes);
        let first = match observed {
            true => fits.then_some(whole),
            false if fits && whole.payload().len() <= rules.block_size.bytes() => Some(whole),
            false => blocks.begin(&rules),
        };
        transfer.work = Work::Blocks(blocks);
        let Some(first) = first else {
            self.transport.exchanges.put_back(index, transfer);
            return self.fail(now, index, Failure::MessageTooLarge);
        };
        // Only Confirmable requests begin in sets.
        self.transport.exchanges.get_mut(index).confirmable = true;
        self.transport.exchanges.go_on(now, &mut self.transport.peers, index, (transfer, first), token);
        self.transport.admit_waiting(now, peer);
    }

    /// Repeats a request so that it asks for the whole response by Q-Block2.
    fn ask_for_whole(&mut self, now: Instant, index: u32, (mut sets, first): (SetTransfer, Body)) {
        let peer = self.transport.exchanges.get(index).peer;
        let token = self.choose_token(now, peer, false).ok().map(|chosen| chosen.token);
        let base = token.as_ref().map(|token| token.clone().numbered(0));
        let base = base.filter(|base| base.clone().numbered(1) != *base && !self.uses_token(peer, base));
        sets.has_tokens = base.is_some();
        let Some(mut transfer) = self.transport.exchanges.take_transfer(index) else { return };
        transfer.work = Work::Sets(Box::new(sets));
        self.transport.exchanges.get_mut(index).confirmable = true;
        self.transport.exchanges.go_on(now, &mut self.transport.peers, index, (transfer, first), base.or(token));
        self.transport.admit_waiting(now, peer);
    }

    /// Switches to Block2 for the response to a request in sets, which comes block by block or
    /// whole. Requests for further blocks are Confirmable, as the request was.
    fn go_by_blocks(&mut self, index: u32) {
        let Some(mut transfer) = self.transport.exchanges.take_transfer(index) else { return };
        if let Work::Sets(sets) = &transfer.work {
            transfer.work = Work::Blocks(Transfer::new(sets.code, &sets.whole));
        }
        self.transport.exchanges.put_back(index, transfer);
        self.transport.exchanges.get_mut(index).confirmable = true;
    }

    /// Handles a Reset, if it rejects the last message that requested missing blocks of an upload.
    pub(super) fn reject_upload(&mut self, hash: u64, id: MessageId) -> bool {
        self.sets.as_mut().is_some_and(|sets| sets.uploads.reject(hash, id))
    }
}
