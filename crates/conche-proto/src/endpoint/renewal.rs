//! Requests that are sent again with new keys, when both endpoints derive new keys (RFC 8613
//! appendix B.2).

use conche_cc::control::AckKind;
use conche_cc::{Controller, Instant};

use super::Endpoint;
use crate::PeerKey;
use crate::codec::Code;
use crate::exchange::Failure;
use crate::oscore::Binding;

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Marks the keys of a request as lost by the server if the response code says so and they are
    /// derived anew. Returns whether they are.
    pub(super) fn lost_keys(&mut self, index: u32, code: Code) -> bool {
        let binding = self.transport.exchanges.get(index).security.binding();
        let protection = self.protection.as_deref_mut();
        let known = binding.zip(protection).filter(|_| code == Code::UNAUTHORIZED);
        known.is_some_and(|(binding, protection)| protection.contexts.lost(binding))
    }

    /// Returns whether a request whose keys have changed or were lost may be sent again: it has not
    /// been executed, or is idempotent. Whoever reports lost keys without protection may have let
    /// the request through before.
    pub(super) fn may_be_repeated(&self, index: u32) -> bool {
        let exchange = self.transport.exchanges.get(index);
        let is_proposal = exchange.security.binding().is_some_and(Binding::is_proposal);
        is_proposal || exchange.said().0.is_idempotent()
    }

    /// Sends a request once more, with the current keys.
    pub(super) fn send_with_other_keys(&mut self, now: Instant, index: u32, kind: AckKind) {
        self.transport.exchanges.acknowledge(now, &mut self.transport.peers, index, kind);
        if !self.transport.exchanges.get_mut(index).security.goes_again() {
            return self.fail(now, index, Failure::NotAuthenticated(Code::UNAUTHORIZED));
        }
        let said = self.transport.exchanges.get(index).said().1.clone();
        let body = match self.protect_next(index, said) {
            Ok(body) => body,
            Err(reason) => return self.fail(now, index, reason),
        };
        let registers = self.registers(index).is_some();
        let exchange = self.transport.exchanges.get(index);
        let (peer, own) = (exchange.peer, exchange.token.clone());
        // An observation keeps the token of its registration.
        let token = if registers { None } else { self.choose_token(now, peer, false).ok() };
        let token = token.map(|chosen| chosen.token);
        match self.work_of(index) {
            Some(transfer) => {
                self.transport.exchanges.go_on(now, &mut self.transport.peers, index, (transfer, body), token)
            }
            None => {
                self.transport.exchanges.get_mut(index).content.body = body;
                self.transport.exchanges.send_anew(now, &mut self.transport.peers, index, token.unwrap_or(own));
            }
        }
        self.transport.admit_waiting(now, peer);
    }
}
