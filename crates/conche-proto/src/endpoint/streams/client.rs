//! Requests of ours whose body, or whose response's body, goes block by block.

use alloc::boxed::Box;

use bytes::Bytes;

use super::{NotWanted, Unfinished};
use crate::PeerKey;
use crate::blockwise::{Step, Transfer};
use crate::endpoint::{Endpoint, Event, RequestError};
use crate::exchange::{ExchangeId, Opening, Rest, Transferring, Work};
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// The application has taken the last [`Event::Block`] of a [streamed](crate::Request::streamed) response: the next block
    /// is asked for, as soon as the peer's queue and controller let it. `false` if the exchange does not wait for this.
    ///
    /// The server may forget the response in the meantime; RFC 7959 §2.4 leaves it that. Servers that keep to
    /// EXCHANGE_LIFETIME leave 247 s.
    pub fn fetch_next(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        let waits = self.transfer_of(exchange).is_some_and(|transfer| transfer.is_told());
        if waits {
            self.resume(now, exchange);
        }
        waits
    }

    /// More of a body: with `last` all that was missing of it, which may be nothing. Whatever its length, it leaves in blocks
    /// as large as the peer wants them, and what does not fill one waits for more. It may be more than was
    /// [wanted](Event::Wanted), and is held in memory then.
    ///
    /// Whoever cannot go on [cancels](Self::cancel) the exchange, or [answers](Self::respond) the request with an error.
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

    /// The transfer by Block1 and Block2 of a live exchange.
    fn transfer_of(&mut self, id: ExchangeId) -> Option<&mut Transfer> {
        self.exchanges.live(id)?;
        match &mut self.exchanges.get_mut(id.index).transfer.as_mut()?.work {
            Work::Blocks(transfer) => Some(transfer),
            Work::Sets(_) | Work::Kept(..) => None,
        }
    }

    /// A transfer goes on that was paused.
    fn resume(&mut self, now: Instant, id: ExchangeId) {
        let exchange = self.exchanges.get(id.index);
        let rules = self.transfer_rules(&exchange.token, &exchange.security);
        // The application may have taken its time, in which nothing was to be sent.
        let peer = self.exchanges.get(id.index).peer;
        self.exchanges.tell_starvation(now, &mut self.peers, peer);
        let Some(mut transfer) = self.exchanges.take_transfer(id.index) else { return };
        let step = match &mut transfer.work {
            Work::Blocks(transfer) => transfer.resume(&rules),
            Work::Sets(_) | Work::Kept(..) => Step::Awaited,
        };
        self.take_step(now, id.index, transfer, step);
    }

    /// Tells the application how much is wanted of the body of a request, if that is not known to it.
    pub(in crate::endpoint) fn tell_wanted(&mut self, id: ExchangeId) {
        if let Some(bytes) = self.transfer_of(id).and_then(Transfer::wants) {
            self.announce(Event::Wanted { body: Unfinished::Request(id), bytes });
        }
    }

    /// A request of whose body the application has no more than the beginning.
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
            .ok_or(RequestError::TooShort { given, least: self.config.block_size.bytes() + 1 })?;
        opening.transfer = Some(Box::new(Transferring::new(Work::Blocks(transfer))));
        Ok(())
    }
}
