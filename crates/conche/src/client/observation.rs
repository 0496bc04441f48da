//! [`Observation`]: observes a resource (RFC 7641).

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use conche_proto::{ExchangeStats, RequestError, SubscriptionEnd};
use futures_core::Stream;

use super::request::{Registered, RequestBuilder, is_absent, retry_after};
use super::{Error, Response};
use crate::driver::{End, ExchangeError, State, Update};

/// A stream of a resource's states (RFC 7641). The first item is the response to the request.
///
/// ```no_run
/// # async fn example(client: conche::Client) -> Result<(), conche::Error> {
/// let mut temperature = client.observe("coap://example.com/temperature");
/// while let Some(response) = temperature.next().await {
///     println!("{:?}", response?.successful()?.text());
/// }
/// println!("over: {:?}", temperature.end());
/// # Ok(())
/// # }
/// ```
///
/// - **Order:** each state is newer than those before it, even if notifications are reordered. A
///   slow reader skips outdated states.
/// - **Renewal:** when nothing arrives for longer than the last Max-Age plus some seconds, the
///   client registers again (§3.3.1), in case the server restarted. Over `coaps` it also does so
///   when the session is over, and with a new session if the server does not respond. If the server
///   lost keys from EDHOC, the client repeats the key exchange.
/// - **Unavailable:** after a notification 5.03, which a server that shuts down sends, the client
///   registers again when its Max-Age is over (RFC 7252 §5.9.3.4). After a renewal that timed out
///   or found the server unreachable it does so after 1 s. While the server remains unreachable or
///   repeats 5.03 it retries, at most 9 times, with pauses that double from 1 s to 256 s. A random
///   part of up to half of it lengthens each pause, so that not all clients return at once.
///   [`retry_unavailable`](Self::retry_unavailable) disables this.
/// - **Complete states:** after a notification with only the first block (RFC 7959 §2.6), the
///   client fetches the whole state. If that fails, the error is an item and the observation
///   continues.
/// - **End:** after an item with another error code; after the first item if the server does not
///   accept the observation; with an error if the first registration or the last retry fails.
/// - **Dropping** the stream notifies the server without waiting. [`cancel`](Self::cancel) waits,
///   and [`forget`](Self::forget) sends nothing.
#[must_use = "nothing is sent before the stream is polled"]
pub struct Observation {
    stage: Stage,
    registered: Option<Registered>,
    /// ETag of the last fetched state.
    fetched: Option<Vec<u8>>,
    end: Option<SubscriptionEnd>,
    retry_unavailable: bool,
    /// Max-Age of a 5.03 that ended the observation at the server.
    unavailable: Option<Duration>,
}

enum Stage {
    Registering(Pending<(Response, Registered)>),
    Observing,
    Fetching(Pending<Response>),
    Over,
}

type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

impl Observation {
    pub(super) fn new(request: RequestBuilder) -> Self {
        let stage = Stage::Registering(Box::pin(request.register()));
        Self { stage, registered: None, fetched: None, end: None, retry_unavailable: true, unavailable: None }
    }

    /// Whether to retry after a notification 5.03 or a renewal without a response; true by default.
    /// If false, the 5.03 or the error is the last item; over `coaps` the client retries for about a
    /// minute before the error.
    ///
    /// A 5.03 to the first request, or with a Max-Age of more than an hour, is always the last item.
    ///
    /// ```no_run
    /// # async fn example(client: conche::Client) -> Result<(), conche::Error> {
    /// let mut temperature = client.observe("coap://example.com/temperature").retry_unavailable(false);
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry_unavailable(self, retry: bool) -> Self {
        Self { retry_unavailable: retry, ..self }
    }

    /// Returns the next state, or `None` after the last. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Response, Error>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Returns why the stream ended. `None` before, if the first request or the last retry failed,
    /// or if the client stopped.
    #[must_use]
    pub fn end(&self) -> Option<SubscriptionEnd> {
        self.end
    }

    /// Cancels the observation with Observe 1 (RFC 7641 §3.6), and waits for the response. Sends
    /// nothing if it has ended or not begun.
    ///
    /// # Errors
    /// If no response arrives; the client then rejects the next notification with a Reset.
    pub async fn cancel(self) -> Result<(), Error> {
        let Some(Registered { subscription, address, .. }) = self.registered else { return Ok(()) };
        let body_limit = subscription.body_limit();
        match subscription.end().await {
            Ok(_) | Err(ExchangeError::Refused(RequestError::NotSubscribed)) => Ok(()),
            Err(error) => Err(Error::exchange(address, error, body_limit)),
        }
    }

    /// Ends the observation without a message: the client rejects the next notification with a
    /// Reset (RFC 7641 §3.6).
    pub fn forget(self) {
        if let Some(Registered { subscription, .. }) = self.registered {
            subscription.forget();
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Response, Error>>> {
        loop {
            match &mut self.stage {
                Stage::Registering(registering) => match ready!(registering.as_mut().poll(context)) {
                    Ok((response, registered)) => {
                        self.registered = Some(registered);
                        self.stage = Stage::Observing;
                        if let Some(whole) = self.take(response) {
                            return Poll::Ready(Some(Ok(whole)));
                        }
                    }
                    Err(error) => {
                        self.stage = Stage::Over;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                Stage::Fetching(fetching) => {
                    let fetched = ready!(fetching.as_mut().poll(context));
                    self.stage = Stage::Observing;
                    self.fetched = fetched.as_ref().ok().and_then(Response::etag).map(<[u8]>::to_vec);
                    return Poll::Ready(Some(fetched));
                }
                Stage::Observing => {
                    let Some(registered) = &self.registered else {
                        self.stage = Stage::Over;
                        continue;
                    };
                    match ready!(registered.subscription.poll(context)) {
                        Update::State(State { from, message, received }) => {
                            let response = Response::new(from, message, ExchangeStats::default());
                            registered.notified(&response, received);
                            self.unavailable = retry_after(&response).filter(|_| self.retry_unavailable);
                            if self.unavailable.is_none()
                                && let Some(whole) = self.take(response)
                            {
                                return Poll::Ready(Some(Ok(whole)));
                            }
                        }
                        Update::End(end) => {
                            let (peer, renews) = (registered.address, registered.can_reregister(end));
                            let is_error = matches!(end, End::Over(SubscriptionEnd::Error(_)));
                            let unavailable = self.unavailable.take().filter(|_| is_error);
                            let waits = self.retry_unavailable;
                            self.stage = match (self.registered.take(), unavailable) {
                                (Some(registered), Some(max_age)) => {
                                    Stage::Registering(Box::pin(registered.once_available(max_age)))
                                }
                                (Some(registered), None) if renews => {
                                    Stage::Registering(Box::pin(registered.again(waits)))
                                }
                                (Some(registered), None) if waits && is_absent(end) => {
                                    Stage::Registering(Box::pin(registered.once_reachable()))
                                }
                                _ => return Poll::Ready(self.over(end, peer).map(Err)),
                            };
                        }
                    }
                }
                Stage::Over => return Poll::Ready(None),
            }
        }
    }

    fn take(&mut self, response: Response) -> Option<Response> {
        if !response.is_first_block() {
            self.fetched = None;
            return Some(response);
        }
        let fetched = self.fetched.as_deref().filter(|fetched| response.etag() == Some(fetched));
        let registered = self.registered.as_ref().filter(|_| fetched.is_none())?;
        self.stage = Stage::Fetching(Box::pin(registered.fetch()));
        None
    }

    fn over(&mut self, end: End, peer: SocketAddr) -> Option<Error> {
        self.stage = Stage::Over;
        self.registered = None;
        match end {
            End::SessionOver => None,
            End::Stopped => Some(Error::Stopped),
            End::Refused(refusal) => Some(Error::Refused(refusal)),
            End::Over(end) => {
                self.end = Some(end);
                match end {
                    SubscriptionEnd::Failed(failure) => {
                        Some(Error::Failed { peer, failure, course: ExchangeStats::default() })
                    }
                    _ => None,
                }
            }
        }
    }
}

impl Stream for Observation {
    type Item = Result<Response, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(context)
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Registering(_) => "registering",
            Stage::Observing => "observing",
            Stage::Fetching(_) => "fetching",
            Stage::Over => "over",
        };
        f.debug_struct("Observation").field("stage", &stage).field("end", &self.end).finish_non_exhaustive()
    }
}
