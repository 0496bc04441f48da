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
    use tokio::task::{JoinSet, spawn_blocking};
    use tokio::time::{Instant, timeout_at};
    use tracing::{debug, warn};

    use crate::driver::handle::{Asked, ExchangeError, Opening};
    use crate::driver::{Address, Driver};
    use crate::oscore::{self, Keys, KeysError, Lease};
    use crate::prefixes::Prefixes;
    use crate::security::Identity;
    use crate::settings::SharedController;

    /// So long a request waits for keys that another socket has. That one may have ended, and be about to give them back.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// The keys that a socket has, and those that it takes when it needs them.
    #[derive(Debug, Default)]
    pub(crate) struct Protecting {
        held: Vec<Held>,
        /// For requests to destinations.
        toward: Prefixes<Keys>,
        /// Plain requests are refused.
        pub(in crate::driver) only: bool,
        doing: JoinSet<Done>,
        /// Keys that are agreed on over the wire.
        #[cfg(feature = "edhoc")]
        pub(in crate::driver) agreeing: crate::driver::agreeing::Agreeing,
    }

    /// A request for which another socket has the keys. There are no more than have places in line.
    #[derive(Debug)]
    pub(in crate::driver) struct Waiting {
        asked: Asked,
        keys: Keys,
        since: Instant,
    }

    /// What was done elsewhere.
    #[derive(Debug)]
    pub(in crate::driver) enum Done {
        /// Numbers were kept, or not.
        Stored(Reserve, io::Result<()>),
        /// Another socket has given the keys back, or the time for that is over.
        Waited(Box<Waiting>),
    }

    #[derive(Debug)]
    struct Held {
        lease: Lease,
        context: ContextId,
        peer: oscore::Identity,
    }

    impl Protecting {
        pub(crate) fn new(toward: Prefixes<Keys>, only: bool) -> Self {
            Self { toward, only, ..Self::default() }
        }

        /// With answers to clients that agree on keys, and those that are to be agreed on before requests to a prefix.
        #[cfg(feature = "edhoc")]
        pub(crate) fn with_edhoc(
            mut self,
            responding: Option<crate::edhoc::Responding>,
            wanted: Prefixes<crate::edhoc::Party>,
        ) -> Self {
            self.agreeing = crate::driver::agreeing::Agreeing::new(responding, wanted);
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
            self.held.push(Held { lease, context, peer: keys.peer() });
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

        /// The keys that the socket has yet to take before it asks there.
        fn missing(&self, to: Address) -> Option<Keys> {
            self.toward.of(to.canonical().ip()).filter(|keys| self.held(keys).is_none()).cloned()
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

        /// Whose context this is.
        pub(in crate::driver) fn identity(&self, context: ContextId) -> Option<Identity> {
            self.held.iter().find(|held| held.context == context).map(|held| Identity::Oscore(held.peer.clone()))
        }

        /// Has numbers kept, on a thread for that.
        pub(in crate::driver) fn store(&mut self, reserve: Reserve) {
            if let Some(held) = self.held.iter_mut().find(|held| held.context == reserve.context) {
                let storing = held.lease.reserve(reserve);
                self.doing.spawn_blocking(move || Done::Stored(reserve, storing()));
            }
        }

        /// What was done next. Never ready while nothing is to be done.
        pub(in crate::driver) async fn done(&mut self) -> Done {
            loop {
                match self.doing.join_next().await {
                    Some(Ok(done)) => return done,
                    // A store that panics has kept nothing, and is not asked again.
                    Some(Err(error)) => warn!(%error, "numbers were not kept"),
                    None => std::future::pending().await,
                }
            }
        }
    }

    impl<C: SharedController> Driver<C> {
        /// Takes the keys for a request, if it needs some that the socket does not have yet. Without them it goes no further: it waits for
        /// those that another socket has, and is told of other reasons.
        pub(in crate::driver) fn with_keys(&mut self, asked: Asked) -> Option<Asked> {
            let to = asked.place.destination();
            match self.protecting.missing(to).filter(|_| !matches!(asked.what, Opening::Ping)) {
                Some(keys) => self.take_keys(Waiting { asked, keys, since: Instant::now() }),
                None => Some(asked),
            }
        }

        fn take_keys(&mut self, waiting: Waiting) -> Option<Asked> {
            let Waiting { mut asked, keys, since } = waiting;
            let waited = since.elapsed();
            let timeout = asked.what.timeout_mut().and_then(|timeout| *timeout);
            let taken = match self.protecting.held(&keys) {
                Some(_) => Ok(()),
                None => self.protecting.take(&mut self.endpoint, &keys),
            };
            match taken {
                Ok(()) => {
                    if let Some(timeout) = asked.what.timeout_mut() {
                        *timeout = timeout.map(|timeout| timeout.saturating_sub(waited));
                    }
                    return Some(asked);
                }
                Err(KeysError::InUse) if timeout.is_some_and(|timeout| timeout <= waited) => {
                    let course = Course { queued: waited, ..Course::default() };
                    asked.outcome.send(Err(ExchangeError::Failed { failure: Failure::Deadline, course }));
                }
                Err(KeysError::InUse) if waited < PATIENCE => {
                    let until = since + timeout.map_or(PATIENCE, |timeout| timeout.min(PATIENCE));
                    self.protecting.wait(Waiting { asked, keys, since }, until);
                }
                Err(error) => {
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
                Done::Stored(reserve, Ok(())) => self.endpoint.reserved(reserve),
                Done::Stored(reserve, Err(error)) => {
                    warn!(%error, "the numbers of OSCORE keys cannot be kept: soon nothing can be protected");
                    self.endpoint.not_reserved(reserve.context);
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

        /// Requests are answered only if somebody vouches for them.
        pub(in crate::driver) const fn wants_identity(&self) -> bool {
            self.protecting.only
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

    use crate::driver::handle::Asked;
    use crate::driver::{Address, Driver};
    use crate::security::Identity;
    use crate::settings::SharedController;

    /// Nothing is protected.
    #[derive(Debug, Default)]
    pub(crate) struct Protecting;

    impl Protecting {
        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) fn protect(&self, _: Address, request: Request) -> Request {
            request
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

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) const fn wants_identity(&self) -> bool {
            false
        }

        pub(in crate::driver) async fn give_keys_back(&mut self) {}
    }
}
