//! Group requests of this endpoint (RFC 7252 §8).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::Client;
use crate::PeerKey;
use crate::codec::{Code, Message, MessageId, OptionNumber, OwnedMessage, Token, Type};
use crate::error::RequestError;
use crate::event::Event;
use crate::hash::Fingerprint;
use crate::layers::Layers;
use crate::store::CreateOnDemand;
use crate::transport::{
    ExchangeId, ExchangeIndex, Failure, GROUP_IDS, Opening, PeerIndex, Purpose, Reliability, Request, Sender,
};
use conche_cc::{Controller, Instant};
use rand_core::RngCore;

#[derive(Debug)]
struct GroupRequest {
    token: u64,
    exchange: ExchangeId,
    id: MessageId,
    /// Message IDs of the delivered responses, by hash of the sender.
    delivered: BTreeMap<u64, Vec<u16>>,
    responses: usize,
}

enum Verdict {
    Deliver,
    Duplicate,
    Drop,
}

impl GroupRequest {
    /// Records a response. A sender may have at most the number left for all others, so that no
    /// member of the group excludes the others.
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

#[derive(Debug)]
pub(crate) struct GroupRequests {
    /// In order of tokens. Few message IDs are reserved, so there are few.
    by_token: Vec<GroupRequest>,
    /// Of the last message IDs, oldest first.
    given: VecDeque<Instant>,
    /// Starts at a random number.
    next: Option<u16>,
}

impl GroupRequests {
    const NONE: Self = Self { by_token: Vec::new(), given: VecDeque::new(), next: None };

    pub(crate) fn is_empty(&self) -> bool {
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

    fn token(&self, random: &mut impl RngCore) -> Token {
        let unused = (0..64).map(|_| random.next_u64()).find(|token| self.place(*token).is_err());
        Token::from(unused.unwrap_or_else(|| random.next_u64()).to_le_bytes())
    }

    /// Returns the place of a token, or the place to insert it.
    fn place(&self, token: u64) -> Result<usize, usize> {
        self.by_token.binary_search_by_key(&token, |group_request| group_request.token)
    }

    fn insert(&mut self, group_request: GroupRequest) {
        let (Ok(place) | Err(place)) = self.place(group_request.token);
        self.by_token.insert(place, group_request);
    }

    fn get_mut(&mut self, token: &Token) -> Option<&mut GroupRequest> {
        self.place(token.as_u64()).ok().map(|place| &mut self.by_token[place])
    }

    #[inline]
    fn of(&self, exchange: ExchangeId, token: &Token) -> Option<&GroupRequest> {
        let place = self.place(token.as_u64()).ok()?;
        Some(&self.by_token[place]).filter(|group_request| group_request.exchange == exchange)
    }

    #[inline]
    pub(crate) fn id_of(&self, exchange: ExchangeId, token: &Token) -> Option<MessageId> {
        self.of(exchange, token).map(|group_request| group_request.id)
    }

    pub(crate) fn forget(&mut self, exchange: ExchangeId, token: &Token) {
        if let Ok(place) = self.place(token.as_u64())
            && self.by_token[place].exchange == exchange
        {
            self.by_token.remove(place);
        }
    }
}

impl CreateOnDemand for GroupRequests {
    type Config = ();

    fn empty<'a>() -> &'a Self {
        const { &Self::NONE }
    }

    fn create(_: &()) -> Self {
        Self::NONE
    }
}

impl<P: PeerKey, C: Controller> Client<P, C> {
    pub(crate) fn group_message_id(
        &mut self,
        layers: &mut Layers<P, C>,
        request: &Request,
    ) -> Result<MessageId, RequestError> {
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
            layers.transport.config.times().exchange_lifetime.saturating_add(layers.transport.config.queue_lifetime);
        let id = self.group_requests.message_id(layers.now, lifetime, &mut layers.transport.random);
        id.ok_or(RequestError::GroupsBusy { limit: GROUP_IDS.len() })
    }

    pub(crate) fn request_group(
        &mut self,
        layers: &mut Layers<P, C>,
        peer: PeerIndex,
        id: MessageId,
        request: Request,
    ) -> Result<ExchangeId, RequestError> {
        let token = self.group_requests.token(&mut layers.transport.random);
        let mut opening = Opening {
            purpose: Purpose::Request,
            code: request.code,
            body: request.body,
            token: token.clone(),
            reliability: Reliability::NeverConfirmable,
            deadline: request.timeout.map_or(Instant::FAR_FUTURE, |timeout| layers.now + timeout),
            ..Opening::EMPTY
        };
        let exchange = layers.submit(peer, &mut opening)?;
        self.group_requests.insert(GroupRequest {
            token: token.as_u64(),
            exchange,
            id,
            delivered: BTreeMap::new(),
            responses: 0,
        });
        Ok(exchange)
    }

    /// Handles a response that matches no exchange with its sender. Returns `true` if its token is
    /// that of a group request (RFC 7252 §8.2).
    pub(super) fn receive_group_response(
        &mut self,
        layers: &mut Layers<P, C>,
        sender: &Sender<P>,
        fingerprint: Fingerprint,
        message: &Message<'_>,
    ) -> bool {
        let token = message.token();
        let requested = self.group_requests.get_mut(&token).filter(|_| token.len() == Token::MAX_LENGTH);
        let Some(exchange) = requested.map(|group_request| group_request.exchange) else { return false };
        if message.unacceptable_option(&layers.transport.config.known_options).is_some() {
            if message.ty() == Type::Confirmable {
                layers.transport.reject_response(layers.now, sender.source, sender.hash, message.id());
            }
            return true;
        }
        if message.ty() == Type::Confirmable {
            // If it cannot be remembered, a duplicate is acknowledged again but not reported.
            layers.transport.acknowledge_empty(layers.now, sender.source, fingerprint, message.id());
        }
        self.report_group_response(layers, exchange, sender, message);
        true
    }

    fn report_group_response(
        &mut self,
        layers: &mut Layers<P, C>,
        exchange: ExchangeId,
        sender: &Sender<P>,
        message: &Message<'_>,
    ) {
        let limit = layers.transport.config.limits.group_responses;
        let Some(group_request) = self.group_requests.get_mut(&message.token()) else { return };
        match group_request.enter(sender.hash, message.id(), limit) {
            Verdict::Duplicate => layers.transport.stats.duplicates += 1,
            Verdict::Drop => layers.transport.stats.group_overflow += 1,
            Verdict::Deliver => {
                // A response of any member shows that the group is not silent.
                let group = layers.transport.exchanges.get(exchange.index).peer;
                layers.transport.peers.get_mut(group).heard();
                let (from, message) = (sender.source.from, OwnedMessage::from(*message));
                layers.announce(Event::GroupResponse { exchange, from, message });
            }
        }
    }

    /// Returns the end of a sent group request: a timeout is no failure.
    pub(super) fn group_over(
        &mut self,
        layers: &mut Layers<P, C>,
        index: ExchangeIndex,
        reason: Failure,
    ) -> Option<Event<P>> {
        let in_time = matches!(reason, Failure::TimedOut | Failure::NoResponse | Failure::Deadline);
        let exchange = layers.transport.exchanges.get(index);
        let group_request = self.group_requests.of(exchange.id(index), &exchange.token)?;
        if !in_time || exchange.sent.is_empty() {
            return None;
        }
        let responses = group_request.responses;
        let (exchange, group, course) = layers.transport.exchanges.summary(layers.now, &layers.transport.peers, index);
        Some(Event::GroupOver { exchange, group, responses, course })
    }
}
