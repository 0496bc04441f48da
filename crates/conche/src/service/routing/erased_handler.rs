//! [`ErasedHandler`]: a type-erased handler with its layers, before and after the state is known.

use std::sync::Arc;

use conche_proto::codec::{Code, OptionNumber};
use tower_layer::Layer;

use super::{RequestService, Route};
use crate::service::extract::Requirements;
use crate::service::handler::Handler;
use crate::service::{HandlerFuture, Request, Response};

/// A handler with its argument types erased, and the layers around it.
pub(super) struct ErasedHandler<S> {
    needs: Requirements,
    stage: Stage<S>,
}

enum Stage<S> {
    /// Lacks its state; layers are applied once that is known.
    Stateless(Make<S>),
    Ready(Route),
}

/// Makes a route from a handler and its state.
type Make<S> = Arc<dyn Fn(&Arc<S>) -> Route + Send + Sync>;

impl<S: Send + Sync + 'static> ErasedHandler<S> {
    pub(super) fn new<Arguments, H: Handler<Arguments, S>>(handler: H) -> Self {
        let handler = Arc::new(handler);
        let make = move |state: &Arc<S>| {
            let (handler, state) = (Arc::clone(&handler), Arc::clone(state));
            Route::new(move |request| handler.call(request, &state))
        };
        Self { needs: H::NEEDS, stage: Stage::Stateless(Arc::new(make)) }
    }

    /// Returns a handler that answers everything with this code.
    pub(super) fn always(code: Code) -> Self {
        let answer = move |_request| -> HandlerFuture { HandlerFuture::ready(Response::new(code)) };
        Self { needs: Requirements::NOTHING, stage: Stage::Ready(Route::new(answer)) }
    }

    pub(super) fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Route, Service: RequestService> + Send + Sync + 'static,
    {
        let stage = match self.stage {
            Stage::Stateless(make) => Stage::Stateless(Arc::new(move |state| make(state).layer(&layer))),
            Stage::Ready(route) => Stage::Ready(route.layer(&layer)),
        };
        Self { stage, ..self }
    }

    pub(super) fn with_state<S2>(self, state: &Arc<S>) -> ErasedHandler<S2> {
        let route = match self.stage {
            Stage::Stateless(make) => make(state),
            Stage::Ready(route) => route,
        };
        ErasedHandler { needs: self.needs, stage: Stage::Ready(route) }
    }
}

impl<S> ErasedHandler<S> {
    pub(super) fn needs(&self) -> Requirements {
        self.needs
    }

    /// Returns 4.02 for a condition that the handler would not check before it has an effect: an
    /// unrecognised critical option (RFC 7252 §5.4.1).
    pub(super) fn refusal(&self, request: &Request) -> Option<Response> {
        if self.needs.has_conditions() || request.method().is_safe() {
            return None;
        }
        let conditions = [OptionNumber::IF_MATCH, OptionNumber::IF_NONE_MATCH];
        let option = conditions.into_iter().find(|option| request.message().option(*option).is_some())?;
        let message = format!("{option} is not supported by this resource for this method");
        Some(Response::diagnostic(Code::BAD_OPTION, message))
    }
}

impl ErasedHandler<()> {
    pub(super) fn call(&self, request: Request) -> HandlerFuture {
        match &self.stage {
            Stage::Ready(route) => route.answer(request),
            // Not reached: a server provides the state before it starts.
            Stage::Stateless(make) => make(&Arc::new(())).answer(request),
        }
    }
}

impl<S> Clone for ErasedHandler<S> {
    fn clone(&self) -> Self {
        let stage = match &self.stage {
            Stage::Stateless(make) => Stage::Stateless(Arc::clone(make)),
            Stage::Ready(route) => Stage::Ready(route.clone()),
        };
        Self { needs: self.needs, stage }
    }
}
