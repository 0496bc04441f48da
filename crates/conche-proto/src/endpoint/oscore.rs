//! OSCORE (RFC 8613) in the endpoint, between the message layer, which sees outer messages only,
//! and request and response processing, which sees inner messages.
//!
//! ```text
//! in:   deduplication ──outer──> unprotected ──inner──> options, blocks, observation, application
//! out:  application, blocks, observation ──inner──> protected once ──outer──> queue, replies
//! ```
//!
//! A message is protected once, when it is created; all transmissions of it are the same bytes. A
//! response to a protected request whose protection is missing or invalid does not reach the
//! application:
//!
//! - It is ignored, except that an acknowledgement ends retransmission, as an Empty one would, which
//!   any sender could have sent.
//! - An unprotected error from the address and with the token of the request ends the request with
//!   [`Failure::NotAuthenticated`], because a server that has lost its context can send nothing
//!   else (RFC 8613 §8.2). An attacker off the path cannot guess the token, and one on the path
//!   could have suppressed the response as well. An error never ends an observation in this way:
//!   the observation continues, becomes stale in time, and is registered again.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU16;

use rand_core::RngCore;

use super::combined::Agree;
use super::receive::Arrival;
use super::{Endpoint, Event, RequestError};
use crate::PeerKey;
use crate::codec::{Body, Code, Message, MessagePool, OptionNumber, Overhead, OwnedMessage, Type};
use crate::exchange::{Failure, Opening};
use crate::hash::Fingerprint;
use crate::incoming::RequestId;
use crate::oscore::{
    Binding, Context, ContextId, Contexts, EndId, InsertError, ProtectError, Protected, Refused, Reserve,
};
use crate::security::Security;
use crate::transport::Source;
use conche_cc::control::AckKind;
use conche_cc::{Controller, Instant};

/// The security contexts of an endpoint and their state.
pub(super) struct Protection {
    pub(super) contexts: Contexts,
    /// The number of refused messages.
    refused: u64,
    /// Creates contexts from message_3, if requests may carry one.
    pub(super) agree: Option<Box<Agree>>,
    /// For each context, the message_3 that the next request must carry.
    pub(super) before: Vec<(ContextId, Vec<u8>)>,
}

/// The response to a protected request.
enum Response {
    /// A valid protected response; the message is the inner one.
    Inner(OwnedMessage),
    /// An unprotected error.
    Error(Code),
    /// The keys have changed or are about to change. The request is sent again with the new keys.
    Again,
    /// Not authentic.
    Nothing,
}

/// # End-to-end protection (RFC 8613)
impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Adds a security context. [`Request::security`](crate::Request::security) selects the context
    /// that protects a request. Until the first context is added, the endpoint does not support the
    /// OSCORE option, and refuses it as an unknown critical option.
    ///
    /// [`Event::Reserve`] follows. Nothing is protected with the context until it is answered.
    ///
    /// ```
    /// use conche_proto::cc::AnyController;
    /// use conche_proto::codec::{Body, Code};
    /// use conche_proto::oscore::{Context, Credentials, EndId, Start};
    /// use conche_proto::{Endpoint, EndpointConfig, Event, Input, Instant, Output, Request};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (now, mut buf) = (Instant::ZERO, [0; 1280]);
    /// let mut end = |own: &[u8], other: &[u8]| -> Result<_, Box<dyn std::error::Error>> {
    ///     let [own, other] = [own, other].map(|id| EndId::new(id).expect("no more than 7 bytes"));
    ///     let credentials = Credentials::new(*b"16 random bytes.", own, other);
    ///     let controller = AnyController::by_name("default")?;
    ///     let mut endpoint = Endpoint::new(EndpointConfig::default(), controller, [1; 32])?;
    ///     let context = endpoint.add_context(Context::derive(&credentials, Start::First)?)?;
    ///     let Output::Event(Event::Reserve(reserve)) = endpoint.poll(now, &mut buf) else {
    ///         panic!()
    ///     };
    ///     // An application stores it here, before it confirms:
    ///     endpoint.reserved(reserve);
    ///     Ok((endpoint, context))
    /// };
    /// let ((mut client, context), (mut server, peer)) = (end(b"c", b"s")?, end(b"s", b"c")?);
    ///
    /// let body = Body::builder().path("/test").build()?;
    /// let request = Request::new(Code::GET, body).protected(context);
    /// client.request(now, "s", request)?;
    /// let Output::Transmit(datagram) = client.poll(now, &mut buf) else { panic!() };
    /// assert!(!buf[..datagram.len].windows(4).any(|bytes| bytes == b"test"));
    ///
    /// server.handle(now, Input::datagram("c", &buf[..datagram.len]))?;
    /// let Output::Event(Event::Request { id, message, .. }) = server.poll(now, &mut buf) else {
    ///     panic!()
    /// };
    /// assert_eq!((message.code(), message.uri_path().as_str()), (Code::GET, "/test"));
    /// assert_eq!(server.security(id), Some(peer));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is already a context with the same recipient ID and ID context, or with the same
    /// sender key and Common IV.
    pub fn add_context(&mut self, context: Context) -> Result<ContextId, InsertError> {
        let id = self.protection_mut().contexts.insert(context)?;
        self.ask_to_reserve();
        Ok(id)
    }

    /// Returns the protection state, created on first use.
    pub(super) fn protection_mut(&mut self) -> &mut Protection {
        let random = &mut self.transport.random;
        self.protection.get_or_insert_with(|| {
            let mut seed = [0; 32];
            random.fill_bytes(&mut seed);
            let contexts = Contexts::new(usize::MAX, seed);
            Box::new(Protection { contexts, refused: 0, agree: None, before: Vec::new() })
        })
    }

    /// Removes a security context, so that it can be stored: its [number](Context::next_number) and
    /// [window](Context::window). From then on messages protected with it are refused, and nothing
    /// can be protected with it. Observers that use it are removed at the next notification.
    pub fn remove_context(&mut self, id: ContextId) -> Option<Context> {
        let protection = self.protection.as_deref_mut()?;
        protection.before.retain(|(context, _)| *context != id);
        protection.contexts.remove(id)
    }

    /// Returns the security contexts of the client's exchanges and observations. A context can
    /// occur several times. Takes time linear in the number of exchanges and observations.
    pub fn contexts_in_use(&self) -> impl Iterator<Item = ContextId> {
        self.transport.exchanges.securities().chain(self.subscriptions.securities()).filter_map(Security::context)
    }

    /// Returns the security context with this recipient ID and ID context.
    #[must_use]
    pub fn find_context(&self, recipient_id: EndId, id_context: Option<&[u8]>) -> Option<ContextId> {
        self.protected()?.contexts.find(recipient_id, id_context)
    }

    /// Returns a security context.
    #[must_use]
    pub fn context(&self, id: ContextId) -> Option<&Context> {
        self.protected()?.contexts.get(id)
    }

    /// Confirms that the numbers of an [`Event::Reserve`] are stored and will survive a power
    /// failure.
    pub fn reserved(&mut self, reserve: Reserve) {
        if let Some(protection) = self.protection.as_deref_mut() {
            protection.contexts.reserved(reserve);
            self.ask_to_reserve();
        }
    }

    /// Reports that the numbers of an [`Event::Reserve`] could not be stored. They are requested
    /// again when the context is used next.
    pub fn not_reserved(&mut self, context: ContextId) {
        if let Some(protection) = self.protection.as_deref_mut() {
            protection.contexts.not_reserved(context);
        }
    }

    /// Returns whether no request can be protected with this context before an [`Event::Reserve`]
    /// is answered, because all numbers that are stored as used have been used. If they could not
    /// be stored, the event is announced again.
    pub fn waits_for_numbers(&mut self, context: ContextId) -> bool {
        let Some(protection) = self.protection.as_deref_mut() else { return false };
        let waits = protection.contexts.waits_for_numbers(context);
        self.ask_to_reserve();
        waits
    }

    /// Returns the context that a request was protected with, which identifies the sender. `None`
    /// if the request was not protected or no longer waits for its response.
    #[must_use]
    pub fn security(&self, request: RequestId) -> Option<ContextId> {
        self.incoming.security(request).context()
    }

    /// Returns the number of messages that were refused because they were replayed, forged,
    /// protected with an unknown context, or lacked the required protection.
    #[must_use]
    pub fn refused_protection(&self) -> u64 {
        self.protected().map_or(0, |protection| protection.refused)
    }

    /// Returns whether the endpoint has, or has had, security contexts.
    #[inline]
    pub(super) fn has_contexts(&self) -> bool {
        self.protected().is_some()
    }

    /// Returns the protection state, if there is any.
    #[inline]
    pub(super) fn protected(&self) -> Option<&Protection> {
        self.protection.as_deref()
    }

    pub(super) fn count_refused(&mut self) {
        if let Some(protection) = self.protection.as_deref_mut() {
            protection.refused += 1;
        }
    }

    pub(super) fn ask_to_reserve(&mut self) {
        while let Some(reserve) =
            self.protection.as_deref_mut().and_then(|protection| protection.contexts.poll_reserve())
        {
            self.announce(Event::Reserve(reserve));
        }
    }

    // ---- out ----

    /// Returns how a request with this context is to be protected.
    pub(super) fn security_with(&self, id: ContextId) -> Security {
        let id_context = |context: &Context| match context.is_renewed() {
            true => Context::LONGEST_RENEWED,
            false => context.id_context().map_or(0, |id_context| 1 + id_context.len()),
        };
        let names = |context: &Context| context.sender_id().as_slice().len() + id_context(context);
        Security::with(id, self.context(id).map_or(0, names) + self.bytes_before(id))
    }

    /// Protects the request of an exchange that is not open yet.
    pub(super) fn protect_opening_with(
        &mut self,
        context: ContextId,
        opening: &mut Opening,
    ) -> Result<(), RequestError> {
        let said = (opening.code, opening.body.clone());
        let (binding, (code, body)) = self.protect_request(context, &said).map_err(RequestError::NotProtected)?;
        opening.security.bind(binding, said);
        (opening.code, opening.body) = (code, body);
        let (bytes, limit) = (opening.bytes(), self.transport.config.limits.message_bytes);
        if bytes > limit { Err(RequestError::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    /// Protects the next message of an exchange.
    pub(super) fn protect_next_with(&mut self, context: ContextId, index: u32, body: Body) -> Result<Body, Failure> {
        let exchange = self.transport.exchanges.get(index);
        let overhead = self.longest_overhead(&exchange.token);
        let said = (exchange.said().0, body);
        let (binding, (code, body)) = self.protect_request(context, &said).map_err(Failure::NotProtected)?;
        let exchange = self.transport.exchanges.get_mut(index);
        exchange.security.bind(binding, said);
        exchange.content.code = code;
        let fits = overhead.fits(&body, self.transport.config.limits.message_bytes);
        if fits { Ok(body) } else { Err(Failure::NotProtected(ProtectError::TooLong)) }
    }

    fn protect_request(
        &mut self,
        context: ContextId,
        (code, body): &(Code, Body),
    ) -> Result<(Binding, (Code, Body)), ProtectError> {
        let protection = self.protection.as_deref_mut().ok_or(ProtectError::UnknownContext)?;
        let protected = protection.contexts.protect_request(context, *code, body);
        self.ask_to_reserve();
        let Protected { code, body, binding } = protected?;
        let body = self.with_message_3(context, body).map_err(|_| ProtectError::TooLong)?;
        Ok((binding, (code, body)))
    }

    /// Protects a response in a message with this overhead. Returns `None` if the context is gone
    /// or the message is too long.
    pub(super) fn protect_response(
        &mut self,
        binding: &Binding,
        overhead: Overhead,
        (code, body): (Code, &Body),
    ) -> Option<(Code, Body)> {
        let protected = self.protection.as_deref_mut()?.contexts.protect_response(binding, code, body);
        self.ask_to_reserve();
        let protected = protected.ok()?;
        let fits = overhead.fits(&protected.body, self.transport.config.limits.message_bytes);
        fits.then_some((protected.code, protected.body))
    }

    /// Returns whether the context is gone, or has other keys than those that protected the
    /// request.
    pub(super) fn has_lost_context(&self, context: ContextId, security: &Security) -> bool {
        let has_other_keys =
            |context: &Context| security.binding().is_some_and(|binding| !context.has_keys_of(binding));
        self.context(context).is_none_or(has_other_keys)
    }

    // ---- in, as a server ----

    /// Receives a request with an OSCORE option. The inner message is processed if the protection
    /// is valid; otherwise an unprotected error is sent, which reveals nothing of it.
    pub(super) fn receive_protected(&mut self, now: Instant, arrival: Arrival<P>, message: &Message<'_>) {
        if message.option(OptionNumber::EDHOC).is_some() {
            return self.receive_combined(now, arrival, message);
        }
        let Some(protection) = self.protection.as_deref_mut() else { return };
        match protection.contexts.unprotect_request(now, message, &mut self.requests) {
            Ok(unprotected) => {
                let (inner, security) = (unprotected.message, Security::by(unprotected.binding));
                let mut arrival = Arrival { security, ..arrival };
                if arrival.allowance.is_some() {
                    if inner.option(OptionNumber::ECHO).is_some() {
                        // The Echo option that proves the address is in the inner message.
                        arrival.allowance = self.allowance(now, &arrival.source, arrival.hash, &inner.view());
                    }
                    arrival.allowance = arrival.allowance.map(|allowance| {
                        let beside = u16::try_from(arrival.security.response_bytes()).unwrap_or(u16::MAX);
                        NonZeroU16::new(allowance.get().saturating_sub(beside)).unwrap_or(NonZeroU16::MIN)
                    });
                }
                self.receive_arrived(now, &arrival, &inner.view());
            }
            Err(refused) => {
                protection.refused += 1;
                let answer = protection.contexts.refusal(now, &refused);
                self.ask_to_reserve();
                // A Non-confirmable request is ignored, since a response would need state, unless
                // its sender can continue only if it learns the reason.
                let tells =
                    matches!(refused, Refused::NotFresh(_) | Refused::Proposed { .. } | Refused::UnknownContext);
                let asked = tells || message.ty() == Type::Confirmable;
                if let Some((code, body)) = answer.filter(|_| asked) {
                    self.answer_at_once(now, &arrival, message, code, &body);
                }
            }
        }
    }

    // ---- in, as a client ----

    /// Unprotects the response to a protected request.
    fn unprotected(&mut self, index: u32, message: &Message<'_>) -> Response {
        let binding = self.transport.exchanges.get_mut(index).security.binding_mut();
        let inner = Self::open_with(self.protection.as_deref_mut(), binding, message, &mut self.requests);
        match inner {
            Ok(inner) => Response::Inner(inner),
            Err(Refused::Renewed) => Response::Again,
            Err(Refused::Outdated) if self.may_be_repeated(index) => Response::Again,
            Err(Refused::Outdated) => Response::Error(Code::UNAUTHORIZED),
            Err(_) if is_error(message) && self.lost_keys(index, message.code()) && self.may_be_repeated(index) => {
                Response::Again
            }
            Err(_) if is_error(message) => Response::Error(message.code()),
            Err(_) => {
                self.count_refused();
                Response::Nothing
            }
        }
    }

    fn open_with(
        protection: Option<&mut Protection>,
        binding: Option<&mut Binding>,
        message: &Message<'_>,
        pool: &mut MessagePool,
    ) -> Result<OwnedMessage, Refused> {
        message.option(OptionNumber::OSCORE).ok_or(Refused::Malformed)?;
        let (protection, binding) = protection.zip(binding).ok_or(Refused::UnknownContext)?;
        let unprotected = protection.contexts.unprotect_response(binding, message, pool);
        unprotected.map(|unprotected| unprotected.message)
    }

    /// Receives a piggybacked response to a protected request.
    pub(super) fn receive_protected_piggybacked(&mut self, now: Instant, index: u32, message: &Message<'_>) {
        match self.unprotected(index, message) {
            Response::Inner(inner) => self.deliver_inner(now, index, AckKind::Piggybacked, &inner),
            Response::Error(code) => {
                self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, AckKind::Piggybacked);
                self.fail(now, index, Failure::NotAuthenticated(code));
            }
            Response::Again => self.send_with_other_keys(now, index, AckKind::Piggybacked),
            Response::Nothing => self.request_acknowledged(now, index),
        }
    }

    /// Receives a separate response to a protected request.
    fn receive_protected_separately(
        &mut self,
        now: Instant,
        (source, what): (Source<P>, Fingerprint),
        index: u32,
        message: &Message<'_>,
    ) {
        match self.unprotected(index, message) {
            Response::Inner(inner) => {
                self.acknowledge_response(now, source, what, message);
                self.deliver_inner(now, index, AckKind::Separate, &inner);
            }
            Response::Error(code) => {
                self.acknowledge_response(now, source, what, message);
                self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, AckKind::Separate);
                self.fail(now, index, Failure::NotAuthenticated(code));
            }
            Response::Again => {
                self.acknowledge_response(now, source, what, message);
                self.send_with_other_keys(now, index, AckKind::Separate);
            }
            Response::Nothing => {}
        }
    }

    fn deliver_inner(&mut self, now: Instant, index: u32, kind: AckKind, inner: &OwnedMessage) {
        let inner = inner.view();
        if inner.unacceptable_option(&self.transport.config.known_options).is_some() {
            self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, kind);
            return self.fail(now, index, Failure::UnacceptableResponse);
        }
        self.deliver(now, index, kind, &inner);
    }

    /// Receives a separate response. Returns whether it belongs to a protected request or
    /// subscription.
    pub(super) fn receive_protected_response(
        &mut self,
        now: Instant,
        (source, what): (Source<P>, Fingerprint),
        (peer, found): (Option<u32>, Option<u32>),
        message: &Message<'_>,
    ) -> bool {
        let token = message.token();
        let subscription =
            peer.and_then(|peer| self.subscriptions.made()?.find(peer, &token)).filter(|&subscription| {
                let found = self.subscriptions.get(subscription);
                found.newest.is_some() && !found.security.is_plain()
            });
        let found = found.filter(|&index| !self.transport.exchanges.get(index).security.is_plain());
        match (subscription, found) {
            (Some(subscription), _) => {
                self.receive_protected_notification(now, (source, what), subscription, message);
            }
            (None, Some(index)) => self.receive_protected_separately(now, (source, what), index, message),
            (None, None) => return false,
        }
        true
    }

    /// Receives a message with the token of a protected subscription. The request that it is bound
    /// to determines whether it is a notification or the response to a repeated registration.
    fn receive_protected_notification(
        &mut self,
        now: Instant,
        (source, what): (Source<P>, Fingerprint),
        subscription: u32,
        message: &Message<'_>,
    ) {
        let found = self.subscriptions.get_mut(subscription);
        let registering = found.exchange.filter(|&id| self.transport.exchanges.live(id).is_some());
        let binding = found.security.binding_mut();
        match (Self::open_with(self.protection.as_deref_mut(), binding, message, &mut self.requests), registering) {
            (Ok(inner), _) => self.receive_notification(now, source, what, subscription, &inner.view()),
            (Err(_), Some(id)) => self.receive_protected_separately(now, (source, what), id.index, message),
            (Err(_), None) => self.count_refused(),
        }
    }

    fn acknowledge_response(&mut self, now: Instant, source: Source<P>, what: Fingerprint, message: &Message<'_>) {
        if message.ty() == Type::Confirmable {
            // If the reply cannot be stored, a duplicate is refused as a replay.
            self.transport.acknowledge_empty(now, source, what, message.id());
        }
    }
}

/// Returns whether a message is an unprotected error, without an OSCORE option.
fn is_error(message: &Message<'_>) -> bool {
    message.option(OptionNumber::OSCORE).is_none() && !message.code().is_success()
}
