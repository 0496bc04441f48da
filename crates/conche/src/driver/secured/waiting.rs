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
use crate::security::HandshakeError;

/// A session, or why there is none.
pub(in crate::driver) type Opened = Result<Address, HandshakeError>;

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
    /// The beginning of the datagram that was sent last.
    sent: Vec<u8>,
    waiting: Vec<oneshot::Sender<Opened>>,
    /// It replaces an open session that does not answer, even without requests that wait for it.
    is_beside: bool,
}

impl Waiting {
    pub(super) fn has(&self, at: SocketAddr) -> bool {
        self.0.contains_key(&at)
    }

    /// Adds a handshake in parallel with an open session.
    pub(super) fn begin_beside(&mut self, at: SocketAddr, exchange: ExchangeId, name: Arc<str>) {
        let handshake =
            Handshake { exchange, session: None, name, sent: Vec::new(), waiting: Vec::new(), is_beside: true };
        self.0.insert(at, handshake);
    }

    /// Ends a parallel handshake because the open session has answered. Requests that wait use the
    /// open session.
    pub(super) fn answered_by(&mut self, at: SocketAddr, session: Address) -> Option<(ExchangeId, Option<SessionId>)> {
        self.0.get(&at).filter(|handshake| handshake.is_beside)?;
        let Handshake { exchange, session: begun, waiting, .. } = self.0.remove(&at)?;
        for answer in waiting {
            let _ = answer.send(Ok(session));
        }
        Some((exchange, begun))
    }

    /// The session is open. The answer is whose it is, and which handshake is done.
    pub(super) fn opened(&mut self, at: SocketAddr, session: Address) -> Option<(Arc<str>, ExchangeId)> {
        let Handshake { name, waiting, exchange, .. } = self.0.remove(&at)?;
        for answer in waiting {
            // Nobody may wait any more.
            let _ = answer.send(Ok(session));
        }
        Some((name, exchange))
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
        for answer in waiting {
            let _ = answer.send(Err(why.clone()));
        }
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
    /// A session that is open, with a server of this name: one that we have opened, or one that a client of ours has, of which we know who it is.
    fn usable(&self, to: Address, name: &Arc<str>) -> Option<Address> {
        let number = self.by_address.get(&to.socket_addr())?;
        let open = self.open.get(self.by_number.get(number)?)?;
        let usable = match &open.ours {
            Some(ours) => ours.name == *name && !ours.doubted,
            None => open.identity.is_some(),
        };
        usable.then(|| to.secured(*number))
    }

    /// The session with a server of this name, now or later; back comes who waits for one that somebody has to begin.
    fn join(
        &mut self,
        to: Address,
        name: &Arc<str>,
        answer: oneshot::Sender<Opened>,
    ) -> Option<oneshot::Sender<Opened>> {
        if let Some(session) = self.usable(to, name) {
            let _ = answer.send(Ok(session));
            return None;
        }
        let Some(handshake) = self.waiting.0.get_mut(&to.socket_addr()) else { return Some(answer) };
        // Those who have given up are not kept.
        handshake.waiting.retain(|answer| !answer.is_closed());
        if handshake.name != *name {
            let _ = answer.send(Err(HandshakeError::new(&ConnectError::Busy)));
            return None;
        }
        // One that nobody waits for may have waited for long, and would go on to wait before it tries again.
        if handshake.waiting.is_empty() && !handshake.is_beside {
            return Some(answer);
        }
        handshake.waiting.push(answer);
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
        if !handshake.is_beside && handshake.waiting.iter().all(oneshot::Sender::is_closed) {
            self.waiting.0.remove(&at);
            return false;
        }
        let place = Place { at, local: None };
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
    /// Opens a session with a server, or tells the one that is open.
    pub(in crate::driver) fn secure(&mut self, to: Address, name: Arc<str>, answer: oneshot::Sender<Opened>) {
        let Some(secured) = &mut self.secured else {
            let _ = answer.send(Err(HandshakeError::none()));
            return;
        };
        // With a key it does not matter how its server is called.
        let name = if secured.security.has_psk(to.canonical().ip()) { Arc::from("") } else { name };
        let Some(answer) = secured.join(to, &name, answer) else { return };
        if let Some(before) = secured.waiting.0.remove(&to.socket_addr()) {
            before.session.into_iter().for_each(|session| secured.sessions.close(session));
            self.endpoint.handshake_over(self.now, before.exchange, Some(Why::Cancelled));
        }
        match self.endpoint.begin_handshake(self.now, to) {
            Ok(exchange) => {
                let handshake = Handshake {
                    exchange,
                    session: None,
                    name,
                    sent: Vec::new(),
                    waiting: vec![answer],
                    is_beside: false,
                };
                secured.waiting.0.insert(to.socket_addr(), handshake);
            }
            Err(error) => {
                let _ = answer.send(Err(HandshakeError::new(&error)));
            }
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
