//! [`RequireFresh`]: a layer that requires fresh requests by Echo (RFC 9175).

use std::sync::Arc;
use std::time::Duration;

use conche_proto::codec::{Code, OptionNumber};
use conche_proto::{Freshness, Instant};
use tower_layer::Layer;

use super::routing::{RequestService, Route};
use super::{HandlerFuture, Request, Response};

/// A layer that passes only fresh requests: those with an Echo option (RFC 9175 §2) whose value the
/// server recently sent to this client. Others are answered with 4.01 and an Echo value, and
/// [`Client`](crate::Client) repeats them with it.
///
/// After that time, recorded or delayed requests have no effect; neither have requests from forged
/// addresses. The cost is a round trip, and no memory per client.
///
/// ```
/// use std::time::Duration;
///
/// use conche::server::{RequireFresh, Router, put};
///
/// # fn main() -> Result<(), conche::server::NoRandomness> {
/// async fn unlock() {}
///
/// let fresh = RequireFresh::within(Duration::from_secs(10))?;
/// let router: Router = Router::new().route("/door", put(unlock).layer(fresh));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RequireFresh(Arc<Challenges>);

#[derive(Debug)]
struct Challenges {
    freshness: Freshness,
    epoch: tokio::time::Instant,
}

/// The operating system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random numbers")]
pub struct NoRandomness(#[source] getrandom::Error);

impl RequireFresh {
    /// Accepts Echo values for this time after they were sent.
    ///
    /// # Errors
    /// If the operating system has no random numbers for the key.
    pub fn within(lifetime: Duration) -> Result<Self, NoRandomness> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(NoRandomness)?;
        let epoch = tokio::time::Instant::now();
        Ok(Self(Arc::new(Challenges { freshness: Freshness::new(key, lifetime), epoch })))
    }
}

impl Challenges {
    /// Returns the 4.01 response to a request that is not fresh.
    fn refusal(&self, request: &Request) -> Option<Response> {
        if request.is_for_observers() {
            return None;
        }
        let now = Instant::ZERO + self.epoch.elapsed();
        let peer = request.peer();
        let value = request.message().option(OptionNumber::ECHO);
        let fresh = value.is_some_and(|value| self.freshness.check(now, &peer, value).is_ok());
        let challenge =
            || Response::new(Code::UNAUTHORIZED).option(OptionNumber::ECHO, &self.freshness.challenge(now, &peer));
        (!fresh).then(challenge)
    }
}

impl<I: RequestService> Layer<I> for RequireFresh {
    type Service = Route;

    fn layer(&self, inner: I) -> Route {
        let (challenges, inner) = (Arc::clone(&self.0), Route::from_service(inner));
        Route::new(move |request| match challenges.refusal(&request) {
            Some(refusal) => HandlerFuture::ready(refusal),
            None => inner.answer(request),
        })
    }
}
