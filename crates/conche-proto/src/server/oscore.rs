//! Protected requests (OSCORE, RFC 8613), and EDHOC combined with the first one (RFC 9668).

use core::num::NonZeroU16;

use crate::PeerKey;
use crate::codec::{Message, OptionNumber, Type};
use crate::layers::Layers;
use crate::oscore::Refused;
use crate::security::Security;
use crate::server::Server;
use crate::server::receive::Arrival;
use conche_cc::{Controller, Instant};

impl<P: PeerKey, C: Controller> Server<P, C> {
    /// Receives a request with an OSCORE option. The inner message is processed if the protection
    /// is valid; otherwise an unprotected error is sent, which reveals nothing of it.
    pub(crate) fn receive_protected(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: Arrival<P>,
        message: &Message<'_>,
    ) {
        if message.option(OptionNumber::EDHOC).is_some() {
            return self.receive_combined(layers, now, arrival, message);
        }
        let Some(protection) = layers.protection.as_deref_mut() else { return };
        match protection.contexts.unprotect_request(now, message, &mut layers.pool) {
            Ok(unprotected) => {
                let (inner, security) = (unprotected.message, Security::by(unprotected.binding));
                let mut arrival = Arrival { security, ..arrival };
                if arrival.allowance.is_some() {
                    if inner.option(OptionNumber::ECHO).is_some() {
                        // The Echo option that proves the address is in the inner message.
                        arrival.allowance = self.allowance(layers, now, &arrival.source, arrival.hash, &inner.view());
                    }
                    arrival.allowance = arrival.allowance.map(|allowance| {
                        let beside = u16::try_from(arrival.security.response_bytes()).unwrap_or(u16::MAX);
                        NonZeroU16::new(allowance.get().saturating_sub(beside)).unwrap_or(NonZeroU16::MIN)
                    });
                }
                self.receive_arrived(layers, now, &arrival, &inner.view());
            }
            Err(refused) => {
                protection.refused += 1;
                let answer = protection.contexts.refusal(now, &refused);
                layers.ask_to_reserve();
                // A Non-confirmable request is ignored, since a response would need state, unless
                // its sender can continue only if it learns the reason.
                let tells =
                    matches!(refused, Refused::NotFresh(_) | Refused::Proposed { .. } | Refused::UnknownContext);
                let asked = tells || message.ty() == Type::Confirmable;
                if let Some((code, body)) = answer.filter(|_| asked) {
                    self.answer_at_once(layers, now, &arrival, message, code, &body);
                }
            }
        }
    }

    /// Handles a request with the options OSCORE and EDHOC.
    pub(crate) fn receive_combined(
        &mut self,
        layers: &mut Layers<P, C>,
        now: Instant,
        arrival: Arrival<P>,
        message: &Message<'_>,
    ) {
        match layers.agreed(now, message) {
            Ok(rest) => self.receive_protected(layers, now, arrival, &rest.view()),
            Err((code, body)) => {
                layers.count_refused();
                // A refused Non-confirmable request is treated as lost, like other protected ones.
                if message.ty() == Type::Confirmable {
                    self.answer_at_once(layers, now, &arrival, message, code, &body);
                }
            }
        }
    }
}
