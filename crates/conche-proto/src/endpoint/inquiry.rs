//! Group requests of this endpoint (RFC 7252 §8): sent once, with any number of responses until
//! their timeout.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use rand_core::RngCore;

use super::{Endpoint, Event, RequestError};
use crate::PeerKey;
use crate::codec::{Code, Message, MessageId, OptionNumber, OwnedMessage, Token, Type};
use crate::exchange::{ExchangeId, Failure, Opening, Purpose, Reliability, Request};
use crate::hash::Fingerprint;
use crate::message::GROUP_IDS;
use crate::shares::Group;
use crate::store::Seldom;
use crate::transport::Source;
use conche_cc::{Controller, Instant};

/// A live group request.
#[derive(Debug)]
struct Inquiry {
    token: u64,
    exchange: ExchangeId,
    /// Message ID of the request.
    id: MessageId,
    /// Message IDs of the delivered responses, by hash of the sender.
    delivered: BTreeMap<u64, Vec<u16>>,
    /// Number of delivered responses.
    responses: usize,
}

/// The verdict on a response to a group request.
enum Verdict {
    Deliver,
    Duplicate,
    /// The sender has used its share.
    Drop,
}

impl Inquiry {
    /// Records a response with this message ID. A sender may have as many as are left for all
    /// others, so that one member of the group cannot exclude the others.
    fn enter(&mut self, sender: u64, id: MessageId, limit: usize) -> Verdict {
        let ids = self.delivered.get(&sender).map_or(&[][..], Vec::as_slice);
        let left = limit.saturating_sub(self.responses);
        match ids.binary_search(&id.0) {
            Ok(_) => Verdict::Duplicate,
            Err(_) if ids.len() >= left => Verdict::Drop,
            Err(place) => {
                self.delivered.entry(sender).or_default().insert(place, id.0);
                self.responses += 1;
                Verdict::Deliver
            }
        }
    }
}

/// All live group requests.
#[derive(Debug)]
pub(super) struct Inquiries {
    /// In order of tokens. There are few, because only few message IDs are reserved for them.
    by_token: Vec<Inquiry>,
    /// Times at which the last message IDs were allocated, oldest first.
    given: VecDeque<Instant>,
    /// Counter of message IDs, starting at a random number.
    next: Option<u16>,
}

impl Inquiries {
    const NONE: Self = Self { by_token: Vec::new(), given: VecDeque::new(), next: None };
}

impl Seldom for Inquiries {
    type Recipe = ();

    fn empty<'a>() -> &'a Self {
        const { &Self::NONE }
    }

    fn make((): &()) -> Self {
        Self::NONE
    }
}

impl Inquiries {
    pub(super) fn is_empty(&self) -> bool {
        self.by_token.is_empty()
    }

    /// Allocates a message ID that no other message uses within this lifetime, to any destination
    /// (RFC 7252 §8.1).
    fn message_id(&mut self, now: Instant, lifetime: Duration, random: &mut impl RngCore) -> Option<MessageId> {
        while self.given.front().is_some_and(|&given| given + lifetime <= now) {
            self.given.pop_front();
        }
        if self.given.len() >= GROUP_IDS.len() {
            return None;
        }
        self.given.push_back(now);
        let count = self.next.unwrap_or_else(|| random.next_u32().to_le_bytes()[0].into());
        self.next = Some(count.wrapping_add(1));
        let offset = usize::from(count) % GROUP_IDS.len();
        Some(MessageId(GROUP_IDS.start() + u16::try_from(offset).unwrap_or_default()))
    }

    /// Returns a random token that no other group request uses.
    fn token(&self, random: &mut impl RngCore) -> Token {
        let unused = (0..64).map(|_| random.next_u64()).find(|token| self.place(*token).is_err());
        Token::from(unused.unwrap_or_else(|| random.next_u64()).to_le_bytes())
    }

    /// Returns the place of a token, or the place to insert it.
    fn place(&self, token: u64) -> Result<usize, usize> {
        self.by_token.binary_search_by_key(&token, |inquiry| inquiry.token)
    }

    fn insert(&mut self, inquiry: Inquiry) {
        let (Ok(place) | Err(place)) = self.place(inquiry.token);
        self.by_token.insert(place, inquiry);
    }

    fn get_mut(&mut self, token: &Token) -> Option<&mut Inquiry> {
        self.place(token.as_u64()).ok().map(|place| &mut self.by_token[place])
    }

    #[inline]
    fn of(&self, exchange: ExchangeId, token: &Token) -> Option<&Inquiry> {
        let place = self.place(token.as_u64()).ok()?;
        Some(&self.by_token[place]).filter(|inquiry| inquiry.exchange == exchange)
    }

    /// Returns the message ID of this exchange's message if it is a group request.
    #[inline]
    pub(super) fn id_of(&self, exchange: ExchangeId, token: &Token) -> Option<MessageId> {
        self.of(exchange, token).map(|inquiry| inquiry.id)
    }

    /// Removes a group request whose exchange has ended.
    pub(super) fn forget(&mut self, exchange: ExchangeId, token: &Token) {
        if let Ok(place) = self.place(token.as_u64())
            && self.by_token[place].exchange == exchange
        {
            self.by_token.remove(place);
        }
    }
}

impl<P: PeerKey, C: Controller> Endpoint<P, C> {
    /// Sends a request to a group, identified by its address. Each response causes an
    /// [`Event::GroupResponse`], and [`Event::GroupOver`] is the end: after the request's timeout
    /// or, without one, after that of the protocol (247 s with the default parameters). The request
    /// fails if it was never sent.
    ///
    /// The message is Non-confirmable and sent once. It is subject to congestion control for the
    /// group: PROBING_RATE limits a sequence of requests without responses. The token is random and
    /// has 8 bytes regardless of the configuration, because only the token distinguishes a response
    /// from a forged one; a token in `request` is ignored.
    ///
    /// # Errors
    /// If the request is Confirmable (RFC 7252 §8.1) or a GET with an ETag (§8.2.1), can never be
    /// sent, or if a needed resource is used up. No event follows then.
    pub fn request_group(&mut self, now: Instant, group: P, request: Request) -> Result<ExchangeId, RequestError> {
        if !request.code.is_request() {
            return Err(RequestError::NotAMethod(request.code));
        }
        if request.reliability == Reliability::Confirmable {
            return Err(RequestError::ConfirmableToGroup);
        }
        #[cfg(feature = "oscore")]
        if request.security.is_some() {
            return Err(RequestError::ProtectedToGroup);
        }
        let content = request.body.content(request.code);
        let etag = content.is_some_and(|content| content.option(OptionNumber::ETAG).is_some());
        if request.code == Code::GET && etag {
            return Err(RequestError::ETagToGroup);
        }
        // The request may be queued before the ID is used.
        let lifetime =
            self.transport.config.times().exchange_lifetime.saturating_add(self.transport.config.queue_lifetime);
        let Some(id) = self.inquiries.message_id(now, lifetime, &mut self.transport.random) else {
            return Err(RequestError::GroupsBusy { limit: GROUP_IDS.len() });
        };
        let peer = self.open_peer(now, group, Group::NOBODY)?;
        let token = self.inquiries.token(&mut self.transport.random);
        let mut opening = Opening {
            purpose: Purpose::Request,
            code: request.code,
            body: request.body,
            token: token.clone(),
            reliability: Reliability::NeverConfirmable,
            deadline: request.timeout.map_or(Instant::FAR_FUTURE, |timeout| now + timeout),
            ..Opening::EMPTY
        };
        let exchange = self.submit(now, peer, &mut opening)?;
        self.inquiries.insert(Inquiry {
            token: token.as_u64(),
            exchange,
            id,
            delivered: BTreeMap::new(),
            responses: 0,
        });
        Ok(exchange)
    }

    /// Handles a response that matches no exchange with its sender. Returns `true` if it answers a
    /// group request, which is matched by token only (RFC 7252 §8.2).
    pub(super) fn receive_group_response(
        &mut self,
        now: Instant,
        (source, hash): (Source<P>, u64),
        what: Fingerprint,
        message: &Message<'_>,
    ) -> bool {
        let token = message.token();
        let asked = self.inquiries.get_mut(&token).filter(|_| token.len() == Token::MAX_LENGTH);
        let Some(exchange) = asked.map(|inquiry| inquiry.exchange) else { return false };
        if message.unacceptable_option(&self.transport.config.known_options).is_some() {
            if message.ty() == Type::Confirmable {
                self.transport.reject_response(now, source, hash, message.id());
            }
            return true;
        }
        if message.ty() == Type::Confirmable {
            // If it cannot be remembered, a duplicate is acknowledged again but not reported.
            self.transport.acknowledge_empty(now, source, what, message.id());
        }
        self.tell_group_response(exchange, (source, hash), message);
        true
    }

    fn tell_group_response(&mut self, exchange: ExchangeId, (source, hash): (Source<P>, u64), message: &Message<'_>) {
        let limit = self.transport.config.limits.group_responses;
        let Some(inquiry) = self.inquiries.get_mut(&message.token()) else { return };
        match inquiry.enter(hash, message.id(), limit) {
            Verdict::Duplicate => self.transport.stats.duplicates += 1,
            Verdict::Drop => self.transport.stats.group_overflow += 1,
            Verdict::Deliver => {
                // A response of any member shows that the group is not silent.
                let group = self.transport.exchanges.get(exchange.index).peer;
                self.transport.peers.get_mut(group).heard();
                let (from, message) = (source.from, OwnedMessage::from(*message));
                self.announce(Event::GroupResponse { exchange, from, message });
            }
        }
    }

    /// Returns the event for the end of a group request that was sent: a timeout is its normal end,
    /// not a failure.
    pub(super) fn group_over(&mut self, now: Instant, index: u32, reason: Failure) -> Option<Event<P>> {
        let in_time = matches!(reason, Failure::TimedOut | Failure::NoResponse | Failure::Deadline);
        let exchange = self.transport.exchanges.get(index);
        let inquiry = self.inquiries.of(exchange.id(index), &exchange.token)?;
        if !in_time || exchange.sent.is_empty() {
            return None;
        }
        let responses = inquiry.responses;
        let (exchange, group, course) = self.transport.exchanges.told(now, &self.transport.peers, index);
        Some(Event::GroupOver { exchange, group, responses, course })
    }
}
