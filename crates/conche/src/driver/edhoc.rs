//! EDHOC (RFC 9528) on one socket, in both roles.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use conche_proto::codec::{Body, BodyBuilder, Code, ContentFormat, OptionNumber, OwnedMessage};
use conche_proto::oscore::{Context, ContextId};
use conche_proto::{Event, ExchangeId, Failure, Request, RequestId, Response, SubscriptionEnd};
use tokio::sync::OwnedMutexGuard;
use tracing::debug;

use super::admission::{Busy, Full};
use super::commands::ExchangeError;
use super::{Address, Driver, Service, SharedController};
use crate::edhoc::{self, CID_EDHOC, EDHOC, EdhocResponder, PATH, Party, ResponderMessage, Source};
use crate::prefixes::Prefixes;
use crate::refusal;
use crate::security::Identity;

#[derive(Debug)]
pub(crate) struct NewKeys {
    pub(crate) context: Context,
    pub(crate) peer: edhoc::Identity,
    pub(crate) message_3: Vec<u8>,
    pub(crate) turn: KeyExchangeGuard,
}

/// Right to run a key exchange with a destination.
pub(crate) type KeyExchangeGuard = OwnedMutexGuard<()>;

/// Keeps a destination's context from being replaced until it is used.
pub(crate) type ContextGuard = Arc<()>;

#[derive(Debug)]
struct CombinedRequest {
    to: Address,
    context: ContextId,
    peer: edhoc::Identity,
    /// Further requests wait: the server would reject one that overtook this.
    _turn: KeyExchangeGuard,
    has_left: bool,
}

#[derive(Debug, Default)]
pub(super) struct EdhocContexts {
    responder: Option<EdhocResponder>,
    wanted: Prefixes<Party>,
    toward: HashMap<Address, DestinationContext>,
    uses: u64,
    /// Replaced contexts that may still protect exchanges.
    former: Vec<ContextId>,
    opening: Option<CombinedRequest>,
    /// Combined requests until the server proves that it has the keys, which protect nothing else
    /// until then.
    combined: HashMap<ExchangeId, CombinedRequest>,
    most: usize,
}

#[derive(Debug)]
struct DestinationContext {
    context: ContextId,
    peer: edhoc::Identity,
    used: u64,
    hold: ContextGuard,
}

impl EdhocContexts {
    pub(super) fn new(responder: Option<EdhocResponder>, wanted: Prefixes<Party>, most: usize) -> Self {
        Self { responder, wanted, most, ..Self::default() }
    }

    pub(super) fn withholds(&self, to: Address, request: &Request) -> bool {
        let is_for_keys = || {
            let path = request.body.options().filter(|option| option.number == OptionNumber::URI_PATH);
            path.map(|option| option.value).eq(PATH.split('/').skip(1).map(str::as_bytes))
        };
        let is_wanted = !to.is_secured() && self.wanted.of(to.canonical().ip()).is_some();
        is_wanted && self.context(to).is_none() && !is_for_keys()
    }

    pub(super) fn context(&self, to: Address) -> Option<ContextId> {
        let opening = self.opening.as_ref().map(|opening| opening.context);
        opening.or_else(|| self.toward.get(&to).map(|agreed| agreed.context))
    }

    pub(super) fn peer(&self, to: Address) -> Option<&edhoc::Identity> {
        let opening = self.opening.as_ref().map(|opening| &opening.peer);
        opening.or_else(|| self.toward.get(&to).map(|agreed| &agreed.peer))
    }

    pub(super) fn opened(&mut self, exchange: ExchangeId) {
        if let Some(opening) = self.opening.take() {
            self.combined.insert(exchange, opening);
        }
    }

    pub(super) fn refuse(&self) {
        if let Some(responder) = &self.responder {
            responder.refuse();
        }
    }

    pub(super) fn touch(&mut self, to: Address) -> Option<&ContextGuard> {
        let agreed = self.toward.get_mut(&to)?;
        self.uses += 1;
        agreed.used = self.uses;
        Some(&agreed.hold)
    }

    fn is_full(&self) -> bool {
        self.toward.len() + self.combined.len() + self.former.len() >= self.most
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    pub(super) fn answer_edhoc(&mut self, id: RequestId, from: Address, message: &OwnedMessage) -> Option<Response> {
        let responder = self.oscore.edhoc.responder.as_ref()?;
        if message.uri_path() != PATH || self.endpoint.security(id).is_some() {
            return None;
        }
        // All members would compute for an unverified source.
        if self.endpoint.is_group_request(id) {
            return None;
        }
        if responder.refuses() {
            return Some(refusal::unavailable());
        }
        if message.code() != Code::POST {
            return Some(refusal::empty(Code::METHOD_NOT_ALLOWED));
        }
        if message.option(OptionNumber::CONTENT_FORMAT).is_some_and(|format| format != [CID_EDHOC]) {
            return Some(refusal::empty(Code::UNSUPPORTED_CONTENT_FORMAT));
        }
        let (echo, group) = (message.option(OptionNumber::ECHO), self.calls.group_of(from));
        // The DTLS handshake has verified the address.
        let has_shown = match from.is_secured() {
            true => Ok(true),
            false => responder.challenge(self.now, &from, group, message.payload(), echo),
        };
        let has_shown = match has_shown {
            Ok(has_shown) => has_shown,
            Err(challenge) => {
                return Some(response(Code::UNAUTHORIZED, Body::builder().option(OptionNumber::ECHO, &challenge)));
            }
        };
        let host = has_shown.then(|| self.calls.host_of(from));
        let endpoint = &self.endpoint;
        let is_free = |c_r| endpoint.find_context(c_r, None).is_none();
        let source = Source { group, host };
        let ResponderMessage { code, message, agreed } = responder.answer(self.now, source, message.payload(), is_free);
        if let Some((context, peer)) = agreed {
            let c_r = context.recipient_id();
            if let Err(error) = self.endpoint.add_context(context) {
                debug!(peer = %from, %error, "what was agreed on cannot be used");
                return Some(refusal::internal_error());
            }
            responder.keep(c_r, peer);
        }
        let body = Body::builder().content_format(ContentFormat(EDHOC)).payload(message);
        let is_busy = code == Code::SERVICE_UNAVAILABLE;
        let body = if is_busy { body.uint(OptionNumber::MAX_AGE, refusal::RETRY_AFTER_SECONDS) } else { body };
        Some(response(code, body))
    }

    pub(super) fn remove_retired_contexts(&mut self) {
        let Some(responder) = &self.oscore.edhoc.responder else { return };
        for c_r in responder.retired() {
            if let Some(context) = self.endpoint.find_context(c_r, None) {
                self.endpoint.remove_context(context);
            }
        }
    }

    pub(super) fn edhoc_identity(&self, context: ContextId) -> Option<Identity> {
        let c_r = self.endpoint.context(context)?.recipient_id();
        self.oscore.edhoc.responder.as_ref()?.identity(c_r).map(Identity::Edhoc)
    }

    pub(super) fn use_context(
        &mut self,
        to: Address,
        context: Context,
        peer: edhoc::Identity,
    ) -> Result<ContextGuard, ExchangeError> {
        let context = self.add_edhoc_context(context)?;
        Ok(self.set_context(to, context, peer))
    }

    fn add_edhoc_context(&mut self, context: Context) -> Result<ContextId, ExchangeError> {
        self.make_room().map_err(ExchangeError::Busy)?;
        self.endpoint.add_context(context).map_err(|error| ExchangeError::Keys(error.into()))
    }

    fn set_context(&mut self, to: Address, context: ContextId, peer: edhoc::Identity) -> ContextGuard {
        self.replace_context(to);
        let edhoc = &mut self.oscore.edhoc;
        edhoc.uses += 1;
        let (used, hold) = (edhoc.uses, ContextGuard::default());
        edhoc.toward.insert(to, DestinationContext { context, peer, used, hold: Arc::clone(&hold) });
        hold
    }

    pub(super) fn begin_combined(&mut self, to: Address, keys: NewKeys) -> Result<(), ExchangeError> {
        let NewKeys { context, peer, message_3, turn } = keys;
        let context = self.add_edhoc_context(context)?;
        self.endpoint.send_message_3(context, message_3);
        self.oscore.edhoc.opening = Some(CombinedRequest { to, context, peer, _turn: turn, has_left: false });
        Ok(())
    }

    pub(super) fn drop_combined(&mut self) {
        if let Some(opening) = self.oscore.edhoc.opening.take() {
            self.endpoint.remove_context(opening.context);
        }
    }

    /// Another message proves that the server answered the first.
    pub(super) fn on_combined_sent(&mut self, exchange: ExchangeId, attempt: u8) {
        let Some(combined) = self.oscore.edhoc.combined.get_mut(&exchange).filter(|_| attempt == 0) else {
            return;
        };
        if std::mem::replace(&mut combined.has_left, true) {
            self.on_combined_accepted(exchange);
        }
    }

    fn on_combined_accepted(&mut self, exchange: ExchangeId) {
        if let Some(CombinedRequest { to, context, peer, .. }) = self.oscore.edhoc.combined.remove(&exchange) {
            self.set_context(to, context, peer);
        }
    }

    pub(super) fn on_combined_failed(&mut self, exchange: ExchangeId) {
        if let Some(combined) = self.oscore.edhoc.combined.remove(&exchange) {
            self.endpoint.remove_context(combined.context);
        }
    }

    pub(super) fn hold_context(&mut self, to: Address) -> Result<Option<ContextGuard>, Busy> {
        if let Some(hold) = self.oscore.edhoc.touch(to) {
            return Ok(Some(Arc::clone(hold)));
        }
        self.make_room()?;
        Ok(None)
    }

    pub(super) fn on_edhoc_event(&mut self, event: &Event<Address>) {
        match *event {
            // Acknowledgements are unprotected. Forging one makes the next requests fail, as
            // forging their responses would.
            Event::Acknowledged { exchange, .. }
            | Event::Response { exchange, .. }
            | Event::Block { exchange, .. }
            | Event::Unanswered { exchange, .. } => self.on_combined_accepted(exchange),
            Event::Failed { exchange, peer, reason, context, .. } => {
                self.on_combined_failed(exchange);
                self.on_unauthenticated(peer, reason, context);
            }
            Event::SubscriptionOver { from, reason: SubscriptionEnd::Failed(reason), context, .. } => {
                self.on_unauthenticated(from, reason, context);
            }
            _ => {}
        }
    }

    /// Drops the keys that a destination's server lacks, unless newer ones exist.
    fn on_unauthenticated(&mut self, to: Address, failure: Failure, context: Option<ContextId>) {
        let is_used = context.is_some() && self.oscore.edhoc.context(to) == context;
        if is_used && matches!(failure, Failure::NotAuthenticated(_)) {
            self.replace_context(to);
            // A server without keys sends no notifications.
            self.refresh_from(to);
        }
    }

    /// Outstanding exchanges may still be answered.
    fn replace_context(&mut self, to: Address) {
        if let Some(agreed) = self.oscore.edhoc.toward.remove(&to) {
            self.oscore.edhoc.former.push(agreed.context);
        }
    }

    /// Prefers unused former contexts to the least recently used one without outstanding exchanges.
    fn make_room(&mut self) -> Result<(), Busy> {
        let edhoc = &mut self.oscore.edhoc;
        if edhoc.former.is_empty() && !edhoc.is_full() {
            return Ok(());
        }
        let in_use: HashSet<_> = self.endpoint.contexts_in_use().collect();
        for context in edhoc.former.extract_if(.., |context| !in_use.contains(context)) {
            self.endpoint.remove_context(context);
        }
        if !edhoc.is_full() {
            return Ok(());
        }
        let is_idle = |to: Address, agreed: &DestinationContext| {
            !in_use.contains(&agreed.context) && Arc::strong_count(&agreed.hold) == 1 && !self.admission.has_queue(to)
        };
        let idle = edhoc.toward.iter().filter(|(to, agreed)| is_idle(**to, agreed));
        let least_lately = idle.min_by_key(|(_, agreed)| agreed.used).map(|(to, _)| *to);
        let agreed = least_lately.and_then(|to| edhoc.toward.remove(&to));
        let DestinationContext { context, .. } =
            agreed.ok_or(Busy { what: Full::EdhocDestinations, limit: edhoc.most })?;
        self.endpoint.remove_context(context);
        Ok(())
    }
}

/// Options that are valid by their RFCs always build.
fn response(code: Code, body: BodyBuilder) -> Response {
    Response::new(code, body.build().unwrap_or_default())
}
