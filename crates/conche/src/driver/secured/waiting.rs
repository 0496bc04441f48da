//! Who waits for a session with a server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use conche_dtls::{ConnectError, Ended, Failure, SessionId, Sessions};
use conche_proto::cc::control::Why;
use conche_proto::{Event, ExchangeId, Failure as ExchangeFailure, Instant};
use tokio::sync::oneshot;

use super::{Place, Secured, is_of, remember};
use crate::controllers::SharedController;
use crate::driver::{Address, Driver};
use crate::security::{HandshakeError, Identity, PeerMismatch};

/// A session that a request needs.
#[derive(Debug)]
pub(in crate::driver) struct Secure {
    pub(in crate::driver) to: Address,
    /// The name of the server, from the request's URI.
    pub(in crate::driver) name: Arc<str>,
    /// The identity that the peer must have, if the request names one.
    pub(in crate::driver) expected: Option<Arc<Identity>>,
    pub(in crate::driver) answer: oneshot::Sender<Opened>,
}

impl Secure {
    /// A session with a peer of this identity may carry the request. OSCORE and EDHOC authenticate
    /// the peer of each message by themselves.
    fn accepts(&self, identity: Option<&Identity>) -> bool {
        match self.expected.as_deref() {
            Some(expected) if expected.is_of_session() => identity == Some(expected),
            _ => true,
        }
    }

    /// Hands out a session, unless its peer is not the one that the request expects.
    fn answer(self, session: Address, identity: Option<&Identity>) {
        // An error means that the request was cancelled.
        let _ = match self.accepts(identity) {
            true => self.answer.send(Ok(session)),
            false => self.answer.send(Err(PeerMismatch::new(self.expected, identity.cloned()).into())),
        };
    }

    fn refuse(self, why: impl Into<OpenError>) {
        let _ = self.answer.send(Err(why.into()));
    }
}

/// Why a request has no session.
#[derive(Clone, Debug)]
pub(crate) enum OpenError {
    /// The handshake failed, or no credentials are configured for it.
    Handshake(HandshakeError),
    /// The session is with another peer than the request expects.
    Peer(PeerMismatch),
}

impl From<HandshakeError> for OpenError {
    fn from(error: HandshakeError) -> Self {
        Self::Handshake(error)
    }
}

impl From<PeerMismatch> for OpenError {
    fn from(mismatch: PeerMismatch) -> Self {
        Self::Peer(mismatch)
    }
}

/// A session, or why there is none.
pub(in crate::driver) type Opened = Result<Address, OpenError>;

/// Handshakes of ours that go on, and who waits for their end.
#[derive(Debug, Default)]
pub(super) struct Waiting(HashMap<SocketAddr, Handshake>);

#[derive(Debug)]
struct Handshake {
    /// What it is to the congestion control.
    exchange: ExchangeId,
    /// Once its first flight may leave.
    session: Option<SessionId>,
    name: Arc<str>,
    /// The identity of the pre-shared key, which the server proves to have. DTLS has no other name
    /// for it.
    psk: Option<Identity>,
    /// The beginning of the datagram that was sent last.
    sent: Vec<u8>,
    waiting: Vec<Secure>,
    /// It replaces an open session that does not answer, even without requests that wait for it.
    is_beside: bool,
}

/// A handshake of ours that is done.
pub(super) struct Done {
    pub(super) name: Arc<str>,
    pub(super) identity: Option<Identity>,
    pub(super) exchange: ExchangeId,
}

impl Waiting {
    pub(super) fn has(&self, at: SocketAddr) -> bool {
        self.0.contains_key(&at)
    }

    /// Returns the session of a handshake that has begun.
    pub(super) fn session(&self, at: SocketAddr) -> Option<SessionId> {
        self.0.get(&at)?.session
    }

    /// Adds a handshake in parallel with an open session.
    pub(super) fn begin_beside(&mut self, at: SocketAddr, exchange: ExchangeId, name: Arc<str>, psk: Option<Identity>) {
        let (sent, waiting) = (Vec::new(), Vec::new());
        let handshake = Handshake { exchange, session: None, name, psk, sent, waiting, is_beside: true };
        self.0.insert(at, handshake);
    }

    /// Ends a parallel handshake because the open session has answered. Requests that wait use the
    /// open session.
    pub(super) fn answered_by(
        &mut self,
        at: SocketAddr,
        session: Address,
        identity: Option<&Identity>,
    ) -> Option<(ExchangeId, Option<SessionId>)> {
        self.0.get(&at).filter(|handshake| handshake.is_beside)?;
        let Handshake { exchange, session: begun, waiting, .. } = self.0.remove(&at)?;
        waiting.into_iter().for_each(|wanted| wanted.answer(session, identity));
        Some((exchange, begun))
    }

    /// The session is open, and its peer has this identity if it has shown a certificate. Returns
    /// the handshake that is done.
    pub(super) fn opened(&mut self, at: SocketAddr, session: Address, identity: Option<Identity>) -> Option<Done> {
        let Handshake { name, psk, waiting, exchange, .. } = self.0.remove(&at)?;
        let identity = identity.or(psk);
        waiting.into_iter().for_each(|wanted| wanted.answer(session, identity.as_ref()));
        Some(Done { name, identity, exchange })
    }

    /// The session is over before it was open. The answer is which handshake has failed, and what the congestion control learns of it.
    pub(super) fn failed(&mut self, at: SocketAddr, session: SessionId, why: &Ended) -> Option<(ExchangeId, Why)> {
        self.0.get(&at).filter(|handshake| handshake.session == Some(session))?;
        let (exchange, _) = self.refuse(at, &reason(why))?;
        let is_silence = matches!(why, Ended::Failed(Failure::Silence));
        Some((exchange, if is_silence { Why::GaveUp } else { Why::Reset }))
    }

    /// The handshake that goes on with who is there.
    pub(super) fn exchange(&self, at: SocketAddr) -> Option<ExchangeId> {
        self.0.get(&at).map(|handshake| handshake.exchange)
    }

    /// A datagram of a handshake leaves.
    pub(super) fn sent(&mut self, to: Address, datagram: &[u8]) {
        if let Some(handshake) = self.0.get_mut(&to.socket_addr()) {
            remember(&mut handshake.sent, datagram);
        }
    }

    /// The network says that a datagram reached nobody. A handshake that has sent it is over: it has nothing to lose.
    pub(super) fn unreachable(
        &mut self,
        peer: Address,
        quoted: &[u8],
        sessions: &mut Sessions<Place>,
    ) -> Option<ExchangeId> {
        let at = peer.socket_addr();
        self.0.get(&at).filter(|handshake| is_of(quoted, &handshake.sent))?;
        let (exchange, session) = self.refuse(at, &HandshakeError::unreachable())?;
        if let Some(session) = session {
            sessions.close(session);
        }
        Some(exchange)
    }

    /// There will be no session.
    fn refuse(&mut self, at: SocketAddr, why: &HandshakeError) -> Option<(ExchangeId, Option<SessionId>)> {
        let Handshake { exchange, session, waiting, .. } = self.0.remove(&at)?;
        waiting.into_iter().for_each(|wanted| wanted.refuse(why.clone()));
        Some((exchange, session))
    }
}

/// Why a handshake failed, in words of who asked for it.
fn reason(why: &Ended) -> HandshakeError {
    let alert = match why {
        Ended::Failed(Failure::Silence) => return HandshakeError::silence(why),
        Ended::Failed(Failure::Alert(alert)) => *alert,
        _ => return HandshakeError::new(why),
    };
    let what = match alert {
        alert::DECRYPT_ERROR | alert::UNKNOWN_PSK_IDENTITY => "the server refuses the identity or its key",
        alert::BAD_CERTIFICATE..=alert::UNKNOWN_CA => "the server does not believe our certificate, or wants one",
        alert::HANDSHAKE_FAILURE => "the server wants other credentials, or has no cipher suite of ours",
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

impl Secured {
    /// Hands out the session that may carry a request, now or when its handshake is done. Returns
    /// the request if it needs a new handshake.
    ///
    /// A request without an expected identity expects the peer that its URI and our credentials
    /// name. Only sessions that we have opened, with these credentials, authenticate that peer. Any
    /// client may open a session from any address: only its identity names it.
    fn join(&mut self, wanted: Secure) -> Option<Secure> {
        let (at, number) = (wanted.to.socket_addr(), self.by_address.get(&wanted.to.socket_addr()));
        let found = number.and_then(|number| Some((*number, self.open.get(self.by_number.get(number)?)?)));
        let authenticated = found.and_then(|(_, open)| open.identity.as_ref());
        if let Some((number, open)) = found {
            let usable = match &open.ours {
                Some(ours) => ours.name == wanted.name && !ours.doubted,
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
        let Some(handshake) = self.waiting.0.get_mut(&at) else { return Some(wanted) };
        // Those who have given up are not kept.
        handshake.waiting.retain(|wanted| !wanted.answer.is_closed());
        if handshake.name != wanted.name {
            wanted.refuse(HandshakeError::new(&ConnectError::Busy));
            return None;
        }
        // One that nobody waits for may have waited for long, and would go on to wait before it tries again.
        if handshake.waiting.is_empty() && !handshake.is_beside {
            return Some(wanted);
        }
        handshake.waiting.push(wanted);
        None
    }

    /// A flight of a handshake may leave. If nothing comes of it, the handshake is over.
    fn fly(&mut self, now: Instant, at: SocketAddr) -> bool {
        let Some(handshake) = self.waiting.0.get_mut(&at) else { return false };
        if let Some(session) = handshake.session {
            self.sessions.repeat(session);
            return true;
        }
        // It may have waited for its turn longer than anybody has for it.
        if !handshake.is_beside && handshake.waiting.iter().all(|wanted| wanted.answer.is_closed()) {
            self.waiting.0.remove(&at);
            return false;
        }
        // A session that the peer has opened shows which of our addresses it uses.
        let of_peer = self.by_address.get(&at).and_then(|number| self.open.get(self.by_number.get(number)?));
        let place = Place { at, local: of_peer.and_then(|open| open.place.local) };
        let begun = self.security.client_credentials(at.ip().to_canonical(), &handshake.name).and_then(|credentials| {
            let begun = self.sessions.connect_controlled(now, place, &credentials);
            begun.map_err(|error| HandshakeError::new(&error))
        });
        match begun {
            Ok(session) => {
                handshake.session = Some(session);
                true
            }
            Err(error) => {
                self.waiting.refuse(at, &error);
                false
            }
        }
    }
}

impl<C: SharedController> Driver<C> {
    /// Opens a session for a request, or hands out the one that is open.
    pub(in crate::driver) fn secure(&mut self, mut wanted: Secure) {
        let Some(secured) = &mut self.secured else { return wanted.refuse(HandshakeError::none()) };
        let to = wanted.to;
        let psk = secured.security.psk_identity(to.canonical().ip());
        // A pre-shared key authenticates its server whatever its name.
        if psk.is_some() {
            wanted.name = Arc::from("");
        }
        let Some(wanted) = secured.join(wanted) else { return };
        if let Some(before) = secured.waiting.0.remove(&to.socket_addr()) {
            before.session.into_iter().for_each(|session| secured.sessions.close(session));
            self.endpoint.handshake_over(self.now, before.exchange, Some(Why::Cancelled));
        }
        match self.endpoint.begin_handshake(self.now, to) {
            Ok(exchange) => {
                let name = Arc::clone(&wanted.name);
                let waiting = vec![wanted];
                let handshake =
                    Handshake { exchange, session: None, name, psk, sent: Vec::new(), waiting, is_beside: false };
                secured.waiting.0.insert(to.socket_addr(), handshake);
            }
            Err(error) => wanted.refuse(HandshakeError::new(&error)),
        }
    }

    /// What the endpoint says of a handshake. `false` if it is about something else.
    pub(in crate::driver) fn hear_of_handshake(&mut self, event: &Event<Address>) -> bool {
        let (Event::Flight { exchange, peer } | Event::Failed { exchange, peer, .. }) = event else { return false };
        let Some(secured) = &mut self.secured else { return false };
        let at = peer.socket_addr();
        if secured.waiting.exchange(at) != Some(*exchange) {
            return false;
        }
        if let Event::Failed { reason, .. } = event {
            let error = match reason {
                ExchangeFailure::Unreachable => HandshakeError::unreachable(),
                reason => HandshakeError::new(reason),
            };
            let refused = secured.waiting.refuse(at, &error);
            refused.and_then(|(_, session)| session).into_iter().for_each(|session| secured.sessions.close(session));
        } else if !secured.fly(self.now, at) {
            self.endpoint.handshake_over(self.now, *exchange, Some(Why::Cancelled));
        }
        true
    }
}
