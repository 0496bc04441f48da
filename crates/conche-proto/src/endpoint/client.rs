//! The operations of a client.

use bytes::Bytes;

use super::{Endpoint, NotWanted, RequestError, Unfinished};
use crate::PeerKey;
use crate::exchange::{ExchangeId, Opening, Purpose, Request};
use crate::observe::SubscriptionId;
use conche_cc::control::AbandonReason;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Sends a request to a group, identified by its address. Each response causes an
    /// [`Event::GroupResponse`](crate::Event::GroupResponse), and
    /// [`Event::GroupOver`](crate::Event::GroupOver) is the end: after the request's timeout or,
    /// without one, after that of the protocol (247 s with the default parameters). The request
    /// fails if it was never sent.
    ///
    /// The message is Non-confirmable and sent once. It is subject to congestion control for the
    /// group: PROBING_RATE limits a sequence of requests without responses. The token is random and
    /// has 8 bytes regardless of the configuration, because only the token distinguishes a response
    /// from a forged one; a token in `request` is ignored.
    ///
    /// # Errors
    /// If the request is Confirmable (RFC 7252 §8.1) or a GET with an ETag (§8.2.1), can never be
    /// sent, or if a needed resource is used up. No event follows then.
    pub fn request_group(&mut self, now: Instant, group: P, request: Request) -> Result<ExchangeId, RequestError> {
        let id = self.client.group_message_id(&mut self.layers, now, &request)?;
        let peer = self.open_peer(now, group)?;
        self.client.request_group(&mut self.layers, now, peer, id, request)
    }

    /// Requests a resource and notifications of its changes: a GET or FETCH, to which the endpoint
    /// adds Observe 0. The exchange ends like that of any [`request`](Self::request).
    /// [`Event::Notification`](crate::Event::Notification)s follow, each newer than the previous
    /// one, and finally [`Event::SubscriptionOver`](crate::Event::SubscriptionOver), even if the
    /// server does not accept the registration.
    ///
    /// # Errors
    /// As for [`request`](Self::request), and if the method cannot be observed or there are too
    /// many subscriptions.
    pub fn subscribe(
        &mut self,
        now: Instant,
        to: P,
        request: Request,
    ) -> Result<(ExchangeId, SubscriptionId), RequestError> {
        self.client.check_subscription(&self.layers, &request)?;
        let peer = self.open_peer(now, to)?;
        self.client.subscribe(&mut self.layers, now, peer, request)
    }

    /// Registers a [stale](crate::Event::Stale) subscription again, with the same token (RFC 7641
    /// §3.3.1). The response is reported as a notification, or the subscription ends. Has no effect
    /// while a registration is in progress.
    ///
    /// # Errors
    /// As for [`request`](Self::request), and if the subscription is over. It remains unchanged.
    pub fn reregister(&mut self, now: Instant, subscription: SubscriptionId) -> Result<(), RequestError> {
        self.client.reregister(&mut self.layers, now, subscription)
    }

    /// Ends a subscription and deregisters at the server: a GET or FETCH with Observe 1 and the
    /// same token (RFC 7641 §3.6). That exchange ends like any other. No event of the
    /// subscription follows.
    ///
    /// # Errors
    /// As for [`request`](Self::request), and if the subscription is over. It remains unchanged.
    pub fn unsubscribe(&mut self, now: Instant, subscription: SubscriptionId) -> Result<ExchangeId, RequestError> {
        self.client.unsubscribe(&mut self.layers, now, subscription)
    }

    /// Ends a subscription without a message to the server: its next notification is rejected with
    /// a Reset (RFC 7641 §3.6). Returns `false` if the subscription is over already.
    pub fn forget(&mut self, now: Instant, subscription: SubscriptionId) -> bool {
        self.client.forget(&mut self.layers, now, subscription)
    }

    /// Sends a request, now or when NSTART and the controller admit it. It ends with exactly one
    /// event: a response or a failure.
    ///
    /// # Errors
    /// If the request can never be sent, or if a needed resource is used up. No event follows then.
    pub fn request(&mut self, now: Instant, to: P, request: Request) -> Result<ExchangeId, RequestError> {
        if !request.code.is_request() {
            return Err(RequestError::NotAMethod(request.code));
        }
        let peer = self.open_peer(now, to)?;
        self.client.request(&mut self.layers, now, peer, request)
    }

    /// Requests the next block of a [streamed](crate::Request::streamed) response, after the
    /// application has taken the last [`Event::Block`](crate::Event::Block). The request is sent as
    /// soon as the peer's queue and controller admit it. Returns `false` if the exchange does not
    /// wait for this call.
    ///
    /// The server may forget the response in the meantime; RFC 7959 §2.4 allows it. A server that
    /// uses EXCHANGE_LIFETIME keeps it for 247 s.
    pub fn fetch_next(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        self.client.fetch_next(&mut self.layers, now, exchange)
    }

    /// Supplies more of a body; with `last` all that remains, which may be empty. Data of any
    /// length is accepted. It is sent in blocks of the size that the peer requests, and an
    /// incomplete block waits for more data. The data may exceed what was
    /// [wanted](crate::Event::Wanted) and is then held in memory.
    ///
    /// An application that cannot continue [cancels](Self::cancel) the exchange, or
    /// [answers](Self::respond) the request with an error.
    ///
    /// # Errors
    /// If the body is over.
    pub fn supply(&mut self, now: Instant, body: Unfinished, more: Bytes, last: bool) -> Result<(), NotWanted> {
        match body {
            Unfinished::Request(id) => self.client.supply(&mut self.layers, now, id, more, last),
            Unfinished::Response(request) => self.server.supply_response(&mut self.layers, now, request, more, last),
        }
    }

    /// Pings a peer (RFC 7252 §4.3): its Reset causes
    /// [`Event::Acknowledged`](crate::Event::Acknowledged).
    ///
    /// # Errors
    /// If a needed resource is used up.
    pub fn ping(&mut self, now: Instant, to: P) -> Result<ExchangeId, RequestError> {
        let peer = self.open_peer(now, to)?;
        self.layers.submit(now, peer, &mut { Opening::EMPTY })
    }

    /// Ends an exchange without an event, and frees its resources. A message already sent may still
    /// have an effect at the peer. Returns `false` if the exchange is over already.
    ///
    /// [`Transmit::exchange`](super::Transmit) also names exchanges that the endpoint opened
    /// itself. Cancelling a repeated registration ends the subscription, with
    /// [`Event::SubscriptionOver`](crate::Event::SubscriptionOver). Cancelling a notification ends
    /// its retransmission; the observer stays.
    pub fn cancel(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        let transport = &mut self.layers.transport;
        let Some(purpose) = transport.exchanges.live(exchange).map(|exchange| exchange.purpose) else { return false };
        let index = exchange.index;
        match purpose {
            Purpose::Request | Purpose::State(_) => self.client.cancel(&mut self.layers, now, index),
            Purpose::Response(_) | Purpose::Notification(_) => self.server.cancel(&mut self.layers, now, index),
            Purpose::Ping | Purpose::Handshake => {
                transport.exchanges.abandon(now, &mut transport.peers, index, AbandonReason::Cancelled);
                transport.close(now, index);
            }
        }
        true
    }
}
