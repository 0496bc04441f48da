//! Requests of the peers: how the application answers them (RFC 7252 §5.2).

use alloc::boxed::Box;
use alloc::vec;
use core::net::IpAddr;

use super::client::Opening;
use super::transmit::{Departure, encode};
use super::{Endpoint, ExchangeId, RequestError, RequestId, RespondError, TimerKey};
use crate::PeerKey;
use crate::codec::{Code, MessageId, Token, Type};
use crate::exchange::{Purpose, Reliability, Response};
use crate::message::Reply;
use conche_cc::{Controller, Instant};

/// A request that waits for its response.
#[derive(Clone, Copy)]
struct Pending<P> {
    from: P,
    local: Option<IpAddr>,
    id: MessageId,
    token: Token,
    confirmable: bool,
    acknowledged: bool,
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Answers a request. The response is piggybacked on the ACK if none was sent yet; otherwise it is a message of its
    /// own, and if that is Confirmable, the exchange is returned whose end
    /// ([`Event::Acknowledged`](super::Event::Acknowledged) or [`Event::Failed`](super::Event::Failed)) tells whether
    /// it arrived.
    ///
    /// # Errors
    /// If the request does not wait for a response, or the response cannot be sent; in the latter case the request still
    /// waits.
    pub fn respond(
        &mut self,
        now: Instant,
        request: RequestId,
        response: Response,
    ) -> Result<Option<ExchangeId>, RespondError> {
        let pending = self.pending(request)?;
        if !response.code.is_response() {
            return Err(RespondError::NotAResponse(response.code));
        }
        let bytes = 4 + usize::from(pending.token.len()) + response.body.len();
        let limit = self.config.limits.message_bytes;
        if bytes > limit {
            return Err(RequestError::TooLarge { bytes, limit }.into());
        }
        if pending.confirmable && !pending.acknowledged {
            self.piggyback(request, &pending, &response, bytes);
            return Ok(None);
        }
        let confirmable = match response.reliability {
            Some(reliability) => reliability == Reliability::Confirmable,
            None => pending.confirmable,
        };
        let exchange = if confirmable {
            Some(self.respond_separately(now, &pending, response)?)
        } else {
            self.respond_without_confirmation(now, &pending, &response, bytes)?;
            None
        };
        self.answered(request, if pending.confirmable { Reply::EmptyAck } else { Reply::Silence });
        Ok(exchange)
    }

    /// Acknowledges a request with an Empty ACK now, because the response will take long. Without this call it happens
    /// after [`EndpointConfig::separate_after`](super::EndpointConfig::separate_after).
    ///
    /// # Errors
    /// If the request does not wait for a response.
    pub fn acknowledge(&mut self, _now: Instant, request: RequestId) -> Result<(), RespondError> {
        let pending = self.pending(request)?;
        if pending.confirmable && !pending.acknowledged {
            self.timers.cancel(TimerKey::Request(request.index));
            self.piggybacking_over(request.index);
        }
        Ok(())
    }

    /// No response will come: the request is acknowledged if it is Confirmable, and forgotten after its lifetime.
    pub fn ignore(&mut self, request: RequestId) {
        if let Ok(pending) = self.pending(request) {
            self.answered(request, if pending.confirmable { Reply::EmptyAck } else { Reply::Silence });
            if pending.confirmable && !pending.acknowledged {
                self.push_remembered(request.index, request.generation);
            }
        }
    }

    /// The time for a piggybacked response is over: an Empty ACK goes out, and the response will be separate.
    pub(super) fn piggybacking_over(&mut self, index: u32) {
        let Some(generation) = self.received.generation(index) else { return };
        let Some((_, _, &Reply::Pending { token, confirmable, .. })) = self.received.get(index, generation) else {
            return;
        };
        self.received.set_reply(index, generation, Reply::Pending { token, confirmable, acknowledged: true });
        self.push_remembered(index, generation);
    }

    pub(super) fn push_remembered(&mut self, index: u32, generation: u32) {
        self.outbox.push_back(Departure::Remembered { index, generation });
    }

    fn pending(&self, request: RequestId) -> Result<Pending<P>, RespondError> {
        match self.received.get(request.index, request.generation) {
            Some((from, id, &Reply::Pending { token, confirmable, acknowledged })) => {
                Ok(Pending { from, local: self.received.local(request.index), id, token, confirmable, acknowledged })
            }
            _ => Err(RespondError::NotPending),
        }
    }

    fn answered(&mut self, request: RequestId, reply: Reply) {
        self.received.set_reply(request.index, request.generation, reply);
        self.timers.cancel(TimerKey::Request(request.index));
    }

    fn piggyback(&mut self, request: RequestId, pending: &Pending<P>, response: &Response, bytes: usize) {
        let datagram = encoded(Type::Acknowledgement, response.code, pending.id, &pending.token, response, bytes);
        self.answered(request, Reply::Datagram(datagram));
        self.push_remembered(request.index, request.generation);
    }

    fn respond_separately(
        &mut self,
        now: Instant,
        pending: &Pending<P>,
        response: Response,
    ) -> Result<ExchangeId, RequestError> {
        let peer = self.open_peer(now, pending.from)?;
        let opening = Opening {
            purpose: Purpose::Response,
            local: pending.local,
            code: response.code,
            body: response.body,
            token: pending.token,
            reliability: Reliability::Confirmable,
            deadline: Instant::FAR_FUTURE,
        };
        self.open_exchange(now, peer, opening)
    }

    /// A Non-confirmable response leaves at once: the peer's requests set its pace, and each of them is a sign of life.
    fn respond_without_confirmation(
        &mut self,
        now: Instant,
        pending: &Pending<P>,
        response: &Response,
        bytes: usize,
    ) -> Result<(), RespondError> {
        let peer = self.open_peer(now, pending.from)?;
        let lifetime = self.derived.exchange_lifetime;
        let id = self.peers.get_mut(peer).ids.allocate(now, lifetime).map_err(|_| RespondError::NoMessageId)?;
        let datagram = encoded(Type::NonConfirmable, response.code, id, &pending.token, response, bytes);
        self.outbox.push_back(Departure::Message { to: pending.from, local: pending.local, datagram });
        Ok(())
    }
}

fn encoded(ty: Type, code: Code, id: MessageId, token: &Token, response: &Response, bytes: usize) -> Box<[u8]> {
    let mut datagram = vec![0; bytes].into_boxed_slice();
    encode(&mut datagram, ty, code, id, token, &response.body);
    datagram
}
