//! [`GroupResponses`]: responses to a multicast request (RFC 7252 §8).

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use conche_proto::codec::OwnedMessage;
use conche_proto::{Course, Request};
use futures_core::Stream;
use futures_core::stream::FusedStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Client, Error, Response, Target};
use crate::driver::{Exchange, ExchangeKind};

/// The responses of a group's members, each with its sender, in order of arrival: a [`Stream`] that
/// ends when the request's [`timeout`](super::RequestBuilder::timeout) expires. Dropping it ends
/// the request.
///
/// A member may respond more than once. A response may be the first block of a larger body; a
/// unicast request to its sender fetches the whole body.
#[derive(Debug)]
#[must_use = "responses are told to whom asks for them"]
pub struct GroupResponses {
    group: SocketAddr,
    responses: mpsc::UnboundedReceiver<(SocketAddr, OwnedMessage)>,
    body_limit: usize,
    /// `None` once the request is over.
    exchange: Option<Exchange>,
}

impl GroupResponses {
    /// Sends a request to a group once it is admitted.
    pub(super) async fn begin(
        client: &Client,
        group: SocketAddr,
        request: Request,
        deadline: Option<Instant>,
    ) -> Result<Self, Error> {
        // `Limits::group_responses` bounds the channel.
        let (sender, responses) = mpsc::unbounded_channel();
        let opening = |timeout| ExchangeKind::Group { request: Request { timeout, ..request }, responses: sender };
        let target = Target { deadline, ..Target::to(group) };
        let begun = client.begin(&target, opening).await?;
        Ok(Self { group, responses, body_limit: begun.body_limit, exchange: Some(begun.exchange) })
    }

    /// Returns the next response and its sender, or `None` after the request's timeout or an error.
    ///
    /// # Errors
    /// If the request was refused or could not be sent.
    pub async fn next(&mut self) -> Option<Result<(SocketAddr, Response), Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for GroupResponses {
    type Item = Result<(SocketAddr, Response), Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The driver drops its sender before it reports the end.
        if let Some((from, message)) = ready!(self.responses.poll_recv(context)) {
            let course = Course { transmissions: 1, ..Course::default() };
            return Poll::Ready(Some(Ok((from, Response::new(from.into(), message, course)))));
        }
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(None) };
        let ended = ready!(Pin::new(exchange).poll(context));
        self.exchange = None;
        Poll::Ready(ended.err().map(|error| Err(Error::exchange(self.group, error, self.body_limit))))
    }
}

impl FusedStream for GroupResponses {
    fn is_terminated(&self) -> bool {
        self.exchange.is_none()
    }
}
