//! Requests of the application.

use crate::PeerKey;
use crate::client::Client;
use crate::client::token::Chosen;
use crate::error::RequestError;
use crate::exchange::{ExchangeId, Opening, Purpose, Reliability, Request};
use crate::layers::Layers;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Client<P, C> {
    /// Sends a request, now or when NSTART and the controller admit it.
    pub(crate) fn request(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        peer: u32,
        request: Request,
    ) -> Result<ExchangeId, RequestError> {
        let named = request.token.is_some();
        let confirmable = request.reliability == Reliability::Confirmable;
        let security = layers.security_of(&request);
        // Try one feature at a time: a protected request sent again would look like a replay to a
        // server that has received the first message.
        let Chosen { token, tried } =
            self.token(layers, now, peer, request.token, confirmable && security.is_plain())?;
        let mut opening = Opening {
            purpose: Purpose::Request,
            code: request.code,
            body: request.body,
            token,
            reliability: request.reliability,
            deadline: request.timeout.map_or(Instant::FAR_FUTURE, |timeout| now + timeout),
            whole: request.whole || request.streamed,
            streamed: request.streamed,
            security,
            ..Opening::EMPTY
        };
        if let Some(rest) = request.rest {
            self.begin_upload(layers, &mut opening, rest, request.tagged)?;
        } else if tried || request.streamed || !self.cut_into_sets(layers, now, peer, &mut opening, named) {
            // Try one feature at a time.
            self.cut_request(layers, &mut opening, request.tagged)?;
        }
        let exchange = layers.submit(now, peer, &mut opening)?;
        if tried {
            layers.transport.exchanges.get_mut(exchange.index).tries_token = true;
        }
        if request.rest.is_some() {
            layers.announce_wanted(exchange);
        }
        Ok(exchange)
    }
}
