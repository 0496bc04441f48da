//! Block-wise transfer (RFC 7959) in the client.

use alloc::boxed::Box;

use super::Client;
use crate::PeerKey;
use crate::blockwise::{Rules, Step, Transfer, TransferError};
use crate::codec::{Block, BlockSize, Body, Code, Message, OptionNumber, Overhead, OwnedMessage, Token};
use crate::config::Limits;
use crate::error::RequestError;
use crate::event::{BodyClosed, Event};
use crate::layers::Layers;
use crate::security::Security;
use crate::transport::{
    ActiveTransfer, Exchange, ExchangeId, ExchangeIndex, Failure, NextMessage, Opening, RemainingBody, TransferState,
};
use bytes::Bytes;
use conche_cc::Controller;

pub(crate) const fn failure_of(error: TransferError) -> Failure {
    match error {
        TransferError::Changed => Failure::BodyChanged,
        TransferError::TooLarge => Failure::BodyTooLarge,
        TransferError::Unacceptable => Failure::UnacceptableResponse,
    }
}

fn begun_by<C: Controller>(exchange: &Exchange<C>) -> Box<ActiveTransfer> {
    let (code, body) = exchange.unprotected();
    Box::new(ActiveTransfer::new(TransferState::Blocks(Transfer::new(code, body).deliver_per_block(exchange.streamed))))
}

/// Returns `true` if the application itself requests a later block or sends a block.
pub(super) fn asks_for_one_block(body: &Body, code: Code) -> bool {
    body.content(code).is_some_and(|content| {
        content.option(OptionNumber::BLOCK1).is_some()
            || content.block(OptionNumber::BLOCK2).ok().flatten().is_some_and(|block| block.num > 0)
    })
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    /// Returns the rules for this token or a new one after a restart.
    pub(super) fn transfer_rules(&self, layers: &Layers<P, C>, token: &Token, security: &Security) -> Rules {
        let (config, limits) = (&layers.transport.config, &layers.transport.config.limits);
        let overhead = layers.transport.config.longest_overhead(token).with(security.request_bytes());
        let &Limits { message_bytes, body_bytes, .. } = limits;
        Rules { block_size: config.block_size, message_bytes, overhead, body_bytes }
    }

    /// Cuts a request that [may need blocks](Opening::may_need_blocks), and requests blocks of the
    /// configured size in advance.
    pub(super) fn cut_request(
        &self,
        layers: &Layers<P, C>,
        opening: &mut Opening,
        tagged: bool,
    ) -> Result<(), RequestError> {
        let smaller = layers.transport.config.block_size != BlockSize::B1024;
        let content = opening.body.content(opening.code);
        let has = |number| content.is_some_and(|content| content.option(number).is_some());
        let (by_hand, wanted) = (has(OptionNumber::BLOCK1), has(OptionNumber::BLOCK2));
        let payload = content.map_or(0, |content| content.payload().len());
        let limit = layers.transport.config.limits.body_bytes;
        let too_large = opening.bytes() > layers.transport.config.limits.message_bytes;
        if !by_hand && payload > 0 && (too_large || payload > layers.transport.config.block_size.bytes()) {
            if payload > limit {
                return Err(RequestError::BodyTooLarge { bytes: payload, limit });
            }
            self.tag_body(layers, opening, tagged);
            let mut transfer = Transfer::new(opening.code, &opening.body).deliver_per_block(opening.streamed);
            // If even the smallest block does not fit, the request is refused for its size.
            if let Some(first) = transfer.begin(&self.transfer_rules(layers, &opening.token, &opening.security)) {
                opening.body = first;
                opening.transfer = Some(Box::new(ActiveTransfer::new(TransferState::Blocks(transfer))));
            }
        } else if smaller && opening.code.is_safe() && !wanted && !by_hand {
            // Early negotiation (RFC 7959 §2.4).
            let block = Block { num: 0, more: false, size: layers.transport.config.block_size };
            let payload = opening.body.payload();
            let body = opening.body.rewritten(|_| true, &[(OptionNumber::BLOCK2, block.encode())], &payload);
            let overhead = Overhead::of(&opening.token).with(opening.security.request_bytes());
            if overhead.fits(&body, layers.transport.config.limits.message_bytes) {
                opening.body = body;
            }
        }
        Ok(())
    }

    /// Adds a Request-Tag to a body that is protected or to be `tagged`, so that an attacker cannot
    /// withhold a block and insert it into another body (RFC 9175 §3.5.1).
    pub(super) fn tag_body(&self, layers: &Layers<P, C>, opening: &mut Opening, tagged: bool) {
        if (tagged || !opening.security.is_plain()) && opening.body.option(OptionNumber::REQUEST_TAG).is_none() {
            let tag = layers.transport.hash.hash(&layers.transport.stats.exchanges).to_be_bytes();
            opening.body = opening.body.with_request_tag(&tag);
        }
    }

    /// Returns the transfer of an exchange; `None` if the application requests single blocks.
    #[cfg(feature = "oscore")]
    pub(super) fn take_transfer_state(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
    ) -> Option<Box<ActiveTransfer>> {
        let taken = layers.transport.exchanges.take_transfer(index);
        let exchange = layers.transport.exchanges.get(index);
        let (code, body) = exchange.unprotected();
        let may = exchange.whole && !asks_for_one_block(body, code);
        taken.or_else(|| may.then(|| begun_by(exchange)))
    }

    /// Returns the message to deliver, or `None` if the exchange continues or has failed.
    pub(super) fn follow_blocks(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        response: &Message<'_>,
    ) -> Option<OwnedMessage> {
        let taken = layers.transport.exchanges.take_transfer(index);
        let mut transfer = taken.unwrap_or_else(|| begun_by(layers.transport.exchanges.get(index)));
        let exchange = layers.transport.exchanges.get(index);
        let rules = self.transfer_rules(layers, &exchange.token, &exchange.security);
        let step = match &mut transfer.work {
            TransferState::Blocks(transfer) => transfer.answer(response, &rules),
            TransferState::Bursts(_) | TransferState::Response(..) => Step::Unchanged,
        };
        let message = match step {
            Step::Done(whole) => Some(whole),
            Step::Unchanged => Some(OwnedMessage::from(*response)),
            Step::Received => {
                let (exchange, from, course) =
                    layers.transport.exchanges.summary(layers.now, &layers.transport.peers, index);
                let course = transfer.course(layers.now, course);
                layers.announce(Event::Block { exchange, from, message: OwnedMessage::from(*response), course });
                self.take_step(layers, index, transfer, step);
                return None;
            }
            step => {
                self.take_step(layers, index, transfer, step);
                return None;
            }
        };
        layers.transport.exchanges.put_back(index, transfer);
        message
    }

    pub(super) fn take_step(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        transfer: Box<ActiveTransfer>,
        step: Step,
    ) {
        let peer = layers.transport.exchanges.get(index).peer;
        let restarts = matches!(step, Step::Restart(_));
        let reason = match step {
            Step::Next(body) | Step::Restart(body) if self.fits_all_transfers(layers, &transfer) => {
                let body = match layers.protect_next(index, body) {
                    Ok(body) => body,
                    Err(reason) => {
                        layers.transport.exchanges.put_back(index, transfer);
                        return self.fail(layers, index, reason);
                    }
                };
                let token = if restarts { self.choose_token(layers, peer, false).ok() } else { None };
                let token = token.map(|chosen| chosen.token);
                layers.transport.exchanges.go_on(
                    layers.now,
                    &mut layers.transport.peers,
                    index,
                    NextMessage { transfer, body, token },
                );
                let exchange = layers.transport.exchanges.get(index).id(index);
                layers.announce_wanted(exchange);
                return layers.transport.admit_waiting(layers.now, peer);
            }
            Step::Received | Step::AwaitsSupply => {
                layers.transport.exchanges.pause(layers.now, &mut layers.transport.peers, index, transfer);
                let exchange = layers.transport.exchanges.get(index).id(index);
                layers.announce_wanted(exchange);
                return layers.transport.admit_waiting(layers.now, peer);
            }
            Step::Failed(error) => failure_of(error),
            Step::Next(_) | Step::Restart(_) | Step::Done(_) | Step::Unchanged => Failure::BodyTooLarge,
        };
        layers.transport.exchanges.put_back(index, transfer);
        self.fail(layers, index, reason);
    }

    pub(super) fn fits_all_transfers(&self, layers: &Layers<P, C>, transfer: &ActiveTransfer) -> bool {
        let bytes = layers.transport.exchanges.transfer_bytes().saturating_add(transfer.growth());
        transfer.growth() == 0 || bytes <= layers.transport.config.limits.assembly_bytes
    }

    pub(crate) fn fetch_next(&mut self, layers: &mut Layers<P, C>, exchange: ExchangeId) -> bool {
        let waits =
            layers.transport.exchanges.blocks_mut(exchange).is_some_and(|transfer| transfer.awaits_application());
        if waits {
            self.resume(layers, exchange);
        }
        waits
    }

    fn resume(&mut self, layers: &mut Layers<P, C>, id: ExchangeId) {
        let exchange = layers.transport.exchanges.get(id.index);
        let rules = self.transfer_rules(layers, &exchange.token, &exchange.security);
        // The application held the block meanwhile.
        let peer = layers.transport.exchanges.get(id.index).peer;
        layers.transport.exchanges.report_starvation(layers.now, &mut layers.transport.peers, peer);
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(id.index) else { return };
        let step = match &mut transfer.work {
            TransferState::Blocks(transfer) => transfer.resume(&rules),
            TransferState::Bursts(_) | TransferState::Response(..) => Step::AwaitsSupply,
        };
        self.take_step(layers, id.index, transfer, step);
    }

    /// Begins a request with only the start of its body.
    pub(super) fn begin_upload(
        &self,
        layers: &Layers<P, C>,
        opening: &mut Opening,
        rest: RemainingBody,
        tagged: bool,
    ) -> Result<(), RequestError> {
        self.tag_body(layers, opening, tagged);
        let mut transfer =
            Transfer::beginning(opening.code, &opening.body, rest.size).deliver_per_block(opening.streamed);
        let given = opening.body.payload().len();
        opening.body = transfer
            .begin(&self.transfer_rules(layers, &opening.token, &opening.security))
            .ok_or(RequestError::TooShort { given, least: layers.transport.config.block_size.bytes() + 1 })?;
        opening.transfer = Some(Box::new(ActiveTransfer::new(TransferState::Blocks(transfer))));
        Ok(())
    }

    pub(crate) fn supply(
        &mut self,
        layers: &mut Layers<P, C>,
        id: ExchangeId,
        more: Bytes,
        last: bool,
    ) -> Result<(), BodyClosed> {
        let transfer = layers.transport.exchanges.blocks_mut(id).ok_or(BodyClosed)?;
        if !transfer.supply(more, last) {
            return Err(BodyClosed);
        }
        if transfer.awaits_supply() {
            self.resume(layers, id);
        } else {
            layers.announce_wanted(id);
        }
        Ok(())
    }
}
