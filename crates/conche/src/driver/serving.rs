//! Running handlers: bounded in number, and with a response for every request even if a handler panics.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use conche_proto::RequestId;
use conche_proto::codec::{Code, OptionNumber, OwnedMessage};
use tokio::task::{Id, JoinSet};
use tracing::{Instrument, debug, debug_span, error};

use crate::server::{Dispatch, Response, Router};

/// A client that is told to come back later does so after this time (RFC 7252 §5.9.3.4).
const RETRY_AFTER_SECONDS: u32 = 2;

#[derive(Debug)]
pub(super) struct Serving {
    router: Router,
    most: usize,
    running: JoinSet<Response>,
    requests: HashMap<Id, RequestId>,
    refusing: bool,
}

impl Serving {
    pub(super) fn new(router: Router, most: usize) -> Self {
        Self { router, most, running: JoinSet::new(), requests: HashMap::new(), refusing: false }
    }

    /// Answers what still arrives with 5.03.
    pub(super) fn refuse(&mut self) {
        self.refusing = true;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Starts to answer a request. Most handlers wait for nothing: what is ready at once is returned and costs no task.
    pub(super) fn start(&mut self, id: RequestId, from: SocketAddr, message: OwnedMessage) -> Option<Response> {
        if self.refusing || self.running.len() >= self.most {
            debug!(peer = %from, running = self.running.len(), "request refused");
            return Some(Response::new(Code::SERVICE_UNAVAILABLE).uint(OptionNumber::MAX_AGE, RETRY_AFTER_SECONDS));
        }
        let span = debug_span!("request", peer = %from, method = ?message.code(), path = message.uri_path());
        let entered = span.enter();
        // A panic leaves nothing behind here: the router is not changed, and the handler's future is dropped.
        let first = catch_unwind(AssertUnwindSafe(|| match self.router.dispatch(from, message) {
            Dispatch::Reply(response) => Ok(response),
            Dispatch::Handle(mut answer) => match poll_once(answer.as_mut()) {
                Poll::Ready(response) => Ok(response),
                Poll::Pending => Err(answer),
            },
        }));
        drop(entered);
        match first {
            Ok(Ok(response)) => Some(response),
            Ok(Err(answer)) => {
                let task = self.running.spawn(answer.instrument(span));
                self.requests.insert(task.id(), id);
                None
            }
            Err(_) => Some(panicked()),
        }
    }

    /// The next handler that ends. Never ready while none runs.
    pub(super) async fn next(&mut self) -> (RequestId, Response) {
        loop {
            let (task, response) = match self.running.join_next_with_id().await {
                Some(Ok((task, response))) => (task, response),
                Some(Err(error)) => (error.id(), panicked()),
                None => std::future::pending().await,
            };
            if let Some(request) = self.requests.remove(&task) {
                return (request, response);
            }
        }
    }
}

/// Polls a future for which it is too early to have a waker: whoever keeps it must poll it again.
fn poll_once<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn panicked() -> Response {
    error!("a handler panicked; its request is answered with 5.00");
    Response::new(Code::INTERNAL_SERVER_ERROR)
}
