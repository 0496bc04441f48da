//! Sends responses: the service's, or the driver's own.

use conche_proto::codec::{BuildError, Code, MessagePool};
use conche_proto::{RequestId, RespondError};
use tracing::{debug, warn};

use super::service::ServiceResponse;
use super::{Driver, Service, SharedController};
use crate::body::SizedSource;
use crate::refusal;

/// A response to a request.
#[derive(Debug)]
pub(super) enum Answer<R> {
    Service(R),
    /// The driver's own, without the service.
    Driver(conche_proto::Response),
}

impl<R: ServiceResponse> Answer<R> {
    fn code(&self) -> Code {
        match self {
            Self::Service(response) => response.code(),
            Self::Driver(response) => response.code,
        }
    }

    fn is_brief(&self) -> bool {
        match self {
            Self::Service(response) => response.is_brief(),
            Self::Driver(_) => true,
        }
    }

    fn take_stream(&mut self) -> Option<SizedSource> {
        match self {
            Self::Service(response) => response.take_stream(),
            Self::Driver(_) => None,
        }
    }

    fn build(self, pool: Option<&mut MessagePool>) -> Result<conche_proto::Response, BuildError> {
        match self {
            Self::Service(response) => response.build(pool),
            Self::Driver(response) => Ok(response),
        }
    }
}

/// Memory that holds an encoded response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Own,
    /// Lent by a pool, to be returned soon.
    Lent,
}

impl<C: SharedController, S: Service> Driver<C, S> {
    pub(super) fn respond(&mut self, request: RequestId, response: Answer<S::Response>) {
        self.streams.on_answered(request);
        self.send_response(request, response, Memory::Own);
        self.registration_answered(request);
    }

    /// Answers a request that has just arrived. A response that is sent with the acknowledgement or
    /// is not Confirmable is not kept, so it may use pooled memory. One that may be kept for long
    /// must not, as it would retain the memory of others.
    pub(super) fn respond_at_once(&mut self, request: RequestId, response: Answer<S::Response>) {
        if self.someone_registers() || !response.is_brief() {
            return self.respond(request, response);
        }
        self.streams.on_answered(request);
        self.send_response(request, response, Memory::Lent);
    }

    pub(super) fn send_response(&mut self, request: RequestId, mut response: Answer<S::Response>, memory: Memory) {
        let (code, stream) = (response.code(), response.take_stream());
        let pool = Some(&mut self.pool).filter(|_| memory == Memory::Lent);
        let answered = match (response.build(pool), stream) {
            (Ok(head), Some(stream)) => self.respond_in_parts(request, head, stream).map_err(|error| error.to_string()),
            (Ok(response), None) => {
                let answered = self.endpoint.respond(self.now, request, response);
                answered.map(drop).map_err(|error| error.to_string())
            }
            (Err(error), _) => Err(error.to_string()),
        };
        let Err(error) = answered else { return };
        match self.endpoint.respond(self.now, request, refusal::internal_error()) {
            Err(RespondError::NotPending) => return debug!(?code, "a response came too late"),
            Err(_) => self.endpoint.ignore(self.now, request),
            Ok(_) => {}
        }
        if let Some(held_back) = self.response_errors.passes(tokio::time::Instant::now()) {
            warn!(error, ?code, held_back, "a handler's response cannot be sent; it is replaced by 5.00");
        }
    }
}
