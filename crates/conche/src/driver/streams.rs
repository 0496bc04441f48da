//! Streamed bodies between the endpoint and their producers and consumers.

use std::collections::HashMap;

use conche_proto::codec::{OptionNumber, OwnedMessage};
use conche_proto::{IncompleteBody, RemainingBody, RequestId, RespondError, StreamEnd};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

use super::commands::{Command, StreamCommand, StreamEvent};
use super::service::{Answer, FutureMemory};
use super::{Driver, Service, SharedController};
use crate::body::{Piece, SizedSource, Source};
use crate::refusal;

#[derive(Debug)]
pub(super) struct Streams {
    requests: HashMap<RequestId, mpsc::UnboundedSender<Part>>,
    responses: HashMap<RequestId, Outlet>,
    /// Weak, to not keep the driver alive.
    commands: mpsc::WeakUnboundedSender<Command>,
}

type Part = Result<Piece, StreamEnd>;

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

/// The rest of a request's body, received while the handler runs.
#[derive(Debug)]
pub(crate) struct Inlet {
    request: RequestId,
    parts: mpsc::UnboundedReceiver<Part>,
    commands: mpsc::WeakUnboundedSender<Command>,
}

impl Inlet {
    pub(crate) fn take(&self) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(Command::Body(StreamCommand::RequestBlockRead { request: self.request }));
        }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Piece, StreamEnd>> {
        self.parts.recv().await
    }
}

impl Streams {
    pub(super) fn new(commands: &mpsc::UnboundedSender<Command>) -> Self {
        Self { requests: HashMap::new(), responses: HashMap::new(), commands: commands.downgrade() }
    }

    pub(super) fn begin_request(&mut self, request: RequestId, message: &OwnedMessage) -> Option<Inlet> {
        let block = message.content().block(OptionNumber::BLOCK1).ok().flatten();
        block.filter(|block| block.more)?;
        let (sender, parts) = mpsc::unbounded_channel();
        self.requests.insert(request, sender);
        Some(Inlet { request, parts, commands: self.commands.clone() })
    }

    pub(super) fn on_request_block(&mut self, request: RequestId, message: &OwnedMessage, last: bool) {
        if let Some(sender) = self.requests.get(&request) {
            // The receiver is missing if the handler's response is on its way.
            let _ = sender.send(Ok(Piece { bytes: message.payload_bytes(), last }));
        }
    }

    pub(super) fn on_end(&mut self, request: RequestId, reason: StreamEnd) {
        debug!(%reason, "a body is over before its end");
        if let Some(sender) = self.requests.remove(&request) {
            let _ = sender.send(Err(reason));
        }
        self.responses.remove(&request);
    }

    pub(super) fn on_answered(&mut self, request: RequestId) {
        // Called for every request; few have such a body.
        if !self.requests.is_empty() {
            self.requests.remove(&request);
        }
    }

    pub(super) fn has_responses(&self) -> bool {
        !self.responses.is_empty()
    }

    fn start_response(&mut self, request: RequestId, mut source: Source) {
        let (sender, mut wanted) = mpsc::unbounded_channel();
        let commands = self.commands.clone();
        let task = tokio::spawn(async move {
            while let Some(bytes) = wanted.recv().await {
                let piece = source.piece(bytes).await;
                let over = piece.as_ref().map_or(true, |piece| piece.last);
                let Some(commands) = commands.upgrade() else { return };
                let _ = commands.send(Command::Body(StreamCommand::ResponsePiece { request, piece }));
                if over {
                    return;
                }
            }
        });
        self.responses.insert(request, Outlet { wanted: sender, task: task.abort_handle() });
    }
}

impl<C: SharedController, S: Service> Driver<C, S> {
    pub(super) fn on_body_wanted(&mut self, body: IncompleteBody, bytes: usize) {
        match body {
            IncompleteBody::Request(exchange) => self.exchanges.send_event(exchange, |_| StreamEvent::Wanted(bytes)),
            IncompleteBody::Response(request) => {
                if let Some(outlet) = self.streams.responses.get(&request) {
                    let _ = outlet.wanted.send(bytes);
                }
            }
        }
    }

    pub(super) fn on_stream_command(&mut self, command: StreamCommand) {
        match command {
            StreamCommand::ResponseBlockRead { ticket } => {
                if let Some(exchange) = self.exchanges.of(ticket) {
                    self.endpoint.fetch_next(self.now, exchange);
                }
            }
            StreamCommand::RequestPiece { ticket, piece: Piece { bytes, last } } => {
                if let Some(exchange) = self.exchanges.of(ticket) {
                    let _ = self.endpoint.supply(self.now, IncompleteBody::Request(exchange), bytes, last);
                }
            }
            StreamCommand::RequestBlockRead { request } => {
                let _ = self.endpoint.continue_request(self.now, request);
            }
            StreamCommand::ResponsePiece { request, piece: Ok(Piece { bytes, last }) } => {
                if last {
                    self.streams.responses.remove(&request);
                }
                let _ = self.endpoint.supply(self.now, IncompleteBody::Response(request), bytes, last);
            }
            StreamCommand::ResponsePiece { request, piece: Err(error) } => {
                warn!(error, "a response's stream failed; the client gets 5.00");
                self.streams.responses.remove(&request);
                self.send_response(request, Answer::Driver(refusal::internal_error()), FutureMemory::Own);
            }
        }
    }

    pub(super) fn respond_in_parts(
        &mut self,
        request: RequestId,
        head: conche_proto::Response,
        stream: SizedSource,
    ) -> Result<(), RespondError> {
        // Before the endpoint's first demand.
        let SizedSource { source, size } = stream;
        self.streams.start_response(request, source);
        let begun = self.endpoint.respond_in_parts(self.now, request, head, RemainingBody { size });
        if begun != Ok(true) {
            self.streams.responses.remove(&request);
        }
        match begun {
            Ok(_) => Ok(()),
            Err(RespondError::TooManyStreams { limit }) => {
                debug!(limit, "too many bodies are under way; the client gets 5.03");
                self.send_response(request, Answer::Driver(refusal::unavailable()), FutureMemory::Own);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
