//! Keys (OSCORE, RFC 8613) of one socket: which requests are protected with which, who asks, and numbers that are kept.

#[cfg(feature = "oscore")]
pub(crate) use with::Protecting;
#[cfg(not(feature = "oscore"))]
pub(crate) use without::Protecting;

#[cfg(feature = "oscore")]
mod with {
    use std::io;
    use std::time::Duration;

    use conche_proto::oscore::{ContextId, Reserve};
    use conche_proto::{Course, Endpoint, Failure, Request, RequestId};
    use tokio::sync::watch;
    use tokio::task::{JoinSet, spawn_blocking};
    use tokio::time::{Instant, timeout_at};
    use tracing::{debug, warn};

    use crate::controllers::SharedController;
    use crate::driver::handle::{Asked, ExchangeError, Opening};
    use crate::driver::{Address, Driver};
    use crate::oscore::{self, Keys, KeysError, Lease};
    use crate::prefixes::Prefixes;
    use crate::security::Identity;

    /// So long a request waits for keys that another socket has. That one may have ended, and be about to give them back.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// The keys that a socket has, and those that it takes when it needs them.
    #[derive(Debug, Default)]
    pub(crate) struct Protecting {
        held: Vec<Held>,
        /// For requests to destinations.
        toward: Prefixes<Keys>,
        doing: JoinSet<Done>,
        /// Keys that are agreed on over the wire.
        #[cfg(feature = "edhoc")]
        pub(in crate::driver) agreeing: crate::driver::agreeing::Agreeing,
    }

    /// A request for which another socket has the keys, or whose number is still to be kept. There are no more than have places in line.
    #[derive(Debug)]
    pub(in crate::driver) struct Waiting {
        asked: Asked,
        keys: Keys,
        since: Instant,
        /// Why its number was not kept.
        failed: Option<io::Error>,
    }

    impl Waiting {
        fn timeout(&mut self) -> Option<Duration> {
            self.asked.what.timeout_mut().and_then(|timeout| *timeout)
        }
    }

    /// Why a store did not keep numbers, if it did not, when it was asked last.
    type Kept = Option<(io::ErrorKind, String)>;

    /// What was done elsewhere.
    #[derive(Debug)]
    pub(in crate::driver) enum Done {
        /// Numbers were kept, or not.
        Stored(Reserve, io::Result<()>),
        /// Another socket has given the keys back, or the store has answered, or the time for that is over.
        Waited(Box<Waiting>),
    }

    #[derive(Debug)]
    struct Held {
        lease: Lease,
        context: ContextId,
        peer: oscore::Identity,
        kept: watch::Sender<Kept>,
    }

    impl Protecting {
        pub(crate) fn new(toward: Prefixes<Keys>) -> Self {
            Self { toward, ..Self::default() }
        }

        /// With answers to clients that agree on keys, and those that are to be agreed on before requests to a prefix.
        #[cfg(feature = "edhoc")]
        pub(crate) fn with_edhoc(
            mut self,
            responding: Option<crate::edhoc::Responding>,
            agreement: &crate::settings::Agreement,
        ) -> Self {
            let crate::settings::Agreement { toward, most, .. } = agreement;
            self.agreeing = crate::driver::agreeing::Agreeing::new(responding, toward.clone(), *most);
            self
        }

        /// Takes keys, for an endpoint to use.
        pub(crate) fn take<C: SharedController>(
            &mut self,
            endpoint: &mut Endpoint<Address, C>,
            keys: &Keys,
        ) -> Result<(), KeysError> {
            let (lease, context, up_to) = Lease::take(keys)?;
            let context = endpoint.add_context(context)?;
            endpoint.reserved(Reserve { context, up_to });
            self.held.push(Held { lease, context, peer: keys.peer(), kept: watch::Sender::default() });
            Ok(())
        }

        fn held(&self, keys: &Keys) -> Option<&Held> {
            self.held.iter().find(|held| held.lease.keys().is(keys))
        }

        /// A request, protected if that is wanted for its destination, for which the socket has the keys.
        pub(in crate::driver) fn protect(&self, to: Address, request: Request) -> Request {
            #[cfg(feature = "edhoc")]
            if let Some(context) = self.agreeing.context(to) {
                return request.protected(context);
            }
            match self.toward.of(to.canonical().ip()).and_then(|keys| self.held(keys)) {
                Some(held) => request.protected(held.context),
                None => request,
            }
        }

        /// The peer that has the keys which [`protect`](Self::protect) uses toward a destination.
        pub(in crate::driver) fn identity_toward(&self, to: Address) -> Option<Identity> {
            #[cfg(feature = "edhoc")]
            if let Some(peer) = self.agreeing.peer(to) {
                return Some(Identity::Edhoc(peer.clone()));
            }
            let held = self.toward.of(to.canonical().ip()).and_then(|keys| self.held(keys))?;
            Some(Identity::Oscore(held.peer.clone()))
        }

        /// Has a request wait for keys that another socket has.
        fn wait(&mut self, waiting: Waiting, until: Instant) {
            let given_back = waiting.keys.given_back();
            self.doing.spawn(async move {
                // Late or not, they are tried again.
                let _ = timeout_at(until, given_back).await;
                Done::Waited(Box::new(waiting))
            });
        }

        /// Has a request wait until the store of its keys has answered. `None` for as long as that takes.
        fn wait_for_number(&mut self, mut waiting: Waiting, until: Option<Instant>) {
            let Some(mut kept) = self.held(&waiting.keys).map(|held| held.kept.subscribe()) else { return };
            self.doing.spawn(async move {
                // An error says that the driver has ended.
                let answered = async { kept.changed().await.is_ok() };
                let answered = match until {
                    Some(until) => timeout_at(until, answered).await.unwrap_or_default(),
                    None => answered.await,
                };
                if answered {
                    waiting.failed = kept.borrow().clone().map(|(kind, error)| io::Error::new(kind, error));
                }
                Done::Waited(Box::new(waiting))
            });
        }

        /// A store has answered: those who wait for it go on.
        fn kept(&self, context: ContextId, stored: &io::Result<()>) {
            if let Some(held) = self.held.iter().find(|held| held.context == context) {
                let error = stored.as_ref().err().map(|error| (error.kind(), error.to_string()));
                held.kept.send_replace(error);
            }
        }

        /// Whose context this is.
        pub(in crate::driver) fn identity(&self, context: ContextId) -> Option<Identity> {
            self.held.iter().find(|held| held.context == context).map(|held| Identity::Oscore(held.peer.clone()))
        }

        /// Has numbers kept, on a thread for that.
        pub(in crate::driver) fn store(&mut self, reserve: Reserve) {
            if let Some(held) = self.held.iter_mut().find(|held| held.context == reserve.context) {
                let storing = spawn_blocking(held.lease.reserve(reserve));
                self.doing.spawn(async move {
                    // One that panics has kept nothing.
                    Done::Stored(reserve, storing.await.unwrap_or_else(|error| Err(io::Error::other(error))))
                });
            }
        }

        /// What was done next. Never ready while nothing is to be done.
        pub(in crate::driver) async fn done(&mut self) -> Done {
            loop {
                match self.doing.join_next().await {
                    Some(Ok(done)) => return done,
                    // None of them panics.
                    Some(Err(error)) => warn!(%error, "what waited for keys is lost"),
                    None => std::future::pending().await,
                }
            }
        }
    }

    impl<C: SharedController> Driver<C> {
        /// Takes the keys for a request, if it needs some that the socket does not have yet, and sees to it that there is a number to protect it
        /// with. Without them it goes no further: it waits for keys that another socket has, and for the store that keeps their
        /// numbers, and is told of other reasons.
        pub(in crate::driver) fn with_keys(&mut self, asked: Asked) -> Option<Asked> {
            let to = asked.place.destination();
            let keys = self.protecting.toward.of(to.canonical().ip());
            let Some(keys) = keys.filter(|_| !matches!(asked.what, Opening::Ping)) else { return Some(asked) };
            let context = self.protecting.held(keys).map(|held| held.context);
            if context.is_some_and(|context| !self.endpoint.waits_for_numbers(context)) {
                return Some(asked);
            }
            let keys = keys.clone();
            self.take_keys(Waiting { asked, keys, since: Instant::now(), failed: None })
        }

        fn take_keys(&mut self, mut waiting: Waiting) -> Option<Asked> {
            let (since, waited, timeout) = (waiting.since, waiting.since.elapsed(), waiting.timeout());
            let is_late = timeout.is_some_and(|timeout| timeout <= waited);
            let taken = match (waiting.failed.take(), self.protecting.held(&waiting.keys)) {
                (Some(error), _) => Err(KeysError::Store(error)),
                (None, Some(_)) => Ok(()),
                (None, None) => self.protecting.take(&mut self.endpoint, &waiting.keys),
            };
            let context = self.protecting.held(&waiting.keys).map(|held| held.context);
            let has_number = context.is_some_and(|context| !self.endpoint.waits_for_numbers(context));
            match taken {
                Ok(()) if has_number => {
                    let Waiting { mut asked, .. } = waiting;
                    if let Some(timeout) = asked.what.timeout_mut() {
                        *timeout = timeout.map(|timeout| timeout.saturating_sub(waited));
                    }
                    return Some(asked);
                }
                Ok(()) | Err(KeysError::InUse) if is_late => {
                    let course = Course { queued: waited, ..Course::default() };
                    waiting.asked.outcome.send(Err(ExchangeError::Failed { failure: Failure::Deadline, course }));
                }
                Ok(()) => {
                    self.protecting.wait_for_number(waiting, timeout.and_then(|timeout| since.checked_add(timeout)))
                }
                Err(KeysError::InUse) if waited < PATIENCE => {
                    self.protecting.wait(waiting, since + timeout.map_or(PATIENCE, |timeout| timeout.min(PATIENCE)));
                }
                Err(error) => {
                    let Waiting { asked, keys, .. } = waiting;
                    let to = asked.place.destination();
                    warn!(%to, peer = %keys.peer(), %error, "the keys for a destination cannot be used");
                    asked.outcome.send(Err(ExchangeError::Keys(error)));
                }
            }
            None
        }

        pub(in crate::driver) fn hear_of_keys(&mut self, done: Done) {
            self.now = self.clock.now();
            match done {
                Done::Stored(reserve, stored) => {
                    self.protecting.kept(reserve.context, &stored);
                    match stored {
                        Ok(()) => self.endpoint.reserved(reserve),
                        Err(error) => {
                            warn!(%error, "the numbers of OSCORE keys cannot be kept: soon nothing can be protected");
                            self.endpoint.not_reserved(reserve.context);
                        }
                    }
                }
                // If nobody waits any more, it was cancelled before it began.
                Done::Waited(waiting) if waiting.asked.outcome.is_closed() => {}
                Done::Waited(waiting) => {
                    if let Some(asked) = self.take_keys(*waiting) {
                        self.open_now(asked);
                    }
                }
            }
        }

        /// Who has sent a request that was protected itself.
        pub(in crate::driver) fn identify_protected(&self, request: RequestId) -> Option<Identity> {
            let context = self.endpoint.security(request)?;
            let identity = self.protecting.identity(context);
            #[cfg(feature = "edhoc")]
            let identity = identity.or_else(|| self.identify_agreed(context));
            identity
        }

        /// Gives all keys back.
        pub(in crate::driver) async fn give_keys_back(&mut self) {
            for Held { lease, context, .. } in self.protecting.held.drain(..) {
                let Some(context) = self.endpoint.remove_context(context) else { continue };
                // It may take as long as a store takes for what it was told before.
                let ended = spawn_blocking(move || lease.end(&context)).await;
                if let Err(error) = ended.unwrap_or_else(|error| Err(io::Error::other(error))) {
                    debug!(%error, "the state of OSCORE keys was not kept");
                }
            }
        }
    }
}

#[cfg(not(feature = "oscore"))]
mod without {
    use conche_proto::{Request, RequestId};

    use crate::controllers::SharedController;
    use crate::driver::handle::Asked;
    use crate::driver::{Address, Driver};
    use crate::security::Identity;

    /// Nothing is protected.
    #[derive(Debug, Default)]
    pub(crate) struct Protecting;

    impl Protecting {
        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) fn protect(&self, _: Address, request: Request) -> Request {
            request
        }

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) fn identity_toward(&self, _: Address) -> Option<Identity> {
            None
        }

        pub(in crate::driver) async fn done(&mut self) {
            std::future::pending().await
        }
    }

    impl<C: SharedController> Driver<C> {
        #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
        pub(in crate::driver) fn with_keys(&mut self, asked: Asked) -> Option<Asked> {
            Some(asked)
        }

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) fn hear_of_keys(&mut self, (): ()) {}

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) fn identify_protected(&self, _: RequestId) -> Option<Identity> {
            None
        }

        pub(in crate::driver) async fn give_keys_back(&mut self) {}
    }
}
