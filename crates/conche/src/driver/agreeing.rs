//! EDHOC (RFC 9528) of one socket: requests of clients that agree on keys, and the contexts that came of it in both roles.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use conche_proto::codec::{Code, ContentFormat, OptionNumber, OwnedMessage};
use conche_proto::oscore::{Context, ContextId};
use conche_proto::{Event, ExchangeId, Failure, Request, RequestId, SubscriptionEnd};
use tokio::sync::OwnedMutexGuard;
use tracing::debug;

use super::handle::ExchangeError;
use super::serving::unavailable;
use super::turns::{Busy, Full};
use super::{Address, Driver};
use crate::controllers::SharedController;
use crate::edhoc::{self, Answer, CID_EDHOC, EDHOC, PATH, Party, Responding};
use crate::prefixes::Prefixes;
use crate::security::Identity;
use crate::server::Response;

/// Keys that a request brings to the other end (RFC 9668).
#[derive(Debug)]
pub(crate) struct NewKeys {
    pub(crate) context: Context,
    /// The other end.
    pub(crate) peer: edhoc::Identity,
    pub(crate) message_3: Vec<u8>,
    pub(crate) turn: Turn,
}

/// Nobody else agrees on keys with a destination.
pub(crate) type Turn = OwnedMutexGuard<()>;

/// Somebody is about to use what was agreed on with a destination: as long as this is there, that does not make room.
pub(crate) type Hold = Arc<()>;

/// An exchange brings keys that the other end may not have yet.
#[derive(Debug)]
struct Bringing {
    to: Address,
    context: ContextId,
    peer: edhoc::Identity,
    /// Others for this destination have to wait: what overtook it would be refused.
    _turn: Turn,
    has_left: bool,
}

/// What was agreed on, and how more is.
#[derive(Debug, Default)]
pub(super) struct Agreeing {
    /// Where clients are answered.
    responding: Option<Responding>,
    /// Whom nothing is to be asked unprotected, but for keys.
    wanted: Prefixes<Party>,
    /// What requests to these destinations are protected with.
    toward: HashMap<Address, Agreed>,
    /// How often any of that was used.
    uses: u64,
    /// Contexts that protect nothing new any more, and perhaps something that is under way.
    former: Vec<ContextId>,
    /// What the request brings that is about to be opened.
    opening: Option<Bringing>,
    /// Exchanges whose destinations have not shown yet that they have the keys. Nothing else is protected with those.
    bringing: HashMap<ExchangeId, Bringing>,
    /// There are no more contexts than this as a client.
    most: usize,
}

/// A context that was agreed on with a destination.
#[derive(Debug)]
struct Agreed {
    context: ContextId,
    peer: edhoc::Identity,
    /// By which use it was used last.
    used: u64,
    hold: Hold,
}

impl Agreeing {
    pub(super) fn new(responding: Option<Responding>, wanted: Prefixes<Party>, most: usize) -> Self {
        Self { responding, wanted, most, ..Self::default() }
    }

    /// A request must not leave: the keys for its destination were forgotten since it was put together.
    pub(super) fn withholds(&self, to: Address, request: &Request) -> bool {
        let is_for_keys = || {
            let path = request.body.options().filter(|option| option.number == OptionNumber::URI_PATH);
            path.map(|option| option.value).eq(PATH.split('/').skip(1).map(str::as_bytes))
        };
        let is_wanted = !to.is_secured() && self.wanted.of(to.canonical().ip()).is_some();
        is_wanted && self.context(to).is_none() && !is_for_keys()
    }

    /// The context for the next request to a destination.
    pub(super) fn context(&self, to: Address) -> Option<ContextId> {
        let opening = self.opening.as_ref().map(|opening| opening.context);
        opening.or_else(|| self.toward.get(&to).map(|agreed| agreed.context))
    }

    /// The peer that has the [`context`](Self::context) for the next request to a destination.
    pub(super) fn peer(&self, to: Address) -> Option<&edhoc::Identity> {
        let opening = self.opening.as_ref().map(|opening| &opening.peer);
        opening.or_else(|| self.toward.get(&to).map(|agreed| &agreed.peer))
    }

    /// The request that brings keys has become an exchange.
    pub(super) fn opened(&mut self, exchange: ExchangeId) {
        if let Some(opening) = self.opening.take() {
            self.bringing.insert(exchange, opening);
        }
    }

    /// Nothing is agreed on with clients any more.
    pub(super) fn refuse(&self) {
        if let Some(responding) = &self.responding {
            responding.refuse();
        }
    }

    /// What was agreed on with a destination is used, if anything was.
    pub(super) fn uses(&mut self, to: Address) -> Option<&Hold> {
        let agreed = self.toward.get_mut(&to)?;
        self.uses += 1;
        agreed.used = self.uses;
        Some(&agreed.hold)
    }

    fn is_full(&self) -> bool {
        self.toward.len() + self.bringing.len() + self.former.len() >= self.most
    }
}

impl<C: SharedController> Driver<C> {
    /// Answers a request to `/.well-known/edhoc`; `None` if it is none.
    pub(super) fn agree(&mut self, id: RequestId, from: Address, message: &OwnedMessage) -> Option<Response> {
        let responding = self.protecting.agreeing.responding.as_ref()?;
        // A request that was protected has no use for other keys.
        if message.uri_path() != PATH || self.endpoint.security(id).is_some() {
            return None;
        }
        // Keys are agreed on with one: all members of a group would compute, for a source that has shown nothing.
        if self.endpoint.came_to_group(id) {
            return None;
        }
        if responding.refuses() {
            return Some(unavailable());
        }
        if message.code() != Code::POST {
            return Some(Response::new(Code::METHOD_NOT_ALLOWED));
        }
        if message.option(OptionNumber::CONTENT_FORMAT).is_some_and(|format| format != [CID_EDHOC]) {
            return Some(Response::new(Code::UNSUPPORTED_CONTENT_FORMAT));
        }
        let (echo, group) = (message.option(OptionNumber::ECHO), self.serving.group_of(from));
        // Who has a session has shown where it is.
        let has_shown = match from.is_secured() {
            true => Ok(true),
            false => responding.challenge(self.now, (&from, group), message.payload(), echo),
        };
        let has_shown = match has_shown {
            Ok(has_shown) => has_shown,
            Err(challenge) => {
                return Some(Response::new(Code::UNAUTHORIZED).option(OptionNumber::ECHO, &challenge));
            }
        };
        let host = has_shown.then(|| self.serving.host_of(from));
        let endpoint = &self.endpoint;
        let is_free = |c_r| endpoint.find_context(c_r, None).is_none();
        let Answer { code, message, agreed } = responding.answer(self.now, (group, host), message.payload(), is_free);
        if let Some((context, peer)) = agreed {
            let c_r = context.recipient_id();
            if let Err(error) = self.endpoint.add_context(context) {
                debug!(peer = %from, %error, "what was agreed on cannot be used");
                return Some(Response::new(Code::INTERNAL_SERVER_ERROR));
            }
            responding.keep(c_r, peer);
        }
        let response = if code == Code::SERVICE_UNAVAILABLE { unavailable() } else { Response::new(code) };
        Some(response.payload(ContentFormat(EDHOC), message))
    }

    /// Takes out the contexts in whose places others are.
    pub(super) fn retire(&mut self) {
        let Some(responding) = &self.protecting.agreeing.responding else { return };
        for c_r in responding.retired() {
            if let Some(context) = self.endpoint.find_context(c_r, None) {
                self.endpoint.remove_context(context);
            }
        }
    }

    /// With whom a context was agreed on.
    pub(super) fn identify_agreed(&self, context: ContextId) -> Option<Identity> {
        let c_r = self.endpoint.context(context)?.recipient_id();
        self.protecting.agreeing.responding.as_ref()?.identity(c_r).map(Identity::Edhoc)
    }

    /// Has requests to a destination protected with what was agreed on there.
    pub(super) fn agreed(
        &mut self,
        to: Address,
        context: Context,
        peer: edhoc::Identity,
    ) -> Result<Hold, ExchangeError> {
        let context = self.add_agreed(context)?;
        Ok(self.use_agreed(to, context, peer))
    }

    fn add_agreed(&mut self, context: Context) -> Result<ContextId, ExchangeError> {
        self.make_room().map_err(ExchangeError::Busy)?;
        self.endpoint.add_context(context).map_err(|error| ExchangeError::Keys(error.into()))
    }

    fn use_agreed(&mut self, to: Address, context: ContextId, peer: edhoc::Identity) -> Hold {
        self.forget_agreed(to);
        let agreeing = &mut self.protecting.agreeing;
        agreeing.uses += 1;
        let (used, hold) = (agreeing.uses, Hold::default());
        agreeing.toward.insert(to, Agreed { context, peer, used, hold: Arc::clone(&hold) });
        hold
    }

    /// Has the request that is opened next bring keys.
    pub(super) fn bring(&mut self, to: Address, keys: NewKeys) -> Result<(), ExchangeError> {
        let NewKeys { context, peer, message_3, turn } = keys;
        let context = self.add_agreed(context)?;
        self.endpoint.send_message_3(context, message_3);
        self.protecting.agreeing.opening = Some(Bringing { to, context, peer, _turn: turn, has_left: false });
        Ok(())
    }

    /// That request was refused: nobody else has what was agreed on.
    pub(super) fn not_brought(&mut self) {
        if let Some(opening) = self.protecting.agreeing.opening.take() {
            self.endpoint.remove_context(opening.context);
        }
    }

    /// A datagram of an exchange leaves, a copy or not. If it is not the first message, that was answered.
    pub(super) fn brings(&mut self, exchange: ExchangeId, attempt: u8) {
        let Some(bringing) = self.protecting.agreeing.bringing.get_mut(&exchange).filter(|_| attempt == 0) else {
            return;
        };
        if std::mem::replace(&mut bringing.has_left, true) {
            self.have_arrived(exchange);
        }
    }

    /// The other end has the keys that an exchange has brought: they are for all requests.
    fn have_arrived(&mut self, exchange: ExchangeId) {
        if let Some(Bringing { to, context, peer, .. }) = self.protecting.agreeing.bringing.remove(&exchange) {
            self.use_agreed(to, context, peer);
        }
    }

    /// Nobody knows whether the other end has the keys that an exchange was to bring, which is over.
    pub(super) fn are_lost(&mut self, exchange: ExchangeId) {
        if let Some(bringing) = self.protecting.agreeing.bringing.remove(&exchange) {
            self.endpoint.remove_context(bringing.context);
        }
    }

    /// Holds the context for requests to a destination. If there is none, there is room for one.
    pub(super) fn hold_agreed(&mut self, to: Address) -> Result<Option<Hold>, Busy> {
        if let Some(hold) = self.protecting.agreeing.uses(to) {
            return Ok(Some(Arc::clone(hold)));
        }
        self.make_room()?;
        Ok(None)
    }

    /// What an event says of keys.
    pub(super) fn hear_of_agreed(&mut self, event: &Event<Address>) {
        match *event {
            // An acknowledgement is not protected: whoever forges one has the requests behind it fail, as if he forged their answers.
            Event::Acknowledged { exchange, .. }
            | Event::Response { exchange, .. }
            | Event::Block { exchange, .. }
            | Event::Unanswered { exchange, .. } => self.have_arrived(exchange),
            Event::Failed { exchange, peer, reason, context, .. } => {
                self.are_lost(exchange);
                self.doubt_agreed(peer, reason, context);
            }
            Event::SubscriptionOver { from, reason: SubscriptionEnd::Failed(reason), context, .. } => {
                self.doubt_agreed(from, reason, context);
            }
            _ => {}
        }
    }

    /// If a request has failed since its destination has lost the keys, or never had them, new ones are needed; unless there are some
    /// already, as where an answer to an earlier request comes late.
    fn doubt_agreed(&mut self, to: Address, failure: Failure, context: Option<ContextId>) {
        let is_used = context.is_some() && self.protecting.agreeing.context(to) == context;
        if is_used && matches!(failure, Failure::NotAuthenticated(_)) {
            self.forget_agreed(to);
            // What is observed there cannot wait for its Max-Age: if the keys are lost, nobody notifies.
            self.refresh_from(to);
        }
    }

    /// Nothing new is protected with what was agreed on with a destination. What is under way may be answered yet, and learns of its own errors.
    fn forget_agreed(&mut self, to: Address) {
        if let Some(agreed) = self.protecting.agreeing.toward.remove(&to) {
            self.protecting.agreeing.former.push(agreed.context);
        }
    }

    /// Takes out what protects nothing any more, and if there is no room for another context then, the one that was used least lately of
    /// those with which nothing is under way.
    fn make_room(&mut self) -> Result<(), Busy> {
        let agreeing = &mut self.protecting.agreeing;
        if agreeing.former.is_empty() && !agreeing.is_full() {
            return Ok(());
        }
        let in_use: HashSet<_> = self.endpoint.contexts_in_use().collect();
        for context in agreeing.former.extract_if(.., |context| !in_use.contains(context)) {
            self.endpoint.remove_context(context);
        }
        if !agreeing.is_full() {
            return Ok(());
        }
        let is_idle = |to: Address, agreed: &Agreed| {
            !in_use.contains(&agreed.context) && Arc::strong_count(&agreed.hold) == 1 && !self.turns.has_line(to)
        };
        let idle = agreeing.toward.iter().filter(|(to, agreed)| is_idle(**to, agreed));
        let least_lately = idle.min_by_key(|(_, agreed)| agreed.used).map(|(to, _)| *to);
        let agreed = least_lately.and_then(|to| agreeing.toward.remove(&to));
        let Agreed { context, .. } = agreed.ok_or(Busy { what: Full::EdhocDestinations, limit: agreeing.most })?;
        self.endpoint.remove_context(context);
        Ok(())
    }
}
