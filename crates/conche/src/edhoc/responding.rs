//! [`Responding`]: the server's side of EDHOC, for one socket: exchanges that wait for message_3, and what was agreed on.

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
use crate::driver::RETRY_AFTER_SECONDS;
use crate::fence::Fence;

/// Exchanges that wait for message_3.
const HALF_OPEN: usize = 1024;

/// While so many wait, whoever begins another one has to show first that it is where it says (RFC 9528 §9.7).
const BEFORE_CHALLENGES: usize = HALF_OPEN / 4;

/// What a prefix may have computed: exchanges that begin, of which each takes up to four multiplications. At once as many as it may have
/// waiting, and on average what keeps a core busy for a few hundredths.
const BEGINNINGS: ResponseLimit = ResponseLimit { per_second: 100, burst: 512 };

/// So many of them without having shown that its sources are where they say: whoever forges its addresses uses up no more.
const BEFORE_SHOWN: ResponseLimit = ResponseLimit { per_second: 25, burst: 256 };

/// So many of a host that has shown where it is: a tenth of what its prefix may, so that its neighbours have theirs.
const OF_HOST: ResponseLimit = ResponseLimit { per_second: 10, burst: 64 };

/// For so long: twice what a Confirmable message takes at most to get an acknowledgement with three losses in a row.
const LIFETIME: Duration = Duration::from_secs(45);

/// Bytes of our identifiers. Whoever guesses one ends an exchange that waits for message_3; each is in every request with the keys.
const C_R_LENGTH: usize = 5;

/// Name of the computations for one exchange, for the log.
pub(crate) const WHAT: &str = "an EDHOC exchange";

/// How often an identifier is drawn that may be in use.
const DRAWS: usize = 8;

/// A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Responding(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    us: Party,
    half_open: HalfOpen,
    /// Exchanges that begin.
    beginnings: Limiter,
    /// Those of sources that have not shown where they are.
    before_shown: Limiter,
    /// Those of each host that has. Others do not count there: forged addresses would use up what a host may.
    of_hosts: Limiter,
    /// Of sources; `None` where the endpoint has every one show where it is.
    reachable: Freshness,
    /// By our identifiers (C_R), which are the recipient IDs of contexts.
    agreed: HashMap<EndId, Arc<Credential>>,
    /// The contexts of each credential, by the ID of its key, the oldest one first.
    of: HashMap<Box<[u8]>, VecDeque<EndId>>,
    /// Contexts that have to go.
    retired: Vec<EndId>,
    /// Nothing is agreed on any more.
    refuses: bool,
    /// Around the computations, which third-party code does on a peer's input.
    fence: Fence,
}

/// What comes of a request to `/.well-known/edhoc`.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Code,
    /// A message of EDHOC.
    pub(crate) message: Vec<u8>,
    /// What was agreed on, and with whom: to be [kept](Responding::keep) if it is used.
    pub(crate) agreed: Option<(Context, Arc<Credential>)>,
}

impl Responding {
    pub(crate) fn new(us: Party, fence: Fence) -> Result<Self, Error> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|_| Error::NoRandomness)?;
        let state = State {
            us,
            half_open: HalfOpen::new(HALF_OPEN, LIFETIME),
            beginnings: Limiter::new(BEGINNINGS),
            before_shown: Limiter::new(BEFORE_SHOWN),
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

    /// Whether a source has shown where it is, before anything is computed for its message_1 (RFC 9175 §2.4).
    ///
    /// # Errors
    /// It has not, and has to: the value of Echo that it has to send back.
    pub(crate) fn challenge<P: Hash>(
        &self,
        now: Instant,
        (from, group): (&P, Group),
        payload: &[u8],
        echo: Option<&[u8]>,
    ) -> Result<bool, [u8; Freshness::LENGTH]> {
        let State { half_open, before_shown, reachable, .. } = &mut *self.state();
        // What begins nothing is answered without, and uses up nothing.
        if payload.split_first().is_none_or(|(id, message)| *id != NO_ID || Responder::check(message).is_err()) {
            return Ok(false);
        }
        if echo.is_some_and(|echo| reachable.check(now, from, echo).is_ok()) {
            return Ok(true);
        }
        half_open.expire(now);
        let is_free = half_open.len() < BEFORE_CHALLENGES && before_shown.admits(now, group);
        if is_free { Ok(false) } else { Err(reachable.challenge(now, from)) }
    }

    /// Answers a request to `/.well-known/edhoc`, from a source of this group, and at this host if it has shown that. `is_free` tells whether
    /// no other context has an identifier.
    pub(crate) fn answer(
        &self,
        now: Instant,
        from: (Group, Option<Group>),
        payload: &[u8],
        is_free: impl Fn(EndId) -> bool,
    ) -> Answer {
        let answered = match payload.split_first() {
            Some((&NO_ID, message_1)) => {
                self.state().begin(now, from, message_1, is_free).map(|message_2| (message_2, None))
            }
            _ => split_id(payload).and_then(|(c_r, message_3)| {
                let (context, peer, message_4) = self.state().agree(now, c_r, message_3)?;
                Ok((message_4, Some((context, peer))))
            }),
        };
        match answered {
            Ok((message, agreed)) => Answer { code: Code::CHANGED, message, agreed },
            Err(error) => Answer { code: refusal(&error), message: error.message(), agreed: None },
        }
    }

    /// What comes of a message_3 that a protected request has brought (RFC 9668), which `add` makes a context of the endpoint.
    pub(crate) fn combined(
        &self,
        now: Instant,
        c_r: EndId,
        message_3: &[u8],
        add: impl FnOnce(Context) -> Result<ContextId, InsertError>,
    ) -> Result<(), (Code, Body)> {
        // Options of their RFCs are legal.
        let body = |builder: BodyBuilder| builder.build().unwrap_or(Body::EMPTY);
        let mut state = self.state();
        if state.refuses {
            let body = body(Body::builder().uint(OptionNumber::MAX_AGE, RETRY_AFTER_SECONDS));
            return Err((Code::SERVICE_UNAVAILABLE, body));
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

    /// Nothing is agreed on any more, as the server shuts down.
    pub(crate) fn refuse(&self) {
        self.state().refuses = true;
    }

    /// Nothing is agreed on any more.
    pub(crate) fn refuses(&self) -> bool {
        self.state().refuses
    }

    /// A context that was agreed on is used.
    pub(crate) fn keep(&self, c_r: EndId, peer: Arc<Credential>) {
        self.state().keep(c_r, peer);
    }

    /// With whom the context of this identifier was agreed on.
    pub(crate) fn identity(&self, c_r: EndId) -> Option<Identity> {
        self.state().agreed.get(&c_r).cloned().map(Identity)
    }

    /// The contexts that have to go since newer ones have their places.
    pub(crate) fn retired(&self) -> Vec<EndId> {
        std::mem::take(&mut self.state().retired)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes message_1; the answer is message_2.
    fn begin(
        &mut self,
        now: Instant,
        (group, host): (Group, Option<Group>),
        message_1: &[u8],
        is_free: impl Fn(EndId) -> bool,
    ) -> Result<Vec<u8>, Error> {
        Responder::check(message_1)?;
        // Before anything is computed. What a host has too much of is not its prefix's.
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

    /// An identifier that nothing has.
    fn draw(&self, is_free: impl Fn(EndId) -> bool) -> Result<EndId, Error> {
        for _ in 0..DRAWS {
            let c_r = random_id::<C_R_LENGTH>()?;
            if !self.half_open.has(c_r) && !self.agreed.contains_key(&c_r) && is_free(c_r) {
                return Ok(c_r);
            }
        }
        Err(Error::Busy)
    }

    /// Takes message_3: both ends are known now, and have the same keys. What else comes is message_4.
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

    /// Computes for one exchange, which ends if that panics.
    fn compute<T>(&self, compute: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.fence.run(WHAT, compute).unwrap_or(Err(Error::Internal))
    }

    /// The oldest context of this credential makes room for another one.
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

/// How an exchange that has failed is answered (RFC 9528 §6, appendix A.2).
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
