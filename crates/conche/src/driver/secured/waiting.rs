//! Who waits for a session with a server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use conche_dtls::{ConnectError, Ended, Failure, SessionId, Sessions};
use tokio::sync::oneshot;

use super::{Place, QUOTED, Secured, is_of};
use crate::driver::{Address, Driver};
use crate::security::HandshakeError;
use crate::settings::SharedController;

/// A session, or why there is none.
pub(in crate::driver) type Opened = Result<Address, HandshakeError>;

/// Handshakes of ours that go on, and who waits for their end.
#[derive(Debug, Default)]
pub(super) struct Waiting(HashMap<SocketAddr, Handshake>);

#[derive(Debug)]
struct Handshake {
    session: SessionId,
    name: Arc<str>,
    /// The beginning of the datagram that was sent last.
    sent: Vec<u8>,
    waiting: Vec<oneshot::Sender<Opened>>,
}

impl Waiting {
    pub(super) fn has(&self, at: SocketAddr) -> bool {
        self.0.contains_key(&at)
    }

    /// The session is open. The answer is whose it is.
    pub(super) fn opened(&mut self, at: SocketAddr, session: Address) -> Option<Arc<str>> {
        let Handshake { name, waiting, .. } = self.0.remove(&at)?;
        for answer in waiting {
            // Nobody may wait any more.
            let _ = answer.send(Ok(session));
        }
        Some(name)
    }

    pub(super) fn failed(&mut self, at: SocketAddr, session: SessionId, why: &Ended) {
        if self.0.get(&at).is_some_and(|handshake| handshake.session == session) {
            self.refuse(at, &reason(why));
        }
    }

    /// A datagram of a handshake leaves.
    pub(super) fn sent(&mut self, to: Address, datagram: &[u8]) {
        if let Some(handshake) = self.0.get_mut(&to.socket_addr()) {
            handshake.sent.clear();
            handshake.sent.extend_from_slice(&datagram[..datagram.len().min(QUOTED)]);
        }
    }

    /// The network says that a datagram reached nobody. A handshake that has sent it is over: it has nothing to lose.
    pub(super) fn unreachable(&mut self, peer: Address, quoted: &[u8], sessions: &mut Sessions<Place>) {
        let at = peer.socket_addr();
        if self.0.get(&at).is_some_and(|handshake| is_of(quoted, &handshake.sent))
            && let Some(session) = self.refuse(at, &HandshakeError::unreachable())
        {
            sessions.close(session);
        }
    }

    /// There will be no session.
    fn refuse(&mut self, at: SocketAddr, why: &HandshakeError) -> Option<SessionId> {
        let Handshake { session, waiting, .. } = self.0.remove(&at)?;
        for answer in waiting {
            let _ = answer.send(Err(why.clone()));
        }
        Some(session)
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

    /// The session with a server of this name, now or later.
    fn connect(
        &mut self,
        now: conche_proto::Instant,
        to: Address,
        name: Arc<str>,
        flight: Option<Duration>,
        answer: oneshot::Sender<Opened>,
    ) {
        let place = Place { at: to.socket_addr(), local: None };
        // With a key it does not matter how its server is called.
        let name = if self.security.has_psk() { Arc::from("") } else { name };
        if let Some(session) = self.usable(to, &name) {
            let _ = answer.send(Ok(session));
            return;
        }
        if let Some(handshake) = self.waiting.0.get_mut(&place.at) {
            // Those who have given up are not kept.
            handshake.waiting.retain(|answer| !answer.is_closed());
            if handshake.name != name {
                let _ = answer.send(Err(HandshakeError::new(&ConnectError::Busy)));
                return;
            }
            if !handshake.waiting.is_empty() {
                return handshake.waiting.push(answer);
            }
            // It may have waited for long, and would go on to wait before it tries again.
            let session = handshake.session;
            self.waiting.0.remove(&place.at);
            self.sessions.close(session);
        }
        let begun = self.security.client_credentials(&name, self.epoch).and_then(|credentials| {
            self.sessions.connect(now, place, &credentials, flight).map_err(|error| HandshakeError::new(&error))
        });
        match begun {
            Ok(session) => {
                self.waiting.0.insert(place.at, Handshake { session, name, sent: Vec::new(), waiting: vec![answer] });
            }
            Err(error) => {
                let _ = answer.send(Err(error));
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
        // Flights wait for a second at least.
        let flight = self.endpoint.path(&to).and_then(|path| path.timeout());
        secured.connect(self.now, to, name, flight, answer);
    }
}
