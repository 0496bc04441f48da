//! Async functions as handlers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{Extract, IntoResponse, Request, Response};

/// What a handler does with one request.
pub(super) type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler whose arguments are no longer in its type.
pub(super) type AnyHandler = Arc<dyn Fn(Request) -> Answer + Send + Sync>;

/// An async function of up to four arguments that are each [`Extract`], with a result that is [`IntoResponse`].
///
/// `Arguments` only keeps the implementations for different numbers of arguments apart.
pub trait Handler<Arguments>: Send + Sync + 'static {
    /// Starts to answer a request.
    fn call(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send>>;
}

pub(super) fn erase<Arguments, H: Handler<Arguments>>(handler: H) -> AnyHandler {
    Arc::new(move |request| handler.call(request))
}

macro_rules! handler {
    ($($argument:ident)*) => {
        /// Each of them in turn, up to the first that answers with an error.
        impl<$($argument: Extract),*> Extract for ($($argument,)*) {
            #[allow(unused_variables, reason = "there may be nothing to take out")]
            fn extract(request: &Request) -> Result<Self, Response> {
                Ok(($($argument::extract(request)?,)*))
            }
        }

        impl<F, Fut, $($argument),*> Handler<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: IntoResponse> + Send + 'static,
            $($argument: Extract,)*
        {
            fn call(&self, request: Request) -> Answer {
                // The arguments are taken out here, so that they need not be `Send` while they are.
                #[allow(non_snake_case, reason = "the type parameters name the variables")]
                let answer = match <($($argument,)*)>::extract(&request) {
                    Ok(($($argument,)*)) => self($($argument),*),
                    Err(response) => return Box::pin(std::future::ready(response)),
                };
                let (method, accept) = (request.method(), request.accept());
                Box::pin(async move {
                    let response = answer.await.into_response(method);
                    match accept {
                        Some(accept) => response.accepted_as(accept),
                        None => response,
                    }
                })
            }
        }
    };
}

handler! {}
handler! { A }
handler! { A B }
handler! { A B C }
handler! { A B C D }
