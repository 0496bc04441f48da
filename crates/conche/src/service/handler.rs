//! [`Handler`]: async functions as handlers.

use std::future::Future;

use conche_proto::codec::{Code, ContentFormat};

use super::extract::{FromRequest, FromRequestParts, Requirements};
use super::{HandlerFuture, IntoResponse, Request};

/// An async function of up to eight arguments that implement [`FromRequestParts`], the last one
/// optionally [`FromRequest`] instead, with a result that implements [`IntoResponse`].
///
/// A closure with captured variables is written `move || async move { … }`; prefer
/// [`State`](super::State) for shared data.
///
/// `S` is the state that it is called with. `Arguments` only distinguishes the implementations for
/// different functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is an async function of up to eight arguments; each must implement `FromRequestParts`, the last \
            one may implement `FromRequest` instead; its result must implement `IntoResponse`, its future `Send`"
)]
pub trait Handler<Arguments, S>: Send + Sync + 'static {
    /// Requirements of its arguments on the route.
    const NEEDS: Requirements;

    /// Starts to answer a request.
    fn call(&self, request: Request, state: &S) -> HandlerFuture;
}

/// Converts a handler's result into a response in the format that the client accepts.
fn answer<T: IntoResponse>(
    result: impl Future<Output = T> + Send + 'static,
    method: Code,
    accept: Option<ContentFormat>,
) -> HandlerFuture {
    HandlerFuture::begin(async move {
        let response = result.await.into_response(method);
        match accept {
            Some(accept) => response.accepted_as(accept),
            None => response,
        }
    })
}

fn refused(rejection: impl IntoResponse, method: Code) -> HandlerFuture {
    HandlerFuture::ready(rejection.into_response(method))
}

impl<F, Fut, S> Handler<(), S> for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoResponse> + Send + 'static,
{
    const NEEDS: Requirements = Requirements::NOTHING;

    fn call(&self, request: Request, _state: &S) -> HandlerFuture {
        answer(self(), request.method(), request.accept())
    }
}

macro_rules! handler {
    ($($part:ident $marker:ident)*; $last:ident $last_marker:ident) => {
        impl<F, Fut, S, $($part, $marker,)* $last, $last_marker>
            Handler<($(($part, $marker),)* ($last, $last_marker),), S> for F
        where
            F: Fn($($part,)* $last) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: IntoResponse> + Send + 'static,
            $($part: FromRequestParts<S, $marker>,)*
            $last: FromRequest<S, $last_marker>,
        {
            const NEEDS: Requirements = <$last as FromRequest<S, $last_marker>>::NEEDS
                $(.and(<$part as FromRequestParts<S, $marker>>::NEEDS))*;

            // Extracted here rather than in the future, so that the extraction need not be `Send`.
            #[allow(non_snake_case, reason = "the type parameters name the variables")]
            fn call(&self, request: Request, state: &S) -> HandlerFuture {
                let (method, accept) = (request.method(), request.accept());
                $(
                    let $part = match $part::from_request_parts(&request, state) {
                        Ok(value) => value,
                        Err(rejection) => return refused(rejection, method),
                    };
                )*
                match $last::from_request(request, state) {
                    Ok($last) => answer(self($($part,)* $last), method, accept),
                    Err(rejection) => refused(rejection, method),
                }
            }
        }
    };
}

handler! { ; H MH }
handler! { A MA; H MH }
handler! { A MA B MB; H MH }
handler! { A MA B MB C MC; H MH }
handler! { A MA B MB C MC D MD; H MH }
handler! { A MA B MB C MC D MD E ME; H MH }
handler! { A MA B MB C MC D MD E ME G MG; H MH }
handler! { A MA B MB C MC D MD E ME G MG I MI; H MH }
