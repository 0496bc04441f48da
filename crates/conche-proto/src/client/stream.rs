//! Requests of this endpoint whose request or response body is transferred block by block.

use alloc::boxed::Box;

use bytes::Bytes;

use crate::PeerKey;
use crate::blockwise::{Step, Transfer};
use crate::client::Client;
use crate::error::RequestError;
use crate::event::NotWanted;
use crate::exchange::{ExchangeId, Opening, Rest, Transferring, Work};
use crate::layers::Layers;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Client<P, C> {
    /// Requests the next block of a [streamed](crate::Request::streamed) response, after the
    /// application has taken the last [`Event::Block`].
    pub(crate) fn fetch_next(&mut self, layers: &mut Layers<P, C>, now: Instant, exchange: ExchangeId) -> bool {
        let waits = layers.transport.exchanges.blocks_mut(exchange).is_some_and(|transfer| transfer.is_told());
        if waits {
            self.resume(layers, now, exchange);
        }
        waits
    }

    /// Resumes a paused transfer.
    fn resume(&mut self, layers: &mut Layers<P, C>, now: Instant, id: ExchangeId) {
        let exchange = layers.transport.exchanges.get(id.index);
        let rules = self.transfer_rules(layers, &exchange.token, &exchange.security);
        // Nothing was to be sent while the application held the block.
        let peer = layers.transport.exchanges.get(id.index).peer;
        layers.transport.exchanges.report_starvation(now, &mut layers.transport.peers, peer);
        let Some(mut transfer) = layers.transport.exchanges.take_transfer(id.index) else { return };
        let step = match &mut transfer.work {
            Work::Blocks(transfer) => transfer.resume(&rules),
            Work::Sets(_) | Work::Kept(..) => Step::Awaited,
        };
        self.take_step(layers, now, id.index, transfer, step);
    }

    /// Begins a request for which the application has only the start of the body.
    pub(super) fn begin_upload(
        &self,
        layers: &Layers<P, C>,
        opening: &mut Opening,
        rest: Rest,
        tagged: bool,
    ) -> Result<(), RequestError> {
        self.tag_body(layers, opening, tagged);
        let mut transfer = Transfer::beginning(opening.code, &opening.body, rest.size).telling(opening.streamed);
        let given = opening.body.payload().len();
        opening.body = transfer
            .begin(&self.transfer_rules(layers, &opening.token, &opening.security))
            .ok_or(RequestError::TooShort { given, least: layers.transport.config.block_size.bytes() + 1 })?;
        opening.transfer = Some(Box::new(Transferring::new(Work::Blocks(transfer))));
        Ok(())
    }

    /// Supplies more of the body of a request.
    pub(crate) fn supply(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        id: ExchangeId,
        more: Bytes,
        last: bool,
    ) -> Result<(), NotWanted> {
        let transfer = layers.transport.exchanges.blocks_mut(id).ok_or(NotWanted)?;
        if !transfer.supply(more, last) {
            return Err(NotWanted);
        }
        if transfer.awaits_supply() {
            self.resume(layers, now, id);
        } else {
            layers.announce_wanted(id);
        }
        Ok(())
    }
}
