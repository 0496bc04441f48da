//! [`Discovery`]: discovers by trial which peers support tokens of more than eight bytes (RFC 8974
//! §2.2.2).
//!
//! A Confirmable request tries an extended token. A server without support rejects it with a Reset,
//! and one that does not accept this length responds with 4.00; the request is then repeated with
//! eight bytes. Because addresses change owners, results are valid for half an hour.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use super::Client;
use crate::PeerKey;
use crate::codec::Token;
use crate::config::EndpointConfig;
use crate::error::RequestError;
use crate::layers::Layers;
use conche_cc::control::AckKind;
use conche_cc::{Controller, Instant};

/// Validity of a result (RFC 8974 §2.2.2).
const LIFETIME: Duration = Duration::from_secs(1_800);

/// Number of remembered peers.
const PLACES: usize = 1024;

/// The result for one peer.
#[derive(Clone, Copy, Debug)]
struct TokenSupport {
    /// Keyed hash of the peer, which determines its only place. A displaced peer is tried again.
    hash: u64,
    until: Instant,
    understands: bool,
}

/// The results for all peers.
#[derive(Debug)]
pub(crate) struct Discovery {
    places: Box<[TokenSupport]>,
}

impl Discovery {
    /// Creates the table if the configured tokens are extended.
    pub(crate) fn of(config: &EndpointConfig) -> Option<Self> {
        let nobody = TokenSupport { hash: 0, until: Instant::ZERO, understands: false };
        (config.token_length > Token::MAX_LENGTH).then(|| Self { places: vec![nobody; PLACES].into_boxed_slice() })
    }

    fn place(&mut self, hash: u64) -> &mut TokenSupport {
        &mut self.places[usize::try_from(hash % PLACES as u64).unwrap_or_default()]
    }

    /// Returns whether a peer supports extended tokens, if known.
    fn understands(&mut self, now: Instant, hash: u64) -> Option<bool> {
        let found = self.place(hash);
        (found.hash == hash && now < found.until).then_some(found.understands)
    }
}

/// A token for a request.
pub(crate) struct Chosen {
    pub(crate) token: Token,
    /// It is unknown whether the peer supports the token.
    pub(crate) tried: bool,
}

/// The outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// The request was answered.
    Understood,
    /// The request was answered with 4.00, in this kind of message.
    Refused(AckKind),
    /// The request was rejected with a Reset.
    Rejected,
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    /// Returns a random token; `may_try` permits to try an extended one.
    pub(super) fn choose_token(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: u32,
        may_try: bool,
    ) -> Result<Chosen, RequestError> {
        let known = match self.discovery_mut() {
            None => Some(true),
            Some(discovery) => {
                discovery.understands(layers.now, layers.transport.peers.hash(&layers.transport.peers.get(peer).key))
            }
        };
        let tried = known.is_none() && may_try;
        let most = if known == Some(true) || tried { usize::MAX } else { Token::MAX_LENGTH };
        let length = layers.transport.config.token_length.min(most);
        let subscribed = |token: &Token| self.subscriptions.made().is_some_and(|made| made.find(peer, token).is_some());
        let token = layers.transport.exchanges.unused_token(peer, length, &mut layers.transport.random, subscribed);
        Ok(Chosen { token: token.ok_or(RequestError::NoToken { length })?, tried })
    }

    /// Records the outcome of a trial. Returns `false` if the peer does not support the token and
    /// the request is repeated with a short one.
    pub(crate) fn token_tried(&mut self, layers: &mut Layers<P, C>, index: u32, tried: Tried) -> bool {
        let understands = tried == Tried::Understood;
        let exchange = layers.transport.exchanges.get_mut(index);
        exchange.tries_token = false;
        let peer = exchange.peer;
        let hash = layers.transport.peers.hash(&layers.transport.peers.get(peer).key);
        if let Some(discovery) = self.discovery_mut() {
            *discovery.place(hash) = TokenSupport { hash, until: layers.now + LIFETIME, understands };
        }
        let short = if understands { None } else { self.choose_token(layers, peer, false).ok() };
        let Some(Chosen { token, .. }) = short else { return true };
        if let Tried::Refused(kind) = tried {
            layers.transport.acknowledge(layers.now, index, kind);
        }
        layers.transport.exchanges.send_anew(layers.now, &mut layers.transport.peers, index, token);
        layers.transport.admit_waiting(layers.now, peer);
        false
    }

    /// Returns the requested token, if no other request or subscription uses it, or a random one.
    #[inline]
    pub(crate) fn token(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: u32,
        wanted: Option<Token>,
        may_try: bool,
    ) -> Result<Chosen, RequestError> {
        let Some(token) = wanted else { return self.choose_token(layers, peer, may_try) };
        if self.uses_token(layers, peer, &token) {
            return Err(RequestError::TokenInUse);
        }
        Ok(Chosen { token, tried: false })
    }

    #[inline]
    pub(super) fn uses_token(&mut self, layers: &mut Layers<P, C>, peer: u32, token: &Token) -> bool {
        let subscribed = self.subscriptions.made().is_some_and(|made| made.find(peer, token).is_some());
        subscribed || layers.transport.exchanges.uses_token(peer, token)
    }
}
