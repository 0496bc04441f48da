//! Q-Block notifications (RFC 9177 §4.5): notifications of more than one message.
//!
//! ```text
//!  Non-confirmable:  burst ──'Continue' or NON_TIMEOUT──> burst ──> … ──> notification time ──> over
//!  Confirmable:      first block ──ACK──> burst ──> …, or block after block if so configured
//! ```
//!
//! The exchange is that of an ordinary notification. Only the newest state matters: it replaces the
//! unsent part of the current burst, at most once, so that no burst exceeds twice its length, and
//! all later bursts. A state that changes often thus takes no more of the path than one that does
//! not.

use alloc::boxed::Box;

use super::Endpoint;
use super::bodies::Recipient;
use super::leaving::What;
use crate::PeerKey;
use crate::blockwise::sets::{Sender, SetRules};
use crate::codec::{Block, OptionNumber};
use crate::exchange::{ExchangeId, Purpose, Reliability, Response, State, Transferring, Work};
use crate::observe::{Place, Progress};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Returns the rest to be sent in bursts after a first block: everything after it, if whole
    /// states were requested.
    pub(super) fn behind_first(
        &mut self,
        now: Instant,
        to: &Recipient,
        sequence: Option<u32>,
        cut: &Response,
    ) -> Option<What> {
        let asked = to.asked.response_in_sets().filter(|asked| asked.more)?;
        let block = cut.body.content(cut.code)?.block(OptionNumber::Q_BLOCK2).ok()?.filter(|block| block.more)?;
        let kept = self.representations.get(now, to.key)?;
        let (bytes, mark) = (kept.payload().len(), kept.mark());
        let block = Block { more: asked.more, ..block };
        Some(What { key: to.key, mark, bytes, block, sequence })
    }

    /// Creates the transfer of a state from its start.
    pub(super) fn whole_state(&self, what: &What, reliability: Reliability) -> Option<Box<Transferring>> {
        let SetRules { max_payloads, .. } = self.set_rules()?;
        let mut sender = Sender::new(what.bytes, what.block.size, max_payloads, 0);
        sender.begin_set();
        let kept = self.kept(what, Some(reliability));
        if kept.confirmable {
            // The first block is the message itself.
            sender.pop();
        }
        Some(Box::new(Transferring::new(Work::Kept(sender, kept))))
    }

    /// Sends the remaining blocks after the first response to an observer, unless there is a newer
    /// state.
    pub(super) fn push_behind_first(&mut self, now: Instant, observer: u32, what: &What) {
        if self.observers.progress(observer) != Progress::Idle {
            return;
        }
        let Some(SetRules { max_payloads, .. }) = self.set_rules() else { return };
        let mut sender = Sender::new(what.bytes, what.block.size, max_payloads, 1);
        sender.begin_set();
        let kept = self.kept(what, None);
        let Place { peer, token, local } = self.observers.place(observer);
        let purpose = Purpose::Notification(observer);
        let Some(mut opening) = self.leaving(now, purpose, (token, local), (sender, kept)) else { return };
        if let Some(exchange) = self.transport.open(now, peer, &mut opening) {
            self.observers.sending(observer, exchange);
            self.remember_leaving(what.key, exchange);
        }
    }

    /// Supersedes a state that is being sent in bursts.
    pub(super) fn supersede_set(&mut self, now: Instant, observer: u32, id: ExchangeId) {
        if !self.observers.is_behind(observer) {
            return;
        }
        let Some(mut transfer) = self.transport.exchanges.take_transfer(id.index) else { return };
        let exchange = self.transport.exchanges.get(id.index);
        let (in_sets, waits) = (!exchange.confirmable, exchange.state == State::Queued);
        let may_restart = match &transfer.work {
            Work::Kept(sender, kept) => in_sets && !kept.outdated && (waits || sender.may_restart()),
            Work::Blocks(_) | Work::Sets(_) => false,
        };
        let next = if may_restart { self.observers.message(now, observer) } else { None };
        let restarted = next.is_some_and(|message| {
            let reliability = message.reliability;
            if reliability == Reliability::Confirmable {
                return false;
            }
            let (content, rest) = self.cut_notification(now, message);
            let renewed = rest.and_then(|what| Some((what.key, self.whole_state(&what, reliability)?)));
            let Some((key, renewed)) = renewed else { return false };
            let (Work::Kept(sender, kept), Work::Kept(new, of)) = (&mut transfer.work, &renewed.work) else {
                return false;
            };
            if of.confirmable {
                return false;
            }
            sender.restart(new);
            kept.clone_from(of);
            self.transport.exchanges.get_mut(id.index).content = content;
            self.remember_leaving(key, id);
            true
        });
        if !restarted {
            if may_restart {
                self.observers.missed(observer);
            }
            if let Work::Kept(_, kept) = &mut transfer.work {
                kept.outdated = true;
            }
        }
        self.transport.exchanges.put_back(id.index, transfer);
    }
}
