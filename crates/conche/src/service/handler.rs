//! [`Handler`], and [`HandlerFuture`], its response.
//!
//! Most handlers wait for nothing, so a handler's future is polled once when called, in memory left
//! by the last one of its type, and keeps memory of its own only if it waits.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use conche_proto::codec::{Code, ContentFormat};

use super::extract::{FromRequest, FromRequestParts, Requirements};
use super::{IntoResponse, Request, Response};

/// An async function of up to eight arguments that implement [`FromRequestParts`], the last one
/// alternatively [`FromRequest`], with a result that implements [`IntoResponse`].
///
/// Write a closure with captured variables as `move || async move { … }`, or use
/// [`State`](super::State).
///
/// `S` is its state. `Arguments` only distinguishes implementations.
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

            // Not in the future: extraction need not be `Send`.
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

/// A future of a handler's response to one request.
#[must_use = "a future does nothing unless it is awaited"]
pub struct HandlerFuture(State);

enum State {
    Ready(Option<Response>),
    Waiting(FutureSlot),
}

impl HandlerFuture {
    /// Returns a complete response.
    pub fn ready(response: Response) -> Self {
        Self(State::Ready(Some(response)))
    }

    /// Polls a future once, without a waker; if pending, it continues when the response is polled.
    pub fn begin<F: Future<Output = Response> + Send + 'static>(future: F) -> Self {
        Self::begin_in(TypeId::of::<F>(), || Box::pin(None::<F>), &mut Some(future))
    }

    /// Type-erased, to be compiled once.
    fn begin_in(kind: TypeId, new: fn() -> FutureSlot, future: &mut dyn Any) -> Self {
        let mut slot = FutureSlots::take(kind).unwrap_or_else(new);
        slot.as_mut().put(future);
        match slot.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(response) => {
                slot.as_mut().empty();
                FutureSlots::give_back(kind, slot);
                Self::ready(response)
            }
            Poll::Pending => Self(State::Waiting(slot)),
        }
    }
}

impl Future for HandlerFuture {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        match &mut self.0 {
            State::Ready(response) => response.take().map_or(Poll::Pending, Poll::Ready),
            State::Waiting(slot) => slot.as_mut().poll(context),
        }
    }
}

impl fmt::Debug for HandlerFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.0 {
            State::Ready(_) => "ready",
            State::Waiting(_) => "waiting",
        };
        f.debug_tuple("HandlerFuture").field(&state).finish()
    }
}

type FutureSlot = Pin<Box<dyn Runs + Send>>;

trait Runs {
    fn put(self: Pin<&mut Self>, future: &mut dyn Any);
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response>;
    fn empty(self: Pin<&mut Self>);
}

impl<F: Future<Output = Response> + 'static> Runs for Option<F> {
    fn put(mut self: Pin<&mut Self>, future: &mut dyn Any) {
        self.set(future.downcast_mut().and_then(Self::take));
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        self.as_pin_mut().map_or(Poll::Pending, |future| future.poll(context))
    }

    fn empty(mut self: Pin<&mut Self>) {
        self.set(None);
    }
}

/// Empty slots, at most one per type. Often used types move to the front.
#[derive(Default)]
struct FutureSlots(Vec<(TypeId, Option<FutureSlot>)>);

const MAX_SLOTS: usize = 16;

thread_local! {
    static SLOTS: RefCell<FutureSlots> = RefCell::default();
}

impl FutureSlots {
    fn take(kind: TypeId) -> Option<FutureSlot> {
        let left = SLOTS.try_with(|slots| slots.try_borrow_mut().ok()?.of(kind)?.take());
        left.ok().flatten()
    }

    fn give_back(kind: TypeId, slot: FutureSlot) {
        // Thread-local storage may be gone.
        let _ = SLOTS.try_with(|slots| {
            let Ok(mut slots) = slots.try_borrow_mut() else { return };
            match slots.of(kind) {
                Some(kept) => *kept = Some(slot),
                None => slots.keep(kind, slot),
            }
        });
    }

    fn of(&mut self, kind: TypeId) -> Option<&mut Option<FutureSlot>> {
        let Self(slots) = self;
        let found = slots.iter().position(|(of, _)| *of == kind)?;
        let nearer = found.saturating_sub(1);
        slots.swap(found, nearer);
        slots.get_mut(nearer).map(|(_, slot)| slot)
    }

    fn keep(&mut self, kind: TypeId, slot: FutureSlot) {
        let Self(slots) = self;
        slots.truncate(MAX_SLOTS - 1);
        slots.push((kind, Some(slot)));
    }
}

#[cfg(test)]
mod tests {
    use conche_proto::codec::Code;

    use super::*;

    async fn content() -> Response {
        Response::new(Code::CONTENT)
    }

    #[test]
    fn a_future_that_waits_for_nothing_asks_for_no_memory_when_one_like_it_has_ended() {
        let begin = || assert!(matches!(HandlerFuture::begin(content()).0, State::Ready(Some(_))));
        begin();
        assert_eq!(allocation_counter::measure(begin).count_total, 0);
    }

    #[test]
    fn a_future_that_begins_inside_one_like_it_has_a_place_of_its_own() {
        fn nested(depth: u8) -> HandlerFuture {
            HandlerFuture::begin(async move {
                match depth {
                    0 => content().await,
                    _ => nested(depth - 1).await,
                }
            })
        }
        for _ in 0..3 {
            assert!(matches!(nested(4).0, State::Ready(Some(_))));
        }
    }

    #[tokio::test]
    async fn a_pending_handler_future_resumes_where_it_stopped() {
        for _ in 0..3 {
            let (sender, receiver) = tokio::sync::oneshot::channel::<Code>();
            let answer = HandlerFuture::begin(async { Response::new(receiver.await.unwrap_or(Code::GATEWAY_TIMEOUT)) });
            assert!(matches!(answer.0, State::Waiting(_)));
            sender.send(Code::VALID).expect("it waits");
            assert_eq!(answer.await.code(), Code::VALID);
        }
    }

    #[test]
    fn a_panicked_handler_leaves_no_reusable_state() {
        fn begin(panics: bool) -> HandlerFuture {
            HandlerFuture::begin(async move {
                assert!(!panics, "on purpose");
                content().await
            })
        }
        for panics in [false, true, false] {
            assert_eq!(std::panic::catch_unwind(|| begin(panics)).is_err(), panics);
        }
    }
}
