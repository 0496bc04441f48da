//! [`EdhocInitiators`]: runs EDHOC (RFC 9528) before the first request to a destination.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use conche_proto::codec::{Body, Code, OptionNumber};
use conche_proto::edhoc::{Initiator, with_id};
use conche_proto::oscore::Context;
use conche_proto::{ExchangeStats, Failure, Request, RequestError};
use tokio::time::timeout_at;

use super::request::{CHALLENGES, challenged, response};
use super::{Client, Error, Rare, Response, Target};
use crate::builder::Settings;
use crate::driver::{ContextGuard, ExchangeKind, KeyExchangeGuard, NewKeys};
use crate::edhoc::{CID_EDHOC, Error as Failed, Identity, NO_ID, PATH, Party, WHAT, generate, random_id};
use crate::prefixes::Prefixes;
use crate::security::{self, PeerMismatch};

/// In bytes. C_I only selects the keys of a response.
const C_I_LENGTH: usize = 3;

#[derive(Debug, Default)]
pub(super) struct EdhocInitiators {
    parties: Prefixes<Party>,
    locks: Mutex<HashMap<SocketAddr, Arc<tokio::sync::Mutex<()>>>>,
}

impl EdhocInitiators {
    pub(super) fn has(&self, target: &Target<'_>) -> bool {
        self.party(target).is_some()
    }

    /// Returns our credential and the accepted peers. Sessions need none.
    fn party(&self, target: &Target<'_>) -> Option<&Party> {
        self.parties.of(target.to.ip().to_canonical()).filter(|_| target.name.is_none())
    }

    async fn lock(&self, target: &Target<'_>) -> Result<KeyExchangeGuard, Error> {
        let turn = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(locks.entry(target.to).or_default())
        };
        let turn = turn.lock_owned();
        let Some(deadline) = target.deadline else { return Ok(turn.await) };
        let late = |_| Error::Failed { peer: target.to, failure: Failure::Deadline, course: ExchangeStats::default() };
        timeout_at(deadline, turn).await.map_err(late)
    }
}

impl Client {
    pub(crate) fn with_edhoc(self, settings: &Settings) -> Self {
        self.with_edhoc_parties(settings.edhoc.toward.clone())
    }

    pub(super) fn with_edhoc_parties(self, parties: Prefixes<Party>) -> Self {
        Self { edhoc: Arc::new(EdhocInitiators { parties, locks: Mutex::default() }), ..self }
    }

    /// The request must hold the keys until it is opened, or carry message_3 itself, which gives
    /// them to the server.
    pub(super) fn exchange_keys<'a>(
        &'a self,
        target: &'a Target<'_>,
    ) -> Rare<'a, (Option<Box<NewKeys>>, Option<ContextGuard>)> {
        Box::pin(async move {
            let Some(party) = self.edhoc.party(target) else { return Ok((None, None)) };
            if target.to.ip().to_canonical().is_multicast() {
                return Err(Error::Refused(RequestError::ProtectedToGroup));
            }
            let turn = self.edhoc.lock(target).await?;
            let (handle, address) = self.sockets.toward(target.to)?;
            if let Some(hold) = handle.hold_context(address).await.ok_or(Error::Stopped)?? {
                return Ok((None, Some(hold)));
            }
            let failed = |cause| Error::Edhoc { peer: target.to, cause };
            let (ephemeral, c_i) = (generate().map_err(failed)?, random_id::<C_I_LENGTH>().map_err(failed)?);
            let (initiator, message_1) = Initiator::begin(Arc::clone(&party.own), c_i, ephemeral).map_err(failed)?;
            let initiator = match party.expected() {
                Ok(Some(peer)) => initiator.expecting(Arc::clone(peer)),
                Ok(None) => initiator,
                Err(_) => return Err(failed(Failed::UnknownCredential)),
            };
            let message_2 = self.send_message(target, [&[NO_ID], message_1.as_slice()].concat()).await?;
            let finished = handle.fence().run(WHAT, || initiator.finish(message_2.payload(), &party.peers));
            let (agreed, message_3) = finished.unwrap_or(Err(Failed::Internal)).map_err(failed)?;
            let peer = Identity(Arc::clone(&agreed.peer));
            // Before message_3, which reveals our credential.
            if let Some(expected) = target.expected {
                let authenticated = security::Identity::Edhoc(peer.clone());
                if **expected != authenticated {
                    let mismatch = PeerMismatch::new(Some(Arc::clone(expected)), Some(authenticated));
                    return Err(Error::UnexpectedPeer { peer: target.to, mismatch });
                }
            }
            let context = Context::agreed(&agreed.credentials).map_err(|_| failed(Failed::SameIds))?;
            if party.combined && target.may_carry_message_3 {
                return Ok((Some(Box::new(NewKeys { context, peer, message_3, turn })), None));
            }
            // The first response also proves that the server has the keys.
            self.send_message(target, with_id(agreed.credentials.sender_id, &message_3)).await?;
            let kept = handle.use_context(address, context, peer).await.ok_or(Error::Stopped)?;
            let hold = kept.map_err(|error| Error::exchange(target.to, error, handle.body_limit()))?;
            Ok((None, Some(hold)))
        })
    }

    async fn send_message(&self, target: &Target<'_>, payload: Vec<u8>) -> Result<Response, Error> {
        let body =
            Body::builder().path(PATH).uint(OptionNumber::CONTENT_FORMAT, CID_EDHOC.into()).payload(payload).build()?;
        let mut answer = self.send_message_once(target, body.clone()).await?;
        for _ in 0..CHALLENGES {
            let Some(body) = challenged(&body, &answer)? else { break };
            answer = self.send_message_once(target, body).await?;
        }
        match answer.code() {
            Code::CHANGED => Ok(answer),
            code => {
                let source = Failed::from_message(answer.payload()).unwrap_or(Failed::Refused(code));
                Err(Error::Edhoc { peer: target.to, cause: source })
            }
        }
    }

    async fn send_message_once(&self, target: &Target<'_>, body: Body) -> Result<Response, Error> {
        let opening = |timeout| ExchangeKind::Request(Request { timeout, ..Request::new(Code::POST, body) });
        // The peer is not authenticated yet.
        let target = Target { expected: None, ..*target };
        response(target.to, self.begin_with(&target, false, opening).await?.end().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;
    use crate::edhoc::{Credential, OwnCredential};
    use crate::server::get;

    #[tokio::test]
    async fn a_panic_on_a_servers_message_2_fails_that_request_and_no_other() {
        let own = |kid: &[u8], name: &str| {
            let key = generate().expect("there is randomness");
            let credential = Credential::of(&key, kid, name).expect("short");
            OwnCredential::new(key, credential).expect("they belong together")
        };
        let (lamp, hall) = (own(b"\x01", "lamp"), own(b"\x02", "hall"));
        let (known_lamp, known_hall) = (lamp.credential().clone(), hall.credential().clone());
        let knows = |own, peer| Party::new(own).with_peer(peer).expect("another key");
        let server = Server::builder().edhoc(knows(hall, known_lamp)).route("/", get(async || "on"));
        let server = server.bind("127.0.0.1:0").await.expect("the loopback can be bound");
        let client = Client::builder().edhoc(knows(lamp, known_hall)).build().expect("legal settings");
        let (handle, _) = client.sockets.toward(server.local_addr()).expect("the loopback is reached");
        handle.fence().inject_panic(WHAT);
        let uri = format!("coap://{}/", server.local_addr());
        let error = client.get(&uri).await.expect_err("a injected panic");
        assert!(matches!(error, Error::Edhoc { cause: Failed::Internal, .. }), "{error}");
        assert_eq!(client.get(&uri).await.expect("an answer").text(), Ok("on"));
        assert_eq!(client.stats().await.panics, 1);
    }
}
