//! Responses to protected requests (OSCORE, RFC 8613), and requests that are sent again with new
//! keys when both endpoints derive them (appendix B.2).
//!
//! A response whose protection is missing or invalid does not reach the application:
//!
//! - It is ignored, except that an acknowledgement ends retransmission, as a forged Empty one
//!   would.
//! - An unprotected error from the address and with the token of the request ends the request with
//!   [`Failure::NotAuthenticated`]: a server that has lost its context can send nothing else (RFC
//!   8613 §8.2). An attacker off the path cannot guess the token, and one on the path could have
//!   suppressed the response as well. An observation continues, becomes stale in time, and is
//!   registered again.

use super::Client;
use crate::PeerKey;
use crate::codec::{Code, Message, MessagePool, OptionNumber, OwnedMessage, Type};
use crate::hash::Fingerprint;
use crate::layers::{Layers, Protection};
use crate::oscore::{Binding, Refused};
use crate::transport::{ExchangeIndex, Failure, NextMessage, Sender, Source, SubscriptionIndex};
use conche_cc::Controller;
use conche_cc::control::AckKind;

enum Response {
    Inner(OwnedMessage),
    Error(Code),
    /// The keys have changed or are about to change. The request is sent again.
    Again,
    Nothing,
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    /// Marks the keys of a request as lost by the server, if the response code reports it and they
    /// can be derived again; returns `true` then.
    fn lost_keys(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex, code: Code) -> bool {
        let binding = layers.transport.exchanges.get(index).security.binding();
        let protection = layers.protection.as_deref_mut();
        let known = binding.zip(protection).filter(|_| code == Code::UNAUTHORIZED);
        known.is_some_and(|(binding, protection)| protection.contexts.lost(binding))
    }

    /// Returns `true` if a request has not been executed, or is idempotent. An unprotected report
    /// of lost keys may be a lie: the server may have executed the request.
    fn may_be_repeated(&self, layers: &Layers<P, C>, index: ExchangeIndex) -> bool {
        let exchange = layers.transport.exchanges.get(index);
        let is_proposal = exchange.security.binding().is_some_and(Binding::is_proposal);
        is_proposal || exchange.unprotected().0.is_idempotent()
    }

    fn send_with_other_keys(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex, kind: AckKind) {
        layers.transport.acknowledge(layers.now, index, kind);
        if !layers.transport.exchanges.get_mut(index).security.count_repetition() {
            return self.fail(layers, index, Failure::NotAuthenticated(Code::UNAUTHORIZED));
        }
        let said = layers.transport.exchanges.get(index).unprotected().1.clone();
        let body = match layers.protect_next(index, said) {
            Ok(body) => body,
            Err(reason) => return self.fail(layers, index, reason),
        };
        let registers = self.registers(layers, index).is_some();
        let exchange = layers.transport.exchanges.get(index);
        let (peer, own) = (exchange.peer, exchange.token.clone());
        // An observation keeps the token of its registration.
        let token = if registers { None } else { self.choose_token(layers, peer, false).ok() };
        let token = token.map(|chosen| chosen.token);
        match self.take_transfer_state(layers, index) {
            Some(transfer) => layers.transport.exchanges.go_on(
                layers.now,
                &mut layers.transport.peers,
                index,
                NextMessage { transfer, body, token },
            ),
            None => {
                layers.transport.exchanges.get_mut(index).content.body = body;
                layers.transport.exchanges.send_with_new_token(
                    layers.now,
                    &mut layers.transport.peers,
                    index,
                    token.unwrap_or(own),
                );
            }
        }
        layers.transport.admit_waiting(layers.now, peer);
    }

    fn unprotected(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex, message: &Message<'_>) -> Response {
        let binding = layers.transport.exchanges.get_mut(index).security.binding_mut();
        let inner = Self::open_with(layers.protection.as_deref_mut(), binding, message, &mut layers.pool);
        match inner {
            Ok(inner) => Response::Inner(inner),
            Err(Refused::Renewed) => Response::Again,
            Err(Refused::Outdated) if self.may_be_repeated(layers, index) => Response::Again,
            Err(Refused::Outdated) => Response::Error(Code::UNAUTHORIZED),
            Err(_)
                if is_error(message)
                    && self.lost_keys(layers, index, message.code())
                    && self.may_be_repeated(layers, index) =>
            {
                Response::Again
            }
            Err(_) if is_error(message) => Response::Error(message.code()),
            Err(_) => {
                layers.count_refused();
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

    pub(super) fn receive_protected_piggybacked(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        message: &Message<'_>,
    ) {
        match self.unprotected(layers, index, message) {
            Response::Inner(inner) => self.deliver_inner(layers, index, AckKind::Piggybacked, &inner),
            Response::Error(code) => {
                layers.transport.acknowledge(layers.now, index, AckKind::Piggybacked);
                self.fail(layers, index, Failure::NotAuthenticated(code));
            }
            Response::Again => self.send_with_other_keys(layers, index, AckKind::Piggybacked),
            Response::Nothing => self.request_acknowledged(layers, index),
        }
    }

    fn receive_protected_separately(
        &mut self,
        layers: &mut Layers<P, C>,
        source: Source<P>,
        fingerprint: Fingerprint,
        index: ExchangeIndex,
        message: &Message<'_>,
    ) {
        match self.unprotected(layers, index, message) {
            Response::Inner(inner) => {
                self.acknowledge_response(layers, source, fingerprint, message);
                self.deliver_inner(layers, index, AckKind::Separate, &inner);
            }
            Response::Error(code) => {
                self.acknowledge_response(layers, source, fingerprint, message);
                layers.transport.acknowledge(layers.now, index, AckKind::Separate);
                self.fail(layers, index, Failure::NotAuthenticated(code));
            }
            Response::Again => {
                self.acknowledge_response(layers, source, fingerprint, message);
                self.send_with_other_keys(layers, index, AckKind::Separate);
            }
            Response::Nothing => {}
        }
    }

    fn deliver_inner(&mut self, layers: &mut Layers<P, C>, index: ExchangeIndex, kind: AckKind, inner: &OwnedMessage) {
        let inner = inner.view();
        if inner.unacceptable_option(&layers.transport.config.known_options).is_some() {
            layers.transport.acknowledge(layers.now, index, kind);
            return self.fail(layers, index, Failure::UnacceptableResponse);
        }
        self.deliver(layers, index, kind, &inner);
    }

    /// Returns whether a separate response belongs to a protected request or subscription.
    pub(super) fn receive_protected_response(
        &mut self,
        layers: &mut Layers<P, C>,
        sender: &Sender<P>,
        fingerprint: Fingerprint,
        found: Option<ExchangeIndex>,
        message: &Message<'_>,
    ) -> bool {
        let &Sender { source, peer, .. } = sender;
        let token = message.token();
        let subscription =
            peer.and_then(|peer| self.subscriptions.created()?.find(peer, &token)).filter(|&subscription| {
                let found = self.subscriptions.get(subscription);
                found.newest.is_some() && !found.security.is_plain()
            });
        let found = found.filter(|&index| !layers.transport.exchanges.get(index).security.is_plain());
        match (subscription, found) {
            (Some(subscription), _) => {
                self.receive_protected_notification(layers, source, fingerprint, subscription, message);
            }
            (None, Some(index)) => self.receive_protected_separately(layers, source, fingerprint, index, message),
            (None, None) => return false,
        }
        true
    }

    /// Handles a notification or the response to a repeated registration: the bound request
    /// determines which.
    fn receive_protected_notification(
        &mut self,
        layers: &mut Layers<P, C>,
        source: Source<P>,
        fingerprint: Fingerprint,
        subscription: SubscriptionIndex,
        message: &Message<'_>,
    ) {
        let found = self.subscriptions.get_mut(subscription);
        let registering = found.exchange.filter(|&id| layers.transport.exchanges.live(id).is_some());
        let binding = found.security.binding_mut();
        match (Self::open_with(layers.protection.as_deref_mut(), binding, message, &mut layers.pool), registering) {
            (Ok(inner), _) => self.receive_notification(layers, source, fingerprint, subscription, &inner.view()),
            (Err(_), Some(id)) => self.receive_protected_separately(layers, source, fingerprint, id.index, message),
            (Err(_), None) => layers.count_refused(),
        }
    }

    fn acknowledge_response(
        &mut self,
        layers: &mut Layers<P, C>,
        source: Source<P>,
        fingerprint: Fingerprint,
        message: &Message<'_>,
    ) {
        if message.ty() == Type::Confirmable {
            // If the reply cannot be stored, a duplicate is refused as a replay.
            layers.transport.acknowledge_empty(layers.now, source, fingerprint, message.id());
        }
    }
}

/// Returns `true` for an unprotected error.
fn is_error(message: &Message<'_>) -> bool {
    message.option(OptionNumber::OSCORE).is_none() && !message.code().is_success()
}
