//! [`OscoreContexts`]: the OSCORE keys (RFC 8613) of a socket, and the requests waiting for them.

use std::io;
use std::time::Duration;

use conche_proto::oscore::{ContextId, Reserve};
use conche_proto::{Endpoint, ExchangeStats, Failure, Request, RequestId};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::commands::{ExchangeError, ExchangeKind, OpenCommand};
use super::{Driver, Service, SharedController};
use crate::address::Address;
use crate::oscore::{self, Keys, KeysError, Lease};
use crate::prefixes::Prefixes;
use crate::security::Identity;

/// Maximum wait for keys of another socket, which may be about to return them.
const MAX_WAIT_FOR_KEYS: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct OscoreContexts {
    held: Vec<HeldContext>,
    /// Keys for requests, by destination.
    toward: Prefixes<Keys>,
    tasks: JoinSet<KeyEvent>,
    #[cfg(feature = "edhoc")]
    pub(in crate::driver) edhoc: crate::driver::edhoc::EdhocContexts,
}

/// Another socket holds its keys, or its sequence number is not stored yet. Bounded by permits.
#[derive(Debug)]
pub(in crate::driver) struct WaitingForKeys {
    command: OpenCommand,
    keys: Keys,
    since: Instant,
    failed: Option<io::Error>,
}

impl WaitingForKeys {
    fn timeout(&mut self) -> Option<Duration> {
        self.command.kind.timeout_mut().and_then(|timeout| *timeout)
    }
}

type StoreFailure = Option<(io::ErrorKind, String)>;

#[derive(Debug)]
pub(in crate::driver) enum KeyEvent {
    Stored(Reserve, io::Result<()>),
    Waited(Box<WaitingForKeys>),
}

#[derive(Debug)]
struct HeldContext {
    lease: Lease,
    context: ContextId,
    peer: oscore::Identity,
    kept: watch::Sender<StoreFailure>,
}

impl OscoreContexts {
    pub(crate) fn new(toward: Prefixes<Keys>) -> Self {
        Self { toward, ..Self::default() }
    }

    #[cfg(feature = "edhoc")]
    pub(crate) fn with_edhoc(
        mut self,
        responder: Option<crate::edhoc::EdhocResponder>,
        toward: Prefixes<crate::edhoc::Party>,
        most: usize,
    ) -> Self {
        self.edhoc = crate::driver::edhoc::EdhocContexts::new(responder, toward, most);
        self
    }

    pub(crate) fn take<C: SharedController>(
        &mut self,
        endpoint: &mut Endpoint<Address, C>,
        keys: &Keys,
    ) -> Result<(), KeysError> {
        let (lease, context, up_to) = Lease::take(keys)?;
        let context = endpoint.add_context(context)?;
        endpoint.reserved(Reserve { context, up_to });
        self.held.push(HeldContext { lease, context, peer: keys.peer(), kept: watch::Sender::default() });
        Ok(())
    }

    fn held(&self, keys: &Keys) -> Option<&HeldContext> {
        self.held.iter().find(|held| held.lease.keys().is(keys))
    }

    pub(in crate::driver) fn protect(&self, to: Address, request: Request) -> Request {
        #[cfg(feature = "edhoc")]
        if let Some(context) = self.edhoc.context(to) {
            return request.protected(context);
        }
        match self.toward.of(to.canonical().ip()).and_then(|keys| self.held(keys)) {
            Some(held) => request.protected(held.context),
            None => request,
        }
    }

    pub(in crate::driver) fn identity_toward(&self, to: Address) -> Option<Identity> {
        #[cfg(feature = "edhoc")]
        if let Some(peer) = self.edhoc.peer(to) {
            return Some(Identity::Edhoc(peer.clone()));
        }
        let held = self.toward.of(to.canonical().ip()).and_then(|keys| self.held(keys))?;
        Some(Identity::Oscore(held.peer.clone()))
    }

    fn wait(&mut self, waiting: WaitingForKeys, until: Instant) {
        let given_back = waiting.keys.given_back();
        self.tasks.spawn(async move {
            let _ = timeout_at(until, given_back).await;
            KeyEvent::Waited(Box::new(waiting))
        });
    }

    fn wait_for_number(&mut self, mut waiting: WaitingForKeys, until: Option<Instant>) {
        let Some(mut kept) = self.held(&waiting.keys).map(|held| held.kept.subscribe()) else { return };
        self.tasks.spawn(async move {
            // An error means that the driver ended.
            let answered = async { kept.changed().await.is_ok() };
            let answered = match until {
                Some(until) => timeout_at(until, answered).await.unwrap_or_default(),
                None => answered.await,
            };
            if answered {
                waiting.failed = kept.borrow().clone().map(|(kind, error)| io::Error::new(kind, error));
            }
            KeyEvent::Waited(Box::new(waiting))
        });
    }

    fn kept(&self, context: ContextId, stored: &io::Result<()>) {
        if let Some(held) = self.held.iter().find(|held| held.context == context) {
            let error = stored.as_ref().err().map(|error| (error.kind(), error.to_string()));
            held.kept.send_replace(error);
        }
    }

    pub(in crate::driver) fn identity(&self, context: ContextId) -> Option<Identity> {
        self.held.iter().find(|held| held.context == context).map(|held| Identity::Oscore(held.peer.clone()))
    }

    pub(in crate::driver) fn store(&mut self, reserve: Reserve) {
        if let Some(held) = self.held.iter_mut().find(|held| held.context == reserve.context) {
            let storing = spawn_blocking(held.lease.reserve(reserve));
            self.tasks.spawn(async move {
                // A panic means that nothing was stored.
                KeyEvent::Stored(reserve, storing.await.unwrap_or_else(|error| Err(io::Error::other(error))))
            });
        }
    }

    pub(in crate::driver) async fn next_event(&mut self) -> KeyEvent {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(done)) => return done,
                Some(Err(error)) => warn!(%error, "what waited for keys is lost"),
                None => std::future::pending().await,
            }
        }
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    /// Ensures that the socket holds the keys and a sequence number for a request. Otherwise the
    /// request waits or fails.
    pub(in crate::driver) fn with_keys(&mut self, command: OpenCommand) -> Option<OpenCommand> {
        let to = command.permit.destination();
        let keys = self.oscore.toward.of(to.canonical().ip());
        let Some(keys) = keys.filter(|_| !matches!(command.kind, ExchangeKind::Ping { .. })) else {
            return Some(command);
        };
        let context = self.oscore.held(keys).map(|held| held.context);
        if context.is_some_and(|context| !self.endpoint.waits_for_numbers(context)) {
            return Some(command);
        }
        let keys = keys.clone();
        self.take_keys(WaitingForKeys { command, keys, since: Instant::now(), failed: None })
    }

    fn take_keys(&mut self, mut waiting: WaitingForKeys) -> Option<OpenCommand> {
        let (since, waited, timeout) = (waiting.since, waiting.since.elapsed(), waiting.timeout());
        let is_late = timeout.is_some_and(|timeout| timeout <= waited);
        let taken = match (waiting.failed.take(), self.oscore.held(&waiting.keys)) {
            (Some(error), _) => Err(KeysError::Store(error)),
            (None, Some(_)) => Ok(()),
            (None, None) => self.oscore.take(&mut self.endpoint, &waiting.keys),
        };
        let context = self.oscore.held(&waiting.keys).map(|held| held.context);
        let has_number = context.is_some_and(|context| !self.endpoint.waits_for_numbers(context));
        match taken {
            Ok(()) if has_number => {
                let WaitingForKeys { mut command, .. } = waiting;
                if let Some(timeout) = command.kind.timeout_mut() {
                    *timeout = timeout.map(|timeout| timeout.saturating_sub(waited));
                }
                return Some(command);
            }
            Ok(()) | Err(KeysError::InUse) if is_late => {
                let course = ExchangeStats { queued: waited, ..ExchangeStats::default() };
                waiting.command.outcome.send(Err(ExchangeError::Failed { failure: Failure::Deadline, course }));
            }
            Ok(()) => self.oscore.wait_for_number(waiting, timeout.and_then(|timeout| since.checked_add(timeout))),
            Err(KeysError::InUse) if waited < MAX_WAIT_FOR_KEYS => {
                self.oscore
                    .wait(waiting, since + timeout.map_or(MAX_WAIT_FOR_KEYS, |timeout| timeout.min(MAX_WAIT_FOR_KEYS)));
            }
            Err(error) => {
                let WaitingForKeys { command, keys, .. } = waiting;
                let to = command.permit.destination();
                warn!(%to, peer = %keys.peer(), %error, "the keys for a destination cannot be used");
                command.outcome.send(Err(ExchangeError::Keys(error)));
            }
        }
        None
    }

    pub(in crate::driver) fn on_key_event(&mut self, done: KeyEvent) {
        self.now = self.clock.now();
        match done {
            KeyEvent::Stored(reserve, stored) => {
                self.oscore.kept(reserve.context, &stored);
                match stored {
                    Ok(()) => self.endpoint.reserved(reserve),
                    Err(error) => {
                        warn!(%error, "the numbers of OSCORE keys cannot be kept: soon nothing can be protected");
                        self.endpoint.not_reserved(reserve.context);
                    }
                }
            }
            // The request was cancelled.
            KeyEvent::Waited(waiting) if waiting.command.outcome.is_closed() => {}
            KeyEvent::Waited(waiting) => {
                if let Some(command) = self.take_keys(*waiting) {
                    self.open_now(command);
                }
            }
        }
    }

    pub(in crate::driver) fn identify_protected(&self, request: RequestId) -> Option<Identity> {
        let context = self.endpoint.security(request)?;
        let identity = self.oscore.identity(context);
        #[cfg(feature = "edhoc")]
        let identity = identity.or_else(|| self.edhoc_identity(context));
        identity
    }

    pub(in crate::driver) async fn give_keys_back(&mut self) {
        for HeldContext { lease, context, .. } in self.oscore.held.drain(..) {
            let Some(context) = self.endpoint.remove_context(context) else { continue };
            let ended = spawn_blocking(move || lease.end(&context)).await;
            if let Err(error) = ended.unwrap_or_else(|error| Err(io::Error::other(error))) {
                debug!(%error, "the state of OSCORE keys was not kept");
            }
        }
    }
}
