//! Bodies that go block by block, between the endpoint and whoever makes or uses them.

use std::collections::HashMap;

use conche_proto::codec::{Code, OptionNumber, OwnedMessage};
use conche_proto::{RequestId, RespondError, Rest, StreamEnd, Unfinished};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

use super::handle::{Command, OfBody, Told};
use super::serving::unavailable;
use super::{Driver, Memory};
use crate::body::{Piece, Source};
use crate::controllers::SharedController;
use crate::server::Response;

/// The bodies of requests that come to handlers, and of responses that are made by streams.
#[derive(Debug)]
pub(super) struct Bodies {
    coming: HashMap<RequestId, mpsc::UnboundedSender<Part>>,
    leaving: HashMap<RequestId, Outlet>,
    /// To go on with. It does not keep the driver.
    commands: mpsc::WeakUnboundedSender<Command>,
}

/// The next block of a request's body.
type Part = Result<Piece, StreamEnd>;

/// A response that is made by a stream, in a task of its own.
#[derive(Debug)]
struct Outlet {
    wanted: mpsc::UnboundedSender<usize>,
    task: AbortHandle,
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The rest of a request's body, which comes while the handler runs.
#[derive(Debug)]
pub(crate) struct Inlet {
    request: RequestId,
    parts: mpsc::UnboundedReceiver<Part>,
    commands: mpsc::WeakUnboundedSender<Command>,
}

impl Inlet {
    /// The last block was taken, and the client may send the next one.
    pub(crate) fn take(&self) {
        if let Some(commands) = self.commands.upgrade() {
            // Without a driver there is no next one, as the parts say.
            let _ = commands.send(Command::Body(OfBody::TakenHere { request: self.request }));
        }
    }

    /// The next block; `None` if the server has ended. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Result<Piece, StreamEnd>> {
        self.parts.recv().await
    }
}

impl Bodies {
    pub(super) fn new(commands: &mpsc::UnboundedSender<Command>) -> Self {
        Self { coming: HashMap::new(), leaving: HashMap::new(), commands: commands.downgrade() }
    }

    /// A request arrived; where the rest of its body comes, if there is one.
    pub(super) fn begun(&mut self, request: RequestId, message: &OwnedMessage) -> Option<Inlet> {
        let block = message.content().block(OptionNumber::BLOCK1).ok().flatten();
        block.filter(|block| block.more)?;
        let (sender, parts) = mpsc::unbounded_channel();
        self.coming.insert(request, sender);
        Some(Inlet { request, parts, commands: self.commands.clone() })
    }

    /// Another block of a request's body.
    pub(super) fn part(&mut self, request: RequestId, message: &OwnedMessage, last: bool) {
        if let Some(coming) = self.coming.get(&request) {
            // If nobody reads it, the handler's response is on its way.
            let _ = coming.send(Ok(Piece { bytes: message.payload_bytes(), last }));
        }
    }

    /// A body is over before its end.
    pub(super) fn over(&mut self, request: RequestId, reason: StreamEnd) {
        debug!(%reason, "a body is over before its end");
        if let Some(coming) = self.coming.remove(&request) {
            let _ = coming.send(Err(reason));
        }
        self.leaving.remove(&request);
    }

    /// The handler has answered, so that nothing more of the request is of use.
    pub(super) fn answered(&mut self, request: RequestId) {
        // Few requests have such a body, and all come here.
        if !self.coming.is_empty() {
            self.coming.remove(&request);
        }
    }

    /// Some response is still being made.
    pub(super) fn are_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Has a stream make the response to a request, as fast as it is wanted.
    fn leave(&mut self, request: RequestId, mut source: Source) {
        let (sender, mut wanted) = mpsc::unbounded_channel();
        let commands = self.commands.clone();
        let task = tokio::spawn(async move {
            while let Some(bytes) = wanted.recv().await {
                let piece = source.piece(bytes).await;
                let over = piece.as_ref().map_or(true, |piece| piece.last);
                let Some(commands) = commands.upgrade() else { return };
                let _ = commands.send(Command::Body(OfBody::SuppliedHere { request, piece }));
                if over {
                    return;
                }
            }
        });
        self.leaving.insert(request, Outlet { wanted: sender, task: task.abort_handle() });
    }
}

impl<C: SharedController> Driver<C> {
    /// More of a body is wanted.
    pub(super) fn body_wanted(&mut self, body: Unfinished, bytes: usize) {
        match body {
            Unfinished::Request(exchange) => self.exchanges.tell(exchange, |_| Told::Wanted(bytes)),
            Unfinished::Response(request) => {
                if let Some(outlet) = self.bodies.leaving.get(&request) {
                    // Its task ends with the body's last piece, after which nothing is wanted.
                    let _ = outlet.wanted.send(bytes);
                }
            }
        }
    }

    /// A body goes on. What is over by now does not.
    pub(super) fn go_on_with_body(&mut self, what: OfBody) {
        match what {
            OfBody::Taken { ticket } => {
                if let Some(exchange) = self.exchanges.of(ticket) {
                    self.endpoint.fetch_next(self.now, exchange);
                }
            }
            OfBody::Supplied { ticket, piece: Piece { bytes, last } } => {
                if let Some(exchange) = self.exchanges.of(ticket) {
                    let _ = self.endpoint.supply(self.now, Unfinished::Request(exchange), bytes, last);
                }
            }
            OfBody::TakenHere { request } => {
                let _ = self.endpoint.continue_request(self.now, request);
            }
            OfBody::SuppliedHere { request, piece: Ok(Piece { bytes, last }) } => {
                if last {
                    self.bodies.leaving.remove(&request);
                }
                let _ = self.endpoint.supply(self.now, Unfinished::Response(request), bytes, last);
            }
            OfBody::SuppliedHere { request, piece: Err(error) } => {
                warn!(error, "a response's stream failed; the client gets 5.00");
                self.bodies.leaving.remove(&request);
                self.send_response(request, Response::new(Code::INTERNAL_SERVER_ERROR), Memory::Own);
            }
        }
    }

    /// Answers a request with a body that a stream makes.
    pub(super) fn respond_in_parts(
        &mut self,
        request: RequestId,
        head: conche_proto::Response,
        (source, size): (Source, Option<u32>),
    ) -> Result<(), RespondError> {
        // Before the endpoint wants something of it.
        self.bodies.leave(request, source);
        let begun = self.endpoint.respond_in_parts(self.now, request, head, Rest { size });
        if begun != Ok(true) {
            self.bodies.leaving.remove(&request);
        }
        match begun {
            Ok(_) => Ok(()),
            Err(RespondError::TooManyStreams { limit }) => {
                debug!(limit, "too many bodies are under way; the client gets 5.03");
                self.send_response(request, unavailable(), Memory::Own);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
