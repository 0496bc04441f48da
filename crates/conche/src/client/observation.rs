//! [`Observation`]: a resource's state, and all changes of it (RFC 7641).

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use conche_proto::{Course, RequestError, SubscriptionEnd};
use futures_core::Stream;

use super::request::{Registered, RequestBuilder};
use super::{Error, Response};
use crate::driver::{End, ExchangeError, News, State};

/// A resource's state, and each change of it from then on (RFC 7641): a stream of responses, the first of which answers the
/// request itself.
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
/// - **What comes is newer** than what came before, however notifications overtake each other on the way. Who takes states
///   more slowly than they come misses those that are out of date: only the newest one waits.
/// - **It goes on by itself.** When nothing has come for longer than the last state's Max-Age and some seconds, the client
///   registers again (§3.3.1), so that a server that has forgotten its observers, as by a restart, learns of them. Over `coaps` it does
///   so at once when the session is over, and tries for about a minute. With keys that were agreed on (EDHOC) and that the server has lost, it agrees on others.
/// - **States are whole.** Of one that does not fit into a message the notification brings a first block (RFC 7959 §2.6); the
///   whole is fetched before it is yielded. If that fails the error is an item, and the observation goes on.
/// - **It ends** after an item with an error code; after the first item if the server does not let this be observed; and with
///   an error if the server is not there when the client registers again. [`end`](Self::end) tells which it was.
/// - **Dropping it** tells the server, as far as that goes without waiting. [`cancel`](Self::cancel) waits, and
///   [`forget`](Self::forget) tells nothing.
#[must_use = "nothing is sent before the stream is polled"]
pub struct Observation {
    stage: Stage,
    registered: Option<Registered>,
    /// The ETag of what was fetched last: a notification of the same state is not news.
    fetched: Option<Vec<u8>>,
    end: Option<SubscriptionEnd>,
}

enum Stage {
    Registering(Pending<(Response, Registered)>),
    Observing,
    /// A notification brought one block of a state; the whole is on its way.
    Fetching(Pending<Response>),
    Over,
}

type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

impl Observation {
    pub(super) fn new(request: RequestBuilder) -> Self {
        let stage = Stage::Registering(Box::pin(request.register()));
        Self { stage, registered: None, fetched: None, end: None }
    }

    /// The next state; `None` after the last one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Response, Error>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Why the stream has ended; `None` as long as it has not, and if it has because of the first request or the client's
    /// own end.
    #[must_use]
    pub fn end(&self) -> Option<SubscriptionEnd> {
        self.end
    }

    /// Tells the server that it is over, with a GET or FETCH that has Observe 1 (RFC 7641 §3.6), and waits for the answer.
    /// Nothing is sent if it is over already, or has not begun.
    ///
    /// # Errors
    /// If no answer comes. The server learns all the same when it notifies next: it gets a Reset.
    pub async fn cancel(self) -> Result<(), Error> {
        let Some(Registered { subscription, address, .. }) = self.registered else { return Ok(()) };
        let body_limit = subscription.body_limit();
        match subscription.end().await {
            Ok(_) | Err(ExchangeError::Refused(RequestError::NotSubscribed)) => Ok(()),
            Err(error) => Err(Error::exchange(address, error, body_limit)),
        }
    }

    /// Ends it without a word: the client rejects the server's next notification with a Reset, by which the server learns
    /// (RFC 7641 §3.6). Until then it keeps its observer, and the client must live on to reject.
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
                        News::State(State { from, message, received }) => {
                            let response = Response::new(from, message, Course::default());
                            registered.notified(&response, received);
                            if let Some(whole) = self.take(response) {
                                return Poll::Ready(Some(Ok(whole)));
                            }
                        }
                        News::End(end) if registered.may_go_on(end) => match self.registered.take() {
                            Some(registered) => self.stage = Stage::Registering(Box::pin(registered.again())),
                            None => self.stage = Stage::Over,
                        },
                        News::End(end) => {
                            let peer = registered.address;
                            return Poll::Ready(self.over(end, peer).map(Err));
                        }
                    }
                }
                Stage::Over => return Poll::Ready(None),
            }
        }
    }

    /// A state to yield, if all of it is here and it is news; otherwise it is fetched.
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

    /// There will be no more. The answer is the error that is why, if it is one.
    fn over(&mut self, end: End, peer: SocketAddr) -> Option<Error> {
        self.stage = Stage::Over;
        self.registered = None;
        match end {
            // It would have been registered again.
            End::SessionOver => None,
            End::Stopped => Some(Error::Stopped),
            End::Refused(refusal) => Some(Error::Refused(refusal)),
            End::Over(end) => {
                self.end = Some(end);
                match end {
                    SubscriptionEnd::Failed(failure) => {
                        Some(Error::Failed { peer, failure, course: Course::default() })
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
