//! Connects the DTLS sessions of a socket with its endpoint.

#[cfg(feature = "dtls")]
use conche_dtls::Progress;
#[cfg(feature = "dtls")]
use conche_proto::cc::control::AbandonReason;
#[cfg(feature = "dtls")]
use conche_proto::{Datagram, Failure, Input};
use conche_proto::{Event, Instant, Transmit};

use super::{Driver, Service, SharedController};
use crate::address::Address;
#[cfg(feature = "dtls")]
use crate::dtls::{DtlsSessions, FailureReason, FoundKey, Output, SessionInput, SessionRequest, is_record};
#[cfg(feature = "dtls")]
use crate::security::HandshakeError;
use crate::security::Identity;
use crate::socket::Arrival;

/// By default without sessions.
pub(super) trait SessionDriver {
    /// Takes a record, or any datagram where only records are accepted. Returns `false` for one
    /// that the endpoint handles.
    fn take_record(&mut self, _arrival: Arrival) -> bool {
        false
    }

    fn poll_sessions(&mut self) {}

    /// The message is where the next datagram will be written.
    fn seal(&mut self, _transmit: Transmit<Address>) {}

    /// Returns `false` for other events.
    fn on_handshake_event(&mut self, _event: &Event<Address>) -> bool {
        false
    }

    /// Makes new requests use another session.
    fn suspect_session(&mut self, _session: Address) {}

    fn is_open(&self, _session: Address) -> bool {
        false
    }

    fn session_with(&self, _at: Address) -> Option<Address> {
        None
    }

    fn session_identity(&self, _session: Address) -> Option<Identity> {
        None
    }

    fn takes_plaintext(&self) -> bool {
        true
    }

    fn on_record_unreachable(&mut self, _peer: Address, _quoted: &[u8]) {}

    fn sessions_due(&self) -> Option<Instant> {
        None
    }

    async fn close_sessions(&mut self) {}
}

#[cfg(not(feature = "dtls"))]
impl<C: SharedController, S: Service> SessionDriver for Driver<C, S> {}

#[cfg(feature = "dtls")]
impl<C: SharedController, S: Service> SessionDriver for Driver<C, S> {
    fn take_record(&mut self, arrival: Arrival) -> bool {
        let Some(sessions) = &mut self.sessions else { return false };
        let Datagram { from, bytes, local, multicast, .. } = arrival.datagram(&self.incoming);
        if !is_record(bytes) && sessions.takes_plaintext() {
            return false;
        }
        // A session has two endpoints.
        if !multicast {
            sessions.take(self.now, from, local, bytes);
            self.poll_sessions();
        }
        true
    }

    fn poll_sessions(&mut self) {
        if !self.handle_session_inputs() {
            return;
        }
        let Some(sessions) = &mut self.sessions else { return };
        while !self.outgoing.is_full() {
            match sessions.poll(self.now) {
                Output::Record(transmit) => {
                    self.outgoing.room()[..transmit.len].copy_from_slice(sessions.buffer(transmit.len));
                    self.outgoing.push(self.now, transmit);
                }
                Output::Message { from, local, len, superseded } => {
                    if let Some(exchange) = superseded {
                        self.endpoint.handshake_over(self.now, exchange, Some(AbandonReason::Cancelled));
                    }
                    let mut datagram = Datagram::new(from, sessions.buffer(len));
                    (datagram.local, datagram.validated) = (local, true);
                    self.telemetry.arrived(self.now, &datagram);
                    if super::handle_datagram(&mut self.endpoint, &self.telemetry, self.now, datagram).is_err() {
                        sessions.hold_message(from, local, len);
                    }
                }
                Output::HandshakeOver { exchange, failed } => {
                    self.endpoint.handshake_over(self.now, exchange, failed);
                }
                Output::Flight { exchange, progress: Progress::Left(flight) } => {
                    self.endpoint.flight_left(self.now, exchange, &flight);
                }
                Output::Flight { exchange, progress: Progress::Answered(copy) } => {
                    self.endpoint.flight_answered(self.now, exchange, copy);
                }
                Output::Wait { panics } => {
                    if panics > 0 {
                        self.fence.count("a DTLS session", panics);
                    }
                    return;
                }
            }
        }
    }

    fn seal(&mut self, transmit: Transmit<Address>) {
        let Some(sessions) = &mut self.sessions else { return };
        let message = &self.outgoing.room()[..transmit.len];
        if !sessions.seal(transmit, message) {
            return sessions.on_unsent(transmit.to);
        }
        self.telemetry.departed(self.now, &transmit, message, &Ok(()));
        if sessions.is_silent(transmit.to, message) {
            self.open_parallel_session(transmit.to);
        }
    }

    fn on_handshake_event(&mut self, event: &Event<Address>) -> bool {
        let (Event::Flight { exchange, peer } | Event::Failed { exchange, peer, .. }) = event else { return false };
        let Some(sessions) = &mut self.sessions else { return false };
        let at = peer.socket_addr();
        if !sessions.is_handshake(*exchange, at) {
            return false;
        }
        if let Event::Failed { reason, .. } = event {
            let (error, reason) = match reason {
                Failure::Unreachable => (HandshakeError::unreachable(), FailureReason::Unreachable),
                Failure::TimedOut => (HandshakeError::new(reason), FailureReason::Timeout),
                reason => (HandshakeError::new(reason), FailureReason::Other),
            };
            sessions.fail(at, &error, reason);
        } else if !sessions.send_flight(self.now, at) {
            self.endpoint.handshake_over(self.now, *exchange, Some(AbandonReason::Cancelled));
        }
        true
    }

    fn suspect_session(&mut self, session: Address) {
        if let Some(sessions) = &mut self.sessions {
            sessions.suspect(session);
        }
    }

    fn is_open(&self, session: Address) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| sessions.is_open(session))
    }

    fn session_with(&self, at: Address) -> Option<Address> {
        self.sessions.as_ref()?.session_with(at)
    }

    fn session_identity(&self, session: Address) -> Option<Identity> {
        self.sessions.as_ref()?.identity(session)
    }

    fn takes_plaintext(&self) -> bool {
        self.sessions.as_ref().is_none_or(DtlsSessions::takes_plaintext)
    }

    fn on_record_unreachable(&mut self, peer: Address, quoted: &[u8]) {
        let Some(sessions) = &mut self.sessions else { return };
        if let Some(failed) = sessions.on_unreachable(peer, quoted) {
            self.endpoint.handshake_over(self.now, failed, Some(AbandonReason::Unreachable));
        }
    }

    fn sessions_due(&self) -> Option<Instant> {
        self.sessions.as_ref()?.due()
    }

    async fn close_sessions(&mut self) {
        let Some(sessions) = &self.sessions else { return };
        for session in sessions.open_sessions() {
            if let Some(sessions) = &mut self.sessions {
                sessions.close(session);
            }
            self.poll_sessions();
            if self.outgoing.is_full() {
                self.send_all().await;
            }
        }
        self.poll_sessions();
        self.send_all().await;
    }
}

#[cfg(feature = "dtls")]
impl<C: SharedController, S: Service> Driver<C, S> {
    /// Returns `false` if the endpoint has no room.
    fn handle_session_inputs(&mut self) -> bool {
        while let Some(input) = self.sessions.as_mut().and_then(DtlsSessions::next_input) {
            let handled = match &input {
                SessionInput::Over(peer) => {
                    self.endpoint.lose_peer(self.now, peer);
                    self.observations_lost(*peer);
                    continue;
                }
                SessionInput::Unreachable(peer) => {
                    self.endpoint.handle(self.now, Input::Unreachable { peer: *peer, quoted: None })
                }
                SessionInput::Message { from, local, bytes } => {
                    let mut datagram = Datagram::new(*from, bytes);
                    (datagram.local, datagram.validated) = (*local, true);
                    super::handle_datagram(&mut self.endpoint, &self.telemetry, self.now, datagram)
                }
            };
            if handled.is_err() {
                if let Some(sessions) = &mut self.sessions {
                    sessions.put_back(input);
                }
                return false;
            }
        }
        true
    }

    /// The next poll continues the handshake.
    pub(super) fn on_found_key(&mut self, found: FoundKey) {
        self.now = self.clock.now();
        if let Some(sessions) = &mut self.sessions {
            sessions.provide_key(found);
        }
    }

    pub(super) fn open_session(&mut self, request: SessionRequest) {
        let Some(sessions) = &mut self.sessions else { return request.refuse(HandshakeError::none()) };
        let Some((request, replaced)) = sessions.request(request) else { return };
        if let Some(replaced) = replaced {
            self.endpoint.handshake_over(self.now, replaced, Some(AbandonReason::Cancelled));
        }
        match self.endpoint.begin_handshake(self.now, request.to) {
            Ok(exchange) => sessions.begin(exchange, request),
            Err(error) => request.refuse(HandshakeError::new(&error)),
        }
    }

    fn open_parallel_session(&mut self, session: Address) {
        let Some(sessions) = &mut self.sessions else { return };
        let Some(name) = sessions.parallel_to(session) else { return };
        if let Ok(exchange) = self.endpoint.begin_handshake(self.now, Address::from(session.socket_addr())) {
            sessions.begin_parallel(session, exchange, name);
        }
    }
}
