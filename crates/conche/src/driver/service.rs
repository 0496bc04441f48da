//! [`Service`]: answers the requests that a driver receives.

use std::fmt;
use std::future::{Future, Ready};
use std::net::SocketAddr;
use std::sync::Arc;

use conche_proto::codec::{BuildError, Code, MessagePool, OwnedMessage};

use super::observable::Observable;
use super::streams::Inlet;
use crate::body::SizedSource;
use crate::refusal;
use crate::security::Identity;

/// Answers the requests that a driver receives, such as a server's router.
pub(crate) trait Service: Send + Sync + 'static {
    type Response: ServiceResponse;
    type Future: Future<Output = Self::Response> + Send + Unpin + 'static;

    /// Starts to answer a request. A panic, here or in the future, ends this request only.
    fn call(&self, request: ServiceRequest) -> Called<Self>;

    /// Returns the requested resource, if clients may observe it.
    fn observable(&self, message: &OwnedMessage) -> Option<&Arc<Observable<Self::Response>>>;

    /// Returns all resources that clients may observe; one may occur repeatedly.
    fn observables(&self) -> impl Iterator<Item = &Arc<Observable<Self::Response>>>;

    /// Whether any request may be answered before its payload is complete.
    fn streams_any(&self) -> bool;

    /// Whether this request may be answered before its payload is complete.
    fn streams(&self, message: &OwnedMessage) -> bool;
}

/// A request for a [`Service`].
#[derive(Debug)]
pub(crate) struct ServiceRequest {
    pub(crate) from: SocketAddr,
    pub(crate) message: OwnedMessage,
    /// The rest of a streamed payload.
    pub(crate) rest: Option<Inlet>,
    /// The sender, if it is authenticated.
    pub(crate) identity: Option<Identity>,
    /// Whether the driver makes the request for all observers of a resource.
    pub(crate) is_for_observers: bool,
}

/// A response, now or later.
pub(crate) enum Called<S: Service + ?Sized> {
    Ready(S::Response),
    Pending(S::Future),
}

/// A response of a [`Service`], before it is encoded.
pub(crate) trait ServiceResponse: fmt::Debug + Clone + Send + 'static {
    fn code(&self) -> Code;

    /// Whether the response need not be kept until it is acknowledged or its blocks are requested.
    fn is_brief(&self) -> bool;

    /// Whether the payload is streamed.
    fn is_stream(&self) -> bool;

    /// Takes the payload's stream.
    fn take_stream(&mut self) -> Option<SizedSource>;

    /// Encodes the response, in memory of its own or, if it will not be kept, in the pool's.
    fn build(self, pool: Option<&mut MessagePool>) -> Result<conche_proto::Response, BuildError>;
}

/// The service of a socket that only sends requests: every request is answered with 4.04.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoService;

impl Service for NoService {
    type Response = conche_proto::Response;
    type Future = Ready<conche_proto::Response>;

    fn call(&self, _: ServiceRequest) -> Called<Self> {
        Called::Ready(refusal::empty(Code::NOT_FOUND))
    }

    fn observable(&self, _: &OwnedMessage) -> Option<&Arc<Observable<Self::Response>>> {
        None
    }

    fn observables(&self) -> impl Iterator<Item = &Arc<Observable<Self::Response>>> {
        std::iter::empty()
    }

    fn streams_any(&self) -> bool {
        false
    }

    fn streams(&self, _: &OwnedMessage) -> bool {
        false
    }
}

impl ServiceResponse for conche_proto::Response {
    fn code(&self) -> Code {
        self.code
    }

    fn is_brief(&self) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn take_stream(&mut self) -> Option<SizedSource> {
        None
    }

    fn build(self, _: Option<&mut MessagePool>) -> Result<conche_proto::Response, BuildError> {
        Ok(self)
    }
}
