//! Requests of this endpoint whose request or response body is transferred block by block.

use alloc::boxed::Box;

use bytes::Bytes;

use super::{NotWanted, Unfinished};
use crate::PeerKey;
use crate::blockwise::{Step, Transfer};
use crate::endpoint::{Endpoint, Event, RequestError};
use crate::exchange::{ExchangeId, Opening, Rest, Transferring, Work};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Requests the next block of a [streamed](crate::Request::streamed) response, after the
    /// application has taken the last [`Event::Block`]. The request is sent as soon as the peer's
    /// queue and controller admit it. Returns `false` if the exchange does not wait for this call.
    ///
    /// The server may forget the response in the meantime; RFC 7959 §2.4 allows it. A server that
    /// uses EXCHANGE_LIFETIME keeps it for 247 s.
    pub fn fetch_next(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        let waits = self.transfer_of(exchange).is_some_and(|transfer| transfer.is_told());
        if waits {
            self.resume(now, exchange);
        }
        waits
    }

    /// Supplies more of a body; with `last` all that remains, which may be empty. Data of any
    /// length is accepted. It is sent in blocks of the size that the peer requests, and an
    /// incomplete block waits for more data. The data may exceed what was [wanted](Event::Wanted)
    /// and is then held in memory.
    ///
    /// An application that cannot continue [cancels](Self::cancel) the exchange, or
    /// [answers](Self::respond) the request with an error.
    ///
    /// # Errors
    /// If the body is over.
    pub fn supply(&mut self, now: Instant, body: Unfinished, more: Bytes, last: bool) -> Result<(), NotWanted> {
        let id = match body {
            Unfinished::Request(id) => id,
            Unfinished::Response(request) => return self.supply_response(now, request, more, last),
        };
        let transfer = self.transfer_of(id).ok_or(NotWanted)?;
        if !transfer.supply(more, last) {
            return Err(NotWanted);
        }
        if transfer.awaits_supply() {
            self.resume(now, id);
        } else {
            self.tell_wanted(id);
        }
        Ok(())
    }

    /// Returns the Block1 and Block2 transfer of a live exchange.
    fn transfer_of(&mut self, id: ExchangeId) -> Option<&mut Transfer> {
        self.transport.exchanges.live(id)?;
        match &mut self.transport.exchanges.get_mut(id.index).transfer.as_mut()?.work {
            Work::Blocks(transfer) => Some(transfer),
            Work::Sets(_) | Work::Kept(..) => None,
        }
    }

    /// Resumes a paused transfer.
    fn resume(&mut self, now: Instant, id: ExchangeId) {
        let exchange = self.transport.exchanges.get(id.index);
        let rules = self.transfer_rules(&exchange.token, &exchange.security);
        // Nothing was to be sent while the application held the block.
        let peer = self.transport.exchanges.get(id.index).peer;
        self.transport.exchanges.tell_starvation(now, &mut self.transport.peers, peer);
        let Some(mut transfer) = self.transport.exchanges.take_transfer(id.index) else { return };
        let step = match &mut transfer.work {
            Work::Blocks(transfer) => transfer.resume(&rules),
            Work::Sets(_) | Work::Kept(..) => Step::Awaited,
        };
        self.take_step(now, id.index, transfer, step);
    }

    /// Reports to the application how much of a request body is wanted, if it does not know yet.
    pub(in crate::endpoint) fn tell_wanted(&mut self, id: ExchangeId) {
        if let Some(bytes) = self.transfer_of(id).and_then(Transfer::wants) {
            self.announce(Event::Wanted { body: Unfinished::Request(id), bytes });
        }
    }

    /// Begins a request for which the application has only the start of the body.
    pub(in crate::endpoint) fn begin_upload(
        &self,
        opening: &mut Opening,
        rest: Rest,
        tagged: bool,
    ) -> Result<(), RequestError> {
        self.tag_body(opening, tagged);
        let mut transfer = Transfer::beginning(opening.code, &opening.body, rest.size).telling(opening.streamed);
        let given = opening.body.payload().len();
        opening.body = transfer
            .begin(&self.transfer_rules(&opening.token, &opening.security))
            .ok_or(RequestError::TooShort { given, least: self.transport.config.block_size.bytes() + 1 })?;
        opening.transfer = Some(Box::new(Transferring::new(Work::Blocks(transfer))));
        Ok(())
    }
}
