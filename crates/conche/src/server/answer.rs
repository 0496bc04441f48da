//! [`Answer`]: the response that a handler gives, now or later.
//!
//! Most handlers wait for nothing. So a handler's future runs up to where it has to wait for something as soon as it is called, in
//! memory that the last one of its type has left, and gets memory of its own only if it does wait.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Response;

/// What a handler does with one request: a future of its response.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Answer(State);

enum State {
    /// `None` once it was given.
    Ready(Option<Response>),
    Waiting(Pin<Box<dyn Future<Output = Response> + Send>>),
}

impl Answer {
    /// It is known.
    pub fn ready(response: Response) -> Self {
        Self(State::Ready(Some(response)))
    }

    /// Begins to run a future: it is polled once, without anybody to wake, and again when somebody waits for the answer.
    pub fn begin(future: impl Future<Output = Response> + Send + 'static) -> Self {
        let mut place = Places::take();
        place.as_mut().set(Some(future));
        match poll(place.as_mut(), &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(response) => {
                place.as_mut().set(None);
                Places::give_back(place);
                Self::ready(response)
            }
            Poll::Pending => Self(State::Waiting(Box::pin(Begun(place)))),
        }
    }
}

impl Future for Answer {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        match &mut self.0 {
            State::Ready(response) => response.take().map_or(Poll::Pending, Poll::Ready),
            State::Waiting(future) => future.as_mut().poll(context),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.0 {
            State::Ready(_) => "ready",
            State::Waiting(_) => "waiting",
        };
        f.debug_tuple("Answer").field(&state).finish()
    }
}

/// Where a future runs; empty between two of them.
type Place<F> = Pin<Box<Option<F>>>;

fn poll<F: Future>(place: Pin<&mut Option<F>>, context: &mut Context<'_>) -> Poll<F::Output> {
    match place.as_pin_mut() {
        Some(future) => future.poll(context),
        None => Poll::Pending,
    }
}

/// A future that has to wait, in the place where it began.
struct Begun<F>(Place<F>);

impl<F: Future> Future for Begun<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        poll(self.0.as_mut(), context)
    }
}

/// Empty places that futures have left on this thread, one for each type of future: the one that is used most comes first.
#[derive(Default)]
struct Places(Vec<Box<dyn Any>>);

/// So many types have a place at most.
const MOST: usize = 16;

thread_local! {
    static PLACES: RefCell<Places> = RefCell::default();
}

impl Places {
    /// A place for a future, a new one if there is none.
    fn take<F: 'static>() -> Place<F> {
        let left = PLACES.try_with(|places| places.try_borrow_mut().ok()?.of::<F>()?.take());
        left.ok().flatten().unwrap_or_else(|| Box::pin(None))
    }

    /// Keeps an empty place, unless there are enough.
    fn give_back<F: 'static>(place: Place<F>) {
        // A thread that ends keeps nothing.
        let _ = PLACES.try_with(|places| {
            let Ok(mut places) = places.try_borrow_mut() else { return };
            match places.of::<F>() {
                Some(kept) => *kept = Some(place),
                None => places.keep(Box::new(Some(place))),
            }
        });
    }

    /// Where the place of such futures is kept, or was, which comes one nearer to the front.
    fn of<F: 'static>(&mut self) -> Option<&mut Option<Place<F>>> {
        let Self(places) = self;
        let found = places.iter().position(|place| place.is::<Option<Place<F>>>())?;
        let nearer = found.saturating_sub(1);
        places.swap(found, nearer);
        places.get_mut(nearer)?.downcast_mut()
    }

    fn keep(&mut self, place: Box<dyn Any>) {
        let Self(places) = self;
        places.truncate(MOST - 1);
        places.push(place);
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
        let begin = || assert!(matches!(Answer::begin(content()).0, State::Ready(Some(_))));
        begin();
        assert_eq!(allocation_counter::measure(begin).count_total, 0);
    }

    #[test]
    fn a_future_that_begins_inside_one_like_it_has_a_place_of_its_own() {
        fn nested(depth: u8) -> Answer {
            Answer::begin(async move {
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
    async fn a_future_that_has_to_wait_goes_on_where_it_was() {
        for _ in 0..3 {
            let (sender, receiver) = tokio::sync::oneshot::channel::<Code>();
            let answer = Answer::begin(async { Response::new(receiver.await.unwrap_or(Code::GATEWAY_TIMEOUT)) });
            assert!(matches!(answer.0, State::Waiting(_)));
            sender.send(Code::VALID).expect("it waits");
            assert_eq!(answer.await.code(), Code::VALID);
        }
    }

    #[test]
    fn what_a_panic_leaves_behind_is_not_used_again() {
        fn begin(panics: bool) -> Answer {
            Answer::begin(async move {
                assert!(!panics, "on purpose");
                content().await
            })
        }
        for panics in [false, true, false] {
            assert_eq!(std::panic::catch_unwind(|| begin(panics)).is_err(), panics);
        }
    }
}
