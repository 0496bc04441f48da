//! The operations of a server.

use alloc::boxed::Box;

use super::{Endpoint, NotifyError, RespondError, SupersedeError};
use crate::PeerKey;
use crate::codec::Message;
use crate::exchange::{ExchangeId, Response, Rest};
use crate::incoming::RequestId;
use crate::observe::ObserverId;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Answers a request. The response is piggybacked on the ACK if none was sent yet; otherwise it
    /// is a separate message. If that is Confirmable, its exchange is returned, and the exchange's
    /// end ([`Event::Acknowledged`](super::Event::Acknowledged) or
    /// [`Event::Failed`](super::Event::Failed)) shows whether it arrived. However many responses
    /// wait for the peer, a further one is accepted and waits behind them. A response that the
    /// client does not want is not sent (RFC 7967).
    ///
    /// # Errors
    /// If the request does not await a response, or if the response is not legal; in the latter
    /// case the request still awaits one.
    pub fn respond(
        &mut self,
        now: Instant,
        request: RequestId,
        response: Response,
    ) -> Result<Option<ExchangeId>, RespondError> {
        self.server.respond(&mut self.layers, now, request, response)
    }

    /// Acknowledges a request with an Empty ACK now, because the response will take long. Otherwise
    /// this happens after
    /// [`EndpointConfig::separate_after`](crate::EndpointConfig::separate_after).
    ///
    /// # Errors
    /// If the request does not await a response, or no longer.
    pub fn acknowledge(&mut self, now: Instant, request: RequestId) -> Result<(), RespondError> {
        self.server.acknowledge(&mut self.layers, now, request)
    }

    /// Drops a request without a response: it is acknowledged if Confirmable, and forgotten after
    /// its lifetime.
    pub fn ignore(&mut self, now: Instant, request: RequestId) {
        self.server.ignore(&mut self.layers, now, request);
    }

    /// Replaces an outdated separate response that is outstanding or queued. The next transmission
    /// carries the new response with a new message ID. Timeout and number of attempts continue,
    /// because the path is the same (RFC 7641 §4.5.2). If the old response is acknowledged first,
    /// the new one follows at once. In both cases the exchange ends once.
    ///
    /// # Errors
    /// If `exchange` is over or is not that of a separate response, or if the new response is not
    /// legal.
    pub fn supersede(&mut self, exchange: ExchangeId, response: Response) -> Result<(), SupersedeError> {
        self.server.supersede(&mut self.layers, exchange, response)
    }

    /// Returns `true` if the request was sent to a group. The response leaves at a random time
    /// within the leisure, and only if it is useful. Returns `false` also if the request no longer
    /// awaits a response.
    #[must_use]
    pub fn came_to_group(&self, request: RequestId) -> bool {
        self.server.came_to_group(request)
    }

    /// Adds the sender of a request to the observers of `topic`, a number that the application
    /// assigns to an observable resource. To be called before [`respond`](Self::respond), for a GET
    /// or FETCH with [`OptionNumber::OBSERVE`](crate::codec::OptionNumber::OBSERVE) 0. Unless it is
    /// an error, the response then confirms the observation.
    ///
    /// Returns `None` if the request does not await a response, was sent to a group, or comes from
    /// a source that is not [validated](crate::EndpointConfig::source_validation), or if there is
    /// no room within [`Limits::observers`](crate::Limits::observers) and
    /// [`observers_per_peer`](crate::Limits::observers_per_peer): the response is then that to a
    /// plain GET (RFC 7641 §4.1).
    pub fn observe(&mut self, now: Instant, request: RequestId, topic: u64) -> Option<ObserverId> {
        self.server.observe(&mut self.layers, now, request, topic)
    }

    /// Sends a new state of a topic to its observers: to each as soon as no other notification to
    /// it is in progress and the controller admits it. An observer may get only the last of several
    /// states. Returns the number of observers. The call takes constant time; the endpoint visits
    /// the observers while it is polled.
    ///
    /// Notifications are Non-confirmable, with two exceptions. The first notification is
    /// Confirmable if the RTT to the client is unknown. The following ones are then paced by the
    /// measured RTT, at most one within a retransmission timeout of the controller, instead of one
    /// in 3 s (RFC 7641 §4.5.1). Every fifth consecutive one is Confirmable, to learn whether the
    /// client still exists (§4.5). An observer that has not acknowledged anything for long is
    /// [checked](crate::ObserverChecks), whether or not states change. A state that has stayed for
    /// its Max-Age, at least 5 s and at most an hour, plus 2 s, is sent again as a Confirmable
    /// message to observers that were sent it only as a Non-confirmable one: it may have been lost,
    /// and the last state must arrive (§1.3). [`Response::reliability`] overrides this. An error is
    /// the last notification, Confirmable by default, and ends the observation (§4.2). If a body
    /// exceeds a message or the block size of an observer, the observer gets the first block and
    /// requests the others.
    ///
    /// If the state has another Content-Format than the first response to an observer, the observer
    /// gets 4.06 instead and is removed (§4.2): [`Event::ObserverGone`](crate::Event::ObserverGone)
    /// with [`ObserverEnd::FormatChanged`](crate::ObserverEnd::FormatChanged).
    ///
    /// # Errors
    /// If the response is not legal or too large.
    pub fn notify(&mut self, now: Instant, topic: u64, response: Response) -> Result<usize, NotifyError> {
        self.server.notify(&mut self.layers, now, topic, response)
    }

    /// Returns the number of observers of a topic.
    #[must_use]
    pub fn observers(&self, topic: u64) -> usize {
        self.server.observers(topic)
    }

    /// Removes an observer without notifying it. Returns `false` if it is gone already.
    pub fn dismiss(&mut self, now: Instant, observer: ObserverId) -> bool {
        self.server.dismiss(&mut self.layers, now, observer)
    }

    /// Removes all observers of a topic without notifying them. Returns their number.
    pub fn dismiss_all(&mut self, now: Instant, topic: u64) -> usize {
        self.server.dismiss_all(&mut self.layers, now, topic)
    }

    /// Responds with a body whose payload is only the start, or empty. The blocks are sent as the
    /// client requests them in order, and [`supply`](Self::supply) provides the rest. Returns
    /// `false` if the client was sent another response at once, because it has no interest in this
    /// one, requests the middle of a body that is not stored (4.08), or uses Q-Block2 (4.02: it
    /// will use Block2, RFC 9177 §4.1).
    ///
    /// The block sent last can be requested again. A request for any other block is answered with
    /// 4.08, since it does not come "in the order required by the server" (RFC 7959 §2.9.2). If the
    /// application sets no ETag, the response has a unique one, so that a client does not combine
    /// blocks of two bodies (§2.4). The response registers no observation.
    ///
    /// # Errors
    /// If the request does not wait for a response or was sent to a group, if the code is not a
    /// response code, or if the maximum number of bodies are being transferred. The request then
    /// still waits.
    pub fn respond_in_parts(
        &mut self,
        now: Instant,
        request: RequestId,
        response: Response,
        rest: Rest,
    ) -> Result<bool, RespondError> {
        self.server.respond_in_parts(&mut self.layers, now, request, response, rest)
    }

    /// Sets which requests deliver their body block by block (RFC 7959 §2.5). `wanted` is called
    /// with the first block of each body that has several.
    /// [`Event::Request`](crate::Event::Request) then contains that block, with the M bit set in
    /// its Block1 option, and [`Event::Part`](crate::Event::Part) contains each further one. Bodies
    /// sent with Q-Block1 (RFC 9177) or to groups are still delivered whole.
    ///
    /// At most [`Limits::transfers`](crate::Limits::transfers) such requests and responses [in
    /// parts](Self::respond_in_parts) exist; further ones are answered with 5.03.
    /// [`Limits::body_bytes`](crate::Limits::body_bytes) does not apply to them.
    pub fn stream_requests(&mut self, wanted: Box<dyn Fn(&Message<'_>) -> bool + Send + Sync>) {
        self.server.stream_requests(wanted)
    }

    /// Reports that the application has taken a block of a request body. The client is sent 2.31
    /// Continue and may send the next block. An exchange is returned as by
    /// [`respond`](Self::respond).
    ///
    /// The application may [respond](Self::respond) at any time instead, which ends the body (RFC
    /// 7959 §2.9.3: 4.13). It must respond to the last block.
    ///
    /// # Errors
    /// If the request does not wait for this call.
    pub fn continue_request(&mut self, now: Instant, request: RequestId) -> Result<Option<ExchangeId>, RespondError> {
        self.server.continue_request(&mut self.layers, now, request)
    }

    /// Declares a peer unreachable under this key for ever, for instance after the end of its
    /// session. Its observations end with [`Event::ObserverGone`](crate::Event::ObserverGone), and
    /// all exchanges with it except handshakes fail with
    /// [`Failure::Unreachable`](crate::Failure::Unreachable). Its state is dropped once nothing
    /// refers to it. Its received messages stay remembered for their lifetime, so that none is
    /// processed twice. If the key is used again, message IDs start anew, contrary to RFC 7252
    /// §4.4.
    pub fn lose_peer(&mut self, now: Instant, peer: &P) {
        let transport = &mut self.layers.transport;
        let Some(peer) = transport.peers.peek(peer) else { return };
        transport.peers.lose(peer);
        let exchanges = transport.exchanges.with(&transport.peers, peer);
        self.all_unreachable(now, exchanges);
        self.server.lose_peer(&mut self.layers, now, peer);
        self.layers.transport.peers.forget_lost();
    }
}
