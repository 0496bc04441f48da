//! [`Handshakes`]: a socket's own handshakes, and the requests that wait for them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use conche_dtls::{ConnectError, Ended, Failure, SessionId, Sessions as Engine};
use conche_proto::cc::control::AbandonReason;
use conche_proto::{ExchangeId, Instant};
use tokio::sync::oneshot;

use super::failures::FailureReason;
use super::sessions::{AddressPair, DtlsSessions, keep_start, quotes};
use super::{OpenError, SessionResult};
use crate::address::Address;
use crate::security::{HandshakeError, Identity, PeerMismatch};

#[derive(Debug)]
pub(crate) struct SessionRequest {
    pub(crate) to: Address,
    pub(crate) name: Arc<str>,
    pub(crate) expected: Option<Arc<Identity>>,
    pub(crate) answer: oneshot::Sender<SessionResult>,
}

impl SessionRequest {
    /// OSCORE and EDHOC authenticate each message themselves.
    fn accepts(&self, identity: Option<&Identity>) -> bool {
        match self.expected.as_deref() {
            Some(expected) if expected.is_of_session() => identity == Some(expected),
            _ => true,
        }
    }

    fn answer(self, session: Address, identity: Option<&Identity>) {
        // An error means that the request was cancelled.
        let _ = match self.accepts(identity) {
            true => self.answer.send(Ok(session)),
            false => self.answer.send(Err(PeerMismatch::new(self.expected, identity.cloned()).into())),
        };
    }

    pub(crate) fn refuse(self, why: impl Into<OpenError>) {
        let _ = self.answer.send(Err(why.into()));
    }
}

#[derive(Debug, Default)]
pub(super) struct Handshakes(HashMap<SocketAddr, Handshake>);

#[derive(Debug)]
struct Handshake {
    exchange: ExchangeId,
    /// Set when the first flight may leave.
    session: Option<SessionId>,
    name: Arc<str>,
    /// The pre-shared key's identity, DTLS's only name for the server.
    psk: Option<Identity>,
    /// Beginning of the last datagram sent, to match ICMP errors.
    sent: Vec<u8>,
    waiting: Vec<SessionRequest>,
    /// It replaces a silent open session, even if no request waits.
    is_parallel: bool,
}

pub(super) struct CompletedHandshake {
    pub(super) name: Arc<str>,
    pub(super) identity: Option<Identity>,
    pub(super) exchange: ExchangeId,
}

impl Handshakes {
    pub(super) fn has(&self, at: SocketAddr) -> bool {
        self.0.contains_key(&at)
    }

    pub(super) fn session(&self, at: SocketAddr) -> Option<SessionId> {
        self.0.get(&at)?.session
    }

    pub(super) fn begin_parallel(
        &mut self,
        at: SocketAddr,
        exchange: ExchangeId,
        name: Arc<str>,
        psk: Option<Identity>,
    ) {
        let (sent, waiting) = (Vec::new(), Vec::new());
        let handshake = Handshake { exchange, session: None, name, psk, sent, waiting, is_parallel: true };
        self.0.insert(at, handshake);
    }

    pub(super) fn superseded(
        &mut self,
        at: SocketAddr,
        session: Address,
        identity: Option<&Identity>,
    ) -> Option<(ExchangeId, Option<SessionId>)> {
        self.0.get(&at).filter(|handshake| handshake.is_parallel)?;
        let Handshake { exchange, session: begun, waiting, .. } = self.0.remove(&at)?;
        waiting.into_iter().for_each(|wanted| wanted.answer(session, identity));
        Some((exchange, begun))
    }

    pub(super) fn opened(
        &mut self,
        at: SocketAddr,
        session: Address,
        identity: Option<Identity>,
    ) -> Option<CompletedHandshake> {
        let Handshake { name, psk, waiting, exchange, .. } = self.0.remove(&at)?;
        let identity = identity.or(psk);
        waiting.into_iter().for_each(|wanted| wanted.answer(session, identity.as_ref()));
        Some(CompletedHandshake { name, identity, exchange })
    }

    pub(super) fn failed(
        &mut self,
        at: SocketAddr,
        session: SessionId,
        why: &Ended,
    ) -> Option<(ExchangeId, AbandonReason)> {
        self.0.get(&at).filter(|handshake| handshake.session == Some(session))?;
        let (exchange, _) = self.refuse(at, &reason(why))?;
        let is_silence = matches!(why, Ended::Failed(Failure::Silence));
        Some((exchange, if is_silence { AbandonReason::GaveUp } else { AbandonReason::Reset }))
    }

    pub(super) fn exchange(&self, at: SocketAddr) -> Option<ExchangeId> {
        self.0.get(&at).map(|handshake| handshake.exchange)
    }

    pub(super) fn sent(&mut self, to: Address, datagram: &[u8]) {
        if let Some(handshake) = self.0.get_mut(&to.socket_addr()) {
            keep_start(&mut handshake.sent, datagram);
        }
    }

    pub(super) fn on_unreachable(
        &mut self,
        peer: Address,
        quoted: &[u8],
        engine: &mut Engine<AddressPair>,
    ) -> Option<ExchangeId> {
        let at = peer.socket_addr();
        self.0.get(&at).filter(|handshake| quotes(quoted, &handshake.sent))?;
        let (exchange, session) = self.refuse(at, &HandshakeError::unreachable())?;
        if let Some(session) = session {
            engine.close(session);
        }
        Some(exchange)
    }

    pub(super) fn refuse(&mut self, at: SocketAddr, why: &HandshakeError) -> Option<(ExchangeId, Option<SessionId>)> {
        let Handshake { exchange, session, waiting, .. } = self.0.remove(&at)?;
        waiting.into_iter().for_each(|wanted| wanted.refuse(why.clone()));
        Some((exchange, session))
    }
}

fn reason(why: &Ended) -> HandshakeError {
    let alert = match why {
        Ended::Failed(Failure::Silence) => return HandshakeError::silence(why),
        Ended::Failed(Failure::Alert(alert)) => *alert,
        _ => return HandshakeError::new(why),
    };
    let what = match alert {
        alert::DECRYPT_ERROR | alert::UNKNOWN_PSK_IDENTITY => "the server refuses the identity or its key",
        alert::BAD_CERTIFICATE..=alert::UNKNOWN_CA => "the server does not trust our certificate, or requires one",
        alert::HANDSHAKE_FAILURE => "the server requires other credentials, or supports none of our cipher suites",
        _ => "the server has ended the handshake",
    };
    HandshakeError::alert_of(what, alert)
}

/// RFC 5246 §7.2.2, RFC 4279 §6.
mod alert {
    pub(super) const HANDSHAKE_FAILURE: u8 = 40;
    pub(super) const BAD_CERTIFICATE: u8 = 42;
    pub(super) const UNKNOWN_CA: u8 = 48;
    pub(super) const DECRYPT_ERROR: u8 = 51;
    pub(super) const UNKNOWN_PSK_IDENTITY: u8 = 115;
}

impl DtlsSessions {
    /// Hands out the session for a request, now or after its handshake. Returns the request if it
    /// needs a new handshake, and the exchange of the handshake to replace.
    ///
    /// Without an expected identity, a request expects the peer that its URI and our credentials
    /// name, which only our own sessions authenticate: any client may open a session from any
    /// address.
    pub(crate) fn request(&mut self, mut wanted: SessionRequest) -> Option<(SessionRequest, Option<ExchangeId>)> {
        let psk = self.security.psk_identity(wanted.to.canonical().ip());
        // A pre-shared key authenticates its server by any name.
        if psk.is_some() {
            wanted.name = Arc::from("");
        }
        let wanted = self.join(wanted)?;
        let replaced = self.handshakes.0.remove(&wanted.to.socket_addr()).map(|replaced| {
            replaced.session.into_iter().for_each(|session| self.engine.close(session));
            replaced.exchange
        });
        Some((wanted, replaced))
    }

    pub(crate) fn begin(&mut self, exchange: ExchangeId, wanted: SessionRequest) {
        let to = wanted.to;
        let psk = self.security.psk_identity(to.canonical().ip());
        let (name, sent) = (Arc::clone(&wanted.name), Vec::new());
        let handshake =
            Handshake { exchange, session: None, name, psk, sent, waiting: vec![wanted], is_parallel: false };
        self.handshakes.0.insert(to.socket_addr(), handshake);
    }

    pub(crate) fn parallel_to(&mut self, session: Address) -> Option<Arc<str>> {
        let name = Arc::clone(&self.outgoing(session)?.name);
        let is_last = self.session_with(session) == Some(session);
        Some(name).filter(|_| is_last && !self.handshakes.has(session.socket_addr()))
    }

    pub(crate) fn begin_parallel(&mut self, session: Address, exchange: ExchangeId, name: Arc<str>) {
        let psk = self.security.psk_identity(session.canonical().ip());
        self.handshakes.begin_parallel(session.socket_addr(), exchange, name, psk);
        self.suspect(session);
    }

    pub(crate) fn is_handshake(&self, exchange: ExchangeId, at: SocketAddr) -> bool {
        self.handshakes.exchange(at) == Some(exchange)
    }

    pub(crate) fn fail(&mut self, at: SocketAddr, error: &HandshakeError, reason: FailureReason) {
        let refused = self.handshakes.refuse(at, error);
        if refused.is_some() {
            self.failed.count(reason);
        }
        refused.and_then(|(_, session)| session).into_iter().for_each(|session| self.engine.close(session));
    }

    fn join(&mut self, wanted: SessionRequest) -> Option<SessionRequest> {
        let (at, number) = (wanted.to.socket_addr(), self.by_address.get(&wanted.to.socket_addr()));
        let found = number.and_then(|number| Some((*number, self.open.get(self.by_number.get(number)?)?)));
        let authenticated = found.and_then(|(_, open)| open.identity.as_ref());
        if let Some((number, open)) = found {
            let usable = match &open.outgoing {
                Some(outgoing) => outgoing.name == wanted.name && !outgoing.is_suspect,
                None => wanted.expected.is_some() && authenticated == wanted.expected.as_deref(),
            };
            if usable {
                let session = wanted.to.secured(number);
                wanted.answer(session, authenticated);
                return None;
            }
        }
        let ip = wanted.to.canonical().ip();
        let psk = self.security.psk_identity(ip);
        let has_other_psk = psk.is_some() && !wanted.accepts(psk.as_ref());
        if has_other_psk || found.is_some() && !self.security.has_client_credentials(ip) {
            let mismatch = PeerMismatch::new(wanted.expected.clone(), authenticated.cloned().or(psk));
            wanted.refuse(mismatch);
            return None;
        }
        let Some(handshake) = self.handshakes.0.get_mut(&at) else { return Some(wanted) };
        handshake.waiting.retain(|wanted| !wanted.answer.is_closed());
        if handshake.name != wanted.name {
            wanted.refuse(HandshakeError::new(&ConnectError::Busy));
            return None;
        }
        // A handshake without requests may have backed off; a new one starts at once.
        if handshake.waiting.is_empty() && !handshake.is_parallel {
            return Some(wanted);
        }
        handshake.waiting.push(wanted);
        None
    }

    pub(crate) fn send_flight(&mut self, now: Instant, at: SocketAddr) -> bool {
        let Some(handshake) = self.handshakes.0.get_mut(&at) else { return false };
        if let Some(session) = handshake.session {
            self.engine.repeat(session);
            return true;
        }
        if !handshake.is_parallel && handshake.waiting.iter().all(|wanted| wanted.answer.is_closed()) {
            self.handshakes.0.remove(&at);
            return false;
        }
        // The peer's own session shows our address.
        let of_peer = self.by_address.get(&at).and_then(|number| self.open.get(self.by_number.get(number)?));
        let addresses = AddressPair { peer: at, local: of_peer.and_then(|open| open.addresses.local) };
        let begun = self.security.client_credentials(at.ip().to_canonical(), &handshake.name).and_then(|credentials| {
            let begun = self.engine.connect_controlled(now, addresses, &credentials);
            begun.map_err(|error| HandshakeError::new(&error))
        });
        match begun {
            Ok(session) => {
                handshake.session = Some(session);
                true
            }
            Err(error) => {
                self.fail(at, &error, FailureReason::Other);
                false
            }
        }
    }
}
