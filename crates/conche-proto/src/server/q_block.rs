//! Responses and notifications in bursts (RFC 9177).
//!
//! A notification of more than one message (§4.5):
//!
//! ```text
//!  Non-confirmable:  burst ──'Continue' or NON_TIMEOUT──> burst ──> … ──> notification time ──> over
//!  Confirmable:      first block ──ACK──> burst ──> …, or block after block if so configured
//! ```
//!
//! Only the newest state matters: it replaces the unsent part of the current burst, at most once,
//! so that no burst exceeds twice its length, and all later bursts. A state that changes often thus
//! takes no more of the path than one that does not.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::Server;
use super::blockwise::{Recipient, Uploads, bounds};
use super::pending_requests::PendingRequest;
use crate::PeerKey;
use crate::blockwise::{Key, RepresentationVersion};
use crate::codec::{Block, Body, Code, OBSERVE_BYTES, OptionNumber, Overhead, Token};
use crate::config::SharedConfig;
use crate::layers::Layers;
use crate::observe::{ObserverKey, Progress};
use crate::q_block::{BurstRules, NextBurst, Sender};
use crate::shares::Group;
use crate::transport::{
    ActiveTransfer, BurstResponse, ExchangeId, ExchangeIndex, NextMessage, ObserverIndex, Opening, Payload, Purpose,
    Reliability, Source, State, TransferState,
};
use conche_cc::Controller;
use conche_cc::control::AbandonReason;

pub(crate) struct StoredResponse {
    pub(crate) key: Key,
    pub(crate) version: RepresentationVersion,
    pub(crate) bytes: usize,
    pub(crate) block: Block,
    /// Of a notification.
    pub(crate) sequence: Option<u32>,
}

/// With fewer entries the table is not cleaned up.
const LEAST_TIDIED: usize = 64;

#[derive(Debug)]
pub(crate) struct QBlock<P> {
    pub(super) rules: BurstRules,
    pub(crate) uploads: Uploads<P>,
    /// For requests that continue them.
    sending: BTreeMap<[u64; 2], ExchangeId>,
    /// The size of `sending` at which entries of ended exchanges are removed.
    tidied_at: usize,
}

impl<P: PeerKey> QBlock<P> {
    pub(crate) fn of(config: &SharedConfig) -> Option<Self> {
        let rules = BurstRules::of(config)?;
        Some(Self { rules, uploads: Uploads::new(bounds(config)), sending: BTreeMap::new(), tidied_at: LEAST_TIDIED })
    }

    fn sending(&self, key: Key) -> Option<ExchangeId> {
        self.sending.get(&[key.from, key.identity]).copied()
    }

    /// Records an exchange, and occasionally removes those that are not `live`.
    fn remember(&mut self, key: Key, exchange: ExchangeId, live: impl Fn(ExchangeId) -> bool) {
        if self.sending.len() >= self.tidied_at {
            self.sending.retain(|_, id| live(*id));
            self.tidied_at = LEAST_TIDIED.max(2 * self.sending.len());
        }
        self.sending.insert([key.from, key.identity], exchange);
    }
}

pub(super) struct BurstRecipient<P> {
    pub(super) source: Source<P>,
    pub(super) group: Group,
    pub(super) token: Token,
    pub(super) round_trip: Option<Duration>,
}

#[derive(Clone, Copy)]
pub(super) struct WantedBlocks<'a> {
    pub(super) numbers: &'a [u32],
    pub(super) to_the_end: bool,
}

impl<P: PeerKey, C: Controller> Server<P, C> {
    pub(super) fn burst_rules(&self) -> Option<BurstRules> {
        self.q_block.as_ref().map(|q_block| q_block.rules)
    }

    pub(super) fn next_payload(
        &mut self,
        layers: &Layers<P, C>,
        transfer: &mut ActiveTransfer,
        base: Token,
    ) -> Option<Payload> {
        let TransferState::Response(sender, kept) = &mut transfer.work else { return None };
        let (first, begins) = (sender.begins_train(), sender.is_new());
        let again = sender.repeats();
        let number = sender.pop()?;
        // Retransmitted blocks of a notification are a response to the request for them (RFC 9177
        // §4.5).
        let token = kept.requested.clone().filter(|_| again).unwrap_or(base);
        let sequence = kept.sequence.filter(|_| !again);
        let others = Overhead::of(&token).with(kept.sequence.map_or(0, |_| OBSERVE_BYTES));
        let whole = self.representations.get(layers.now, kept.key).filter(|whole| whole.version() == kept.version)?;
        let limit = layers.transport.config.limits.message_bytes;
        let body = whole.block_of_burst(number, sender.size, others, limit)?;
        let body = match sequence {
            Some(sequence) => body.with_uint(OptionNumber::OBSERVE, sequence),
            None => body,
        };
        Some(Payload { code: whole.code, token, body, first, begins })
    }

    pub(super) fn bursts_over(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) {
        match layers.transport.exchanges.get(index).purpose {
            Purpose::Notification(_) => self.notification_over(layers, index),
            _ => self.close(layers, index),
        }
    }

    /// Sends the blocks after the first one, which has been sent (RFC 9177 §4.4). The first
    /// response to an `observer` is a notification with this sequence number.
    pub(super) fn send_behind_first(
        &mut self,
        layers: &mut Layers<P, C>,
        pending: &PendingRequest<P>,
        block: Block,
        observer: Option<(ObserverIndex, u32)>,
    ) {
        let Some(BurstRules { max_payloads, .. }) = self.burst_rules() else { return };
        let Recipient { key, group, .. } = self.recipient(layers, pending, Overhead::of(&pending.token));
        let Some(kept) = self.representations.get(layers.now, key) else { return };
        let (bytes, version) = (kept.payload().len(), kept.version());
        let stored = StoredResponse { key, version, bytes, block, sequence: observer.map(|(_, sequence)| sequence) };
        let source = Source { from: pending.from, local: pending.local };
        if let Some((observer, _)) = observer {
            return self.notify_behind_first(layers, observer, &stored);
        }
        let blocks = u32::try_from(bytes.div_ceil(block.size.bytes())).unwrap_or(u32::MAX);
        let numbers: Vec<u32> = (1..blocks.min(max_payloads.into())).collect();
        let to = BurstRecipient { source, group, token: pending.token.clone(), round_trip: None };
        self.send_in_bursts(layers, to, &stored, WantedBlocks { numbers: &numbers, to_the_end: true });
    }

    pub(super) fn send_in_bursts(
        &mut self,
        layers: &mut Layers<P, C>,
        to: BurstRecipient<P>,
        stored: &StoredResponse,
        wanted: WantedBlocks<'_>,
    ) {
        let WantedBlocks { numbers, to_the_end } = wanted;
        let under_way = self.q_block.as_ref().and_then(|q_block| q_block.sending(stored.key));
        let under_way = under_way.filter(|&id| layers.transport.exchanges.live(id).is_some());
        if let Some(id) = under_way {
            let exchange = layers.transport.exchanges.get(id.index);
            if exchange.leaves(stored.version) {
                return self.continue_bursts(layers, id, to.token, wanted);
            }
            if matches!(exchange.purpose, Purpose::Response(_)) {
                // Another body has replaced it.
                layers.transport.abandon(layers.now, id.index, AbandonReason::Cancelled);
                self.close(layers, id.index);
            }
        }
        let Some(rules) = self.burst_rules() else { return };
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return };
        let sender = if to_the_end && numbers.len() as u64 == u64::from(last - first) + 1 {
            let mut sender = Sender::new(&rules, stored.bytes, stored.block.size, first).after(to.round_trip);
            sender.begin_burst();
            sender
        } else {
            let mut sender = Sender::new(&rules, stored.bytes, stored.block.size, last + 1).after(to.round_trip);
            sender.send_again(layers.now, numbers);
            sender
        };
        let kept = self.kept(stored, None);
        self.open_bursts(layers, to, ActiveTransfer::new(TransferState::Response(sender, kept)));
    }

    pub(super) fn kept(&self, stored: &StoredResponse, reliability: Option<Reliability>) -> BurstResponse {
        let &StoredResponse { key, version, block, sequence, .. } = stored;
        let confirmable = self.burst_rules().is_some_and(|rules| rules.confirmable)
            && reliability != Some(Reliability::NeverConfirmable);
        let all = block.num == 0 && block.more;
        BurstResponse { key, version, confirmable, sequence, requested: None, outdated: false, all }
    }

    fn open_bursts(&mut self, layers: &mut Layers<P, C>, to: BurstRecipient<P>, transfer: ActiveTransfer) {
        let BurstRecipient { source, group, token, .. } = to;
        if !self.pending_requests.admits(group, token.places(), layers.transport.config.limits.incoming) {
            layers.transport.stats.overloaded += 1;
            return;
        }
        let Ok(peer) = self.open_peer(layers, source.from, group) else { return };
        let key = ObserverKey { peer, token: token.clone(), local: source.local };
        let Some(mut opening) = self.burst_opening(layers, Purpose::Response(group), key, transfer) else { return };
        let key = opening.transfer.as_ref().and_then(|transfer| transfer.key());
        self.pending_requests.take_share(group, &token);
        let Some(exchange) = layers.transport.open(layers.now, peer, &mut opening) else {
            return self.pending_requests.give_back(group, &token);
        };
        if let Some(key) = key {
            self.remember_bursts(layers, key, exchange);
        }
    }

    pub(super) fn remember_bursts(&mut self, layers: &mut Layers<P, C>, key: Key, exchange: ExchangeId) {
        let Some(q_block) = &mut self.q_block else { return };
        let exchanges = &layers.transport.exchanges;
        q_block.remember(key, exchange, |id| exchanges.live(id).is_some());
    }

    /// Returns `None` if the response is no longer kept.
    pub(super) fn burst_opening(
        &mut self,
        layers: &mut Layers<P, C>,
        purpose: Purpose,
        to: ObserverKey,
        mut transfer: ActiveTransfer,
    ) -> Option<Opening> {
        let ObserverKey { token, local, .. } = to;
        let confirmable = transfer.is_confirmable();
        let (mut code, mut body) = (Code::CONTENT, Body::EMPTY);
        if confirmable {
            let payload = self.next_payload(layers, &mut transfer, token.clone())?;
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

    /// Continues a response after the acknowledgement of a message: with the next payload if each
    /// is acknowledged, otherwise with the blocks after the first. Returns `false` if nothing
    /// follows.
    pub(super) fn continue_bursts_after_ack(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex) -> bool {
        let exchange = layers.transport.exchanges.get(index);
        let (peer, purpose, base) = (exchange.peer, exchange.purpose, exchange.token.clone());
        let round_trip = exchange
            .course(layers.now)
            .acknowledged_after
            .map(|time| time.max(layers.transport.config.envelope.timeout_floor));
        if exchange.successor.is_some() {
            return false;
        }
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(index) else { return false };
        let TransferState::Response(sender, kept) = &mut transfer.work else {
            layers.transport.exchanges.put_back(index, transfer);
            return false;
        };
        let in_bursts = !kept.confirmable;
        let goes_on = !kept.outdated
            && match in_bursts {
                true => sender.begin_behind_first(round_trip),
                false => !sender.has_left() || kept.all && sender.begin_burst(),
            };
        let payload = if goes_on && !in_bursts { self.next_payload(layers, &mut transfer, base) } else { None };
        if !goes_on || !in_bursts && payload.is_none() {
            layers.transport.exchanges.put_back(index, transfer);
            return false;
        }
        if let Purpose::Notification(observer) = purpose {
            self.observers.acknowledged(layers.now, observer, false);
        }
        match payload {
            Some(Payload { token, body, .. }) => {
                transfer.token = Some(token);
                layers.transport.exchanges.go_on(
                    layers.now,
                    &mut layers.transport.peers,
                    index,
                    NextMessage { transfer, body, token: None },
                );
            }
            None => {
                layers.transport.exchanges.put_back(index, transfer);
                layers.transport.exchanges.continue_burst(layers.now, &mut layers.transport.peers, index);
            }
        }
        layers.transport.admit_waiting(layers.now, peer);
        true
    }

    fn continue_bursts(
        &mut self,
        layers: &mut Layers<P, C>,
        id: ExchangeId,
        token: Token,
        WantedBlocks { numbers, to_the_end }: WantedBlocks<'_>,
    ) {
        let index = id.index;
        let exchange = layers.transport.exchanges.get(index);
        let own = exchange.token.places();
        if exchange.confirmable && !exchange.transfer.as_ref().is_some_and(|transfer| transfer.is_confirmable()) {
            // The blocks follow the acknowledgement of the first one.
            return;
        }
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(index) else { return };
        let TransferState::Response(sender, kept) = &mut transfer.work else {
            return layers.transport.exchanges.put_back(index, transfer);
        };
        let (observed, confirmable, outdated) = (kept.sequence.is_some(), kept.confirmable, kept.outdated);
        let next = if to_the_end { numbers.first().copied() } else { None };
        let continued = next.map_or(NextBurst::Nothing, |next| sender.go_on(layers.now, next));
        let missing = match continued {
            NextBurst::Nothing if confirmable => sender.send_acknowledged_again(layers.now, numbers),
            NextBurst::Nothing => sender.send_again(layers.now, numbers),
            _ => NextBurst::Nothing,
        };
        // A notification keeps the token of the observation; the token of a retransmission must not
        // be longer, since no more is accounted for.
        if observed && missing == NextBurst::Burst && token.places() <= own {
            kept.requested = Some(token.clone());
        }
        layers.transport.exchanges.put_back(index, transfer);
        if confirmable {
            // The blocks follow the message that is outstanding.
            return;
        }
        let exchange = layers.transport.exchanges.get_mut(index);
        if !observed {
            if let Purpose::Response(group) = exchange.purpose {
                self.pending_requests.take_share(group, &token);
                self.pending_requests.give_back(group, &exchange.token);
            }
            exchange.token = token;
        }
        if continued == NextBurst::Burst {
            layers.transport.exchanges.burst_answered(layers.now, &mut layers.transport.peers, index);
            if outdated {
                return self.bursts_over(layers, index);
            }
            layers.transport.exchanges.continue_burst(layers.now, &mut layers.transport.peers, index);
            return layers.transport.admit_waiting(layers.now, layers.transport.exchanges.get(index).peer);
        }
        match missing {
            NextBurst::Burst => {
                let next = layers.transport.exchanges.burst_incomplete(layers.now, &mut layers.transport.peers, index);
                layers.transport.follow(layers.now, index, &next);
            }
            // A client that requests too much gets nothing more until it has been quiet for the
            // maximum time of a response.
            NextBurst::Nothing | NextBurst::TooMuch => {}
        }
    }

    pub(super) fn whole_state(&self, stored: &StoredResponse, reliability: Reliability) -> Option<Box<ActiveTransfer>> {
        let rules = self.burst_rules()?;
        let mut sender = Sender::new(&rules, stored.bytes, stored.block.size, 0);
        sender.begin_burst();
        let kept = self.kept(stored, Some(reliability));
        if kept.confirmable {
            // The first block is the message itself.
            sender.pop();
        }
        Some(Box::new(ActiveTransfer::new(TransferState::Response(sender, kept))))
    }

    /// Sends the remaining blocks after the first response to an observer, unless there is a newer
    /// state.
    fn notify_behind_first(&mut self, layers: &mut Layers<P, C>, observer: ObserverIndex, stored: &StoredResponse) {
        if self.observers.progress(observer) != Progress::Idle {
            return;
        }
        let Some(rules) = self.burst_rules() else { return };
        let mut sender = Sender::new(&rules, stored.bytes, stored.block.size, 1);
        sender.begin_burst();
        let transfer = ActiveTransfer::new(TransferState::Response(sender, self.kept(stored, None)));
        let (key, purpose) = (self.observers.key(observer), Purpose::Notification(observer));
        let peer = key.peer;
        let Some(mut opening) = self.burst_opening(layers, purpose, key, transfer) else { return };
        if let Some(exchange) = layers.transport.open(layers.now, peer, &mut opening) {
            self.observers.sending(observer, exchange);
            self.remember_bursts(layers, stored.key, exchange);
        }
    }

    pub(super) fn supersede_burst(&mut self, layers: &mut Layers<P, C>, observer: ObserverIndex, id: ExchangeId) {
        if !self.observers.is_behind(observer) {
            return;
        }
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(id.index) else { return };
        let exchange = layers.transport.exchanges.get(id.index);
        let (in_bursts, waits) = (!exchange.confirmable, exchange.state == State::Queued);
        let may_restart = match &transfer.work {
            TransferState::Response(sender, kept) => in_bursts && !kept.outdated && (waits || sender.may_restart()),
            TransferState::Blocks(_) | TransferState::Bursts(_) => false,
        };
        let next = if may_restart { self.observers.message(layers.now, observer) } else { None };
        let restarted = next.is_some_and(|message| {
            let reliability = message.reliability;
            if reliability == Reliability::Confirmable {
                return false;
            }
            let (content, rest) = self.cut_notification(layers, message);
            let renewed = rest.and_then(|stored| Some((stored.key, self.whole_state(&stored, reliability)?)));
            let Some((key, renewed)) = renewed else { return false };
            let (TransferState::Response(sender, kept), TransferState::Response(new, of)) =
                (&mut transfer.work, &renewed.work)
            else {
                return false;
            };
            if of.confirmable {
                return false;
            }
            sender.restart(new);
            kept.clone_from(of);
            layers.transport.exchanges.get_mut(id.index).content = content;
            self.remember_bursts(layers, key, id);
            true
        });
        if !restarted {
            if may_restart {
                self.observers.missed(observer);
            }
            if let TransferState::Response(_, kept) = &mut transfer.work {
                kept.outdated = true;
            }
        }
        layers.transport.exchanges.put_back(id.index, transfer);
    }
}
