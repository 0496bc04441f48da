//! Keys (OSCORE, RFC 8613) of one socket: which requests are protected with which, who asks, and numbers that are kept.

#[cfg(feature = "oscore")]
pub(crate) use with::Protecting;
#[cfg(not(feature = "oscore"))]
pub(crate) use without::Protecting;

#[cfg(feature = "oscore")]
mod with {
    use std::io;

    use conche_proto::oscore::{ContextId, InsertError, ProtectError, Reserve};
    use conche_proto::{Endpoint, Request, RequestError, RequestId};
    use tokio::task::JoinSet;
    use tracing::{debug, warn};

    use crate::driver::{Address, Driver};
    use crate::oscore::{self, Keys, Lease, LeaseError};
    use crate::prefixes::Prefixes;
    use crate::security::Identity;
    use crate::settings::SharedController;

    /// The keys that a socket has, and those that it takes when it needs them.
    #[derive(Debug, Default)]
    pub(crate) struct Protecting {
        held: Vec<Held>,
        /// For requests to destinations.
        toward: Prefixes<Keys>,
        /// Plain requests are refused.
        pub(in crate::driver) only: bool,
        storing: JoinSet<(Reserve, io::Result<()>)>,
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

        /// Takes keys, for an endpoint to use.
        pub(crate) fn take<C: SharedController>(
            &mut self,
            endpoint: &mut Endpoint<Address, C>,
            keys: &Keys,
        ) -> Result<ContextId, TakeError> {
            let (lease, context, up_to) = Lease::take(keys)?;
            let context = endpoint.add_context(context)?;
            endpoint.reserved(Reserve { context, up_to });
            self.held.push(Held { lease, context, peer: keys.peer() });
            Ok(context)
        }

        /// A request, protected if that is wanted for its destination.
        pub(in crate::driver) fn protect<C: SharedController>(
            &mut self,
            endpoint: &mut Endpoint<Address, C>,
            to: Address,
            request: Request,
        ) -> Result<Request, RequestError> {
            let Some(keys) = self.toward.of(to.canonical().ip()) else { return Ok(request) };
            let peer = keys.peer();
            let held = self.held.iter().find(|held| held.lease.keys().is(keys)).map(|held| held.context);
            let context = match held {
                Some(context) => context,
                None => self.take(endpoint, &keys.clone()).map_err(|error| {
                    warn!(%to, %peer, %error, "the keys for a destination cannot be used");
                    RequestError::NotProtected(ProtectError::UnknownContext)
                })?,
            };
            Ok(request.protected(context))
        }

        /// Whose context this is.
        pub(in crate::driver) fn identity(&self, context: ContextId) -> Option<Identity> {
            self.held.iter().find(|held| held.context == context).map(|held| Identity::Oscore(held.peer.clone()))
        }

        /// Has numbers kept, on a thread for that.
        pub(in crate::driver) fn store(&mut self, reserve: Reserve) {
            if let Some(held) = self.held.iter_mut().find(|held| held.context == reserve.context) {
                let storing = held.lease.reserve(reserve);
                self.storing.spawn_blocking(move || (reserve, storing()));
            }
        }

        /// The next numbers that were kept, or not. Never ready while none are.
        pub(in crate::driver) async fn stored(&mut self) -> (Reserve, io::Result<()>) {
            loop {
                match self.storing.join_next().await {
                    Some(Ok(stored)) => return stored,
                    // A store that panics has kept nothing, and is not asked again.
                    Some(Err(error)) => warn!(%error, "numbers were not kept"),
                    None => std::future::pending().await,
                }
            }
        }
    }

    /// Why keys cannot be used.
    #[derive(Debug, thiserror::Error)]
    pub(crate) enum TakeError {
        #[error(transparent)]
        Lease(#[from] LeaseError),
        #[error("other keys have the same names: {0}")]
        Insert(#[from] InsertError),
    }

    impl<C: SharedController> Driver<C> {
        pub(in crate::driver) fn numbers_stored(&mut self, (reserve, stored): (Reserve, io::Result<()>)) {
            match stored {
                Ok(()) => self.endpoint.reserved(reserve),
                Err(error) => {
                    warn!(%error, "the numbers of OSCORE keys cannot be kept: soon nothing can be protected");
                    self.endpoint.not_reserved(reserve.context);
                }
            }
        }

        /// Who has sent a request that was protected itself.
        pub(in crate::driver) fn identify_protected(&self, request: RequestId) -> Option<Identity> {
            self.protecting.identity(self.endpoint.security(request)?)
        }

        /// Requests are answered only if somebody vouches for them.
        pub(in crate::driver) const fn wants_identity(&self) -> bool {
            self.protecting.only
        }

        /// Gives all keys back.
        pub(in crate::driver) fn give_keys_back(&mut self) {
            for Held { lease, context, .. } in self.protecting.held.drain(..) {
                let Some(context) = self.endpoint.remove_context(context) else { continue };
                if let Err(error) = lease.end(&context) {
                    debug!(%error, "the state of OSCORE keys was not kept");
                }
            }
        }
    }
}

#[cfg(not(feature = "oscore"))]
mod without {
    use conche_proto::{Endpoint, Request, RequestError, RequestId};

    use crate::driver::{Address, Driver};
    use crate::security::Identity;
    use crate::settings::SharedController;

    /// Nothing is protected.
    #[derive(Debug, Default)]
    pub(crate) struct Protecting;

    impl Protecting {
        #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
        pub(in crate::driver) fn protect<C: SharedController>(
            &mut self,
            _: &mut Endpoint<Address, C>,
            _: Address,
            request: Request,
        ) -> Result<Request, RequestError> {
            Ok(request)
        }

        pub(in crate::driver) async fn stored(&mut self) {
            std::future::pending().await
        }
    }

    impl<C: SharedController> Driver<C> {
        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) fn numbers_stored(&mut self, (): ()) {}

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) fn identify_protected(&self, _: RequestId) -> Option<Identity> {
            None
        }

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) const fn wants_identity(&self) -> bool {
            false
        }

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(in crate::driver) fn give_keys_back(&mut self) {}
    }
}
