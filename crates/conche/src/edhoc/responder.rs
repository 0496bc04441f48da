//! [`EdhocResponder`]: a socket's EDHOC responder, its pending exchanges and contexts.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use conche_proto::codec::{Body, BodyBuilder, Code, OptionNumber};
use conche_proto::edhoc::{HalfOpen, Responder, split_id};
use conche_proto::oscore::{Context, ContextId, EndId, InsertError};
use conche_proto::shares::Group;
use conche_proto::{Freshness, Instant, Limiter, ResponseLimit};
use tracing::debug;

use super::{CONTEXTS, Credential, EDHOC, Error, Identity, NO_ID, Party, generate, random_id};
use crate::fence::Fence;
use crate::refusal;

const HALF_OPEN: usize = 1024;

/// Pending exchanges from which new ones require address validation (RFC 9528 §9.7).
const BEFORE_CHALLENGES: usize = HALF_OPEN / 4;

/// Rate of exchanges per prefix, each of up to four multiplications: a few percent of a core. The
/// burst equals the prefix's share of pending exchanges.
const BEGINNINGS: ResponseLimit = ResponseLimit { per_second: 100, burst: 512 };

/// Bounds forged addresses.
const UNVERIFIED: ResponseLimit = ResponseLimit { per_second: 25, burst: 256 };

/// A tenth of the prefix's rate, so that neighbours keep theirs.
const OF_HOST: ResponseLimit = ResponseLimit { per_second: 10, burst: 64 };

/// Twice the maximum time until a Confirmable message is acknowledged after three losses.
const LIFETIME: Duration = Duration::from_secs(45);

/// In bytes. Guessing an identifier ends a pending exchange.
const C_R_LENGTH: usize = 5;

pub(crate) const WHAT: &str = "an EDHOC exchange";

const DRAWS: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct EdhocResponder(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    us: Party,
    half_open: HalfOpen,
    beginnings: Limiter,
    unverified: Limiter,
    /// Rate per verified host: forged addresses would use up the host's share.
    of_hosts: Limiter,
    reachable: Freshness,
    /// By our identifiers (C_R), the recipient IDs of contexts.
    agreed: HashMap<EndId, Arc<Credential>>,
    /// By the key ID of their credential, oldest first.
    of: HashMap<Box<[u8]>, VecDeque<EndId>>,
    retired: Vec<EndId>,
    refuses: bool,
    fence: Fence,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) group: Group,
    pub(crate) host: Option<Group>,
}

#[derive(Debug)]
pub(crate) struct ResponderMessage {
    pub(crate) code: Code,
    pub(crate) message: Vec<u8>,
    pub(crate) agreed: Option<(Context, Arc<Credential>)>,
}

impl EdhocResponder {
    pub(crate) fn new(us: Party, fence: Fence) -> Result<Self, Error> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|_| Error::NoRandomness)?;
        let state = State {
            us,
            half_open: HalfOpen::new(HALF_OPEN, LIFETIME),
            beginnings: Limiter::new(BEGINNINGS),
            unverified: Limiter::new(UNVERIFIED),
            of_hosts: Limiter::new(OF_HOST),
            reachable: Freshness::new(key, LIFETIME),
            agreed: HashMap::new(),
            of: HashMap::new(),
            retired: Vec::new(),
            refuses: false,
            fence,
        };
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// Whether a source is verified, before any computation for its message_1 (RFC 9175 §2.4). The
    /// error is the Echo value to return first.
    pub(crate) fn challenge<P: Hash>(
        &self,
        now: Instant,
        from: &P,
        group: Group,
        payload: &[u8],
        echo: Option<&[u8]>,
    ) -> Result<bool, [u8; Freshness::LENGTH]> {
        let State { half_open, unverified, reachable, .. } = &mut *self.state();
        // Other messages consume no rate.
        if payload.split_first().is_none_or(|(id, message)| *id != NO_ID || Responder::check(message).is_err()) {
            return Ok(false);
        }
        if echo.is_some_and(|echo| reachable.check(now, from, echo).is_ok()) {
            return Ok(true);
        }
        half_open.expire(now);
        let is_free = half_open.len() < BEFORE_CHALLENGES && unverified.admits(now, group);
        if is_free { Ok(false) } else { Err(reachable.challenge(now, from)) }
    }

    pub(crate) fn answer(
        &self,
        now: Instant,
        source: Source,
        payload: &[u8],
        is_free: impl Fn(EndId) -> bool,
    ) -> ResponderMessage {
        let answered = match payload.split_first() {
            Some((&NO_ID, message_1)) => {
                self.state().begin(now, source, message_1, is_free).map(|message_2| (message_2, None))
            }
            _ => split_id(payload).and_then(|(c_r, message_3)| {
                let (context, peer, message_4) = self.state().agree(now, c_r, message_3)?;
                Ok((message_4, Some((context, peer))))
            }),
        };
        match answered {
            Ok((message, agreed)) => ResponderMessage { code: Code::CHANGED, message, agreed },
            Err(error) => ResponderMessage { code: refusal(&error), message: error.message(), agreed: None },
        }
    }

    /// Processes a message_3 from a combined request (RFC 9668).
    pub(crate) fn combined(
        &self,
        now: Instant,
        c_r: EndId,
        message_3: &[u8],
        add: impl FnOnce(Context) -> Result<ContextId, InsertError>,
    ) -> Result<(), (Code, Body)> {
        let body = |builder: BodyBuilder| builder.build().unwrap_or(Body::EMPTY);
        let mut state = self.state();
        if state.refuses {
            let refusal = refusal::unavailable();
            return Err((refusal.code, refusal.body));
        }
        let (context, peer, _) = state.agree(now, c_r, message_3).map_err(|error| {
            let format = Body::builder().uint(OptionNumber::CONTENT_FORMAT, EDHOC.into());
            (refusal(&error), body(format.payload(error.message())))
        })?;
        add(context).map_err(|error| {
            debug!(%error, "what was agreed on cannot be used");
            (Code::INTERNAL_SERVER_ERROR, Body::EMPTY)
        })?;
        state.keep(c_r, peer);
        Ok(())
    }

    pub(crate) fn refuse(&self) {
        self.state().refuses = true;
    }

    pub(crate) fn refuses(&self) -> bool {
        self.state().refuses
    }

    pub(crate) fn keep(&self, c_r: EndId, peer: Arc<Credential>) {
        self.state().keep(c_r, peer);
    }

    pub(crate) fn identity(&self, c_r: EndId) -> Option<Identity> {
        self.state().agreed.get(&c_r).cloned().map(Identity)
    }

    pub(crate) fn retired(&self) -> Vec<EndId> {
        std::mem::take(&mut self.state().retired)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(
        &mut self,
        now: Instant,
        Source { group, host }: Source,
        message_1: &[u8],
        is_free: impl Fn(EndId) -> bool,
    ) -> Result<Vec<u8>, Error> {
        Responder::check(message_1)?;
        // Exchanges beyond the host's limit do not count for its prefix.
        if !self.half_open.admits(now, group, host) {
            return Err(Error::Busy);
        }
        if host.is_some_and(|host| !self.of_hosts.admits(now, host)) || !self.beginnings.admits(now, group) {
            return Err(Error::TooOften);
        }
        let c_r = self.draw(is_free)?;
        let (own, ephemeral) = (Arc::clone(&self.us.own), generate()?);
        let (responder, message_2) = self.compute(|| Responder::answer(&own, c_r, ephemeral, message_1))?;
        self.half_open.insert(now, group, host, responder)?;
        Ok(message_2)
    }

    fn draw(&self, is_free: impl Fn(EndId) -> bool) -> Result<EndId, Error> {
        for _ in 0..DRAWS {
            let c_r = random_id::<C_R_LENGTH>()?;
            if !self.half_open.has(c_r) && !self.agreed.contains_key(&c_r) && is_free(c_r) {
                return Ok(c_r);
            }
        }
        Err(Error::Busy)
    }

    /// Returns the context, the peer and message_4.
    fn agree(
        &mut self,
        now: Instant,
        c_r: EndId,
        message_3: &[u8],
    ) -> Result<(Context, Arc<Credential>, Vec<u8>), Error> {
        let (responder, peers) = (self.half_open.take(now, c_r)?, Arc::clone(&self.us.peers));
        let (agreed, message_4) = self.compute(|| responder.finish(message_3, &peers))?;
        let context = Context::agreed(&agreed.credentials).map_err(|_| Error::SameIds)?;
        Ok((context, agreed.peer, message_4))
    }

    fn compute<T>(&self, compute: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.fence.run(WHAT, compute).unwrap_or(Err(Error::Internal))
    }

    /// Retires the credential's oldest context beyond the limit.
    fn keep(&mut self, c_r: EndId, peer: Arc<Credential>) {
        let contexts = self.of.entry(peer.kid().into()).or_default();
        contexts.push_back(c_r);
        if contexts.len() > CONTEXTS
            && let Some(oldest) = contexts.pop_front()
        {
            self.agreed.remove(&oldest);
            self.retired.push(oldest);
        }
        self.agreed.insert(c_r, peer);
    }
}

/// RFC 9528 §6, appendix A.2.
fn refusal(error: &Error) -> Code {
    debug!(%error, "an EDHOC exchange has failed");
    match error {
        Error::Busy | Error::TooOften => Code::SERVICE_UNAVAILABLE,
        Error::NoRandomness | Error::Internal => Code::INTERNAL_SERVER_ERROR,
        _ => Code::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests;
