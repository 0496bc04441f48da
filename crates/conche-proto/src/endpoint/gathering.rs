//! Reception of Q-Block notifications (RFC 9177 §4.5), until a state is complete.
//!
//! The first state arrives as the response to its registration. Each later one has its own
//! exchange, from its first payload until the state is complete, superseded, or cannot be
//! completed. In the last case nothing is reported, and the subscription becomes stale in time.

use alloc::boxed::Box;

use rand_core::RngCore;

use super::Endpoint;
use crate::PeerKey;
use crate::blockwise::sets::SetTransfer;
use crate::codec::{Message, OptionNumber, OwnedMessage};
use crate::exchange::{Opening, Purpose, Reliability, Transferring, Work};
use crate::observe::{InSets, Order};
use conche_cc::control::AckKind;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Makes a registration accept Q-Block notifications, and use Q-Block for its own body if
    /// necessary. `named`: the application chose the token.
    pub(super) fn offer_sets(&mut self, now: Instant, peer: u32, opening: &mut Opening, named: bool) -> Option<InSets> {
        self.sets.as_ref()?;
        let tag = self.transport.random.next_u32().to_be_bytes();
        let offered = self.cut_into_tagged_sets(now, peer, opening, (tag, named));
        offered.then(|| InSets { tag, uploaded: uploads(opening) })
    }

    /// Does the same for a repeated registration, with its token.
    pub(super) fn offer_sets_again(&mut self, now: Instant, peer: u32, opening: &mut Opening, in_sets: Option<InSets>) {
        if let Some(InSets { tag, .. }) = in_sets {
            self.cut_into_tagged_sets(now, peer, opening, (tag, true));
        }
    }

    /// Handles a notification that may be a payload of a Q-Block state; returns `false` if it is
    /// complete by itself.
    pub(super) fn gather(&mut self, now: Instant, subscription: u32, message: &Message<'_>) -> bool {
        let block = message.block(OptionNumber::Q_BLOCK2).ok().flatten();
        if !message.code().is_success() || block.is_none_or(|block| block.num == 0 && !block.more) {
            return false;
        }
        let found = self.subscriptions.get(subscription);
        let Some(in_sets) = found.in_sets else { return false };
        let order = message.uint(OptionNumber::OBSERVE).map(|sequence| Order { sequence, received: now });
        let is_news = order.is_some_and(|order| found.newest.is_none_or(|newest| newest.is_before(&order)));
        let coming = found.coming.filter(|&id| self.transport.exchanges.live(id).is_some());
        let index = match coming {
            Some(exchange) if is_news || order.is_none() => Some(exchange.index),
            None if is_news => self.begin_gathering(now, subscription, in_sets),
            _ => None,
        };
        if let Some(index) = index {
            self.deliver_to_sets(now, index, AckKind::Separate, message);
        }
        true
    }

    /// Starts to receive a newer state. Without room for it, its payload is treated as lost.
    fn begin_gathering(&mut self, now: Instant, subscription: u32, in_sets: InSets) -> Option<u32> {
        let found = self.subscriptions.get(subscription);
        let (peer, request) = (found.peer, found.request.clone());
        if self.transport.exchanges.requests() >= self.transport.config.limits.exchanges {
            self.transport.stats.overloaded += 1;
            return None;
        }
        let token = self.choose_token(now, peer, false).ok()?.token;
        let base = token.clone().numbered(0);
        let numbered = base.clone().numbered(1) != base && !self.uses_token(peer, &base);
        let mut transfer = SetTransfer::state(request.code, &request.body, in_sets.tag, in_sets.uploaded);
        transfer.has_tokens = numbered;
        let mut opening = Opening {
            purpose: Purpose::State(subscription),
            code: request.code,
            body: request.body,
            token: if numbered { base } else { token },
            reliability: Reliability::NeverConfirmable,
            transfer: Some(Box::new(Transferring::new(Work::Sets(Box::new(transfer))))),
            ..Opening::EMPTY
        };
        let exchange = self.transport.exchanges.open(now, &mut self.transport.peers, peer, &mut opening)?;
        self.transport.exchanges.listen(now, exchange.index);
        self.subscriptions.get_mut(subscription).coming = Some(exchange);
        Some(exchange.index)
    }

    /// Handles a complete newer state, or the response in its place.
    pub(super) fn deliver_state(&mut self, now: Instant, index: u32, subscription: u32, message: OwnedMessage) {
        self.state_failed(now, index, subscription);
        let is_state = message.code().is_success() && message.option(OptionNumber::OBSERVE).is_some();
        if is_state {
            self.tell(now, subscription, message);
        }
    }

    /// Ends the reception of a newer state.
    pub(super) fn state_failed(&mut self, now: Instant, index: u32, subscription: u32) {
        self.subscriptions.get_mut(subscription).coming = None;
        self.close(now, index);
    }

    /// Discards a partially received state.
    pub(super) fn stop_gathering(&mut self, now: Instant, subscription: u32) {
        let coming = self.subscriptions.get_mut(subscription).coming.take();
        if let Some(exchange) = coming.filter(|&exchange| self.transport.exchanges.live(exchange).is_some()) {
            self.close(now, exchange.index);
        }
    }
}

/// Returns `true` if the request's body is sent by Q-Block.
fn uploads(opening: &Opening) -> bool {
    opening.transfer.as_ref().is_some_and(|transfer| match &transfer.work {
        Work::Sets(sets) => sets.is_upload(),
        Work::Blocks(_) | Work::Kept(..) => false,
    })
}
