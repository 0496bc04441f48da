//! No session is there without the feature `dtls`.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use conche_proto::{Event, Instant, Transmit};
use tokio::sync::oneshot;

use super::socket::Arrival;
use super::{Address, Driver};
use crate::controllers::SharedController;
use crate::security::{HandshakeError, Identity, PeerMismatch, Security};

/// A session that a request needs.
#[derive(Debug)]
#[cfg_attr(not(feature = "dtls"), expect(dead_code, reason = "there are no sessions"))]
pub(super) struct Secure {
    pub(super) to: Address,
    pub(super) name: Arc<str>,
    pub(super) expected: Option<Arc<Identity>>,
    pub(super) answer: oneshot::Sender<Opened>,
}

/// Why a request has no session.
#[derive(Clone, Debug)]
pub(crate) enum OpenError {
    Handshake(HandshakeError),
    #[expect(dead_code, reason = "as with the feature")]
    Peer(PeerMismatch),
}

/// A session, or why there is none.
pub(super) type Opened = Result<Address, OpenError>;

pub(super) struct Secured(Infallible);

impl Secured {
    #[expect(clippy::unnecessary_wraps, reason = "with the feature there may be an error")]
    pub(super) fn start(_: Instant, _: &Arc<Security>, _: usize) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub(super) fn longest_datagram(message_bytes: usize) -> usize {
        message_bytes
    }

    pub(super) fn is_record(_: &[u8]) -> bool {
        false
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match self.0 {}
    }

    pub(super) fn identity(&self, _: Address) -> Option<Identity> {
        match self.0 {}
    }

    pub(super) fn takes_plaintext(&self) -> bool {
        match self.0 {}
    }
}

impl<C: SharedController> Driver<C> {
    pub(super) fn take_record(&mut self, _: Arrival) {}

    pub(super) fn hear_sessions(&mut self) {}

    pub(super) fn seal(&mut self, _: Transmit<Address>) {}

    pub(super) fn hear_of_handshake(&mut self, _: &Event<Address>) -> bool {
        false
    }

    pub(super) fn doubt_session(&mut self, _: Address) {}

    pub(super) async fn close_sessions(&mut self) {}

    pub(super) fn secure(&mut self, wanted: Secure) {
        // An error means that the request was cancelled.
        let _ = wanted.answer.send(Err(OpenError::Handshake(HandshakeError::none())));
    }

    pub(super) fn is_open(&self, _: Address) -> bool {
        false
    }

    pub(super) fn session_with(&self, _: Address) -> Option<Address> {
        None
    }

    pub(super) fn unreachable_for_sessions(&mut self, _: Address, _: &[u8]) {}
}
